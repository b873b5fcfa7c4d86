"""What is done of a topic although the group that did it is gone.

A queue topic keeps a message until some group that was entitled to it has finished it. Groups come
and go, and what they have finished stays finished. So when a group is deleted, or moved back, what
it had done by then is added to the **remainder** of its topic. The next group that starts at the
beginning takes over from there: it gets what nobody has done, and nothing else::

    offsets         0   1   2   3   4   5   6
    group (gone)    ✓   a   ✓   ✓   b   ·   ·      a and b were with workers
    the next one        ·           ·   ·   ·

A remainder is a group without workers: a head for each priority, and the offsets below that are not
done. It is stored as one. No client can have a group of that name, for the name is too long.

A group that was made to start later has never been entitled to what came before, so it says nothing
about it. Only where everything before its start is done can it be added to a remainder.
"""

from penstock.core.group import Group, Pending
from penstock.core.lanes import LANES
from penstock.limits import GROUP_BYTES_MAX

REMAINDER = b"remainder".ljust(GROUP_BYTES_MAX + 1, b"\0")
"""The name of every remainder."""


class Remainders:
    """The remainders of all topics that have one; ``applied`` of one that changed is 0."""

    def __init__(self) -> None:
        self.by_topic: dict[bytes, Group] = {}

    def low(self, topic: bytes) -> int:
        """Everything before is done, by groups that are gone."""
        remainder = self.by_topic.get(topic)
        return remainder.oldest_unsettled if remainder else 0

    def add(self, group: Group, done: int, index: int, *, recovering: bool) -> bool:
        """Add what a group has done, if all before its start is done; tell whether it was added.

        ``done`` is what those who are still there have done together.
        """
        remainder = self.by_topic.get(group.topic)
        if remainder is not None and recovering and remainder.applied >= index:
            return False
        if group.since > max(done, self.low(group.topic)):
            return False
        if remainder is None:
            remainder = self.by_topic[group.topic] = Group(group.topic, REMAINDER, 0)
        _add(remainder, group)
        remainder.applied = 0
        return True

    def hand_over(self, heir: Group, index: int, *, recovering: bool) -> bool:
        """Give what is not done to a new group; what is done is all that stays here.

        Tell whether anything changed here. If ``heir`` contains it already, it gets nothing.
        """
        remainder = self.by_topic.get(heir.topic)
        if remainder is None or (recovering and remainder.applied >= index):
            return False
        low = remainder.oldest_unsettled
        if not (recovering and heir.applied >= index):
            start = max(heir.start, low)
            heir.start = start
            heir.heads = [max(head, start) for head in remainder.heads]
            heir.ahead = remainder.ahead
            left = {o: p for o, p in remainder.pending.items() if o >= start}
            heir.replace_pending(left)
        remainder.heads = [low] * LANES
        remainder.ahead = remainder.applied = 0
        remainder.replace_pending({})
        return True


def _add(remainder: Group, group: Group) -> None:
    """What is not done is what is not done by either. What lies ahead of both need not be named."""
    left = {o: p for o, p in group.pending.items() if _lacks(remainder, o, p)}
    left |= {o: p for o, p in remainder.pending.items() if o < group.since or _lacks(group, o, p)}
    waiting = group.waiting.keys() | remainder.waiting.keys()
    heads = list(map(max, remainder.heads, group.heads))
    remainder.ahead = group.ahead if heads == group.heads else remainder.ahead
    remainder.heads = heads
    remainder.replace_pending(
        {
            offset: Pending(
                None,
                pending.taken_ms,
                0,
                until_ms=pending.until_ms if offset in waiting else 0,
                priority=pending.priority,
            )
            for offset, pending in sorted(left.items())
            if offset < heads[pending.priority]
        }
    )


def _lacks(group: Group, offset: int, pending: Pending) -> bool:
    """Whether a group has not done a message."""
    return offset in group.pending or offset >= group.heads[pending.priority]
