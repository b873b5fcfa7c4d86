"""The journal as it grows: whoever follows it is told of every commit.

Live subscribers (MQTT QoS 0, Redis pub/sub) get messages before the disk has them. **Followers**
get them after: with their sequence and offset, which exist only then, and with the promise that
what they saw is still there after a crash. The subscribers of the binary protocol are followers.
**Watchers** only want to know that a topic has grown: commands that block until there is something
to read. A **tap** takes what a topic has grown by: the backlog of a topic whose messages are handed
out.

Nothing here costs anything while nobody follows: one look at a flag per commit.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from penstock.core.routes import Routes
from penstock.model.message import Extras, Message
from penstock.model.stages import is_staged
from penstock.obs.log import get_logger
from penstock.store.batch import RUN_WIDTH, Batch, TopicBatch
from penstock.store.store import Commit

_log = get_logger("feed")

_NOTHING: dict[int, Extras] = {}


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Messages of one topic whose offsets and sequences are both in a row."""

    topic: bytes
    offset: int
    sequence: int
    payloads: Sequence[bytes]
    extras: dict[int, Extras]
    """By number within the stretch; only of messages that have any."""
    forms: dict[object, bytes] = msgspec.field(default_factory=dict)
    """Wire forms that were worked out, for whoever is given the same stretch next."""


class CommittedMessages(msgspec.Struct, frozen=True, gc=False):
    """One topic's messages of a commit."""

    topic: bytes
    first_offset: int
    base_sequence: int
    group: TopicBatch
    extras: dict[int, Extras]
    """By number within the part; only of messages that have any."""
    whole: list[Stretch] = []
    """All stretches, once somebody has asked for them: most followers get the same."""

    @property
    def count(self) -> int:
        """How many messages there are."""
        return len(self.group.payloads)

    def messages(self) -> Iterator[Message]:
        """All messages, one by one."""
        number = 0
        runs = iter(self.group.runs)
        for position, count, time_ms, flags in zip(runs, runs, runs, runs, strict=True):
            for place in range(count):
                yield Message(
                    self.topic,
                    self.group.payloads[number],
                    self.base_sequence + position + place,
                    self.first_offset + number,
                    time_ms,
                    flags,
                    self.extras.get(number),
                )
                number += 1

    def stretches(self, offset: int = 0) -> Iterator[Stretch]:
        """The messages from ``offset`` on, cut where sequences are not in a row."""
        if offset > self.first_offset:
            return self._stretches(offset)
        if not self.whole:
            self.whole.extend(self._stretches(self.first_offset))
        return iter(self.whole)

    def _stretches(self, offset: int) -> Iterator[Stretch]:
        number = 0
        skipped = offset - self.first_offset
        payloads = self.group.payloads
        positions, counts = self.group.runs[0::RUN_WIDTH], self.group.runs[1::RUN_WIDTH]
        for position, count in zip(positions, counts, strict=True):
            first, number = max(number, skipped), number + count
            if first >= number:
                continue
            yield Stretch(
                self.topic,
                self.first_offset + first,
                self.base_sequence + position + first - (number - count),
                payloads if number - first == len(payloads) else payloads[first:number],
                shifted(self.extras, first, number),
            )


def shifted(extras: dict[int, Extras], first: int, end: int) -> dict[int, Extras]:
    """Those of messages ``first … end - 1``, counted from the first."""
    if not extras:
        return extras
    return {number - first: found for number, found in extras.items() if first <= number < end}


Follower = Callable[[CommittedMessages], None]
"""Somebody who wants messages with their places in the journal."""


class Feed:
    """Who follows which topics, and who watches them."""

    def __init__(self) -> None:
        self.routes: Routes[Follower] = Routes()
        self._watchers: dict[bytes, dict[Callable[[], None], None]] = {}
        self._taps: dict[bytes, Follower] = {}
        self.is_wanted = False
        """Whether there is anybody to be told."""
        self.on_extras: Callable[[Batch], None] | None = None
        """Who is told of commits with signed messages, or ones with headers."""
        self.on_extras_failed: Callable[[Batch], None] | None = None
        """Who is told of such commits that failed."""
        self.on_committed: Callable[[Batch], None] | None = None
        """Who is told of all commits that have messages, or topics that are no more."""
        self.on_dropped: Callable[[bytes], None] | None = None
        """Who is told of topics that are no more, before anybody hears of the next of that name."""

    def follow(self, topic_filter: bytes, follower: Follower) -> None:
        """Call ``follower`` with messages that the filter matches, each once."""
        self.routes.subscribe(topic_filter, follower, 0)
        self._look()

    def unfollow(self, topic_filter: bytes, follower: Follower) -> None:
        """Undo ``follow``."""
        self.routes.unsubscribe(topic_filter, follower)
        self._look()

    def followers(self, topic: bytes) -> int:
        """How many follow a topic."""
        if not self.routes.subscription_count:
            return 0
        return len((self.routes.cached.get(topic) or self.routes.resolve(topic)).targets)

    def watch(self, topic: bytes, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` after every commit that has messages of this topic."""
        self._watchers.setdefault(topic, {})[watcher] = None
        self._look()

    def unwatch(self, topic: bytes, watcher: Callable[[], None]) -> None:
        """Undo ``watch``."""
        watchers = self._watchers.get(topic, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(topic, None)
        self._look()

    def tap(self, topic: bytes, tap: Follower) -> None:
        """Call ``tap`` with what each commit has of this topic; a topic has one tap at most."""
        assert topic not in self._taps
        self._taps[topic] = tap
        self._look()

    def untap(self, topic: bytes) -> None:
        """Undo ``tap``."""
        del self._taps[topic]
        self._look()

    def _look(self) -> None:
        wanted = self.routes.subscription_count or self._watchers or self._taps
        self.is_wanted = bool(wanted)

    def committed(self, batch: Batch, commit: Commit) -> None:
        """Tell everybody who is concerned of a commit."""
        if batch.drops and self.on_dropped is not None:
            for topic in batch.drops:
                _guarded(self.on_dropped, topic)
        if batch.extras and self.on_extras is not None:
            _guarded(self.on_extras, batch)
        if self.on_committed is not None:
            _guarded(self.on_committed, batch)
        if not self.is_wanted:
            return
        grown: list[bytes] = []
        for (topic, group), first in zip(batch.groups.items(), commit.first_offsets, strict=True):
            if is_staged(topic):
                continue  # not for anybody, whatever the filter
            route = self.routes.cached.get(topic) or self.routes.resolve(topic)
            tap = self._taps.get(topic)
            if route.targets or tap:
                extras = batch.extras.get(topic, _NOTHING)
                part = CommittedMessages(topic, first, commit.base_sequence, group, extras)
                for follower, _ in route.targets:
                    _guarded(follower, part)
                if tap is not None:
                    _guarded(tap, part)
            if topic in self._watchers:
                grown.append(topic)
        for topic in grown:
            for watcher in list(self._watchers.get(topic, ())):
                _guarded(watcher)

    def failed(self, batch: Batch) -> None:
        """A commit was refused by the disk."""
        if batch.extras and self.on_extras_failed is not None:
            _guarded(self.on_extras_failed, batch)


def _guarded(tell: Callable[..., None], *what: Any) -> None:
    """One follower's trouble stays its own."""
    try:
        tell(*what)
    except Exception:  # noqa: BLE001 - a bug met while telling one must not keep it from the others
        _log.exception("feed_failed")
