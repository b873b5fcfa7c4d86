"""Responses leave in the order of the requests, except those of requests with an id.

Each request, or run of requests, opens a **slot** and answers it once, now or later, with whole
frames. A slot is a completion: most commands are submitted with the slot itself.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.doors.queue.faults import storage_fault
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.faults import Fault


class Slot:
    """The response to one request, or the responses to a run of them."""

    __slots__ = ("_ids", "_is_stored_later", "_lapsed", "_leases", "_replies", "count", "frames")

    def __init__(self, replies: "ResponseQueue", count: int, ids: list[int] | None) -> None:
        self._replies = replies
        self.count = count
        self._ids = ids
        self._lapsed: set[int] = set()
        self._leases: list[int] | None = None
        self._is_stored_later = False
        self.frames: bytes | None = None  # None: not answered yet

    @property
    def request_id(self) -> int:
        return self._ids[0] if self._ids else 0

    def is_stored_later(self) -> None:
        """The messages of this slot are about to be journaled."""
        self._is_stored_later = True
        self._replies.storing += 1

    def answer(self, frames: bytes) -> None:
        if self.frames is None:
            self.frames = frames
            self._replies.storing -= self._is_stored_later
            self._replies.answered(self, in_turn=self._ids is None)

    def ok(self) -> None:
        """Respond with Ok, which names the leases that were over."""
        if not self._lapsed:
            self.answer(encode.ok_run(self.count, self._ids))
        elif self._leases is None:
            self.answer(encode.ok(sorted(self._lapsed), self.request_id))
        else:
            over = [[lease] if lease in self._lapsed else [] for lease in self._leases]
            pairs = zip(over, self._ids or [0] * self.count, strict=True)
            self.answer(b"".join([encode.ok(lapsed, number) for lapsed, number in pairs]))

    def each_names(self, leases: list[int]) -> "Slot":
        """Each request of this slot names one of these leases."""
        self._leases = leases
        return self

    def lapsed(self, leases: list[int]) -> None:
        self._lapsed |= set(leases)

    def is_refused(self, fault: Fault | None) -> bool:
        if fault is not None:
            self.fail(fault)
        return fault is not None

    def fail(self, fault: Fault) -> None:
        self._replies.refuse(self.count)
        make = partial(
            encode.error,
            fault.code,
            fault.text,
            leader_addr=fault.leader_addr,
            retry_after_ms=fault.retry_ms,
        )
        if self._ids is None:
            self.answer(make() * self.count)
        else:
            self.answer(b"".join([make(request_id=request_id) for request_id in self._ids]))

    def respond(self, response: Response) -> None:
        response.request_id = self.request_id
        self.answer(encode.response(response))

    def done(self, _value: object) -> None:
        self.ok()

    def produced(self, stretches: list[tuple[int, int]]) -> None:
        frames = []
        first = 0
        for offset, count in stretches:
            ids = self._ids[first : first + count] if self._ids is not None else None
            frames.append(encode.produced_run(offset, count, ids))
            first += count
        self.answer(b"".join(frames))

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self.fail(storage_fault(reason, detail))


class ResponseQueue:
    """The slots of one connection; ``progressed`` is called when something was answered."""

    __slots__ = ("_progressed", "_send", "_slots", "held_bytes", "refuse", "storing", "unanswered")

    def __init__(
        self,
        send: Callable[[bytes], None],
        refuse: Callable[[int], None],
        progressed: Callable[[], None],
    ) -> None:
        self._send = send
        self.refuse = refuse
        self._progressed = progressed
        self._slots: deque[Slot] = deque()
        self.unanswered = 0  # requests whose response has not left
        self.held_bytes = 0  # of responses that wait for earlier ones
        self.storing = 0  # slots whose messages are not on disk yet

    def open(self, count: int = 1, ids: list[int] | None = None) -> Slot:
        slot = Slot(self, count, ids)
        self.unanswered += count
        if ids is None:
            self._slots.append(slot)
        return slot

    def answered(self, slot: Slot, *, in_turn: bool) -> None:
        assert slot.frames is not None
        if not in_turn:
            self._leave(slot)
        else:
            self.held_bytes += len(slot.frames)
            slots = self._slots
            while slots and slots[0].frames is not None:
                self.held_bytes -= len(slots[0].frames)
                self._leave(slots.popleft())
        self._progressed()

    def _leave(self, slot: Slot) -> None:
        assert slot.frames is not None
        self.unanswered -= slot.count
        self._send(slot.frames)

    def clear(self) -> None:
        self._slots.clear()
        self.held_bytes = self.unanswered = 0
