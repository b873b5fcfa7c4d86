"""Every way into the broker and every way out, behind one interface each.

A way in is a function that publishes one payload. A way out is a class that subscribes when it is
created and then returns what it received: payload, headers and signature, where supported.
"""

import contextlib
import http.client
import secrets
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import redis

from penstock.client import connect
from penstock.model.message import Signature
from penstock.testing import Broker
from penstock.trust.keys import Key
from penstock.trust.signatures import key_pair, sign_1, sign_2
from penstock.wire.binary import client as binary
from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.events import Acked, ReceivedMessage
from penstock.wire.mqtt.envelope import opened, sealed

TIMEOUT_S = 10.0
SEED = bytes(range(32))
KEY_ID = 7


class Got(NamedTuple):
    """A received message. ``headers`` and ``signature`` are None where a protocol has none."""

    topic: bytes
    payload: bytes
    headers: dict[bytes, bytes] | None = None
    signature: bytes | None = None


def register_key(broker: Broker) -> None:
    """Register the signing key with the broker."""
    key = Key(KEY_ID, key_pair(SEED).public_key, "tester", "", created_ms=1)
    server = broker.server
    broker.call(lambda: server.broker.keys.put(key))


Sign = Callable[[Broker, bytes, bytes], Signature]


def signature_1(_broker: Broker, topic: bytes, payload: bytes) -> Signature:
    return sign_1(SEED, KEY_ID, topic, payload)


def signature_2(broker: Broker, topic: bytes, payload: bytes) -> Signature:
    """By the broker's clock, which may be a virtual one."""
    signed_ms = broker.server.parts.wall_ms() + 1
    nonce = secrets.token_bytes(8)
    return sign_2(SEED, KEY_ID, topic, payload, signed_ms=signed_ms, nonce=nonce)


# ── ways in ───────────────────────────────────────────────────────────────────────────────────

WayIn = Callable[[Broker, bytes, bytes], None]


def _mqtt(qos: int, *, retain: bool = False) -> WayIn:
    def publish(broker: Broker, topic: bytes, payload: bytes) -> None:
        with connect("127.0.0.1", broker.port) as client:
            client.publish(topic.decode(), payload, qos, retain=retain)

    return publish


def _mqtt_signed(sign: Sign, qos: int) -> WayIn:
    def publish(broker: Broker, topic: bytes, payload: bytes) -> None:
        envelope = sealed(sign(broker, topic, payload), payload)
        with connect("127.0.0.1", broker.port) as client:
            client.publish("$signed/" + topic.decode(), envelope, qos)

    return publish


def _redis(broker: Broker) -> "redis.Redis[bytes]":
    return redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S)


def _resp_publish(broker: Broker, topic: bytes, payload: bytes) -> None:
    with _redis(broker) as client:
        client.publish(topic, payload)


def _xadd(fields: dict[bytes, bytes]) -> WayIn:
    def publish(broker: Broker, topic: bytes, payload: bytes) -> None:
        with _redis(broker) as client:
            client.xadd(topic, {b"payload": payload, **fields})

    return publish


def _produce(broker: Broker, topic: bytes, payload: bytes) -> None:
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.produce(topic.decode(), payload)


def _http(broker: Broker, topic: bytes, payload: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request("POST", "/topics/" + quote(topic), payload)
        assert connection.getresponse().status == 200


def _binary(sign: Sign | None = None) -> WayIn:
    def publish(broker: Broker, topic: bytes, payload: bytes) -> None:
        frame = binary.publish(topic, payload, 1)
        if sign is not None:
            frame = binary.signed_publish(topic, payload, 1, sign(broker, topic, payload))
        with BinaryClient(broker) as client:
            client.send(frame)
            assert client.next() == Acked([1])

    return publish


WAYS_IN: dict[str, WayIn] = {
    "mqtt qos 0": _mqtt(0),
    "mqtt qos 1": _mqtt(1),
    "mqtt qos 2": _mqtt(2),
    "mqtt retained": _mqtt(1, retain=True),
    "mqtt signed, qos 0": _mqtt_signed(signature_1, 0),
    "mqtt signed, qos 1": _mqtt_signed(signature_2, 1),
    "resp publish": _resp_publish,
    "xadd": _xadd({}),
    "xadd with headers": _xadd({b"unit": b"C", b"site": b"north"}),
    "queue produce": _produce,
    "http post": _http,
    "binary": _binary(),
    "binary signed 1": _binary(signature_1),
    "binary signed 2": _binary(signature_2),
}

HEADERS = {b"unit": b"C", b"site": b"north"}
"""Those of ``xadd with headers``."""


# ── ways out ──────────────────────────────────────────────────────────────────────────────────


class WayOut:
    """Subscribed from its creation until it is closed."""

    carries_headers = False
    carries_signature_1 = False
    carries_signature_2 = False

    def __init__(self, broker: Broker, topic: bytes) -> None:
        raise NotImplementedError

    def next(self) -> Got:
        """Wait for one message."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the subscription."""


class _Mqtt(WayOut):
    qos = 0
    prefix = ""

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._client = connect("127.0.0.1", broker.port, timeout_s=TIMEOUT_S)
        self._client.subscribe([(self.prefix + topic.decode(), self.qos)])

    def next(self) -> Got:
        delivery = next(iter(self._client.messages(TIMEOUT_S)))
        return Got(delivery.topic.encode(), delivery.payload)

    def close(self) -> None:
        self._client.close()


class MqttQos0(_Mqtt):
    qos = 0


class MqttQos1(_Mqtt):
    qos = 1


class MqttQos2(_Mqtt):
    qos = 2


class MqttShared(_Mqtt):
    """The only member of a group."""

    qos = 1
    prefix = "$share/crossing/"


class MqttEnvelope(_Mqtt):
    """Subscribes to envelopes: it gets signed messages only."""

    prefix = "$signed/"
    carries_signature_1 = carries_signature_2 = True

    def next(self) -> Got:
        got = super().next()
        signature, payload = opened(got.payload)
        topic = got.topic.removeprefix(b"$signed/")
        return Got(topic, payload, signature=signature.signature)


class _PubSub(WayOut):
    protocol = 2

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._redis = redis.Redis(
            port=broker.port, protocol=self.protocol, socket_timeout=TIMEOUT_S
        )
        self._pubsub = self._redis.pubsub()
        self._subscribe(topic)
        assert self._message()["type"].endswith("subscribe")

    def _subscribe(self, topic: bytes) -> None:
        self._pubsub.subscribe(topic)

    def _message(self) -> Any:
        message = self._pubsub.get_message(timeout=TIMEOUT_S)
        assert message is not None, "nothing came"
        return message

    def next(self) -> Got:
        message = self._message()
        return Got(message["channel"], message["data"])

    def close(self) -> None:
        self._pubsub.close()
        self._redis.close()


class Resp2(_PubSub):
    protocol = 2


class Resp3(_PubSub):
    protocol = 3


class RespPattern(_PubSub):
    def _subscribe(self, topic: bytes) -> None:
        self._pubsub.psubscribe(topic[:-1] + b"?")


class _Stream(WayOut):
    carries_headers = carries_signature_1 = carries_signature_2 = True

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._redis = _redis(broker)
        self._topic = topic

    def _read(self) -> Any:
        raise NotImplementedError

    def next(self) -> Got:
        ((topic, [(_id, fields)]),) = self._read()
        headers = {
            name: value
            for name, value in fields.items()
            if name not in {b"payload", b"key_id", b"signature", b"signed_ms", b"nonce"}
        }
        signature = fields.get(b"signature")
        return Got(
            topic,
            fields[b"payload"],
            headers,
            bytes.fromhex(signature.decode()) if signature else None,
        )

    def close(self) -> None:
        self._redis.close()


class XRead(_Stream):
    def _read(self) -> Any:
        return self._redis.xread({self._topic: "0"}, block=int(TIMEOUT_S * 900))


class XReadGroup(_Stream):
    def __init__(self, broker: Broker, topic: bytes) -> None:
        super().__init__(broker, topic)
        self._redis.xgroup_create(topic, "crossing", "0", mkstream=True)

    def _read(self) -> Any:
        streams = {self._topic: ">"}
        return self._redis.xreadgroup("crossing", "me", streams, block=int(TIMEOUT_S * 900))


class Pull(WayOut):
    """PULL from a group of the topic."""

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._redis = _redis(broker)
        self._topic = topic

    def next(self) -> Got:
        block_ms = int(TIMEOUT_S * 900)
        command = ("PULL", self._topic, "GROUP", "crossing", "BLOCK", block_ms)
        (payload,) = self._redis.execute_command(*command)
        return Got(self._topic, payload)

    def close(self) -> None:
        self._redis.close()


class QueuePoll(WayOut):
    """The queue protocol: headers, but no signatures."""

    carries_headers = True

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._client = connect([f"127.0.0.1:{broker.port}"])
        self._topic = topic.decode()
        self._client.create_group(self._topic, "crossing")

    def next(self) -> Got:
        (job,) = self._client.poll(self._topic, "crossing", wait_s=TIMEOUT_S)
        headers = {name.encode(): value for name, value in job.headers}
        return Got(job.topic.encode(), job.payload, headers)

    def close(self) -> None:
        self._client.close()


class _Binary(WayOut):
    client_id = b""
    accepts_version_2 = False
    carries_signature_1 = True

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self._client = BinaryClient(broker)
        wanted = self._filter(topic)
        frame = binary.subscribe(
            1, wanted, self.client_id, accepts_version_2=self.accepts_version_2
        )
        self._client.send(frame)
        self._history: list[Any] = []
        while (event := self._client.next()) != Acked([1]):
            self._history.append(event)

    def _filter(self, topic: bytes) -> bytes:
        return topic

    def next(self) -> Got:
        event = self._history.pop(0) if self._history else self._client.next()
        assert isinstance(event, ReceivedMessage), event
        assert event.sequence > 0
        signature = event.signature.signature if event.signature else None
        return Got(event.topic, event.payload, signature=signature)

    def close(self) -> None:
        self._client.close()


class BinaryExact(_Binary):
    pass


class BinaryDurable(_Binary):
    client_id = b"crossing"
    accepts_version_2 = True
    carries_signature_2 = True


class BinaryFilter(_Binary):
    def _filter(self, topic: bytes) -> bytes:
        return topic.rpartition(b"/")[0] + b"/#"


WAYS_OUT: dict[str, type[WayOut]] = {
    "mqtt qos 0": MqttQos0,
    "mqtt qos 1": MqttQos1,
    "mqtt qos 2": MqttQos2,
    "mqtt shared": MqttShared,
    "mqtt envelopes": MqttEnvelope,
    "resp 2": Resp2,
    "resp 3": Resp3,
    "resp pattern": RespPattern,
    "xread": XRead,
    "xreadgroup": XReadGroup,
    "pull": Pull,
    "queue poll": QueuePoll,
    "binary": BinaryExact,
    "binary durable": BinaryDurable,
    "binary filter": BinaryFilter,
}


class BinaryClient:
    """A socket with the binary protocol's codec."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)
        self._machine = BinaryClientMachine()
        self._events: list[Any] = []

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def next(self) -> Any:
        """The next frame."""
        while not self._events:
            data = self._socket.recv(65_536)
            assert data, "the broker closed the connection"
            self._events += self._machine.receive(data)
        return self._events.pop(0)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
