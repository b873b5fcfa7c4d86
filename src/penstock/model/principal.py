"""Who acts: the subject of every decision about access. There are no users yet."""

from typing import NamedTuple


class Principal(NamedTuple):
    """The identity that a connection has proven."""

    name: bytes


ANYONE = Principal(b"")
