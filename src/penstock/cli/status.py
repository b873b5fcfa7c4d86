"""``penstock status`` and ``penstock clients``: a summary of the broker, and who is connected."""

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.connection import BrokerTarget
from penstock.cli.inputs import confirm, yes_option
from penstock.cli.lazy import ListingGroup
from penstock.cli.output import columns, counted, print_result
from penstock.cluster.status import NodeState
from penstock.errors import PenstockError
from penstock.obs.log import printable

REASON_TIMEOUT_S = 5.0


@click.command()
@admin_options
def status(broker: AdminClient) -> None:
    """Show whether the broker is ready, its clients and its journal.

    Exits with 0 if the broker answers. `penstock cluster status` shows all nodes.
    """
    found = broker.get("/status")
    print_result(found, columns(_facts(found)))


def _facts(found: Document) -> list[tuple[str, str]]:
    journal, sessions = found["journal"], found["sessions"]
    away = counted(sessions["away"], "session")
    messages = counted(journal["messages"], "message")
    return [
        ("broker", _broker(found)),
        ("state", "ready" if found["ready"] else f"not ready: {found['reason']}"),
        ("node", _node(found)),
        ("clients", f"{found['connections']:,} connected, {away} away"),
        ("subscriptions", f"{found['subscriptions']:,}"),
        ("retained", f"{found['retained']:,}"),
        ("queued", f"{counted(found['queued'], 'message')} in sessions"),
        ("journal", f"{messages}, {journal['bytes'] / 2**20:,.1f} MiB"),
    ]


def _broker(found: Document) -> str:
    speed = f", {found['speed']}" if "speed" in found else ""  # an older broker does not say
    return f"Penstock {found['version']}{speed}, up {_span(found['uptime_s'])}"


def _node(found: Document) -> str:
    match found["node_state"]:
        case NodeState.WAITING:
            return f"{found['node_id']}, not in a cluster: run penstock cluster init or join"
        case NodeState.REMOVED:
            return f"{found['node_id']}, removed from its cluster"
    return f"{found['node_id']} of {found['nodes']}, leader: {found['leader_id'] or 'none'}"


def unreadiness(target: BrokerTarget) -> str:
    """Return why a broker is not ready, which MQTT 3.1.1 cannot carry; empty if it is."""
    try:
        found = AdminClient(target, REASON_TIMEOUT_S).get("/status")
    except PenstockError:
        return ""
    return printable(str(found.get("reason")), 400) if found.get("ready") is False else ""


def _span(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


@click.group(cls=ListingGroup)
def clients() -> None:
    """List connected clients, or end a connection.

    Without a command it lists: penstock clients [PREFIX].
    """


@clients.command("list")
@click.argument("prefix", default="")
@click.option("--away", is_flag=True, help="List the sessions of clients that are away.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@admin_options
def list_clients(prefix: str, *, away: bool, limit: int, broker: AdminClient) -> None:
    """List the clients connected to this node.

    With PREFIX only those whose ids begin with it.
    """
    page = broker.get("/clients", prefix=prefix, limit=limit, away="true" if away else None)
    print_result(page["clients"], _table(page, away=away))


@clients.command()
@click.argument("client_id")
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
    done = broker.change("DELETE", "/api/v1/clients", client_id=client_id, address=address)
    print_result(done, f"ended {counted(done['connections'], 'connection')} of {name}")


_HEAD = (
    *("CLIENT", "USER", "PROTOCOL", "ADDRESS", "TLS"),
    *("IDLE", "FILTERS", "IN FLIGHT", "QUEUED", "SESSION"),
)


def _table(page: Document, *, away: bool) -> str:
    if not page["clients"]:
        return "no sessions are away" if away else "no clients are connected"
    table = columns([_HEAD, *map(_row, page["clients"])])
    return f"{table}\n... and more; --limit shows up to 1,000" if page["more"] else table


def _protocol(client: Document) -> str:
    """As in mqtt/5,ws; without spaces, for those who cut columns."""
    version = f"/{client['version']}" if client.get("version") else ""
    return f"{client['protocol']}{version}{',ws' if client.get('websocket') else ''}"


def _row(client: Document) -> tuple[str, ...]:
    idle_s = client["idle_s"]
    return (
        printable(client["client_id"], 60) or "-",
        printable(client.get("user") or "-", 64),
        _protocol(client),
        client["address"] or "away",
        "yes" if client.get("encrypted") else "-",
        "-" if idle_s is None else _span(idle_s),
        f"{client['subscriptions']:,}",
        f"{client['in_flight']:,}",
        f"{client['waiting']:,}",
        "persistent" if client["persistent"] else "-",
    )
