"""One level of the tree of topics, out of the sorted list of their names.

A level is found by looking names up, not by walking over what is below it: a branch of a million
topics costs as much as one of ten.

**Order.** Labels are in the order of their bytes, names are too, and these orders differ: a slash
is 0x2F, so of the topics ``a/b``, ``a/b!`` and ``a/b/c`` the last two belong to the labels ``b!``
and ``b``. A label that is a branch and no topic may therefore have its first name far behind those
of greater labels. Then it is the beginning of such a label, followed by a byte below the slash: the
few of which that may be true are looked up. So a label has one place, whatever comes and goes while
somebody turns pages.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from penstock.api.reading.pace import Pace
from penstock.store.store import TopicInfo

SLASH: Final = b"/"
BEHIND_ALL: Final = b"\xff"  # no byte of UTF-8
STEPS_MAX: Final = 4  # names passed over one by one before one is looked up
CHILDREN_MAX: Final = 1_000  # counted of a branch
LOOKS_MAX: Final = 50_000  # names looked at for one answer


class SortedTopics(Protocol):
    """The part of a store that is needed."""

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]: ...


class Node(NamedTuple):
    """A label of a level: a topic, a branch with so many topics below, or both."""

    label: bytes
    topic: TopicInfo | None
    children: int
    is_capped: bool  # there may be more children


class Looks:
    """How many names may still be looked at, and until when."""

    def __init__(
        self, count_max: int = LOOKS_MAX, is_late: Callable[[], bool] = lambda: False
    ) -> None:
        self.count = 0
        self._pace = Pace()
        self._count_max = count_max
        self._is_late = is_late

    def take(self) -> None:
        """Look at one more."""
        self.count += 1
        self._pace()

    @property
    def is_over(self) -> bool:
        return self.count >= self._count_max or self._is_late()


class Level:
    """Iterates over the nodes of a level whose labels are greater than ``after``."""

    def __init__(
        self,
        store: SortedTopics,
        prefix: bytes,
        after: bytes | None = None,
        *,
        looks: Looks | None = None,
        is_wanted: Callable[[bytes], bool] | None = None,
    ) -> None:
        """``is_wanted``: which topics to show; others are passed over, and not counted."""
        self._store = store
        self._prefix = prefix
        self._looks = looks or Looks()
        self._is_wanted = is_wanted
        self.label = after  # the last one that was looked at
        start = b"" if after is None else prefix + after
        self._names = store.topics(prefix, start)
        self._ahead = self._next()

    def __iter__(self) -> Iterator[Node]:
        while (label := self._following()) is not None:
            self.label = label
            node = self._node(label)
            if node is not None:
                yield node

    @property
    def is_cut(self) -> bool:
        """Whether enough was looked at for one answer."""
        return self._looks.is_over

    # ── which label comes next ────────────────────────────────────────────────────────────────

    def _following(self) -> bytes | None:
        """The least label that is greater than the last one."""
        found = self._beyond(self.label)
        if found is None:
            return None
        label = self._label(found)
        for size, byte in enumerate(label):
            shorter = label[:size]
            if byte < SLASH[0] and (self.label is None or shorter > self.label):
                if self._first(self._prefix + shorter + SLASH) is not None:
                    return shorter
                if self._looks.is_over:
                    break
        return label

    def _beyond(self, label: bytes | None) -> TopicInfo | None:
        """The first topic of greater labels."""
        if label is None:
            return self._ahead
        found = self._after(self._prefix + label)
        while found is not None and (passed := self._label(found)) <= label:
            found = self._after(self._prefix + passed + SLASH + BEHIND_ALL)
        return found

    def _label(self, info: TopicInfo) -> bytes:
        return info.name[len(self._prefix) :].partition(SLASH)[0]

    def _after(self, name: bytes) -> TopicInfo | None:
        for _ in range(STEPS_MAX):
            if self._ahead is None or self._ahead.name > name:
                return self._ahead
            self._ahead = self._next()
        self._names = self._store.topics(self._prefix, name)
        self._ahead = self._next()
        return self._ahead

    def _next(self) -> TopicInfo | None:
        self._looks.take()
        return next(self._names, None)

    def _first(self, prefix: bytes) -> TopicInfo | None:
        self._looks.take()
        return next(self._store.topics(prefix), None)

    # ── what is there ─────────────────────────────────────────────────────────────────────────

    def _node(self, label: bytes) -> Node | None:
        name = self._prefix + label
        topic = self._ahead if self._ahead is not None and self._ahead.name == name else None
        if topic is not None:
            self._after(name)
        if self._is_wanted is not None and topic is not None and not self._is_wanted(name):
            topic = None
        children, is_capped = self._count(name + SLASH) if self._may_branch(name) else (0, False)
        if topic is None and not children and not is_capped:
            return None
        return Node(label, topic, children, is_capped)

    def _may_branch(self, name: bytes) -> bool:
        """Whether there may be topics below: what follows the name tells in most cases."""
        if self._ahead is None or not self._ahead.name.startswith(name):
            return False
        return self._ahead.name[len(name) : len(name) + 1] <= SLASH

    def _count(self, prefix: bytes) -> tuple[int, bool]:
        """How many topics are below, and whether that is not all of them."""
        count = 0
        for looked, info in enumerate(self._store.topics(prefix)):
            self._looks.take()
            if looked == CHILDREN_MAX or (looked and self._looks.is_over):
                return count, True
            count += self._is_wanted is None or self._is_wanted(info.name)
        return count, False
