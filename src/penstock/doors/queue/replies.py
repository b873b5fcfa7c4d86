"""Responses leave in the order of the requests, save those of requests that carry an id.

Whoever takes a request opens a **slot**, and answers it once, now or when the disk has: with the
frames of one response, or of a whole run of them. A slot whose requests have ids is nobody's
neighbour, and its frames leave at once. The others stand in a line, and leave when all before them
have left; so a long poll holds up the responses behind it, as the protocol has it.

A slot is what the rest of the broker calls an outlet, and so most commands are submitted with
the slot itself: ``outcome`` answers Ok, ``produced`` answers Produced, and if the disk refuses
(``close``) the response is an Error, and the connection goes on.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.doors.queue.faults import Fault, storage_fault
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Response


class Slot:
    """The place of the response to one request, or of the responses to a run of them."""

    __slots__ = ("_ids", "_is_stored_later", "_lapsed", "_leases", "_replies", "count", "frames")

    def __init__(self, replies: "Replies", count: int, ids: list[int] | None) -> None:
        self._replies = replies
        self.count = count
        self._ids = ids
        self._lapsed: set[int] = set()
        self._leases: list[int] | None = None
        self._is_stored_later = False
        self.frames: bytes | None = None
        """What leaves when its turn comes; None: not answered yet."""

    @property
    def request_id(self) -> int:
        """The id of a single request; 0: it has none."""
        return self._ids[0] if self._ids else 0

    def is_stored_later(self) -> None:
        """Messages of this slot are about to join the line to the disk."""
        self._is_stored_later = True
        self._replies.storing += 1

    def answer(self, frames: bytes) -> None:
        """Respond to all requests of this slot, with whole frames."""
        if self.frames is None:
            self.frames = frames
            self._replies.storing -= self._is_stored_later
            self._replies.answered(self, in_turn=self._ids is None)

    def ok(self) -> None:
        """Respond with Ok, and say which leases were over."""
        if not self._lapsed:
            self.answer(encode.ok_run(self.count, self._ids))
        elif self._leases is None:
            self.answer(encode.ok(sorted(self._lapsed), self.request_id))
        else:
            over = [[lease] if lease in self._lapsed else [] for lease in self._leases]
            pairs = zip(over, self._ids or [0] * self.count, strict=True)
            self.answer(b"".join([encode.ok(lapsed, number) for lapsed, number in pairs]))

    def each_names(self, leases: list[int]) -> "Slot":
        """Each request of this slot is about one of these leases."""
        self._leases = leases
        return self

    def lapsed(self, leases: list[int]) -> None:
        """These leases of the request were over."""
        self._lapsed |= set(leases)

    def fail(self, fault: Fault) -> None:
        """Respond with Error."""
        self._replies.refused(self.count)
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
        """Respond to a single request with any other message."""
        response.request_id = self.request_id
        self.answer(encode.response(response))

    # ── a completion ─────────────────────────────────────────────────────────────────────────────

    def done(self, _value: object) -> None:
        """What was asked for is on disk and applied."""
        self.ok()

    def produced(self, stretches: list[tuple[int, int]]) -> None:
        """What was produced is on disk, at these places."""
        frames = []
        first = 0
        for offset, count in stretches:
            ids = self._ids[first : first + count] if self._ids is not None else None
            frames.append(encode.produced_run(offset, count, ids))
            first += count
        self.answer(b"".join(frames))

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """What was asked for failed, and changed nothing."""
        self.fail(storage_fault(reason, detail))


class Replies:
    """The slots of one connection.

    ``send`` takes what may leave, ``refuse`` counts errors, and ``progressed`` is called when
    something was answered.
    """

    __slots__ = ("_line", "_progressed", "_refuse", "_send", "held_bytes", "storing", "unanswered")

    def __init__(
        self,
        send: Callable[[bytes], None],
        refuse: Callable[[int], None],
        progressed: Callable[[], None],
    ) -> None:
        self._send = send
        self._refuse = refuse
        self._progressed = progressed
        self._line: deque[Slot] = deque()
        self.unanswered = 0
        """Requests without a response, whether it is made or not."""
        self.held_bytes = 0
        """Bytes of responses that wait for others before them."""
        self.storing = 0
        """Slots whose messages are on their way to the disk."""

    def open(self, count: int = 1, ids: list[int] | None = None) -> Slot:
        """Make the slot of the next request, or of the next run of so many."""
        slot = Slot(self, count, ids)
        self.unanswered += count
        if ids is None:
            self._line.append(slot)
        return slot

    def answered(self, slot: Slot, *, in_turn: bool) -> None:
        """A slot has its frames: send them, and those that waited for it."""
        assert slot.frames is not None
        if not in_turn:
            self._leave(slot)
        else:
            self.held_bytes += len(slot.frames)
            line = self._line
            while line and line[0].frames is not None:
                self.held_bytes -= len(line[0].frames)
                self._leave(line.popleft())
        self._progressed()

    def _leave(self, slot: Slot) -> None:
        assert slot.frames is not None
        self.unanswered -= slot.count
        self._send(slot.frames)

    def refused(self, count: int) -> None:
        """Requests are answered with an error."""
        self._refuse(count)

    def clear(self) -> None:
        """Nobody waits for responses any more."""
        self._line.clear()
        self.held_bytes = self.unanswered = 0
