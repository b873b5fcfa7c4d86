"""Which topics changed since a client last asked, at a cost proportional to the changes.

Every commit with messages or deletions has a **number**, and each topic is remembered with the
number of its last change, the latest at the end. So the changes since a number are read from the
end backwards. Nothing is remembered without clients, and at most ``TOPICS_MAX`` topics; a client
with an older number must start again.

A number contains the start time of the broker's incarnation and the journal's next entry at that
time. So a number of another incarnation is recognized: it is older than what is remembered, or in
the future if the clock was set back. What changed between two incarnations is unknown.

A **watcher** waits for a change and judges each topic by itself. There may be thousands of them,
and thousands of topics in a commit, so they are notified in **rounds** that yield to other work
(``net/turns``). Commits during a round are left to the next one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from penstock.obs.log import get_logger
from penstock.store.batch import Batch

TOPICS_MAX = 65_536  # topics that are remembered; some 10 MB

INCARNATION_BITS = 20  # numbers per millisecond of an incarnation: more than commits

_log = get_logger("changes")


class Watcher(Protocol):
    """Waits for a change."""

    def wants(self, topic: bytes) -> bool:
        """Whether it waits for a change of this topic."""

    def grown(self) -> None:
        """There is such a change, or it is unknown whether there is."""


class Changes:
    """The latest changes. ``run`` completes work that may be interrupted (``Turns.run``)."""

    def __init__(
        self, started_ms: int, next_index: int, run: Callable[[Iterator[None]], object]
    ) -> None:
        self.number = (started_ms << INCARNATION_BITS) + next_index  # of the last commit; never 0
        self._floor = self.number  # changes after this number are known
        self._last: OrderedDict[bytes, int] = OrderedDict()
        self._askers: set[object] = set()
        self._watchers: dict[Watcher, int] = {}  # with the number up to which each was asked
        self._run = run
        self._is_round_due = False
        self._is_round_under_way = False

    def join(self, asker: object) -> None:
        """Remember changes until ``leave``."""
        if not self._askers:
            self._floor = self.number
        self._askers.add(asker)

    def leave(self, asker: object) -> None:
        self._askers.discard(asker)
        if not self._askers:
            self._last.clear()

    def watch(self, watcher: Watcher, number: int) -> None:
        """Notify of changes after a number, until ``unwatch``."""
        self._watchers[watcher] = number
        if number != self.number:
            self._begin_round()

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def since(self, number: int) -> list[bytes] | None:
        """Topics that changed after a number, the latest first; None if that is unknown."""
        if not self._floor <= number <= self.number:
            return None
        topics = []
        for topic, changed in reversed(self._last.items()):
            if changed <= number:
                break
            topics.append(topic)
        return topics

    def committed(self, batch: Batch) -> None:
        self.number += 1
        if not self._askers:
            return
        last, number = self._last, self.number
        for topic in chain(batch.drops, batch.topics):
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
        while self._is_round_due:
            self._is_round_due = False
            for watcher in list(self._watchers):
                try:
                    yield from self._ask(watcher)
                except Exception:  # noqa: BLE001 - one watcher must not affect others
                    _log.exception("watcher_failed")
        self._is_round_under_way = False

    def _ask(self, watcher: Watcher) -> Iterator[None]:
        """Ask a watcher, unless it has left, about the changes since it was asked last."""
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
