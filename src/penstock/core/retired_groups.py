"""What is done of a topic although the group that did it is gone.

A queue topic keeps a message until some group that was entitled to it has finished it. Groups come
and go, and what they have finished stays finished. So when a group is deleted or moved back, what
it has done is merged into the **retired group** of its topic. The next group that starts at the
beginning continues from there: it gets what no group has done, and nothing else::

    offsets         0   1   2   3   4   5   6
    group (gone)    ✓   a   ✓   ✓   b   ·   ·      a and b were with workers
    the next one        ·           ·   ·   ·

A retired group has no workers: a head for each priority, and the offsets below that are not done.
It is stored like any group. No client can have a group of that name, because it is too long.

A group that was created to start later was never entitled to earlier messages, so it says nothing
about them. It can only be merged if everything before its start is done.
"""

from penstock.core.group import Group, Pending
from penstock.core.priority_offsets import PRIORITIES
from penstock.limits import GROUP_BYTES_MAX

RETIRED_NAME = b"remainder".ljust(GROUP_BYTES_MAX + 1, b"\0")  # of every retired group; durable


class RetiredGroups:
    """The retired groups of all topics; ``applied`` of one that changed is 0."""

    def __init__(self) -> None:
        self.by_topic: dict[bytes, Group] = {}

    def low(self, topic: bytes) -> int:
        """Everything before is done, by groups that are gone."""
        merged = self.by_topic.get(topic)
        return merged.oldest_unsettled if merged else 0

    def add(self, group: Group, done: int, index: int, *, recovering: bool) -> bool:
        """Merge what a group has done, if all before its start is done; return whether it was.

        ``done`` is what the existing groups have done together.
        """
        merged = self.by_topic.get(group.topic)
        if merged is not None and recovering and merged.applied >= index:
            return False
        if group.since > max(done, self.low(group.topic)):
            return False
        if merged is None:
            merged = self.by_topic[group.topic] = Group(group.topic, RETIRED_NAME, 0)
        _add(merged, group)
        merged.applied = 0
        return True

    def hand_over(self, successor: Group, index: int, *, recovering: bool) -> bool:
        """Give what is not done to a new group; return whether anything changed here.

        If ``successor`` contains it already, it gets nothing.
        """
        merged = self.by_topic.get(successor.topic)
        if merged is None or (recovering and merged.applied >= index):
            return False
        low = merged.oldest_unsettled
        if not (recovering and successor.applied >= index):
            start = max(successor.start, low)
            successor.start = start
            successor.heads = [max(head, start) for head in merged.heads]
            successor.ahead = merged.ahead
            left = {o: p for o, p in merged.pending.items() if o >= start}
            successor.replace_pending(left)
        merged.heads = [low] * PRIORITIES
        merged.ahead = merged.applied = 0
        merged.replace_pending({})
        return True


def _add(merged: Group, group: Group) -> None:
    """A message is done if either group has done it. Those ahead of both need not be listed."""
    left = {o: p for o, p in group.pending.items() if _lacks(merged, o, p)}
    left |= {o: p for o, p in merged.pending.items() if o < group.since or _lacks(group, o, p)}
    delayed = group.delayed.keys() | merged.delayed.keys()
    heads = list(map(max, merged.heads, group.heads))
    merged.ahead = group.ahead if heads == group.heads else merged.ahead
    merged.heads = heads
    merged.replace_pending(
        {
            offset: Pending(
                None,
                pending.taken_ms,
                0,
                until_ms=pending.until_ms if offset in delayed else 0,
                priority=pending.priority,
            )
            for offset, pending in sorted(left.items())
            if offset < heads[pending.priority]
        }
    )


def _lacks(group: Group, offset: int, pending: Pending) -> bool:
    return offset in group.pending or offset >= group.heads[pending.priority]
