"""``penstock status``: a summary of the broker."""

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.connection import BrokerTarget
from penstock.cli.output import columns, counted, print_result, span
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
    return f"Penstock {found['version']}{speed}, up {span(found['uptime_s'])}"


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
