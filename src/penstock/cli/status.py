"""``penstock status``: a summary of the broker."""

from typing import Final

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.connection import BrokerTarget
from penstock.cli.output import columns, counted, print_result, span
from penstock.cluster.status import NodeState
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH: Final = "overview"
REASON_TIMEOUT_S = 5.0


@click.command()
@admin_options
def status(broker: AdminClient) -> None:
    """Show whether the broker is ready, its clients and its journal.

    Exits with 0 if the broker answers. `penstock cluster status` shows all nodes.
    """
    found = broker.get(PATH)
    print_result(found, columns(_facts(found)))


def _facts(found: Document) -> list[tuple[str, str]]:
    numbers, storage, health = found["numbers"], found["storage"], found["health"]
    away = counted(numbers["away"], "session")
    messages = counted(storage["messages"], "message")
    return [
        ("broker", f"Penstock {found['version']}, {found['speed']}, up {span(found['uptime_s'])}"),
        ("state", "ready" if health["ready"] else f"not ready: {health['reason']}"),
        ("health", health["text"]),
        ("acknowledged", f"means {health['acknowledgement']}"),
        ("node", _node(found["cluster"])),
        ("clients", f"{numbers['connections']:,} connected, {away} away"),
        ("subscriptions", f"{numbers['subscriptions']:,}"),
        ("retained", f"{numbers['retained']:,}"),
        ("queued", f"{counted(numbers['queued'], 'message')} in sessions"),
        ("dead letters", f"{numbers['dead_letters']:,}"),
        ("journal", f"{messages}, {storage['bytes'] / 2**20:,.1f} MiB"),
        *(("attention", printable(one["text"], 400)) for one in found["findings"]),
    ]


def _node(cluster: Document) -> str:
    match cluster["state"]:
        case NodeState.WAITING:
            return f"{cluster['node']}, not in a cluster: run penstock cluster init or join"
        case NodeState.REMOVED:
            return f"{cluster['node']}, removed from its cluster"
    nodes = len(cluster["nodes"]) or 1
    return f"{cluster['node']} of {nodes}, leader: {cluster['leader'] or 'none'}"


def unreadiness(target: BrokerTarget) -> str:
    """Return why a broker is not ready, which MQTT 3.1.1 cannot carry; empty if it is."""
    try:
        found = AdminClient(target, REASON_TIMEOUT_S).get(PATH)["health"]
    except (PenstockError, KeyError):
        return ""
    return "" if found["ready"] else printable(str(found["reason"]), 400)
