"""``--wait-all``: wait until every node of a cluster has a change of users or rules.

A command that changes something returns when most nodes have the change on disk. A node that lags,
or is cut off, judges by what it had before. The leader knows which entries each node has, and the
version of the access book is the entry of its last change, so the leader alone is asked.
"""

import time

import click

from penstock.cli.admin_client import AdminClient
from penstock.cli.cluster_status import status_of
from penstock.cli.output import counted
from penstock.cluster.status import ClusterStatus
from penstock.config.address import parse_listen
from penstock.errors import PenstockError

PATIENCE_S = 30.0
POLL_S = 0.2


def wait_for_all(broker: AdminClient) -> None:
    """Raises PenstockError that names the nodes which lack the last change of the access book."""
    version = int(broker.get("access")["version"])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status = _status_of_leader(broker)
        others = [member for member in status.members if member.id != status.node_id]
        lagging = [member.id for member in others if (member.match or 0) < version]
        if not lagging:
            click.echo(f"{_all(len(status.members))} it", err=True)
            return
        if time.monotonic() > deadline:
            names = ", ".join(str(number) for number in lagging)
            raise PenstockError(
                f"the change is in effect on most nodes, but these lack it: {names}",
                "they get it when they are back: see penstock cluster status",
            )
        time.sleep(POLL_S)


def _status_of_leader(broker: AdminClient) -> ClusterStatus:
    status = status_of(broker)
    if not status.is_leader and status.leader_addr:
        leader = broker.at(parse_listen(status.leader_addr))
        status = status_of(leader)
    return status


def _all(nodes: int) -> str:
    return f"all {counted(nodes, 'node')} have" if nodes > 1 else "the node has"
