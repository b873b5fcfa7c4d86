"""``penstock bridges``: what is copied from and to other MQTT brokers, and what is in the way."""

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.output import format_time, print_result, table
from penstock.obs.printable import printable

TROUBLE_CHARACTERS = 400


@click.command()
@admin_options
def bridges(broker: AdminClient) -> None:
    """List bridges to other MQTT brokers.

    They are set up by [[bridges]] in the configuration. In a cluster the leader's bridges copy.
    """
    document = broker.get("bridges")
    rows = [_row(one) for one in document["items"]]
    head = ("BRIDGE", "ADDRESS", "STATE", "SINCE", "IN", "OUT", "DROPPED", "IN FLIGHT")
    empty = "there are no bridges; [[bridges]] in the configuration makes one"
    troubles = [_trouble(one) for one in document["items"] if one["error"]]
    print_result(document, "\n".join([table(head, rows, empty), *troubles]))


def _trouble(one: Document) -> str:
    parts = [printable(one[part], TROUBLE_CHARACTERS) for part in ("error", "advice") if one[part]]
    return f"{printable(one['name'])}: {'; '.join(parts)}"


def _row(one: Document) -> tuple[str, ...]:
    incoming, outgoing = one["incoming"], one["outgoing"]
    mqtt = f" (MQTT {one['mqtt']})" if one["mqtt"] else ""
    dropped = sum(incoming["dropped"].values()) + sum(outgoing["dropped"].values())
    return (
        printable(one["name"]),
        printable(one["url"]) + mqtt,
        one["state"],
        format_time(one["since"]),
        _copied(incoming),
        _copied(outgoing),
        f"{dropped:,}",
        f"{incoming['in_flight'] + outgoing['in_flight']:,}",
    )


def _copied(direction: Document) -> str:
    return f"{direction['copied']:,}" if direction["filters"] else "-"
