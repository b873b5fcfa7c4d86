"""What the broker's doors must know of the cluster that they may be part of.

A broker on its own is a cluster of one, and leads it: ``Lone``. Whoever builds a node of a larger
one gives the hub another view (``Hub.cluster``), which tells the truth of the moment; who needs to
know when it changes is told by ``Duties.led``.

**Whose connection.** The numbers of connections carry the id of their node in the lowest bits, so
that every node can tell whose a session is, or a worker, from the journal alone. Numbers that an
earlier version gave are lower than any that has a node: those are of node 0.
"""

from typing import Protocol

__all__ = [
    "NODE_BITS",
    "NO_NODE",
    "ClusterView",
    "Lone",
    "node_of",
    "node_of_worker",
]

NODE_BITS = 16
"""As many of a connection's number are the node's id."""

NO_NODE = 0
"""The node of connections that were numbered before numbers had one."""

_NUMBERED_FROM = 1 << 56
"""Numbers without a node were milliseconds since 1970, times 1,024: less than this until 4199."""


def node_of(connection: int) -> int:
    """The node that a connection was made to."""
    return connection & ((1 << NODE_BITS) - 1) if connection >= _NUMBERED_FROM else NO_NODE


def node_of_worker(name: bytes) -> int:
    """The node of a worker, whose name ends with ``#`` and the number of its connection."""
    number = name.rpartition(b"#")[2]
    return node_of(int(number)) if number.isdigit() and len(number) < 20 else NO_NODE


class ClusterView(Protocol):
    """A node as its own doors see it. What is said here may be another thing in the next turn."""

    @property
    def node_id(self) -> int:
        """Its id."""

    @property
    def is_clustered(self) -> bool:
        """Whether there are other nodes, or may be: what they must know is journaled."""

    @property
    def is_leader(self) -> bool:
        """Whether it leads, and so does what must be done by one."""

    @property
    def leader(self) -> int:
        """The node that leads, as far as is known; 0: none."""

    @property
    def is_writable(self) -> bool:
        """Whether what is written now can be expected to be committed."""

    def present(self) -> frozenset[int]:
        """Nodes that are members and were heard of lately; only the leader can tell."""
        ...

    def broadcast(self, topic: bytes, payloads: list[bytes]) -> None:
        """Tell other nodes of messages that no journal keeps; nobody knows whether they hear it."""
        ...


class Lone:
    """A broker on its own."""

    node_id = 1
    is_clustered = False
    is_leader = True
    leader = 1
    is_writable = True

    def present(self) -> frozenset[int]:
        """Nobody else: whatever others have left behind is ours to end."""
        return frozenset({self.node_id})

    def broadcast(self, topic: bytes, payloads: list[bytes]) -> None:
        """There is nobody to tell."""
