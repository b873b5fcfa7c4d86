"""Durable subscribers: client ids with their acknowledgements, per topic.

A durable subscriber is not a session. It has no queue and no window: what it still has to get
follows from the journal and its acknowledgements. So its connection and subscriptions are not
durable; only ``Progressed`` is ever written.

These client ids and those of MQTT sessions are separate namespaces. Otherwise an MQTT client that
connects with a clean session would erase the acknowledgements of the same id.
"""

import msgspec

from penstock.core.commands import Forgotten, Identified, Progressed
from penstock.core.progress import Progress


class _SubscriberRow(msgspec.Struct, array_like=True):
    """A subscriber as a row: topic → mark and ranges."""

    client_id: bytes
    seen_ms: int
    applied: int
    progress: list[tuple[bytes, int, list[tuple[int, int]]]]
    user: str = ""


_decoder = msgspec.msgpack.Decoder(_SubscriberRow)
_encoder = msgspec.msgpack.Encoder()


class DurableSubscriber:
    """One client id: its progress by topic, and when it last acknowledged anything."""

    __slots__ = ("applied", "client_id", "progress", "seen_ms", "user")

    def __init__(self, client_id: bytes) -> None:
        self.client_id = client_id
        self.progress: dict[bytes, Progress] = {}
        self.seen_ms = 0
        self.user = ""  # to whom it belongs; "": nobody (``core.owners``)
        self.applied = 0  # last journal entry that this state contains; replay skips up to it


class Subscribers:
    """All durable subscribers, the least recently seen first."""

    def __init__(self) -> None:
        self.by_id: dict[bytes, DurableSubscriber] = {}
        self.dirty: dict[bytes, None] = {}  # client ids whose row on disk is outdated
        # the same progress by topic, then by client id
        self._readers: dict[bytes, dict[bytes, Progress]] = {}

    def topic_count(self, client_id: bytes) -> int:
        subscriber = self.by_id.get(client_id)
        return len(subscriber.progress) if subscriber else 0

    def progress(self, client_id: bytes, topic: bytes) -> Progress | None:
        subscriber = self.by_id.get(client_id)
        return subscriber.progress.get(topic) if subscriber else None

    def oldest_unacknowledged(self, topic: bytes) -> int | None:
        """Everyone has acknowledged all messages of a topic below; None: no subscribers."""
        readers = self._readers.get(topic, {})
        return min((progress.mark for progress in readers.values()), default=None)

    def _read(self, subscriber: DurableSubscriber, topic: bytes, progress: Progress) -> None:
        subscriber.progress[topic] = progress
        self._readers.setdefault(topic, {})[subscriber.client_id] = progress

    def _unread(self, subscriber: DurableSubscriber, topic: bytes) -> None:
        del subscriber.progress[topic]
        readers = self._readers[topic]
        del readers[subscriber.client_id]
        if not readers:
            del self._readers[topic]

    def progressed(self, command: Progressed, index: int, *, recovering: bool) -> int:
        """Note acknowledgements; return how many messages were given up because of the bound."""
        known = self.by_id.get(command.client_id)
        if known is not None and known.user and known.user != command.user:
            return 0  # it was forgotten meanwhile, and another user has the client id
        subscriber = self.by_id.pop(command.client_id, None) or DurableSubscriber(command.client_id)
        self.by_id[command.client_id] = subscriber  # to the end: it was seen last
        if recovering and subscriber.applied >= index:
            return 0
        subscriber.user = command.user
        subscriber.seen_ms = max(subscriber.seen_ms, command.now_ms)
        self.dirty[command.client_id] = None
        if not command.ranges:
            return 0  # it was only seen
        progress = subscriber.progress.get(command.topic)
        if progress is None:
            progress = Progress()
            self._read(subscriber, command.topic, progress)
        return sum([progress.add(start, end) for start, end in command.ranges])

    def identified(self, command: Identified, index: int, *, recovering: bool) -> bool:
        """Whether a user may have this client id; it belongs to that user from now on."""
        known = self.by_id.get(command.client_id)
        if known is not None and known.user and known.user != command.user:
            return False
        if command.user:
            seen = Progressed(command.client_id, b"", [], command.now_ms, command.user)
            self.progressed(seen, index, recovering=recovering)
        return True

    def forget_user(self, user: str, index: int, *, recovering: bool) -> None:
        """A user was deleted: what belonged to it must not pass to a later user of that name."""
        for subscriber in [one for one in self.by_id.values() if one.user == user]:
            gone = Forgotten(subscriber.client_id, subscriber.seen_ms)
            self.forgotten(gone, index, recovering=recovering)

    def forgotten(self, command: Forgotten, index: int, *, recovering: bool) -> None:
        """Forget a subscriber, unless it was seen again since."""
        subscriber = self.by_id.get(command.client_id)
        if subscriber is None or (recovering and subscriber.applied >= index):
            return
        if subscriber.seen_ms <= command.seen_ms:
            del self.by_id[command.client_id]
            for topic in list(subscriber.progress):
                self._unread(subscriber, topic)
            self.dirty[command.client_id] = None

    def forget_topic(self, topic: bytes, index: int, *, recovering: bool) -> None:
        for client_id in list(self._readers.get(topic, ())):
            subscriber = self.by_id[client_id]
            if not (recovering and subscriber.applied >= index):
                self._unread(subscriber, topic)
                self.dirty[client_id] = None

    def row(self, client_id: bytes, index: int) -> bytes | None:
        subscriber = self.by_id.get(client_id)
        if subscriber is None:
            return None
        subscriber.applied = index
        progress = [
            (topic, progress.mark, progress.ranges())
            for topic, progress in subscriber.progress.items()
        ]
        row = _SubscriberRow(client_id, subscriber.seen_ms, index, progress, subscriber.user)
        return _encoder.encode(row)

    def load(self, row: bytes) -> None:
        data = _decoder.decode(row)
        subscriber = self.by_id[data.client_id] = DurableSubscriber(data.client_id)
        subscriber.seen_ms = data.seen_ms
        subscriber.applied = data.applied
        subscriber.user = data.user
        for topic, mark, ranges in data.progress:
            self._read(subscriber, topic, Progress(mark, ranges))

    def settle(self) -> None:
        """After recovery: sort subscribers by when they were last seen."""
        in_order = sorted(self.by_id.values(), key=lambda subscriber: subscriber.seen_ms)
        self.by_id = {subscriber.client_id: subscriber for subscriber in in_order}
