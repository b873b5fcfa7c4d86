"""A group as a row of the checkpoint.

Rows of former versions are shorter: a field is added at the end, with what it means where it is not
written.
"""

import msgspec

from penstock.core.pending import Pending

__all__ = ["GroupRow"]


class GroupRow(msgspec.Struct, array_like=True):
    """What is durable of a group, but for what is pending; see ``Group``."""

    topic: bytes
    name: bytes
    next: int
    applied: int
    pending: list[tuple[int, Pending]]
    """Where a former version wrote them."""
    consumers: list[tuple[bytes, int, int]]
    heads: list[int] = []
    ahead: int = 0
    polls: int = 0
    version: int = 0
    max_deliveries: int = 0
    backoff_ms: int = 0
    backoff_max_ms: int = 0
    dead_letters: int = 0
    redeliveries: int = 0
    start: int = 0
    reader: bool = False
    deals: int = 0
