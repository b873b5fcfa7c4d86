"""Values by topic name: a dict lookup by name, a tree walk by filter.

Two structures always agree: ``values``, a flat dict by name, and a ``LevelTree`` of the same names
for filters. They share the bytes of a name. Used for retained messages and for finding the cached
routes that a subscription affects.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from penstock.core.level_tree import LevelTree
from penstock.model.topic import has_wildcard

Value = TypeVar("Value")


class TopicTree(Generic[Value]):
    """A mapping of topic names that can be searched by filter.

    ``values`` may be read directly where a method call is too slow; it is always the same dict,
    oldest name first. Write through the methods only.
    """

    __slots__ = ("_names", "values")

    def __init__(self) -> None:
        self._names = LevelTree()
        self.values: dict[bytes, Value] = {}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def visits(self) -> int:
        """Nodes visited for filters, in total."""
        return self._names.visits

    def set(self, topic: bytes, value: Value) -> None:
        """Store ``value``; an existing name keeps its place in the order."""
        if topic not in self.values:
            self._names.add(topic)
        self.values[topic] = value

    def get(self, topic: bytes) -> Value | None:
        return self.values.get(topic)

    def pop(self, topic: bytes) -> Value | None:
        if topic not in self.values:
            return None
        self._names.remove(topic)
        return self.values.pop(topic)

    def clear(self) -> None:
        self._names.clear()
        self.values.clear()

    def match(self, topic_filter: bytes) -> list[tuple[bytes, Value]]:
        """All names that the filter matches, with their values, unordered."""
        names = self.names_matching(topic_filter) or []
        return [(name, self.values[name]) for name in names]

    def names_matching(
        self, topic_filter: bytes, visits_max: float = float("inf")
    ) -> list[bytes] | None:
        """The names alone; None if that takes more than about ``visits_max`` visits."""
        if has_wildcard(topic_filter):
            return self._names.topics_matching(topic_filter, visits_max)
        return [topic_filter] if topic_filter in self.values else []

    def walk(self, topic_filter: bytes) -> Iterator[bytes | None]:
        """Yield the names that the filter matches; None stands for a node visited in vain.

        Names may come and go between two steps, see ``LevelTree.walk``.
        """
        if has_wildcard(topic_filter):
            yield from self._names.walk(topic_filter)
        elif topic_filter in self.values:
            yield topic_filter
