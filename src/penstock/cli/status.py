"""``penstock status`` and ``penstock clients``: how a broker is, and who is connected to it."""

from typing import Any

import click

from penstock.cli.admin_client import AdminClient, admin_options, json_option, print_result
from penstock.cli.columns import columns, counted
from penstock.cli.connection import CONTEXT
from penstock.cluster.status import NodeState
from penstock.config.address import Address
from penstock.errors import PenstockError
from penstock.obs.log import printable

ASK_TIMEOUT_S = 5.0
"""How long a command that has failed waits for the reason."""


@click.command(context_settings=CONTEXT)
@json_option
@admin_options
def status(as_json: bool, broker: AdminClient) -> None:
    """Tell how the broker is: ready or not, its clients, and what its journal holds.

    The exit status is 0 if it answers. `penstock cluster status` tells of all nodes.
    """
    found = broker.get("/status")
    print_result(found, columns(_facts(found)), as_json=as_json)


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    journal, sessions = found["journal"], found["sessions"]
    ready = "ready" if found["ready"] else f"not ready: {found['reason']}"
    return [
        ("broker", f"Penstock {found['version']}, up {_span(found['uptime_s'])}"),
        ("state", ready),
        ("node", _node(found)),
        (
            "clients",
            f"{found['connections']:,} connected, {counted(sessions['away'], 'session')} away",
        ),
        ("subscriptions", f"{found['subscriptions']:,}"),
        ("retained", f"{found['retained']:,}"),
        ("waiting", f"{counted(found['queued'], 'message')} in sessions"),
        (
            "journal",
            f"{counted(journal['messages'], 'message')}, {journal['bytes'] / 2**20:,.1f} MiB",
        ),
    ]


def _node(found: dict[str, Any]) -> str:
    match found["node_state"]:
        case NodeState.WAITING:
            return f"{found['node_id']}, in no cluster yet: run penstock cluster init or join"
        case NodeState.REMOVED:
            return f"{found['node_id']}, removed from its cluster"
    leader = found["leader_id"] or "nobody"
    return f"{found['node_id']} of {found['nodes']}, led by {leader}"


def unreadiness(server: Address) -> str:
    """Say why a broker takes no work; empty if it takes some, or does not tell.

    MQTT 3.1.1 cannot carry the reason why a connection is closed, so it is asked for by HTTP.
    """
    try:
        found = AdminClient(server, "", ASK_TIMEOUT_S).get("/status")
    except PenstockError:
        return ""
    is_told = isinstance(found, dict) and found.get("ready") is False
    return printable(str(found.get("reason")), 400) if is_told else ""


def _span(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


@click.command(context_settings=CONTEXT)
@click.argument("prefix", default="")
@click.option("--away", is_flag=True, help="List sessions whose clients are not connected.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@json_option
@admin_options
def clients(prefix: str, *, away: bool, limit: int, as_json: bool, broker: AdminClient) -> None:
    """List who is connected to this node, or those whose client ids begin with PREFIX."""
    page = broker.get("/clients", prefix=prefix, limit=limit, away="true" if away else None)
    print_result(page["clients"], _table(page, away=away), as_json=as_json)


def _table(page: dict[str, Any], *, away: bool) -> str:
    if not page["clients"]:
        return "no sessions are away" if away else "nobody is connected"
    head = ("CLIENT", "PROTOCOL", "ADDRESS", "IDLE", "FILTERS", "IN FLIGHT", "WAITING", "SESSION")
    table = columns([head, *map(_row, page["clients"])])
    return f"{table}\n... and more; --limit shows up to 1,000" if page["more"] else table


def _row(client: dict[str, Any]) -> tuple[str, ...]:
    idle_s = client["idle_s"]
    return (
        printable(client["client_id"], 60) or "-",
        client["protocol"],
        client["address"] or "away",
        "-" if idle_s is None else _span(idle_s),
        f"{client['subscriptions']:,}",
        f"{client['in_flight']:,}",
        f"{client['waiting']:,}",
        "kept" if client["persistent"] else "-",
    )
