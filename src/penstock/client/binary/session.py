"""A client's side of the binary protocol, over as many connections as it takes.

There is no socket, no clock and no chance here; ``link`` and ``async_link`` put them around it. The
driver calls a wish (``publish``, ``subscribe``, …), sends what ``data_to_send`` returns and gives
what it reads to ``receive``, which tells what happened. It says when a new connection begins
(``connected``), the first one too; wishes may be made at any time, before it and without one.

**Replies come in the order of requests.** An ERROR does not say which request it refuses, so
``_in_flight`` is a line: every ACK, PONG and ERROR answers the first request in it. ERRORs that are
no answers are told apart by their texts: a notice that retention removed messages, and the farewell
of a broker that is about to hang up.

**What survives a connection**, and what begins the next one, in this order:

1. SUBSCRIBE for each topic: the broker resumes where its acknowledgements end;
2. the acknowledgements that are not confirmed (``acks``);
3. requests that were not answered, in their order, then those made since.

So a publish whose ACK was lost is sent twice: publishing is *at least once*. Signed ones are signed
anew, as the broker takes each signature once.

``receive`` raises when there is no point in coming back: the client id was taken over, the other
end is no broker, a subscription that was granted is refused.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from penstock.client.binary.ack_tracker import AckTracker
from penstock.client.errors import BrokerProtocolError, RefusedError, TakenOverError
from penstock.client.payload import check_payload
from penstock.errors import LocalProtocolError, PenstockError
from penstock.model.message import Signature
from penstock.wire.binary import client, encode
from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.events import Acked, BinaryPong, Failed, ReceivedMessage
from penstock.wire.violation import Violation

Signer: TypeAlias = Callable[[bytes, bytes], Signature]
"""Topic and payload to a fresh signature."""


class Kind(Enum):
    """What a request is."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    PING = "ping"


class Request:
    """Something that the broker answers once."""

    __slots__ = (
        "frame",
        "is_done",
        "kind",
        "mark",
        "payload",
        "refusal",
        "sequence",
        "topic",
        "when_done",
    )

    def __init__(self, kind: Kind, sequence: int, topic: bytes, payload: bytes) -> None:
        self.kind = kind
        self.sequence = sequence
        self.topic = topic
        self.payload = payload
        self.frame = b""
        self.mark = 0
        """Of a PING: the acknowledgements that its PONG confirms."""
        self.is_done = False
        self.refusal: PenstockError | None = None
        """Why the broker refused, once it is done; None if it did not."""
        self.when_done: Callable[[], None] | None = None

    def check(self) -> None:
        """Raise if it was refused."""
        if self.refusal is not None:
            raise self.refusal

    def finish(self, refusal: PenstockError | None = None) -> None:
        """It was answered."""
        self.is_done, self.refusal = True, refusal
        if self.when_done is not None:
            self.when_done()


class Lost(msgspec.Struct, frozen=True):
    """Retention removed messages of a topic before this subscriber had read them."""

    topic: str
    count: int


SessionEvent: TypeAlias = ReceivedMessage | Lost

# ── The broker's texts ────────────────────────────────────────────────────────────────────────

_LOST: Final = re.compile(r"(\d+) messages of '(.*)' were removed by retention unread", re.DOTALL)
_TAKEN_OVER: Final = "Another connection uses this client id"

_FAREWELLS: Final = frozenset(
    {
        "The broker's disk is full: not stored, send again later",
        "The broker's disk failed: not stored, send again later",
        "The broker is stopping",
        "The broker failed to serve this connection",
    }
)
"""What a broker says before it hangs up; the same client may come back."""

_ADVICE: Final = (
    ("Topic '", "give the publisher a signing_key whose version the topic accepts"),
    ("Invalid signature", "is the key registered, in force, and this its secret?"),
    ("Key not authorized", "the key's topics do not include this one"),
    ("Signature", "check the clock of this machine"),
    ("Too many signed", "try again later"),
    ("Message too large", "the broker's limits.frame_bytes_max says how large a frame may be"),
    ("Cannot subscribe", "choose another topic or client id, or unsubscribe from some"),
)
"""How refusals begin, and what to do about them."""


def _refused(text: str) -> RefusedError:
    advice = next((advice for start, advice in _ADVICE if text.startswith(start)), "")
    return RefusedError(f"the broker refused: {text}", advice)


def _not_a_broker(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the answer is not in the binary protocol ({detail})", "is this the address of a broker?"
    )


class BinarySession:
    """See the module. With a ``client_id`` the broker remembers what was acknowledged."""

    def __init__(self, client_id: str = "", sign: Signer | None = None) -> None:
        self.acks = AckTracker()
        self.farewell = ""
        """What the broker said before it hung up, if anything."""
        self.unanswered_bytes = 0
        """Payloads of publishes that are not answered."""
        self._client_id = client_id.encode(errors="surrogateescape")
        self._sign = sign
        self._machine = BinaryClientMachine()
        self._last_sequence = 0
        self._subscribed: dict[bytes, Request] = {}
        self._outgoing: list[bytes] = []
        self._waiting: deque[Request] = deque()
        """Requests that were not sent yet, on this connection."""
        self._in_flight: deque[Request] = deque()
        self._confirming: Request | None = None
        self._handlers: dict[type, Callable[[Any], Iterable[SessionEvent]]] = {
            Acked: self._on_acked,
            Failed: self._on_failed,
            BinaryPong: self._on_pong,
            ReceivedMessage: self._on_received,
            Violation: self._on_violation,
        }

    @property
    def unanswered(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting) + len(self._in_flight)

    # ── Wishes; what no broker would take is a ``LocalProtocolError`` here ────────────────────

    def publish(self, topic: str, payload: bytes) -> Request:
        """Publish; done when the broker's disk has it."""
        check_payload(payload)
        request = self._ask(Kind.PUBLISH, topic, payload)
        self.unanswered_bytes += len(payload)
        return request

    def try_publish(self, topic: str, payload: bytes) -> Request:
        """Publish; what no broker would take is refused as if one had."""
        try:
            return self.publish(topic, payload)
        except LocalProtocolError as error:
            request = Request(Kind.PUBLISH, 0, b"", b"")
            request.finish(error)
            return request

    def subscribe(self, topic: str) -> Request:
        """Subscribe, on this connection and all that follow; done when history was sent."""
        request = self._ask(Kind.SUBSCRIBE, topic)
        self._subscribed[request.topic] = request
        return request

    def follow(self, topic: str) -> None:
        """Subscribe, with nobody waiting for the answer: if the broker refuses, all ends."""
        self.subscribe(topic).is_done = True

    def unsubscribe(self, topic: str) -> Request:
        """Take it back."""
        request = self._ask(Kind.UNSUBSCRIBE, topic)
        self._subscribed.pop(request.topic, None)
        return request

    def barrier(self) -> Request:
        """Ask for a sign of life; done when all acknowledgements up to now are on disk."""
        return self._ask(Kind.PING)

    def _ask(self, kind: Kind, topic: str = "", payload: bytes = b"") -> Request:
        name = topic.encode(errors="surrogateescape")
        request = Request(kind, self._last_sequence + 1, name, payload)
        request.frame = self._encoded(request)
        self._last_sequence += 1
        self._waiting.append(request)
        return request

    def _encoded(self, request: Request) -> bytes:
        sequence, topic, payload = request.sequence, request.topic, request.payload
        match request.kind:
            case Kind.PUBLISH if self._sign is not None:
                return client.signed_publish(topic, payload, sequence, self._sign(topic, payload))
            case Kind.PUBLISH:
                return client.publish(topic, payload, sequence)
            case Kind.SUBSCRIBE:
                return client.subscribe(sequence, topic, self._client_id, accepts_version_2=True)
            case Kind.UNSUBSCRIBE:
                return client.unsubscribe(sequence, topic)
            case Kind.PING:
                return client.ping()

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def connected(self) -> None:
        """Begin on a fresh connection: resume subscriptions, and do again what was not answered."""
        self._machine = BinaryClientMachine()
        self.farewell = ""
        self.acks.connection_lost()
        unanswered = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self._outgoing = []
        for request in self._subscribed.values():
            self._send(request)
        for request in unanswered:
            self._do_again(request)

    def _do_again(self, request: Request) -> None:
        if request.kind is Kind.UNSUBSCRIBE:
            request.finish()  # the connection that had subscribed is gone
        elif request.kind is not Kind.SUBSCRIBE:
            if self._sign is not None:
                request.frame = self._encoded(request)
            self._waiting.append(request)

    def data_to_send(self) -> bytes:
        """Hand over what must be sent next, on a connection that is open."""
        acknowledgements = self.acks.take()
        if acknowledgements:
            self._outgoing.append(encode.acks(acknowledgements))
        if self.acks.is_confirmation_due and self._confirming is None:
            self._confirming = self.barrier()
        while self._waiting:
            self._send(self._waiting.popleft())
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def _send(self, request: Request) -> None:
        request.mark = self.acks.mark
        self._outgoing.append(request.frame)
        self._in_flight.append(request)

    def receive(self, data: bytes) -> list[SessionEvent]:
        """Take what the broker sent; tell what happened."""
        events: list[SessionEvent] = []
        for event in self._machine.receive(data):
            events += self._handlers[type(event)](event)
        return events

    # ── What the broker says ──────────────────────────────────────────────────────────────────

    def _on_acked(self, event: Acked) -> Iterable[SessionEvent]:
        for sequence in event.sequences:
            request = self._first_in_line("an ACK")
            if request.kind is Kind.PING or request.sequence != sequence:
                raise _not_a_broker(f"an ACK of {sequence} out of turn")
            self._finish(request)
        return ()

    def _on_pong(self, _event: BinaryPong) -> Iterable[SessionEvent]:
        request = self._first_in_line("a PONG")
        if request.kind is not Kind.PING:
            raise _not_a_broker("a PONG out of turn")
        self.acks.confirm(request.mark)
        if request is self._confirming:
            self._confirming = None
        self._finish(request)
        return ()

    def _on_received(self, event: ReceivedMessage) -> Iterable[SessionEvent]:
        return (event,) if self.acks.arrived(event.sequence) else ()

    def _on_failed(self, event: Failed) -> Iterable[SessionEvent]:
        text = event.text
        if notice := _LOST.fullmatch(text):
            return (Lost(notice[2], int(notice[1])),)
        if text == _TAKEN_OVER:
            raise TakenOverError(
                f"another connection uses the client id {self._client_id.decode(errors='replace')}",
                "give each subscriber a client id of its own",
            )
        if text in _FAREWELLS or not self._in_flight:
            self.farewell = text
        else:
            self._refuse(self._in_flight.popleft(), _refused(text))
        return ()

    def _on_violation(self, event: Violation) -> Iterable[SessionEvent]:
        raise _not_a_broker(event.detail)

    def _first_in_line(self, answer: str) -> Request:
        if not self._in_flight:
            raise _not_a_broker(f"{answer} of nothing")
        return self._in_flight.popleft()

    def _refuse(self, request: Request, refusal: RefusedError) -> None:
        if request.kind is Kind.SUBSCRIBE:
            self._subscribed.pop(request.topic, None)
            if request.is_done:
                raise refusal  # nobody waits for it, as on an earlier connection it was granted
        self._finish(request, refusal)

    def _finish(self, request: Request, refusal: RefusedError | None = None) -> None:
        if request.kind is Kind.PUBLISH:
            self.unanswered_bytes -= len(request.payload)
            request.frame = request.payload = b""  # whoever keeps the request need not keep these
        request.finish(refusal)
