"""Retained messages: the last one of each topic that asked for it, kept for subscribers to come.

Two kinds live side by side. **Durable** ones were published by clients; they count against
``count_max``, and each change leaves its topic *dirty* until a checkpoint takes it. **Ephemeral**
ones are the broker's own values (``$SYS``), true only while it runs: not counted, never dirty. A
topic is of one kind for good: the door refuses clients that publish under ``$SYS``.

``match`` answers in the order of publication. That order depends on the messages alone and not on
the history of the tree, so a broker that restored its checkpoint hands out the same packet ids to
the same retained messages as the one that crashed.

A delivery that waits knows its message by the sequence only; ``find`` answers for those that have
outlived their place in the journal. No two durable messages have the same sequence.

Dirty topics leave in the order in which they became dirty, and one that changes again keeps its
place: a checkpoint that takes as many as there were when it began has seen every one of them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from penstock.core.topic_tree import TopicTree
from penstock.errors import StorageDamaged
from penstock.limits import RETAINED_MAX


class RetainedMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message kept for its topic; the order of the fields is that of the row on disk."""

    topic: bytes
    payload: bytes
    qos: int
    time_ms: int
    sequence: int

    def encode(self) -> bytes:
        """Return the row that a checkpoint writes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, row: bytes) -> "RetainedMessage":
        """Return the message of a row; raise ``StorageDamaged`` if it is not one."""
        try:
            return msgspec.msgpack.decode(row, type=cls)
        except msgspec.DecodeError as error:
            raise StorageDamaged(f"a retained message's row cannot be read: {error}") from error


class Retained:
    """All retained messages. ``bytes`` is topics and payloads of the durable ones."""

    __slots__ = ("_by_sequence", "_count_max", "_dirty", "_durable", "_ephemeral", "bytes")

    def __init__(self, count_max: int = RETAINED_MAX) -> None:
        self._count_max = count_max
        self._durable: TopicTree[RetainedMessage] = TopicTree()
        self._ephemeral: TopicTree[RetainedMessage] = TopicTree()
        self._by_sequence: dict[int, RetainedMessage] = {}
        self._dirty: OrderedDict[bytes, None] = OrderedDict()
        self.bytes = 0

    @property
    def count(self) -> int:
        """How many durable messages are retained."""
        return len(self._durable)

    @property
    def dirty_count(self) -> int:
        """How many topics wait for a checkpoint."""
        return len(self._dirty)

    def admits(self, topic: bytes) -> bool:
        """Whether the limit allows a message of this topic; one that has one may always change it.

        To be asked before a message is journaled as retained. ``set`` does not ask: what the
        journal holds is settled, and replaying it must not depend on how full we are.
        """
        return self.count < self._count_max or self._durable.get(topic) is not None

    def set(self, message: RetainedMessage) -> None:
        """Retain a message instead of its topic's last one [MQTT-3.3.1-5].

        An empty payload removes the last one [MQTT-3.3.1-10] and is itself not kept
        [MQTT-3.3.1-11].
        """
        assert self._ephemeral.get(message.topic) is None
        if not message.payload:
            self._clear(message.topic)
            return
        self.restore(message)
        self._dirty[message.topic] = None

    def set_ephemeral(self, message: RetainedMessage) -> None:
        """Retain a value of the broker's own until it stops; an empty payload removes it."""
        assert self._durable.get(message.topic) is None
        if message.payload:
            self._ephemeral.set(message.topic, message)
        else:
            self._ephemeral.pop(message.topic)

    def restore(self, message: RetainedMessage) -> None:
        """Put back what a checkpoint holds: nothing becomes dirty."""
        self._forget(self._durable.get(message.topic))
        self._durable.set(message.topic, message)
        self._by_sequence[message.sequence] = message
        self.bytes += _size(message)

    def get(self, topic: bytes) -> RetainedMessage | None:
        """Return the message of one topic, None if there is none."""
        return self._durable.get(topic) or self._ephemeral.get(topic)

    def find(self, sequence: int) -> RetainedMessage | None:
        """Return the durable message of that sequence, None if its topic has another by now."""
        return self._by_sequence.get(sequence)

    def match(self, topic_filter: bytes) -> list[RetainedMessage]:
        """Return the messages of all topics that the filter matches, in order of publication."""
        found = self._durable.match(topic_filter) + self._ephemeral.match(topic_filter)
        messages = [message for _, message in found]
        messages.sort(key=lambda message: (message.sequence, message.topic))
        return messages

    def walk(self, topic_filter: bytes) -> Iterator[RetainedMessage | None]:
        """Go through the durable messages that the filter matches, place by place.

        None stands for a place that was looked at in vain. The messages may change between two
        steps: one that was there all the time is met once, in no particular order.
        """
        for topic in self._durable.walk(topic_filter):
            yield None if topic is None else self._durable.get(topic)

    def match_ephemeral(self, topic_filter: bytes) -> list[RetainedMessage]:
        """Return the broker's own values that the filter matches."""
        return [message for _, message in self._ephemeral.match(topic_filter)]

    def take_dirty(self, limit: int) -> list[tuple[bytes, RetainedMessage | None]]:
        """Return up to ``limit`` topics that changed, oldest first, and call them clean.

        None stands for a topic whose row is to be deleted. If the rows could not be written after
        all, give the topics to ``mark_dirty``.
        """
        taken = [self._dirty.popitem(last=False)[0] for _ in range(min(limit, len(self._dirty)))]
        return [(topic, self._durable.get(topic)) for topic in taken]

    def mark_dirty(self, topics: Iterable[bytes]) -> None:
        """Have the next checkpoint write these topics, whether or not they changed."""
        self._dirty.update(dict.fromkeys(topics))

    def _clear(self, topic: bytes) -> None:
        cleared = self._durable.pop(topic)
        if cleared is not None:
            self._forget(cleared)
            self._dirty[topic] = None

    def _forget(self, message: RetainedMessage | None) -> None:
        """Count a message no longer, nor find it: its topic has none now, or a new one."""
        if message is not None:
            self._by_sequence.pop(message.sequence, None)
            self.bytes -= _size(message)


def _size(message: RetainedMessage) -> int:
    return len(message.topic) + len(message.payload)
