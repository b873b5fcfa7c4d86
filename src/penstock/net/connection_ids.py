"""Connection ids: unique across nodes and restarts, with the node in the lowest bits.

So every node can tell from the journal alone which node a session or a worker is connected to.
Ids of earlier versions carry no node and are lower than any that does: they count as node 0.
"""

from penstock.clock import Clock
from penstock.cluster.consensus import Consensus

NODE_BITS = 16
NO_NODE = 0  # the node of ids that carry none
_WITH_NODE_FROM = 1 << 56  # without a node: milliseconds since 1970 times 1,024, less until 4199


def node_of(connection: int) -> int:
    return connection & ((1 << NODE_BITS) - 1) if connection >= _WITH_NODE_FROM else NO_NODE


def node_of_worker(name: bytes) -> int:
    """The node of a worker, whose name ends with ``#`` and the number of its connection."""
    number = name.rpartition(b"#")[2]
    return node_of(int(number)) if number.isdigit() and len(number) < 20 else NO_NODE


def connection_of_worker(name: bytes) -> int:
    """The connection of a worker, by the number in its name; 0 if there is none."""
    numbers = (int(part) for part in name.split(b"#") if part.isdigit() and len(part) < 20)
    return next((number for number in numbers if number >= _WITH_NODE_FROM), 0)


class ConnectionIds:
    """Ids that no connection had before, at any node: the upper part is the time."""

    def __init__(self, clock: Clock, node_id: int) -> None:
        self._clock = clock
        self._node_id = node_id
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, self._clock.wall_ms() << 6)
        return self._last << NODE_BITS | self._node_id


def must_clean_up(cluster: Consensus, node: int) -> bool:
    """Whether this node ends what connections of ``node`` left: its own, or the leader's task."""
    if node == cluster.node_id or not cluster.is_leader:
        return node == cluster.node_id
    return node == NO_NODE or node not in cluster.present()
