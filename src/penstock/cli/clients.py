"""``penstock clients``: who is connected to any node, by any protocol, and how to end that."""

from typing import Final

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import ListingGroup
from penstock.cli.output import columns, counted, format_time, print_result, span, table
from penstock.cli.paged import all_named, first_page, limit_option
from penstock.cli.progress import size_text
from penstock.cli.subscriptions import subscription_rows, subscriptions_of, will_text
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH: Final = "clients"
PROTOCOLS: Final = ("mqtt", "redis", "binary", "queue")
_HEAD: Final = (
    *("CLIENT", "USER", "PROTOCOL", "ADDRESS", "NODE", "TLS"),
    *("IDLE", "FILTERS", "IN FLIGHT", "QUEUED", "DROPPED", "SESSION"),
)


@click.group(cls=ListingGroup)
def clients() -> None:
    """List, show and disconnect clients.

    Without a command it lists: penstock clients [PREFIX].
    """


@clients.command("list")
@click.argument("prefix", default="")
@click.option("--protocol", type=click.Choice(PROTOCOLS), help="Only clients of this protocol.")
@flag("--away", help="List the sessions of clients that are away.")
@flag("--backlog", help="Only clients for which messages wait.")
@flag("--dropped", help="Only clients that missed messages on this connection.")
@limit_option
@admin_options
def list_clients(prefix: str, *, protocol: str | None, limit: int, broker: AdminClient) -> None:
    """List the clients connected to any node.

    With PREFIX only those whose ids begin with it.
    """
    chosen = {name: True for name in ("backlog", "dropped") if is_given(f"--{name}")}
    query = {"prefix": prefix or None, "protocol": protocol, "away": is_given("--away"), **chosen}
    page = first_page(broker, PATH, limit, **query)
    empty = "no sessions are away" if is_given("--away") else "no clients are connected"
    if prefix or protocol or chosen:
        empty = "there are no such sessions" if is_given("--away") else "there are no such clients"
    print_result(page.document, page.text(table(_HEAD, map(_row, page.items), empty)))


@clients.command()
@click.argument("client_id", shell_complete=names.clients)
@admin_options
def show(client_id: str, *, broker: AdminClient) -> None:
    """Show the connections and subscriptions of CLIENT_ID.

    If it is away, its session. `penstock why client` explains what happened to it.
    """
    found = all_named(broker, PATH, "client_id", client_id)
    if not found:
        advice = f"penstock why client {client_id} may know when it left, and why"
        raise PenstockError(f"{printable(client_id)} is neither connected nor away", advice)
    filters = subscriptions_of(broker, client_id)
    parts = [columns(_facts(one)) for one in found]
    if filters:
        parts.append(subscription_rows(filters))
    print_result({"connections": found, "subscriptions": filters}, "\n\n".join(parts))


@clients.command()
@click.argument("client_id", shell_complete=names.clients)
@click.option("--address", metavar="HOST:PORT", help="Only the connection from this address.")
@yes_option
@admin_options
def kick(client_id: str, *, address: str | None, broker: AdminClient) -> None:
    """End the connections of CLIENT_ID.

    Its session stays, and its will is published. The client may come back; `penstock bans add`
    keeps it out.
    """
    name = printable(client_id)
    confirm(f"End the connections of {name}?")
    done = broker.change("DELETE", PATH, client_id=client_id, address=address)
    print_result(done, f"ended {counted(done['connections'], 'connection')} of {name}")


def _protocol(client: Document) -> str:
    """As in mqtt/5,ws; without spaces, for those who cut columns."""
    version = f"/{client['version']}" if client["version"] else ""
    return f"{client['protocol']}{version}{',ws' if client['websocket'] else ''}"


def _row(client: Document) -> tuple[str, ...]:
    idle_s, dropped = client["idle_s"], client["dropped"]
    return (
        printable(client["client_id"], 60) or "-",
        printable(client["user"], 64) or "-",
        _protocol(client),
        client["address"] or "away",
        str(client["node"]),
        "yes" if client["encrypted"] else "-",
        "-" if idle_s is None else span(idle_s),
        f"{client['subscriptions']:,}",
        f"{client['in_flight']:,}",
        f"{client['queued']:,}",
        "-" if dropped is None else f"{dropped:,}",
        "persistent" if client["persistent"] else "-",
    )


def _facts(client: Document) -> list[tuple[str, str]]:
    since = format_time(client["since"]) if client["since"] else "a time that is not known"
    facts = [
        ("client", printable(client["client_id"], 400) or "-"),
        ("user", printable(client["user"], 400) or "-"),
        ("protocol", _protocol(client) + (", encrypted" if client["encrypted"] else "")),
        ("session", "persistent" if client["persistent"] else "ends with the connection"),
        ("queued", f"{counted(client['queued'], 'message')}, {client['in_flight']:,} in flight"),
        ("will", will_text(client["will"])),
    ]
    if client["away"]:
        why = f": {client['ended']}" if client["ended"] else ""
        end = format_time(client["expires"]) if client["expires"] else "never"
        return [*facts, ("away since", f"{since}{why}"), ("session ends", end)]
    keep_alive = f"{client['keep_alive_s']} s" if client["keep_alive_s"] else "none"
    return [
        *facts,
        ("connected", f"from {client['address']} to node {client['node']}, since {since}"),
        ("idle", f"{span(client['idle_s'])}; keep-alive: {keep_alive}"),
        ("dropped", counted(client["dropped"], "message")),
        ("received", size_text(client["bytes_in"])),
        ("sent", f"{size_text(client['bytes_out'])}; {size_text(client['output_bytes'])} wait"),
    ]
