"""Retained messages for a subscriber that wants them before anything else of its subscription.

There may be a million of them, so they are looked for step by step, in turn with other work
(``Turns.share``), and while the client reads slowly the search waits. New messages may come in
between: the subscription is live already, so that nothing is missed.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.core.retained import Retained, RetainedMessage
from penstock.doors.binary.frames import MessageFrames
from penstock.net.turns import Turns
from penstock.obs.reasons import DisconnectReason

VISITS = 256  # topics visited per step: less than 1 ms


class RetainedReader(Protocol):
    """The connection that they are sent to."""

    reason: DisconnectReason | None  # None while it is open

    def send(self, data: bytes) -> None: ...
    def is_full(self) -> bool: ...


class RetainedFirst:
    """The retained messages for one subscription. ``go_on`` when the client has read."""

    __slots__ = (
        "_done",
        "_found",
        "_frames",
        "_is_searching",
        "_may_receive",
        "_now_ms",
        "_reader",
        "_turns",
        "sent",
    )

    def __init__(
        self,
        retained: Retained,
        topic_filter: bytes,
        reader: RetainedReader,
        frames: MessageFrames,
        may_receive: Callable[[bytes], bool],
        done: Callable[[int], None],
        *,
        turns: Turns,
        now_ms: int,
    ) -> None:
        """``done`` is called, with their number, when all have been sent."""
        self._found = _walk(retained, topic_filter)
        self._reader = reader
        self._frames = frames
        self._may_receive = may_receive
        self._done: Callable[[int], None] | None = done
        self._turns = turns
        self._now_ms = now_ms
        self._is_searching = False
        self.sent = 0

    def go_on(self) -> None:
        if self._done is not None and not self._is_searching:
            self._is_searching = True
            self._turns.share(self._search())

    def _search(self) -> Iterator[None]:
        visits = 0
        while self._reader.reason is None and not self._reader.is_full():
            try:
                message = next(self._found)
            except StopIteration:
                self._end()
                break
            if message is not None:
                self._send(message)
            visits += 1
            if visits % VISITS == 0:
                yield
        self._is_searching = False

    def _send(self, message: RetainedMessage) -> None:
        topic, payload = message.topic, message.payload
        if not message.is_expired(self._now_ms) and self._may_receive(topic):
            self._reader.send(self._frames.of_retained(topic, payload, message.sequence))
            self.sent += 1

    def _end(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(self.sent)


def _walk(retained: Retained, topic_filter: bytes) -> Iterator[RetainedMessage | None]:
    yield from retained.walk(topic_filter)
    yield from retained.match_ephemeral(topic_filter)
