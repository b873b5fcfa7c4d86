"""Limits of single topics: count, age and delivery rate.

Limits by count and age are exact at any moment: a group that is behind skips what exceeds them.
Retention removes it a little later.

Age is relative to the newest message: a message is removed because newer ones came, not because
time passed, so a consumer that was away for long still finds the latest.

A rate is shared by all groups of a topic: they take tokens from one bucket.
"""

from collections.abc import Callable

from penstock.core.broker import Broker
from penstock.core.rate import TokenBucket
from penstock.errors import StorageError
from penstock.reading.readers import JournalReaders
from penstock.store.search import offset_at_time
from penstock.store.store import Store, TopicInfo


class TopicLimits:
    """The oldest message of each topic by the topic's own limits, and its rate."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        readers: JournalReaders,
        searched: Callable[[bytes], None] = lambda _topic: None,
    ) -> None:
        self._broker = broker
        self._store = store
        self._readers = readers
        self._searched = searched  # called when the age limit of a topic has been evaluated
        # by topic: its end when the age was last evaluated, and the first message to keep
        self._by_age: dict[bytes, tuple[int, int]] = {}
        self._searching: dict[bytes, object] = {}  # topics whose age is being evaluated
        self._buckets: dict[bytes, TokenBucket] = {}

    def first_offset(self, info: TopicInfo) -> int:
        """The oldest message within the topic's limits."""
        settings = self._broker.topics.get(info.name)
        if settings is None:
            return info.first_offset
        by_count = info.next_offset - settings.max_messages if settings.max_messages else 0
        by_age = self._by_age.get(info.name, (0, 0))[1] if settings.max_age_ms else 0
        return max(info.first_offset, by_count, by_age)

    def is_used_up(self, topic: bytes) -> bool:
        """Whether finished messages are removed; a topic without settings is a log."""
        settings = self._broker.topics.get(topic)
        return settings is not None and not settings.keep

    def finished(self, info: TopicInfo) -> int:
        """Messages below this offset are finished and may be removed.

        A message is finished when at least one group has finished it and no group or durable
        subscriber still needs it. A message that no group has begun with is kept for a group that
        starts at the beginning.
        """
        topic, broker = info.name, self._broker
        if not self.is_used_up(topic):
            return 0
        finished = broker.groups.floor(topic, self.first_offset(info))
        acknowledged = broker.subscribers.oldest_unacknowledged(topic)
        return finished if acknowledged is None else min(finished, acknowledged)

    def low(self, info: TopicInfo) -> int:
        """The oldest message to keep."""
        return max(self.first_offset(info), self.finished(info))

    def bucket(self, topic: bytes, now: float) -> TokenBucket | None:
        """The tokens that deliveries take; None without a rate limit."""
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
        """A topic may have grown: evaluate its age limit again."""
        topic = info.name
        settings = self._broker.topics.get(topic)
        if settings is None or not settings.max_age_ms or topic in self._searching:
            return
        if self._by_age.get(topic, (-1, 0))[0] == info.next_offset:
            return
        search = self._searching[topic] = object()
        store, age_ms, end = self._store, settings.max_age_ms, info.next_offset

        def found(offset: int) -> None:
            if self._searching.get(topic) is search:
                del self._searching[topic]
                self._by_age[topic] = (end, offset)
                self._searched(topic)

        def failed(_error: StorageError) -> None:
            # the last known result must do
            found(self._by_age.get(topic, (0, 0))[1])

        self._readers.run(lambda: _offset_at_age(store, topic, age_ms), found, failed)

    def is_aged(self, info: TopicInfo, end: int) -> bool:
        """Whether the age limit was evaluated for the topic up to ``end``.

        If not, an evaluation begins, and ``searched`` is called at its end. Do not deliver before.
        """
        settings = self._broker.topics.get(info.name)
        if settings is None or not settings.max_age_ms:
            return True
        if self._by_age.get(info.name, (-1, 0))[0] >= min(end, info.next_offset):
            return True
        self.grown(info)
        return False

    def forget(self, topic: bytes) -> None:
        """The topic was deleted: its offsets restart."""
        self._searching.pop(topic, None)
        self._by_age.pop(topic, None)
        self._buckets.pop(topic, None)


def _offset_at_age(store: Store, topic: bytes, age_ms: int) -> int:
    """The first message at most ``age_ms`` older than the newest."""
    info = store.topic(topic)
    if info is None:
        return 0
    newest = next(store.read_topic(topic, info.next_offset - 1, 1, 0).messages(), None)
    return offset_at_time(store, topic, newest.time_ms - age_ms) if newest else info.first_offset
