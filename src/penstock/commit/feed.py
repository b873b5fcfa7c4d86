"""Notifies clients and dispatchers of every commit.

Live subscribers (MQTT QoS 0, Redis pub/sub) get messages before they are on disk. **Followers**
(subscribers of the binary protocol) get them after the commit, with their sequence and offset; what
a follower saw survives a crash. **Watchers** are only notified that a topic has grown: blocking
reads. A **tap** takes the new messages of one topic: the backlog of a queue, consumers that wait.

Without any of them a commit costs one check of a flag.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from penstock.core.routes import Routes
from penstock.model.message import Extras, Message
from penstock.model.stages import is_staged
from penstock.obs.log import get_logger
from penstock.store.batch import Batch
from penstock.store.message_columns import RUN_WIDTH, TopicBatch
from penstock.store.store import Commit

_log = get_logger("feed")

_NOTHING: dict[int, Extras] = {}


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Messages of one topic with consecutive offsets and sequences."""

    topic: bytes
    offset: int
    sequence: int
    payloads: Sequence[bytes]
    extras: dict[int, Extras]  # by number within the stretch; only of messages that have any
    forms: dict[object, bytes] = msgspec.field(default_factory=dict)
    """Cache of encoded frames, shared by all followers that get this stretch."""


class CommittedMessages(msgspec.Struct, frozen=True, gc=False):
    """One topic's messages of a commit."""

    topic: bytes
    first_offset: int
    base_sequence: int
    group: TopicBatch
    extras: dict[int, Extras]  # by number; only of messages that have any
    whole: list[Stretch] = []  # cache of all stretches: most followers get the same

    @property
    def count(self) -> int:
        return len(self.group.payloads)

    def messages(self) -> Iterator[Message]:
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
        """The messages from ``offset`` on, split where sequences are not consecutive."""
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
    """Select the extras of messages ``first … end - 1``, renumbered from 0."""
    if not extras:
        return extras
    return {number - first: found for number, found in extras.items() if first <= number < end}


Follower = Callable[[CommittedMessages], None]


class Feed:
    """Followers, watchers and taps, by topic."""

    def __init__(self) -> None:
        self.routes: Routes[Follower] = Routes()
        self._watchers: dict[bytes, dict[Callable[[], None], None]] = {}
        self._taps: dict[bytes, tuple[Follower, ...]] = {}
        self.is_wanted = False  # whether there are any
        self.on_extras: Callable[[Batch], None] | None = None  # commits with signatures or headers
        self.on_extras_failed: Callable[[Batch], None] | None = None  # the same, failed
        # the same, with their place, if they are of this node
        self.on_own_extras: Callable[[Batch, Commit], None] | None = None
        self.on_committed: Callable[[Batch], None] | None = None  # all with messages or deletions
        # topics that were deleted, before anything of a new topic of that name
        self.on_dropped: Callable[[bytes], None] | None = None

    def follow(self, topic_filter: bytes, follower: Follower) -> None:
        """Call ``follower`` with messages that the filter matches, each once."""
        self.routes.subscribe(topic_filter, follower, 0)
        self._update_wanted()

    def unfollow(self, topic_filter: bytes, follower: Follower) -> None:
        self.routes.unsubscribe(topic_filter, follower)
        self._update_wanted()

    def follower_count(self, topic: bytes) -> int:
        if not self.routes.subscription_count:
            return 0
        return len((self.routes.cached.get(topic) or self.routes.resolve(topic)).targets)

    def watch(self, topic: bytes, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` after every commit that has messages of this topic."""
        self._watchers.setdefault(topic, {})[watcher] = None
        self._update_wanted()

    def unwatch(self, topic: bytes, watcher: Callable[[], None]) -> None:
        watchers = self._watchers.get(topic, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(topic, None)
        self._update_wanted()

    def tap(self, topic: bytes, tap: Follower) -> None:
        """Call ``tap`` with each commit's messages of this topic."""
        self._taps[topic] = (*self._taps.get(topic, ()), tap)
        self.is_wanted = True

    def untap(self, topic: bytes, tap: Follower) -> None:
        left = tuple([other for other in self._taps[topic] if other != tap])
        if left:
            self._taps[topic] = left
        else:
            del self._taps[topic]
            self._update_wanted()

    def _update_wanted(self) -> None:
        wanted = self.routes.subscription_count or self._watchers or self._taps
        self.is_wanted = bool(wanted)

    def committed(self, batch: Batch, commit: Commit, *, is_own: bool = False) -> None:
        """``is_own``: its messages came to this node."""
        if batch.drops and self.on_dropped is not None:
            for topic in batch.drops:
                _guarded(self.on_dropped, topic)
        if batch.extras and self.on_extras is not None:
            _guarded(self.on_extras, batch)
        if is_own and batch.extras and self.on_own_extras is not None:
            _guarded(self.on_own_extras, batch, commit)
        if self.on_committed is not None:
            _guarded(self.on_committed, batch)
        if not self.is_wanted:
            return
        grown: list[bytes] = []
        for topic in self._wanted(batch):
            if is_staged(topic):
                continue  # hidden from every filter
            route = self.routes.cached.get(topic) or self.routes.resolve(topic)
            taps = self._taps.get(topic, ())
            if route.targets or taps:
                part = _part_of(batch, commit, topic)
                for follower, _ in route.targets:
                    _guarded(follower, part)
                for tap in taps:
                    _guarded(tap, part)
            if topic in self._watchers:
                grown.append(topic)
        for topic in grown:
            for watcher in list(self._watchers.get(topic, ())):
                _guarded(watcher)

    def _wanted(self, batch: Batch) -> Iterable[bytes]:
        """The topics of a batch that somebody may want, in their order; all if filters decide."""
        topics = batch.topics
        if self.routes.subscription_count or len(topics) == 1:
            return topics
        found = topics.keys() & (self._taps.keys() | self._watchers.keys())
        return sorted(found, key=topics.__getitem__)

    def failed(self, batch: Batch) -> None:
        if batch.extras and self.on_extras_failed is not None:
            _guarded(self.on_extras_failed, batch)


def _part_of(batch: Batch, commit: Commit, topic: bytes) -> CommittedMessages:
    group = batch.group(topic)
    assert group is not None
    first, extras = commit.first_offsets[batch.topics[topic]], batch.extras.get(topic, _NOTHING)
    return CommittedMessages(topic, first, commit.base_sequence, group, extras)


def _guarded(notify: Callable[..., None], *arguments: object) -> None:
    try:
        notify(*arguments)
    except Exception:  # noqa: BLE001 - an internal error of one must not affect the others
        _log.exception("feed_failed")
