"""Read-ahead: a dispatcher with a backlog reads the next messages before it needs them.

Without this each round would wait for a reader thread and miss the commit that the acknowledgements
of the previous round started. The next read starts when half of the last one is used up. Messages
are read ahead only while they are dispatched in the order of their offsets.
"""

from collections.abc import Iterable

from penstock.dispatch.parts import DispatchParts
from penstock.errors import StorageError
from penstock.limits import MIB
from penstock.model.message import Message

MESSAGES_MAX = 2_048
BYTES_MAX = MIB
"""What is read at a time; half as much again may be in memory."""


class ReadAhead:
    """Messages of one topic that one dispatcher will need next."""

    __slots__ = ("_end", "_messages", "_parts", "_reading", "_topic")

    def __init__(self, parts: DispatchParts, topic: bytes) -> None:
        self._parts = parts
        self._topic = topic
        self._messages: dict[int, Message] = {}
        self._end = 0  # where reading goes on
        self._reading: object | None = None  # identifies the running read

    def take(self, offsets: Iterable[int]) -> dict[int, Message]:
        """Remove and return those of the messages that were read."""
        messages, pop = self._messages, self._messages.pop
        return {offset: pop(offset) for offset in offsets if offset in messages}

    def go_on(self, offset: int, end: int) -> None:
        """Read on if the next messages, up to ``end``, are not in memory."""
        if self._reading is not None or len(self._messages) > MESSAGES_MAX // 2:
            return
        if offset not in self._messages and offset != self._end:
            self.forget()
            self._end = offset
        if self._end < end:
            self._read(self._end)

    def _read(self, start: int) -> None:
        reading = self._reading = object()
        store, topic = self._parts.store, self._topic

        def read() -> tuple[dict[int, Message], int]:
            part = store.read_topic(topic, start, MESSAGES_MAX, BYTES_MAX)
            return {message.offset: message for message in part.messages()}, part.next_offset

        def found(messages_and_end: tuple[dict[int, Message], int]) -> None:
            if self._reading is reading:
                self._reading = None
                messages, end = messages_and_end
                self._messages |= messages
                self._end = max(end, start)

        def failed(_error: StorageError) -> None:
            if self._reading is reading:
                self._reading = None  # the dispatcher will meet the error when it reads

        self._parts.readers.run(read, found, failed)

    def forget(self) -> None:
        self._messages.clear()
        self._end = 0
        self._reading = None
