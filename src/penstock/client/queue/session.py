"""A client's side of the queue protocol, over as many connections as it takes.

There is no socket, no clock and no chance here; ``link`` and ``async_link`` put them around it. The
driver asks (``ask``), sends what ``data_to_send`` returns and gives what it reads to ``receive``.
It says when a connection begins (``connected``) and ends (``disconnected``); calls may be made at
any time, also without one.

**Who is answered.** Each request carries a number, and the broker answers with the same number in
any order, so that a long poll holds up nobody. An answer without a number comes from a broker that
knows none and answers in order: it belongs to the oldest call in flight. Therefore a call that was
given up stays in the line until it is answered.

**What happens to a call when the connection is lost** after it was sent, and perhaps done:

* It is sent again on the next connection if it ``repeats``: if doing it twice is as good as once.
  Nearly all do. A produce is known to the broker by producer and seq, and stored once. A poll that
  leases may leave behind the leases of the lost answer; they expire, and the messages come again.
* Else it fails with ``ConnectionLostError``: a poll with ``ack_mode="auto"``, whose lost answer
  held messages that count as done; a redrive of some of the dead letters.

**A node that does not lead** has done nothing, and says who does: the call goes there. If too few
nodes are up (``no_quorum``), it may yet be done: it is asked again if it repeats.

**Time.** A call fails when ``timeout_s`` have passed (and what the broker may take by right, as the
wait of a poll), whatever happened meanwhile; the error tells the last trouble there was. A broker
that says nothing while answers are due is asked whether it is there (``heartbeat``), and left if it
does not answer; in any case after half of the time, which leaves the other half for another one.
"""

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.client.errors import (
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    NoQuorumError,
    NotLeaderError,
    ReplyTimeoutError,
    queue_refused,
)
from penstock.client.queue.checks import check_timeout
from penstock.client.queue.heartbeat import CALL_PACE, Heartbeat, ping
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Error, Request, Response
from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.violation import Violation

T_co = TypeVar("T_co", covariant=True)


class QueueCall(Generic[T_co]):
    """Something that the broker answers once.

    ``expects`` names the kind of answer, and ``read`` makes the result of it.
    """

    __slots__ = (
        "_result",
        "deadline",
        "error",
        "expects",
        "frame",
        "grace_s",
        "is_done",
        "is_repeated",
        "number",
        "overdue_at",
        "read",
        "repeats",
        "request",
        "when_done",
    )

    def __init__(
        self,
        request: Request,
        expects: str,
        read: Callable[[Response], T_co],
        *,
        repeats: bool = True,
        grace_s: float = 0.0,
    ) -> None:
        self.request = request
        self.expects = expects
        self.read = read
        self.repeats = repeats
        self.grace_s = grace_s
        """How long the broker may take by right."""
        self.number = 0
        self.frame = b""
        self.deadline = 0.0
        self.overdue_at = 0.0
        """When an answer should have come; set when it is sent."""
        self.is_done = False
        self.is_repeated = False
        """Whether it may have been done before: it was sent, and the connection lost."""
        self.error: ClientError | None = None
        self.when_done: Callable[[], None] | None = None

    def result(self) -> T_co:
        """What the broker answered, once it is done; raises if that was an error."""
        if self.error is not None:
            raise self.error
        return self._result

    def answered(self, kind: str, response: Response) -> None:
        """Take the broker's answer."""
        if kind == self.expects:
            self._result = self.read(response)
            self._finish()
        elif kind == "error":
            self.fail(refusal(response.error))
        else:
            self.fail(_out_of_place(f"{kind or 'nothing'} instead of {self.expects}"))

    def fail(self, error: ClientError) -> None:
        """There is no result, and there will be none."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        if self.when_done is not None:
            self.when_done()


class QueueSession:
    """See the module."""

    def __init__(self, timeout_s: float, *, stale_reads: bool = False) -> None:
        check_timeout(timeout_s)
        self.timeout_s = timeout_s
        self._stale_reads = stale_reads
        self._patience_s = timeout_s / 2
        self._reader = ResponseReader()
        self._last_number = 0
        self._heard_at = 0.0
        self._heartbeat = Heartbeat(CALL_PACE)
        self._ping = b""
        """A ping that is to be sent."""
        self._trouble: ClientError | None = None
        """What was wrong with the last connection; None once the broker has answered."""
        self._waiting: list[QueueCall[object]] = []
        """Calls that were not sent yet, on this connection."""
        self._in_flight: dict[int, QueueCall[object]] = {}

    @property
    def is_wanting(self) -> bool:
        """Whether a connection is needed."""
        return bool(self._waiting)

    @property
    def has_ping(self) -> bool:
        """Whether a ping is to be sent."""
        return bool(self._ping)

    @property
    def is_idle(self) -> bool:
        """Whether no answer is due."""
        return not self._waiting and not self._in_flight

    # ── Calls ─────────────────────────────────────────────────────────────────────────────────

    def ask(self, call: QueueCall[object], now: float) -> None:
        """Send this with the next bytes."""
        self._last_number += 1
        call.number = call.request.request_id = self._last_number
        if self._stale_reads:
            call.request.stale = True
        call.frame = encode.request(call.request)
        call.deadline = now + self.timeout_s + call.grace_s
        self._waiting.append(call)

    def tick(self, now: float) -> bool:
        """Give up calls whose time is over; tell whether the connection seems dead."""
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
        """Whether the broker did not answer a ping; send one if it is time."""
        due = [call for call in self._in_flight.values() if not call.is_done]
        if not due:
            return False
        if self._heartbeat.is_due(now):
            self._last_number += 1
            self._ping = ping(self._last_number)
        return self._heartbeat.is_dead(now, sum([len(call.frame) for call in due]))

    def _too_late(self) -> ClientError:
        if self._trouble is not None:
            return copy.copy(self._trouble)  # each caller raises, and so changes, one of its own
        return ReplyTimeoutError(
            f"the broker has not answered for {self.timeout_s:g} s",
            "is it overloaded, or the network down? What was asked for may have been done",
        )

    def close(self, error: ClientError) -> None:
        """Fail whatever is under way."""
        for call in (*self._in_flight.values(), *self._waiting):
            if not call.is_done:
                call.fail(copy.copy(error))
        self._in_flight = {}
        self._waiting = []

    # ── Connections ───────────────────────────────────────────────────────────────────────────

    def connected(self, now: float) -> None:
        """Begin on a fresh connection."""
        self._reader = ResponseReader()
        self._heard_at = now
        self._heartbeat.heard(now)
        self._ping = b""

    def disconnected(self, error: ClientError) -> None:
        """The connection, or an attempt to make one, failed: calls go back into the line."""
        self._trouble = error
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

    def data_to_send(self, now: float) -> bytes:
        """Hand over what must be sent next, on a connection that is open."""
        waiting, self._waiting = self._waiting, []
        asked, self._ping = self._ping, b""
        if waiting and not self._in_flight:
            self._heartbeat.expects(now)
        for call in waiting:
            call.overdue_at = now + self._patience_s + call.grace_s
            self._in_flight[call.number] = call
        return b"".join([asked, *(call.frame for call in waiting)])

    def receive(self, data: bytes, now: float) -> None:
        """Take what the broker sent. ``ClientError``: leave this connection.

        If it is a ``NotLeaderError``, its address is where to go.
        """
        self._heard_at = now
        self._heartbeat.heard(now)
        moved: ClientError | None = None
        for response in self._reader.receive(data):
            kind = response.WhichOneof("kind") or ""
            call = self._call_of(response)
            if call is None or call.is_done:
                continue
            if kind == "error" and _is_elsewhere(response.error, call):
                moved = refusal(response.error)
                call.is_repeated |= isinstance(moved, NoQuorumError)
                self._waiting.append(call)
            else:
                self._trouble = None
                call.answered(kind, response)
        if moved is not None:
            raise moved

    def _call_of(self, response: Response) -> QueueCall[object] | None:
        """Whom this answers, if that is still known."""
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
    """Make an exception of the broker's error."""
    return queue_refused(error.code, error.message, error.leader_addr, error.retry_after_ms)


def _lost_for_good() -> ConnectionLostError:
    return ConnectionLostError(
        "the connection was lost before the answer came, and asking again could do more than once",
        "look at what is there before you ask again",
    )


def _is_elsewhere(error: Error, call: QueueCall[object]) -> bool:
    """Whether to ask another node, or this one again: nothing was done, or it may be done twice."""
    if error.code == NotLeaderError.code:
        return True
    return error.code == NoQuorumError.code and call.repeats


def _out_of_place(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the broker sent an answer out of place ({detail})", "is this the address of a broker?"
    )
