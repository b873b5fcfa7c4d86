"""The protocol state of a queue client, over any number of connections.

There is no socket, no clock and no randomness here. The link asks (``ask``), sends what
``data_to_send`` returns and gives what it reads to ``receive``. It reports when a connection begins
(``connected``) and ends (``disconnected``); calls may be made at any time.

**Matching answers.** Each request carries a number, and the broker answers with the same number in
any order, so that a long poll delays nothing. An answer without a number comes from a broker that
knows none and answers in order: it belongs to the oldest call in flight. Therefore a call that has
timed out stays in flight until it is answered.

**A lost connection** leaves calls that were sent and perhaps executed:

* A call that ``repeats`` is sent again on the next connection, because executing it twice is as
  good as once. Nearly all do. The broker recognises a produce by producer and seq, and stores it
  once. A repeated poll may leave leases behind; they expire, and the jobs come again.
* Any other fails with ``ConnectionLostError``: a poll with ``ack_mode="auto"``, whose lost answer
  held jobs that count as done; a redrive of some of the dead letters.

**A node that does not lead** has executed nothing and names the leader: the call goes there. If too
few nodes are up (``no_quorum``), the outcome is unknown: the call is asked again if it repeats.

**Time.** A call fails after ``timeout_s`` (plus the wait of a poll), whatever happened meanwhile;
the error is the last one of the connection. A broker that is silent while answers are due is pinged
(``heartbeat``), and left if it does not answer; in any case after half of the time, which leaves
the other half for another node.
"""

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from penstock.client.errors import (
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    LoginFailedError,
    NoQuorumError,
    NotAuthorizedError,
    NotLeaderError,
    ReplyTimeoutError,
    queue_refused,
)
from penstock.client.queue.checks import span_milliseconds
from penstock.client.queue.heartbeat import CALL_PACE, Heartbeat, ping
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Error, Request, Response
from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.violation import Violation

T_co = TypeVar("T_co", covariant=True)


class QueueCall(msgspec.Struct, Generic[T_co], eq=False):
    """A request, which the broker answers once.

    ``expects`` names the kind of answer, and ``read`` makes the result of it.
    """

    request: Request
    expects: str
    read: Callable[[Response], T_co]
    repeats: bool = True
    grace_s: float = 0.0  # added to the time limit
    number: int = 0
    frame: bytes = b""
    deadline: float = 0.0
    overdue_at: float = 0.0  # when the answer should have come; set when it is sent
    is_done: bool = False
    is_repeated: bool = False  # it may have been executed before
    error: ClientError | None = None
    results: tuple[T_co, ...] = ()  # one, once it is done without an error
    when_done: Callable[[], None] | None = None

    def result(self) -> T_co:
        """Return the answer, once it is done; raise if that was an error."""
        if self.error is not None:
            raise self.error
        return self.results[0]

    def answered(self, kind: str, response: Response) -> None:
        if kind == self.expects:
            self.results = (self.read(response),)
            self._finish()
        elif kind == "error":
            self.fail(refusal(response.error))
        else:
            self.fail(_out_of_place(f"{kind or 'nothing'} instead of {self.expects}"))

    def fail(self, error: ClientError) -> None:
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        if self.when_done is not None:
            self.when_done()


class QueueSession:
    """See the module."""

    def __init__(self, timeout_s: float, *, stale_reads: bool = False) -> None:
        span_milliseconds("timeout_s", timeout_s)
        self.timeout_s = timeout_s
        self._stale_reads = stale_reads
        self._patience_s = timeout_s / 2
        self._reader = ResponseReader()
        self._last_number = 0
        self._heard_at = 0.0
        self._heartbeat = Heartbeat(CALL_PACE)
        self._ping = b""  # to be sent
        self._last_error: ClientError | None = None  # of the connection; None after an answer
        self._waiting: list[QueueCall[object]] = []  # not sent yet, on this connection
        self._in_flight: dict[int, QueueCall[object]] = {}

    @property
    def is_wanting(self) -> bool:
        return bool(self._waiting)

    @property
    def has_ping(self) -> bool:
        return bool(self._ping)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._in_flight

    # ── Calls ─────────────────────────────────────────────────────────────────────────────────

    def ask(self, call: QueueCall[object], now: float) -> None:
        self._last_number += 1
        call.number = call.request.request_id = self._last_number
        if self._stale_reads:
            call.request.stale = True
        call.frame = encode.request(call.request)
        call.deadline = now + self.timeout_s + call.grace_s
        self._waiting.append(call)

    def tick(self, now: float) -> bool:
        """Fail calls whose time is over; return whether the connection seems dead."""
        is_silent = self._heard_at + self._patience_s <= now
        is_overdue = False
        for call in (*self._in_flight.values(), *self._waiting):
            if not call.is_done:
                is_overdue |= 0.0 < call.overdue_at <= now
                if call.deadline <= now:
                    call.fail(self._too_late())
        self._waiting = [call for call in self._waiting if not call.is_done]
        return (is_silent and is_overdue) or self._is_dead(now)

    def _is_dead(self, now: float) -> bool:
        """Whether the broker did not answer a ping; send one if it is due."""
        due = [call for call in self._in_flight.values() if not call.is_done]
        if not due:
            return False
        if self._heartbeat.is_due(now):
            self._last_number += 1
            self._ping = ping(self._last_number)
        return self._heartbeat.is_dead(now, sum([len(call.frame) for call in due]))

    def _too_late(self) -> ClientError:
        if self._last_error is not None:
            return copy.copy(self._last_error)  # raising changes it: each caller gets its own
        return ReplyTimeoutError(
            f"the broker has not answered for {self.timeout_s:g} s",
            "is it overloaded, or the network down? The outcome is unknown; retry",
        )

    def close(self, error: ClientError) -> None:
        for call in (*self._in_flight.values(), *self._waiting):
            if not call.is_done:
                call.fail(copy.copy(error))
        self._in_flight = {}
        self._waiting = []

    # ── Connections ───────────────────────────────────────────────────────────────────────────

    def connected(self, now: float) -> None:
        self._reader = ResponseReader()
        self._heard_at = now
        self._heartbeat.heard(now)
        self._ping = b""

    def disconnected(self, error: ClientError) -> None:
        """Note a loss or a failed attempt: calls in flight wait for the next connection."""
        self._last_error = error
        sent, self._in_flight = self._in_flight, {}
        again = []
        for call in sent.values():
            if call.is_done:
                continue
            if call.repeats:
                call.overdue_at = 0.0
                call.is_repeated = True
                again.append(call)
            else:
                call.fail(_lost_for_good())
        self._waiting = again + self._waiting
        if isinstance(error, LoginFailedError | NotAuthorizedError):
            self.close(error)  # of a login: the next attempt would be refused, too

    def data_to_send(self, now: float) -> bytes:
        waiting, self._waiting = self._waiting, []
        asked, self._ping = self._ping, b""
        if waiting and not self._in_flight:
            self._heartbeat.expects(now)
        for call in waiting:
            call.overdue_at = now + self._patience_s + call.grace_s
            self._in_flight[call.number] = call
        return b"".join([asked, *(call.frame for call in waiting)])

    def receive(self, data: bytes, now: float) -> None:
        """Process bytes of the broker; raise a ``ClientError`` to leave this connection."""
        self._heard_at = now
        self._heartbeat.heard(now)
        error: ClientError | None = None
        for response in self._reader.receive(data):
            kind = response.WhichOneof("kind") or ""
            call = self._call_of(response)
            if call is None or call.is_done:
                continue
            if kind == "error" and _goes_elsewhere(response.error, call):
                error = refusal(response.error)
                call.is_repeated |= isinstance(error, NoQuorumError)
                self._waiting.append(call)
            else:
                self._last_error = None
                call.answered(kind, response)
        if error is not None:
            raise error

    def _call_of(self, response: Response) -> QueueCall[object] | None:
        number = response.request_id
        if number:
            self._heartbeat.is_known = True  # it answers out of order
            return self._in_flight.pop(number, None)
        if not self._in_flight:
            raise _out_of_place("an answer to nothing")
        return self._in_flight.pop(next(iter(self._in_flight)))


class ResponseReader:
    """Cuts the bytes of one connection into responses."""

    def __init__(self) -> None:
        self._machine = QueueClientMachine()

    def receive(self, data: bytes) -> list[Response]:
        """Return the responses that are complete; raise if the bytes are not the protocol."""
        return [_valid(event) for event in self._machine.receive(data)]


def _valid(event: Response | Violation) -> Response:
    if isinstance(event, Violation):
        raise BrokerProtocolError(
            f"the answer is not in the queue protocol ({event.detail})",
            "is this the address of a broker?",
        )
    return event


def refusal(error: Error) -> ClientError:
    return queue_refused(error.code, error.message, error.leader_addr, error.retry_after_ms)


def _lost_for_good() -> ConnectionLostError:
    return ConnectionLostError(
        "the connection was lost before the answer came; a retry could execute it more than once",
        "outcome unknown; check it before you retry",
    )


def _goes_elsewhere(error: Error, call: QueueCall[object]) -> bool:
    """Whether to ask another node: nothing was executed, or it may be executed twice."""
    if error.code == NotLeaderError.code:
        return True
    return error.code == NoQuorumError.code and call.repeats


def _out_of_place(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the broker sent an answer out of place ({detail})", "is this the address of a broker?"
    )
