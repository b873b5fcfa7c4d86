"""Replies leave in the order of the requests, although some wait for the disk.

Publishes and acknowledgements wait for a commit. Everything else could be answered at once, but
waits for those before it, so a PONG says that the disk has all that was sent before the PING.

The pipeline keeps the order, so counting is enough: a waiting reply carries how many publishes and
acknowledgements were submitted before it. Requests of one kind are stored in order, and an
acknowledgement before the publishes behind it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.obs.printable import printable
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, fault


def not_authorized(topic: bytes, why: str = "") -> Fault:
    return fault(ErrorCode.NOT_AUTHORIZED, topic=printable(topic, 80), why=why)


class _Reply(NamedTuple):
    """Bytes that may leave when these numbers of requests are stored."""

    publishes: int
    acks: int
    data: bytes


class OrderedReplies:
    """``hurry``: a reply begins to wait for the disk; ``emptied``: none waits any more."""

    __slots__ = (
        "_acks_asked",
        "_acks_stored",
        "_emptied",
        "_hurry",
        "_publishes_asked",
        "_publishes_stored",
        "_send",
        "_waiting",
    )

    def __init__(
        self,
        send: Callable[[bytes], None],
        hurry: Callable[[], None],
        emptied: Callable[[], None],
    ) -> None:
        self._send = send
        self._hurry = hurry
        self._emptied = emptied
        self._publishes_asked = self._publishes_stored = 0
        self._acks_asked = self._acks_stored = 0
        self._waiting: deque[_Reply] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def await_publishes(self, count: int) -> None:
        self._publishes_asked += count

    def await_acknowledgement(self) -> None:
        self._acks_asked += 1

    def answer(self, data: bytes) -> None:
        reply = _Reply(self._publishes_asked, self._acks_asked, data)
        if self._is_due(reply):
            self._send(data)
        else:
            self._waiting.append(reply)
            self._hurry()

    def answer_last(self, data: bytes, end: Callable[[], None]) -> None:
        self._emptied = end
        self.answer(data)
        if not self._waiting:
            end()

    def published(self, sequences: list[int]) -> None:
        """Publishes are stored: acknowledge them, and send the replies between them."""
        waiting = self._waiting
        while waiting and waiting[0].publishes < self._publishes_stored + len(sequences):
            count = waiting[0].publishes - self._publishes_stored
            assert count, "a publish was stored before an acknowledgement in front of it"
            self._acknowledge(sequences[:count])
            sequences = sequences[count:]
        self._acknowledge(sequences)

    def _acknowledge(self, sequences: list[int]) -> None:
        self._publishes_stored += len(sequences)
        self._send(encode.acks(sequences))
        if self._waiting:
            self._send_due()

    def acknowledged(self) -> None:
        self._acks_stored += 1
        if self._waiting:
            self._send_due()

    def _send_due(self) -> None:
        waiting = self._waiting
        while waiting and self._is_due(waiting[0]):
            self._send(waiting.popleft().data)
        if not waiting:
            self._emptied()

    def _is_due(self, reply: _Reply) -> bool:
        return reply.publishes <= self._publishes_stored and reply.acks <= self._acks_stored

    def clear(self) -> None:
        self._waiting.clear()
