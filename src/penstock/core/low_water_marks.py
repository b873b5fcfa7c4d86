"""Up to where a topic's messages are done, without asking each of its groups.

A message is done when a group that was entitled to it has finished it, and no group still has to. A
group is entitled to messages from ``Group.since`` on: one that was created to start later leaves
earlier messages to others, and releases none of them.

What one group has done (``Group.oldest_unsettled``) only rises, unless the group is moved back. So
a heap remembers, per topic, the last known value of each group. The lowest that is still true is
the minimum; outdated ones are corrected when they reach the top.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from penstock.core.group import Group
from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.model.dead_letters import REDRIVE

_ByTopic = Mapping[bytes, Mapping[bytes, Group]]


def entitled_from(group: Group) -> int | None:
    """First message that is done once this group has done it; None: no message is.

    What a reader has read is not done. Dead letters are done when they were redriven or dropped,
    whatever other groups do with them.
    """
    if group.reader or (group.topic.startswith(DEAD_PREFIX) and group.name != REDRIVE):
        return None
    return group.since


class LowWaterMarks:
    """Per topic, the lowest offset that is not done."""

    def __init__(self, by_topic: _ByTopic) -> None:
        self._by_topic = by_topic
        self._unsettled = _Lowest(by_topic, lambda group: group.oldest_unsettled)
        self._entitled = _Lowest(by_topic, entitled_from)

    def floor(self, topic: bytes, done: int) -> int:
        """Everything below is done; ``done`` is known to be done or gone already.

        If a group is entitled to what comes next, it has done the messages up to the lowest offset
        that some group has not done.
        """
        unsettled, entitled = self._unsettled.of(topic), self._entitled.of(topic)
        if unsettled is None:
            return done
        if entitled is not None and entitled <= done:
            return unsettled
        return min(done, unsettled)

    def reach(self, topic: bytes, done: int) -> int:
        """Everything below was done by some group, though others may still have to."""
        groups = self._by_topic.get(topic, {}).values()
        claims = [(entitled_from(group), group) for group in groups]
        known = sorted(((start, g.oldest_unsettled) for start, g in claims if start is not None))
        for start, end in known:
            if start > done:
                break
            done = max(done, end)
        return done

    def lower(self, group: Group) -> None:
        """Note that a group was created or moved, which may lower its values."""
        self._unsettled.lower(group)
        self._entitled.lower(group)


class _Lowest:
    """Per topic, the lowest value of its groups."""

    def __init__(self, by_topic: _ByTopic, said: Callable[[Group], int | None]) -> None:
        self._by_topic = by_topic
        self._said = said
        # offsets and names of groups, of topics that were asked for
        self._heaps: dict[bytes, list[tuple[int, bytes]]] = {}

    def of(self, topic: bytes) -> int | None:
        groups = self._by_topic.get(topic)
        if groups is None:
            self._heaps.pop(topic, None)
            return None
        heap = self._heaps.get(topic)
        if heap is None or len(heap) > 2 * len(groups):
            found = ((self._said(group), name) for name, group in groups.items())
            heap = [(offset, name) for offset, name in found if offset is not None]
            heapify(heap)
            self._heaps[topic] = heap
        while heap:
            known, name = heap[0]
            group = groups.get(name)
            now = self._said(group) if group is not None else None
            if now is None:
                heappop(heap)
            elif now == known:
                return known
            else:
                heapreplace(heap, (now, name))
        return None

    def lower(self, group: Group) -> None:
        heap, now = self._heaps.get(group.topic), self._said(group)
        if heap is not None and now is not None:
            heappush(heap, (now, group.name))
