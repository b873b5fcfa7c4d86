"""Whose connection it is.

The numbers of connections carry the id of their node in the lowest bits, so that every node can
tell whose a session is, or a worker, from the journal alone. Numbers that an earlier version gave
are lower than any that has a node: those are of node 0.
"""

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
