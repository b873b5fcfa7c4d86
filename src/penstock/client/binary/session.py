"""The protocol state of a binary client, over any number of connections.

There is no socket, no clock and no randomness here. The link makes a request (``publish``,
``subscribe``, …), sends what ``data_to_send`` returns and gives what it reads to ``receive``, which
returns events. It calls ``connected`` when a connection begins; requests may be made at any time.

**Replies come in the order of requests.** An ERROR does not say which request it refuses, so
``_in_flight`` is a queue: every ACK, PONG and ERROR answers its first request. ERRORs that are no
answers are recognised by their text (``wire.binary.errors``): notices, that retention removed
messages or that a right was withdrawn, and the farewell of a broker that is about to close the
connection.

**A new connection begins** with, in this order:

1. SUBSCRIBE for each topic: the broker resumes where its acknowledgements end;
2. the acknowledgements that are not confirmed (``ack_tracker``);
3. requests that were not answered, in their order, then later ones.

So a publish whose ACK was lost is sent twice, with the same sequence. Signed ones are signed again,
as the broker accepts each signature once.

**HELLO** goes first, if the session has one, and nothing waits for its answer. A broker that grants
it stores what is sent twice once, and its errors name what they are; an older one answers ``Unknown
command``, and publishing is *at least once*.

``receive`` raises when a retry is pointless: the client id was taken over, the other end is not a
broker, a subscription that was granted is refused.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from penstock.client.binary.ack_tracker import AckTracker
from penstock.client.errors import BrokerProtocolError, RefusedError, TakenOverError
from penstock.client.payload import check_payload
from penstock.errors import LocalProtocolError, PenstockError
from penstock.model.message import Signature
from penstock.wire.binary import client, encode
from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.errors import ErrorCode, code_of_text, code_of_word
from penstock.wire.binary.events import (
    Acked,
    BinaryPong,
    BinaryWelcome,
    Failed,
    ReceivedMessage,
)
from penstock.wire.binary.fields import HelloFields, SubscribeFields, WelcomeFields
from penstock.wire.binary.frame import PublishFlag
from penstock.wire.violation import Violation

Signer: TypeAlias = Callable[[bytes, bytes], Signature]  # of a topic and a payload


class Kind(Enum):
    """Kinds of requests."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    PING = "ping"
    HELLO = "hello"


_NOT_ACKED: Final = {Kind.PING, Kind.HELLO}


class Request(msgspec.Struct, eq=False):
    """A request, which the broker answers once."""

    kind: Kind
    sequence: int
    topic: bytes
    payload: bytes
    retain: bool = False
    frame: bytes = b""
    mark: int = 0  # of a PING: the acknowledgements that its PONG confirms
    is_done: bool = False
    refusal: PenstockError | None = None
    when_done: Callable[[], None] | None = None

    def check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def finish(self, refusal: PenstockError | None = None) -> None:
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

_ADVICE: Final = (
    ("Topic '", "give the publisher a signing_key whose version the topic accepts"),
    ("Invalid signature", "is the key registered, in force, and this its secret?"),
    ("Key not authorized", "the key's topics do not include this one"),
    ("Signature", "check the clock of this machine"),
    ("Too many signed", "try again later"),
    ("Message too large", "the broker's limits.frame_bytes_max says how large a frame may be"),
    (
        "Not authorized for",
        "penstock acl check USER ACTION TOPIC names the rule; is credentials= set?",
    ),
    ("The right to '", "an administrator changed the rules of this user"),
    ("Cannot subscribe", "choose another topic or client id, or unsubscribe from some"),
)  # by the beginning of a refusal


def _refused(text: str, code: ErrorCode | None) -> RefusedError:
    advice = next((advice for start, advice in _ADVICE if text.startswith(start)), "")
    refusal = RefusedError(f"the broker refused: {text}", advice)
    refusal.code = code.word if code is not None else ""
    return refusal


def _not_a_broker(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the answer is not in the binary protocol ({detail})", "is this the address of a broker?"
    )


class BinarySession:
    """See the module. With a ``client_id`` the broker remembers what was acknowledged."""

    def __init__(
        self,
        client_id: str = "",
        sign: Signer | None = None,
        hello: HelloFields | None = None,
        fields: SubscribeFields | None = None,
    ) -> None:
        """``hello``: what to ask brokers for; ``fields``: of all subscriptions."""
        self.granted = WelcomeFields()  # by the broker of this connection
        self._hello = hello
        self._fields = fields
        self.acks = AckTracker()
        self.farewell = ""  # the broker's last text before it closed the connection
        self.unanswered_bytes = 0  # payloads of publishes that are not answered
        self._client_id = client_id.encode(errors="surrogateescape")
        self._sign = sign
        self._machine = BinaryClientMachine()
        self._last_sequence = 0
        self._subscribed: dict[bytes, Request] = {}
        self._outgoing: list[bytes] = []
        self._waiting: deque[Request] = deque()  # not sent yet, on this connection
        self._in_flight: deque[Request] = deque()
        self._confirming: Request | None = None

    @property
    def unanswered(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    # ── Requests; invalid ones are a ``LocalProtocolError`` ───────────────────────────────────

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> Request:
        check_payload(payload)
        request = self._ask(Kind.PUBLISH, topic, payload, retain=retain)
        self.unanswered_bytes += len(payload)
        return request

    def try_publish(self, topic: str, payload: bytes) -> Request:
        """Publish; an invalid request is returned as a refused one."""
        try:
            return self.publish(topic, payload)
        except LocalProtocolError as error:
            request = Request(Kind.PUBLISH, 0, b"", b"")
            request.finish(error)
            return request

    def subscribe(self, topic: str) -> Request:
        """Subscribe, on all connections; done when the history was sent."""
        request = self._ask(Kind.SUBSCRIBE, topic)
        self._subscribed[request.topic] = request
        return request

    def follow(self, topic: str) -> None:
        """Subscribe without waiting: a refusal ends the session."""
        self.subscribe(topic).is_done = True

    def unsubscribe(self, topic: str) -> Request:
        request = self._ask(Kind.UNSUBSCRIBE, topic)
        self._subscribed.pop(request.topic, None)
        return request

    def barrier(self) -> Request:
        """Send a PING; done when all acknowledgements up to now are on the broker's disk."""
        return self._ask(Kind.PING)

    def _ask(
        self, kind: Kind, topic: str = "", payload: bytes = b"", *, retain: bool = False
    ) -> Request:
        name = topic.encode(errors="surrogateescape")
        request = Request(kind, self._last_sequence + 1, name, payload, retain)
        request.frame = self._encoded(request)
        self._last_sequence += 1
        self._waiting.append(request)
        return request

    def _encoded(self, request: Request) -> bytes:
        sequence, topic, payload = request.sequence, request.topic, request.payload
        match request.kind:
            case Kind.PUBLISH if self._sign is not None and request.retain:
                raise LocalProtocolError("a signed message cannot be retained")
            case Kind.PUBLISH if self._sign is not None:
                return client.signed_publish(topic, payload, sequence, self._sign(topic, payload))
            case Kind.PUBLISH if request.retain:
                return client.publish_2(topic, payload, sequence, PublishFlag.RETAIN)
            case Kind.PUBLISH:
                return client.publish(topic, payload, sequence)
            case Kind.SUBSCRIBE:
                fields = self._fields or SubscribeFields()
                return client.subscribe(sequence, topic, self._client_id, fields=fields)
            case Kind.UNSUBSCRIBE:
                return client.unsubscribe(sequence, topic)
            case Kind.PING:
                return client.ping()
            case Kind.HELLO:
                assert self._hello is not None
                return client.hello(sequence, self._client_id, self._hello)

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def connected(self) -> None:
        """Start on a new connection: resume subscriptions, and repeat unanswered requests."""
        self._machine = BinaryClientMachine()
        self.farewell = ""
        self.acks.connection_lost()
        unanswered = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self._outgoing = []
        self.granted = WelcomeFields()
        if self._hello is not None:
            hello = Request(Kind.HELLO, 0, b"", b"")
            hello.frame = self._encoded(hello)
            self._send(hello)
        for request in self._subscribed.values():
            self._send(request)
        for request in unanswered:
            self._repeat(request)

    def _repeat(self, request: Request) -> None:
        if request.kind is Kind.HELLO:
            return  # each connection begins with its own
        if request.kind is Kind.UNSUBSCRIBE:
            request.finish()  # the subscription ended with its connection
        elif request.kind is not Kind.SUBSCRIBE:
            if self._sign is not None:
                request.frame = self._encoded(request)
            self._waiting.append(request)

    def data_to_send(self) -> bytes:
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
        events: list[SessionEvent] = []
        for event in self._machine.receive(data):
            match event:
                case ReceivedMessage():
                    if self.acks.arrived(event.sequence):
                        events.append(event)
                case Acked():
                    self._on_acked(event)
                case BinaryPong():
                    self._on_pong()
                case BinaryWelcome():
                    self._on_welcome(event)
                case Failed():
                    events += self._on_failed(event)
                case Violation():
                    raise _not_a_broker(event.detail)
        return events

    def _on_acked(self, event: Acked) -> None:
        for sequence in event.sequences:
            request = self._first_in_line("an ACK")
            if request.kind in _NOT_ACKED or request.sequence != sequence:
                raise _not_a_broker(f"an ACK of {sequence} out of turn")
            self._finish(request)

    def _on_pong(self) -> None:
        request = self._first_in_line("a PONG")
        if request.kind is not Kind.PING:
            raise _not_a_broker("a PONG out of turn")
        self.acks.confirm(request.mark)
        if request is self._confirming:
            self._confirming = None
        self._finish(request)

    def _on_welcome(self, event: BinaryWelcome) -> None:
        request = self._first_in_line("a WELCOME")
        if request.kind is not Kind.HELLO:
            raise _not_a_broker("a WELCOME out of turn")
        self.granted = event.fields
        self._finish(request)

    def _on_failed(self, event: Failed) -> Iterable[SessionEvent]:
        text = event.text
        code = code_of_word(event.code) if event.code else code_of_text(text)
        if code is ErrorCode.RETENTION and (notice := _LOST.fullmatch(text)):
            return (Lost(notice[2], int(notice[1])),)
        if code is ErrorCode.TAKEN_OVER:
            raise TakenOverError(
                f"another connection uses the client id {self._name}",
                "give each subscriber a client id of its own",
            )
        if code is ErrorCode.FOREIGN_CLIENT_ID:
            raise RefusedError(
                f"the client id {self._name} belongs to another user", "choose another client id"
            )
        if code is ErrorCode.WITHDRAWN:
            raise _refused(text, code)  # as a new connection's SUBSCRIBE would be
        is_answer = code.is_answer if code else not event.code or bool(event.sequence)
        if not is_answer or not self._in_flight:
            self.farewell = text
        elif self._in_flight[0].kind is Kind.HELLO:
            self._finish(self._in_flight.popleft())  # an older broker, or one without such an id
        else:
            self._refuse(self._in_flight.popleft(), _refused(text, code))
        return ()

    @property
    def _name(self) -> str:
        return self._client_id.decode(errors="replace")

    def _first_in_line(self, answer: str) -> Request:
        if not self._in_flight:
            raise _not_a_broker(f"{answer} of nothing")
        return self._in_flight.popleft()

    def _refuse(self, request: Request, refusal: RefusedError) -> None:
        if request.kind is Kind.SUBSCRIBE:
            self._subscribed.pop(request.topic, None)
            if request.is_done:
                raise refusal  # it was granted on an earlier connection: no caller waits for it
        self._finish(request, refusal)

    def _finish(self, request: Request, refusal: RefusedError | None = None) -> None:
        if request.kind is Kind.PUBLISH:
            self.unanswered_bytes -= len(request.payload)
            request.frame = request.payload = b""  # the caller may keep the request
        request.finish(refusal)
