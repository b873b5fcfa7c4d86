"""Reading on before anybody asks: a desk with a backlog has the next messages at hand.

Without this each deal would wait for a thread's round, and miss the commit that the
acknowledgements of the deal before have started. Half of what was read is used up when the next
lot is asked for. Only what is handed out in order of offsets is read ahead: who jumps around in a
topic would have the wrong messages.
"""

from collections.abc import Iterable

from penstock.errors import StorageError
from penstock.limits import MIB
from penstock.model.message import Message
from penstock.net.hub import Hub
from penstock.store.store import TopicRange

__all__ = ["ReadAhead"]

MESSAGES_MAX = 2_048
BYTES_MAX = MIB
"""What is read at a time; half as much again may be at hand."""


class ReadAhead:
    """Messages of one topic that one desk is about to hand out."""

    __slots__ = ("_end", "_hub", "_messages", "_reading", "_topic")

    def __init__(self, hub: Hub, topic: bytes) -> None:
        self._hub = hub
        self._topic = topic
        self._messages: dict[int, Message] = {}
        self._end = 0
        """Where reading goes on."""
        self._reading: object | None = None
        """Stands for the read that is under way, and counts."""

    def take(self, offsets: Iterable[int]) -> dict[int, Message]:
        """Those of some messages that were read; they are not kept any longer."""
        pop = self._messages.pop
        found = {offset: pop(offset, None) for offset in offsets} if self._messages else {}
        return {offset: message for offset, message in found.items() if message is not None}

    def go_on(self, offset: int, end: int) -> None:
        """See that what lies between is at hand before it is asked for."""
        if self._reading is not None or len(self._messages) > MESSAGES_MAX // 2:
            return
        if offset not in self._messages and offset != self._end:
            self.forget()
            self._end = offset
        if self._end < end:
            self._read(self._end)

    def _read(self, start: int) -> None:
        reading = self._reading = object()
        read, topic = self._hub.store.read_topic, self._topic

        def found(messages: TopicRange) -> None:
            if self._reading is reading:
                self._reading = None
                self._messages.update((m.offset, m) for m in messages.messages())
                self._end = max(messages.next_offset, start)

        def failed(_error: StorageError) -> None:
            if self._reading is reading:
                self._reading = None  # who needs the messages will meet the error

        self._hub.run_off_loop(lambda: read(topic, start, MESSAGES_MAX, BYTES_MAX), found, failed)

    def forget(self) -> None:
        """Nothing that was read is of use any more."""
        self._messages.clear()
        self._end = 0
        self._reading = None
