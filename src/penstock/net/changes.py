"""Which topics have changed, for those who ask again and again: it costs what changed since.

Every commit with messages or deletions has a **number**, and each topic is remembered with that of
its last change, the latest at the end. What changed since a number is then read from the end
backwards, whatever the number of topics. Nothing is remembered while nobody asks, and only so many
topics are: whoever comes with a number from before that is told to begin again.

A number says in which life of the broker it was given, by the time of its start, and the journal's
next entry then. One of another life is from before what is remembered, or from the future if the
clock was set back, and is recognised by that: what changed between two lives nobody knows.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from itertools import chain

from penstock.obs.log import get_logger
from penstock.store.batch import Batch

__all__ = ["Changes", "Watcher"]

TOPICS_MAX = 65_536
"""Topics that are remembered; some 10 MB."""

LIFE_BITS = 20
"""Numbers per millisecond of a life: more than there are commits."""

Watcher = Callable[[Collection[bytes]], None]
"""Somebody who waits for the next change; told which topics a commit has changed."""

_log = get_logger("changes")


class Changes:
    """The latest changes of a broker, by when it was started, and with which entry to come."""

    def __init__(self, started_ms: int, next_index: int) -> None:
        self.number = (started_ms << LIFE_BITS) + next_index
        """That of the last commit; never 0."""
        self._floor = self.number
        """What changed after this is known."""
        self._last: OrderedDict[bytes, int] = OrderedDict()
        self._askers: set[object] = set()
        self._watchers: dict[Watcher, None] = {}

    def join(self, asker: object) -> None:
        """Remember changes from now on, for as long as somebody may ask for them."""
        if not self._askers:
            self._floor = self.number
        self._askers.add(asker)

    def leave(self, asker: object) -> None:
        """Undo ``join``."""
        self._askers.discard(asker)
        if not self._askers:
            self._last.clear()

    def watch(self, watcher: Watcher) -> None:
        """Tell of every change, until ``unwatch``."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Undo ``watch``."""
        self._watchers.pop(watcher, None)

    def since(self, number: int) -> list[bytes] | None:
        """Topics that changed after a number, the latest first; None: that is not known."""
        if not self._floor <= number <= self.number:
            return None
        topics = []
        for topic, changed in reversed(self._last.items()):
            if changed <= number:
                break
            topics.append(topic)
        return topics

    def committed(self, batch: Batch) -> None:
        """Take note of a commit."""
        self.number += 1
        if not self._askers:
            return
        last, number = self._last, self.number
        for topic in chain(batch.drops, batch.groups):
            last[topic] = number
            last.move_to_end(topic)
        while len(last) > TOPICS_MAX:
            self._floor = last.popitem(last=False)[1]
        if self._watchers:
            self._tell({*batch.drops, *batch.groups} if batch.drops else batch.groups)

    def _tell(self, topics: Collection[bytes]) -> None:
        for watcher in list(self._watchers):
            try:
                watcher(topics)
            except Exception:  # noqa: BLE001 - one watcher's trouble stays its own
                _log.exception("watcher_failed")
