"""Up to where all groups of a topic are done, found without asking each of them.

That of one group (``Group.oldest_unsettled``) only rises, unless the group is moved back. So a heap
remembers, per topic, what each group had when it was asked last. The lowest that is still true is
the lowest of all; what is not is corrected when it comes to the top.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

from penstock.core.group import Group

__all__ = ["Floors"]


class Floors:
    """Per topic, the lowest offset that some group has not done."""

    def __init__(self, by_topic: Mapping[bytes, Mapping[bytes, Group]]) -> None:
        self._by_topic = by_topic
        self._heaps: dict[bytes, list[tuple[int, bytes]]] = {}
        """Offsets and names of groups, of topics that somebody has asked about."""

    def floor(self, topic: bytes) -> int | None:
        """Everything below is done by every group of the topic; None: it has no group."""
        groups = self._by_topic.get(topic, {})
        heap = self._heaps.get(topic)
        if heap is None or len(heap) > 2 * len(groups):
            heap = self._heaps[topic] = [(g.oldest_unsettled, name) for name, g in groups.items()]
            heapify(heap)
        while heap:
            known, name = heap[0]
            group = groups.get(name)
            if group is None:
                heappop(heap)
            elif group.oldest_unsettled == known:
                return known
            else:
                heapreplace(heap, (group.oldest_unsettled, name))
        del self._heaps[topic]
        return None

    def lower(self, group: Group) -> None:
        """A group was made or moved: what it has not done may begin earlier than before."""
        heap = self._heaps.get(group.topic)
        if heap is not None:
            heappush(heap, (group.oldest_unsettled, group.name))
