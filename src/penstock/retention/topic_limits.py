"""Limits of single topics: what is left of them before the disk is rid of the rest, and how fast.

A limit that was set for a topic holds from one message to the next: a group that is behind passes
over what is beyond it. Freeing the space is left to retention, which works on whole commits and
takes its time (``lows``).

Age is that of the newest message: an old message is removed because newer ones came, not because
time passed, so that what was produced last is there for a consumer that was away for long.

A rate is that of a topic, whoever its messages go to: all groups take tokens from one bucket.
"""

from collections.abc import Callable

from penstock.core.broker import Broker
from penstock.core.rate import TokenBucket
from penstock.errors import StorageError
from penstock.reading.readers import JournalReaders
from penstock.store.search import offset_at_time
from penstock.store.store import Store, TopicInfo


class TopicLimits:
    """Which is the oldest message of each topic, by the topic's own limits."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        readers: JournalReaders,
        looked: Callable[[bytes], None] = lambda _topic: None,
    ) -> None:
        self._broker = broker
        self._store = store
        self._readers = readers
        self._looked = looked
        """Called when more is known about the age of a topic's messages."""
        self._by_age: dict[bytes, tuple[int, int]] = {}
        """Per topic: where it ended when its messages' age was looked at, and the first to stay."""
        self._looking: dict[bytes, object] = {}
        """Topics whose messages are being looked at, and what stands for the look that counts."""
        self._buckets: dict[bytes, TokenBucket] = {}
        """Tokens of topics that have a rate: they outlast those who take them."""

    def first_offset(self, info: TopicInfo) -> int:
        """The oldest message that a topic's own limits leave."""
        settings = self._broker.topics.get(info.name)
        if settings is None:
            return info.first_offset
        by_count = info.next_offset - settings.max_messages if settings.max_messages else 0
        by_age = self._by_age.get(info.name, (0, 0))[1] if settings.max_age_ms else 0
        return max(info.first_offset, by_count, by_age)

    def is_used_up(self, topic: bytes) -> bool:
        """Whether messages go when they are done with; a topic of other doors is a log."""
        settings = self._broker.topics.get(topic)
        return settings is not None and not settings.keep

    def finished(self, info: TopicInfo) -> int:
        """What lies below is done and need not stay; 0: all must.

        A message is done when a group that was entitled to it has finished it, and no group or
        durable subscriber still has to. So what nobody has begun with waits, for a group that
        starts at the beginning.
        """
        topic, broker = info.name, self._broker
        if not self.is_used_up(topic):
            return 0
        finished = broker.groups.floor(topic, self.first_offset(info))
        acknowledged = broker.subscribers.oldest_unacknowledged(topic)
        return finished if acknowledged is None else min(finished, acknowledged)

    def low(self, info: TopicInfo) -> int:
        """The oldest message that must stay."""
        return max(self.first_offset(info), self.finished(info))

    def bucket(self, topic: bytes, now: float) -> TokenBucket | None:
        """The tokens that deliveries take; None: there is no limit."""
        settings = self._broker.topics.get(topic)
        if settings is None or not settings.rate_milli:
            self._buckets.pop(topic, None)
            return None
        bucket = self._buckets.get(topic)
        if bucket is None:
            bucket = TokenBucket(settings.rate_milli, settings.burst, now)
            self._buckets[topic] = bucket
        bucket.configure(settings.rate_milli, settings.burst)
        return bucket

    def grown(self, info: TopicInfo) -> None:
        """A topic may have grown: find out which of its messages are too old by now."""
        topic = info.name
        settings = self._broker.topics.get(topic)
        if settings is None or not settings.max_age_ms or topic in self._looking:
            return
        if self._by_age.get(topic, (-1, 0))[0] == info.next_offset:
            return
        look = self._looking[topic] = object()
        store, age_ms, end = self._store, settings.max_age_ms, info.next_offset

        def found(offset: int) -> None:
            if self._looking.get(topic) is look:
                del self._looking[topic]
                self._by_age[topic] = (end, offset)
                self._looked(topic)

        def failed(_error: StorageError) -> None:
            """Nobody can wait for a disk that fails: what was known before has to do."""
            found(self._by_age.get(topic, (0, 0))[1])

        self._readers.run(lambda: _offset_at_age(store, topic, age_ms), found, failed)

    def is_aged(self, info: TopicInfo, end: int) -> bool:
        """Whether it is known which messages are too old, as of when the topic ended at ``end``.

        If not it will be: ``looked`` is called then. Whoever hands out messages waits for it.
        """
        settings = self._broker.topics.get(info.name)
        if settings is None or not settings.max_age_ms:
            return True
        if self._by_age.get(info.name, (-1, 0))[0] >= min(end, info.next_offset):
            return True
        self.grown(info)
        return False

    def forget(self, topic: bytes) -> None:
        """The topic was deleted: its offsets begin anew."""
        self._looking.pop(topic, None)
        self._by_age.pop(topic, None)
        self._buckets.pop(topic, None)


def _offset_at_age(store: Store, topic: bytes, age_ms: int) -> int:
    """The first message that is not older than this, compared with the newest."""
    info = store.topic(topic)
    if info is None:
        return 0
    newest = next(store.read_topic(topic, info.next_offset - 1, 1, 0).messages(), None)
    return offset_at_time(store, topic, newest.time_ms - age_ms) if newest else info.first_offset
