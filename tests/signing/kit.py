"""Shared by the tests of signed publishes: a key and its signatures, HTTP pages, witnesses.

Keys are registered by HTTP, as administrators do it. By default, signatures of version 2 use the
clock of the broker, which is virtual in a test.
"""

import http.client
import json
import secrets
from typing import Any, NamedTuple, Self

import redis

from penstock.model.message import Signature
from penstock.obs.reasons import DropReason
from penstock.testing import Broker
from penstock.trust.faults import SignatureFault
from penstock.trust.signatures import key_pair, sign_1, sign_2
from penstock.wire.binary import client as frames
from penstock.wire.binary.events import Acked, Failed, ReceivedMessage
from penstock.wire.mqtt.envelope import sealed
from tests.conformance.wire_client import (
    WireClient,
    connack,
    connect_packet,
    publish,
    subscribe,
)
from tests.crossing.doors import BinaryClient

TIMEOUT_S = 10.0

INVALID = "Invalid signature or unknown key"


def unsigned_text(topic: bytes) -> str:
    return f"Topic '{topic.decode()}' requires signed publish (CMD_SIGNED_PUBLISH)"


def not_authorized_text(topic: bytes) -> str:
    return f"Key not authorized for topic '{topic.decode()}'"


# ── keys ──────────────────────────────────────────────────────────────────────────────────────


class Signer(NamedTuple):
    """A device: its key, and how it signs."""

    key_id: int
    seed: bytes

    @property
    def public_key(self) -> bytes:
        return key_pair(self.seed).public_key

    def sign_1(self, topic: bytes, payload: bytes) -> Signature:
        return sign_1(self.seed, self.key_id, topic, payload)

    def sign_2(
        self, topic: bytes, payload: bytes, signed_ms: int, nonce: bytes | None = None
    ) -> Signature:
        nonce = nonce or secrets.token_bytes(8)
        return sign_2(self.seed, self.key_id, topic, payload, signed_ms=signed_ms, nonce=nonce)

    def envelope_1(self, topic: bytes, payload: bytes) -> bytes:
        return sealed(self.sign_1(topic, payload), payload)

    def envelope_2(self, topic: bytes, payload: bytes, signed_ms: int) -> bytes:
        return sealed(self.sign_2(topic, payload, signed_ms), payload)


def now_ms(broker: Broker) -> int:
    """The broker's wall clock."""
    return broker.server.parts.wall_ms() + 1


def advance_ms(broker: Broker, milliseconds: int) -> None:
    """Advance the broker's clock by whole milliseconds, without rounding one away."""
    broker.clock.advance(milliseconds / 1000 + 1e-7)


def register(broker: Any, topics: str = "*", **more: Any) -> Signer:
    """Create a key and register it with the broker."""
    seed = secrets.token_bytes(32)
    key = ask(
        broker.port,
        "POST",
        "/keys",
        device="tester",
        topics=topics,
        public_key=key_pair(seed).public_key.hex(),
        **more,
    )
    return Signer(key["id"], seed)


def ask(port: int, method: str, path: str, **body: Any) -> Any:
    """Send a request to the administrative pages that must succeed."""
    status, document = request(port, method, path, body)
    assert status == 200, document
    return document


def request(
    port: int, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    """Return status and document of a request to the administrative pages."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


# ── clients ───────────────────────────────────────────────────────────────────────────────────


class Binary(BinaryClient):
    """A client of the binary protocol that returns answers as text."""

    def ask(self, frame: bytes) -> str:
        """Send a request; return "" if it was acknowledged, else the error text."""
        self.send(frame)
        answer = self.next()
        if isinstance(answer, Failed):
            return answer.text
        assert isinstance(answer, Acked), answer
        return ""

    def publish(self, topic: bytes, payload: bytes, signature: Signature | None = None) -> str:
        if signature is None:
            return self.ask(frames.publish(topic, payload, 1))
        return self.ask(frames.signed_publish(topic, payload, 1, signature))

    def subscribe(self, topic: bytes, client_id: bytes = b"") -> list[ReceivedMessage]:
        """Subscribe; return what arrived before the answer."""
        self.send(frames.subscribe(9, topic, client_id, accepts_version_2=True))
        received = []
        while isinstance(event := self.next(), ReceivedMessage):
            received.append(event)
        assert event == Acked([9])
        return received


def publish_signed(
    broker: Any, topic: bytes, payload: bytes, signature: Signature | None = None
) -> str:
    """Publish by the binary protocol on a new connection; return the answer."""
    with Binary(broker) as client:
        return client.publish(topic, payload, signature)


def mqtt(broker: Any, client_id: str = "", **options: Any) -> WireClient:
    """An MQTT client that is connected."""
    session_present = options.pop("session_present", False)
    client = WireClient("127.0.0.1", broker.port)
    client.send(connect_packet(client_id, **options))
    client.expect(connack(session_present=session_present))
    return client


def subscribed(broker: Any, topic_filter: bytes, qos: int = 0) -> WireClient:
    """An MQTT client that subscribes to a filter."""
    client = mqtt(broker)
    client.subscribe((topic_filter, qos))
    return client


# ── the result ────────────────────────────────────────────────────────────────────────────────


class Counts(NamedTuple):
    """What a broker has stored and refused."""

    stored: int
    dropped: int
    failures: dict[SignatureFault, int]

    @classmethod
    def of(cls, broker: Broker) -> Self:
        """Count when all that the broker was given is settled."""
        broker.clock.advance(0)
        server = broker.server
        return cls(
            server.store.next_sequence - 1,
            server.counters.drops[DropReason.SIGNATURE_REFUSED],
            dict(server.parts.gate.failures),
        )

    def since(self, before: Self) -> tuple[int, int, dict[str, int]]:
        """Messages stored and dropped since, and refusals by reason."""
        failures = {
            fault.value: count - before.failures[fault]
            for fault, count in self.failures.items()
            if count != before.failures[fault]
        }
        return self.stored - before.stored, self.dropped - before.dropped, failures


class Witnesses:
    """Subscribers of everything, by every protocol."""

    MARKER = b"witness/marker"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._mqtt = mqtt(broker)
        self._mqtt.send(subscribe(1, (b"#", 1), (b"$signed/#", 1)))
        self._mqtt.receive()
        self._binary = Binary(broker)
        self._binary.subscribe(b"#")
        self._redis = redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S)
        self._pubsub = self._redis.pubsub()
        self._pubsub.psubscribe("*")
        self._pubsub.get_message(timeout=TIMEOUT_S)

    def saw_nothing(self) -> bool:
        """Return whether only a marker that is published now reaches them."""
        assert publish_signed(self._broker, self.MARKER, b"m") == ""
        topics = [
            self._mqtt.receive_publish()[2],
            self._binary.next().topic,
            self._pubsub.get_message(timeout=TIMEOUT_S)["channel"],
        ]
        return topics == [self.MARKER] * 3

    def close(self) -> None:
        self._mqtt.abort()
        self._binary.close()
        self._pubsub.close()
        self._redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


__all__ = [
    "INVALID",
    "TIMEOUT_S",
    "Binary",
    "Counts",
    "Signer",
    "Witnesses",
    "advance_ms",
    "ask",
    "mqtt",
    "not_authorized_text",
    "now_ms",
    "publish",
    "publish_signed",
    "register",
    "request",
    "subscribed",
    "unsigned_text",
]
