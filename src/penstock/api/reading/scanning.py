"""Walking over messages of a topic, forwards or backwards, until a request has looked at enough."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

from penstock.api.reading.pace import Pace
from penstock.limits import MIB
from penstock.model.message import Message
from penstock.store.store import Store

MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 64 * MIB
SECONDS_MAX: Final = 2.0
AT_ONCE: Final = 1_000
AT_ONCE_BYTES: Final = 1 * MIB  # about what one read takes; a single message may have more


class Bounds:
    """What one request may look at; ``stopped`` says what was used up."""

    def __init__(
        self,
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
        seconds_max: float = SECONDS_MAX,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.scanned = 0
        self.stopped = ""
        self._bytes = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._clock = clock
        self._ends_at = clock() + seconds_max
        self._pace = Pace()

    def take(self, message: Message) -> None:
        """Look at one more."""
        self._pace()
        self.scanned += 1
        self._bytes += len(message.payload)

    @property
    def message_bytes(self) -> int:
        """Of a message, on average."""
        return max(self._bytes // max(self.scanned, 1), 1)

    def is_over(self) -> bool:
        """Whether to stop, once at least one message was looked at."""
        if not self.stopped and self.scanned:
            if self.scanned >= self._messages_max:
                self.stopped = "messages"
            elif self._bytes >= self._bytes_max:
                self.stopped = "bytes"
            elif self._clock() >= self._ends_at:
                self.stopped = "time"
        return bool(self.stopped)


def forwards(
    store: Store, topic: bytes, start: int, end: int, bounds: Bounds, at_once: int = AT_ONCE
) -> Iterator[Message]:
    """Messages of offsets ``start … end - 1``."""
    while start < end and not bounds.is_over():
        count = _count(bounds, min(at_once, end - start))
        found = store.read_topic(topic, start, count, AT_ONCE_BYTES)
        if found.next_offset <= start:
            return
        for message in found.messages():
            if message.offset >= end:
                return
            bounds.take(message)
            yield message
            if bounds.is_over():
                return
        start = found.next_offset


def backwards(
    store: Store, topic: bytes, start: int, end: int, bounds: Bounds, at_once: int = AT_ONCE
) -> Iterator[Message]:
    """The same from the last to the first."""
    while start < end and not bounds.is_over():
        first = max(start, end - _count(bounds, at_once))
        for message in reversed(_between(store, topic, first, end)):
            bounds.take(message)
            yield message
            if bounds.is_over():
                return
        end = first


def _count(bounds: Bounds, count: int) -> int:
    """So few that they are about as large as one read may be."""
    if not bounds.scanned:
        return min(count, 16)
    return max(1, min(count, AT_ONCE_BYTES // bounds.message_bytes))


def _between(store: Store, topic: bytes, start: int, end: int) -> list[Message]:
    messages: list[Message] = []
    while start < end:
        found = store.read_topic(topic, start, end - start, AT_ONCE_BYTES)
        messages += [message for message in found.messages() if message.offset < end]
        if found.next_offset <= start:
            break
        start = found.next_offset
    return messages
