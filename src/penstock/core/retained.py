"""Retained messages: the last one of each topic that asked for it, kept for later subscribers.

There are two kinds. **Durable** ones were published by clients; they count against ``count_max``,
and each change makes its topic *dirty* until a checkpoint takes it. **Ephemeral** ones are the
broker's own values (``$SYS``), valid only while it runs: not counted, never dirty. A topic has
only one kind: clients may not publish under ``$SYS``.

``match`` returns messages in order of publication. That order only depends on the messages and not
on the history of the tree, so a broker that was restored from its checkpoint assigns the same
packet ids to the same retained messages as the one that crashed.

**Expiry.** A message may have a time from which on it is not sent any more: whoever looks for
messages to send compares it with the clock. Its row goes when the command ``RetainedExpired`` is
applied, for which ``due`` finds it.

A queued delivery only knows the sequence of its message; ``find`` returns those that are no longer
in the journal. No two durable messages have the same sequence.

Dirty topics are taken in the order in which they became dirty, and one that changes again keeps its
place: a checkpoint that takes as many as there were when it began has seen all of them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

import msgspec

from penstock.core.topic_tree import TopicTree
from penstock.errors import StorageDamaged
from penstock.limits import RETAINED_MAX
from penstock.model.message import Extras

VOID_MAX = 1_000  # void times of expiry beside as many as there are messages


class RetainedMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message kept for its topic; the fields are in the order of the row on disk."""

    topic: bytes
    payload: bytes
    qos: int
    time_ms: int
    sequence: int
    author: str = ""  # user who published it; "": nobody, or it is not known
    headers: tuple[tuple[bytes, bytes], ...] = ()
    expires_ms: int = 0  # 0: never
    content_type: int = 0  # as in the flags of the journal

    @property
    def extras(self) -> Extras | None:
        if not self.headers and not self.expires_ms:
            return None
        return Extras(self.headers, expires_ms=self.expires_ms)

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_ms <= now_ms

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, row: bytes) -> "RetainedMessage":
        """Raises StorageDamaged."""
        try:
            return msgspec.msgpack.decode(row, type=cls)
        except msgspec.DecodeError as error:
            raise StorageDamaged(f"a retained message's row cannot be read: {error}") from error


class Retained:
    """All retained messages. ``bytes`` counts topics and payloads of the durable ones."""

    __slots__ = (
        "_by_sequence",
        "_count_max",
        "_dirty",
        "_durable",
        "_ephemeral",
        "_expiring",
        "bytes",
    )

    def __init__(self, count_max: int = RETAINED_MAX) -> None:
        self._count_max = count_max
        self._durable: TopicTree[RetainedMessage] = TopicTree()
        self._ephemeral: TopicTree[RetainedMessage] = TopicTree()
        self._by_sequence: dict[int, RetainedMessage] = {}
        self._dirty: OrderedDict[bytes, None] = OrderedDict()
        self._expiring: list[tuple[int, int]] = []  # a heap: times and sequences, some of them void
        self.bytes = 0

    @property
    def count(self) -> int:
        return len(self._durable)

    @property
    def dirty_count(self) -> int:
        return len(self._dirty)

    def admits(self, topic: bytes) -> bool:
        """Whether the limit allows a message of this topic; an existing one may always change.

        Ask before a message is journaled as retained. ``set`` does not check, because replay must
        not depend on how full it is.
        """
        return self.count < self._count_max or self._durable.get(topic) is not None

    def set(self, message: RetainedMessage) -> None:
        """Replace the retained message of a topic [MQTT-3.3.1-5].

        An empty payload removes it [MQTT-3.3.1-10] and is not retained itself [MQTT-3.3.1-11].
        """
        assert self._ephemeral.get(message.topic) is None
        if not message.payload:
            self._clear(message.topic)
            return
        self.restore(message)
        self._dirty[message.topic] = None

    def attribute(self, topic: bytes, sequence: int, author: str) -> None:
        """Note who published the message of a topic, if it is the one of this sequence."""
        message = self._durable.get(topic)
        if message is not None and message.sequence == sequence:
            message = msgspec.structs.replace(message, author=author)
            self._durable.set(topic, message)
            self._by_sequence[sequence] = message
            self._dirty[topic] = None

    def set_ephemeral(self, message: RetainedMessage) -> None:
        """Retain a value of the broker until it stops; an empty payload removes it."""
        assert self._durable.get(message.topic) is None
        if message.payload:
            self._ephemeral.set(message.topic, message)
        else:
            self._ephemeral.pop(message.topic)

    def restore(self, message: RetainedMessage) -> None:
        self._forget(self._durable.get(message.topic))
        self._durable.set(message.topic, message)
        self._by_sequence[message.sequence] = message
        self.bytes += _size(message)
        if message.expires_ms:
            self._note_expiry(message)

    def _note_expiry(self, message: RetainedMessage) -> None:
        heappush(self._expiring, (message.expires_ms, message.sequence))
        if len(self._expiring) > 2 * len(self._by_sequence) + VOID_MAX:
            kept = self._by_sequence.values()
            self._expiring = [(one.expires_ms, one.sequence) for one in kept if one.expires_ms]
            heapify(self._expiring)

    def due(self, now_ms: int, count_max: int) -> list[tuple[bytes, int]]:
        """Topics and sequences of messages that have expired, for ``RetainedExpired``."""
        found: list[tuple[int, RetainedMessage]] = []
        while self._expiring and self._expiring[0][0] <= now_ms and len(found) < count_max:
            expires_ms, sequence = heappop(self._expiring)
            message = self._by_sequence.get(sequence)
            if message is not None and message.expires_ms == expires_ms:
                found.append((expires_ms, message))
        for expires_ms, message in found:  # they stay until the command is applied
            heappush(self._expiring, (expires_ms, message.sequence))
        return [(message.topic, message.sequence) for _, message in found]

    def expired(self, topic: bytes, sequence: int) -> None:
        """Remove the message of a topic, if it is the one of this sequence."""
        message = self._durable.get(topic)
        if message is not None and message.sequence == sequence:
            self._clear(topic)

    def get(self, topic: bytes) -> RetainedMessage | None:
        return self._durable.get(topic) or self._ephemeral.get(topic)

    def find(self, sequence: int) -> RetainedMessage | None:
        """The durable message of a sequence; None if its topic has another by now."""
        return self._by_sequence.get(sequence)

    def match(self, topic_filter: bytes) -> list[RetainedMessage]:
        """The messages of all topics that the filter matches, in order of publication."""
        found = self._durable.match(topic_filter) + self._ephemeral.match(topic_filter)
        messages = [message for _, message in found]
        messages.sort(key=lambda message: (message.sequence, message.topic))
        return messages

    def walk(self, topic_filter: bytes) -> Iterator[RetainedMessage | None]:
        """Visit the durable messages that the filter matches, step by step.

        None stands for a node visited in vain. The messages may change between two steps: one that
        exists all the time is visited once, in no particular order.
        """
        for topic in self._durable.walk(topic_filter):
            yield None if topic is None else self._durable.get(topic)

    def match_ephemeral(self, topic_filter: bytes) -> list[RetainedMessage]:
        return [message for _, message in self._ephemeral.match(topic_filter)]

    def take_dirty(self, limit: int) -> list[tuple[bytes, RetainedMessage | None]]:
        """Take up to ``limit`` changed topics, oldest first, and mark them clean.

        None means that the row is to be deleted. If writing fails, pass the topics to
        ``mark_dirty``.
        """
        taken = [self._dirty.popitem(last=False)[0] for _ in range(min(limit, len(self._dirty)))]
        return [(topic, self._durable.get(topic)) for topic in taken]

    def mark_dirty(self, topics: Iterable[bytes]) -> None:
        self._dirty.update(dict.fromkeys(topics))

    def _clear(self, topic: bytes) -> None:
        cleared = self._durable.pop(topic)
        if cleared is not None:
            self._forget(cleared)
            self._dirty[topic] = None

    def _forget(self, message: RetainedMessage | None) -> None:
        if message is not None:
            self._by_sequence.pop(message.sequence, None)
            self.bytes -= _size(message)


def _size(message: RetainedMessage) -> int:
    headers = sum([len(name) + len(value) for name, value in message.headers])
    return len(message.topic) + len(message.payload) + headers
