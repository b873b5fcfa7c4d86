"""Which topics have changed, for those who ask again and again: it costs what changed since.

Every commit with messages or deletions has a **number**, and each topic is remembered with that of
its last change, the latest at the end. What changed since a number is then read from the end
backwards, whatever the number of topics. Nothing is remembered while nobody asks, and only so many
topics are: whoever comes with a number from before that is told to begin again.

A number has the start time of its incarnation of the broker, and the journal's next entry then.
So a number of another incarnation is recognised: it is older than what is remembered, or from the
future if the clock was set back. What changed between two incarnations is unknown.

Who waits for a change is a **watcher**, and judges each topic by itself. There may be thousands of
them, and thousands of topics in a commit, so they are told in **rounds** that give others their
turn (``turns``). Whatever is committed during a round is for the next one: a watcher is asked about
what changed since it was asked last, however many commits that were.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from penstock.obs.log import get_logger
from penstock.store.batch import Batch

TOPICS_MAX = 65_536
"""Topics that are remembered; some 10 MB."""

INCARNATION_BITS = 20
"""Numbers per millisecond of an incarnation: more than there are commits."""

_log = get_logger("changes")


class Watcher(Protocol):
    """Somebody who waits for a change."""

    def wants(self, topic: bytes) -> bool:
        """Whether that is a change it waits for."""

    def grown(self) -> None:
        """There is such a change, or nobody knows."""


class Changes:
    """The latest changes of a broker, by when it was started, and with which entry to come.

    ``run`` goes through with work that may be interrupted.
    """

    def __init__(
        self, started_ms: int, next_index: int, run: Callable[[Iterator[None]], object]
    ) -> None:
        self.number = (started_ms << INCARNATION_BITS) + next_index
        """That of the last commit; never 0."""
        self._floor = self.number
        """What changed after this is known."""
        self._last: OrderedDict[bytes, int] = OrderedDict()
        self._askers: set[object] = set()
        self._watchers: dict[Watcher, int] = {}
        """And the number up to which each was asked."""
        self._run = run
        self._is_round_due = False
        self._is_round_under_way = False

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

    def watch(self, watcher: Watcher, number: int) -> None:
        """Tell of changes after a number, until ``unwatch``."""
        self._watchers[watcher] = number
        if number != self.number:
            self._begin_round()

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
            self._begin_round()

    # ── rounds ────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        self._is_round_due = True
        if not self._is_round_under_way:
            self._is_round_under_way = True
            self._run(self._rounds())

    def _rounds(self) -> Iterator[None]:
        """Ask watchers until none is behind."""
        while self._is_round_due:
            self._is_round_due = False
            for watcher in list(self._watchers):
                try:
                    yield from self._ask(watcher)
                except Exception:  # noqa: BLE001 - one watcher's trouble stays its own
                    _log.exception("watcher_failed")
        self._is_round_under_way = False

    def _ask(self, watcher: Watcher) -> Iterator[None]:
        """Ask a watcher, unless it has left, about what it was not asked about yet."""
        known = self._watchers.get(watcher, self.number)
        if known == self.number:
            return
        self._watchers[watcher] = self.number
        topics = self.since(known)
        is_wanted = topics is None
        for topic in topics or ():
            is_wanted = watcher.wants(topic)
            yield
            if is_wanted or watcher not in self._watchers:
                break
        if is_wanted and watcher in self._watchers:
            watcher.grown()
            yield
