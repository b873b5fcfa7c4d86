"""Values by topic name, found by name at the price of a dict and by filter at the price of a walk.

Two structures agree at all times: ``values``, a flat dict that answers for one name, and a
``LevelTree`` of the same names that answers for a filter. The bytes of a name are shared by both.
Used for retained messages and for finding the cached routes that a subscription touches.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from penstock.core.level_tree import LevelTree
from penstock.model.topic import has_wildcard

Value = TypeVar("Value")


class TopicTree(Generic[Value]):
    """A mapping of topic names that can be asked by filter.

    ``values`` may be read directly, where a method call is too much; it is the same dict for the
    life of the tree, oldest name first. Write through the methods only.
    """

    __slots__ = ("_names", "values")

    def __init__(self) -> None:
        self._names = LevelTree()
        self.values: dict[bytes, Value] = {}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def visits(self) -> int:
        """Places that were looked at for filters, of all times together."""
        return self._names.visits

    def set(self, topic: bytes, value: Value) -> None:
        """Store ``value``; a name that is there already keeps its place in the order."""
        if topic not in self.values:
            self._names.add(topic)
        self.values[topic] = value

    def get(self, topic: bytes) -> Value | None:
        """Return the value of one name, None if there is none."""
        return self.values.get(topic)

    def pop(self, topic: bytes) -> Value | None:
        """Remove one name and return its value, None if there was none."""
        if topic not in self.values:
            return None
        self._names.remove(topic)
        return self.values.pop(topic)

    def clear(self) -> None:
        """Remove all names."""
        self._names.clear()
        self.values.clear()

    def match(self, topic_filter: bytes) -> list[tuple[bytes, Value]]:
        """Return all names that the filter matches, with their values, in no particular order."""
        names = self.names_matching(topic_filter) or []
        return [(name, self.values[name]) for name in names]

    def names_matching(
        self, topic_filter: bytes, visits_max: float = float("inf")
    ) -> list[bytes] | None:
        """Return the names alone; None if that means more than about ``visits_max`` looks."""
        if has_wildcard(topic_filter):
            return self._names.topics_matching(topic_filter, visits_max)
        return [topic_filter] if topic_filter in self.values else []

    def walk(self, topic_filter: bytes) -> Iterator[bytes | None]:
        """Yield the names that the filter matches, one by one; None: a place looked at in vain.

        Names may come and go between two steps, see ``LevelTree.walk``.
        """
        if has_wildcard(topic_filter):
            yield from self._names.walk(topic_filter)
        elif topic_filter in self.values:
            yield topic_filter
