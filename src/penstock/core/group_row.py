"""A group as a row of the checkpoint.

Rows of former versions are shorter: a field is added at the end, with what it means where it is not
written.
"""

from typing import TYPE_CHECKING

import msgspec

from penstock.core.pending import Consumer, Pending

if TYPE_CHECKING:
    from penstock.core.group import Group


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
    generation: int = 0
    since: int = 0
    is_backoff_chosen: bool = True

    @classmethod
    def of(cls, group: "Group") -> "GroupRow":
        """The row of a group."""
        consumers = [(name, c.seen_ms, c.active_ms) for name, c in group.consumers.items()]
        row = cls(group.topic, group.name, group.next, group.applied, [], consumers)
        for field in _ALIKE:
            setattr(row, field, getattr(group, field))
        return row

    def fill(self, group: "Group") -> None:
        """Make a new group what the row says, but for what is pending."""
        self.heads = self.heads or group.heads
        group.applied = self.applied
        for field in _ALIKE:
            setattr(group, field, getattr(self, field))
        for name, seen_ms, active_ms in self.consumers:
            group.consumers[name] = Consumer(seen_ms, active_ms, set())


_ALIKE = GroupRow.__struct_fields__[GroupRow.__struct_fields__.index("heads") :]
"""Fields that a group has by the same name."""
