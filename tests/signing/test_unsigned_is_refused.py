"""Topics that require signatures refuse unsigned publishes by every protocol.

Each way publishes one message and returns the error of its client: "" if it was accepted.
"""

import socket
from collections.abc import Callable, Iterator

import pytest
import redis

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.conformance.wire_client import (
    PINGREQ,
    PINGRESP,
    WireClient,
    connack,
    connect_packet,
    puback,
    publish,
    pubrec,
    wait_until,
)
from tests.signing.kit import (
    TIMEOUT_S,
    Counts,
    Witnesses,
    mqtt,
    now_ms,
    publish_signed,
    register,
    unsigned_text,
)

SIGNING = {
    "required": ["secure/*", "plant/+/commands", "q:sealed"],
    "rules": [
        {"filter": "strict/#", "versions": [2]},
        {"filter": "secure/open", "required": False},
    ],
}

GUARDED = [b"secure/a", b"secure/", b"secure/a/b", b"plant/7/commands", b"strict/x", b"q:sealed"]
FREE = [b"secure", b"Secure/a", b"secure/open", b"plant/7", b"xsecure/a", b"q:other"]

CLOSED = "closed"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(signing=SIGNING) as own:
        yield own


@pytest.fixture(scope="module")
def roomy_broker() -> Iterator[Broker]:
    """A separate broker: witnesses of the other would take its stored messages for unsigned ones."""
    with Broker(signing=SIGNING) as own:
        yield own


# ── the ways ──────────────────────────────────────────────────────────────────────────────────

Way = Callable[[Broker, bytes], str]


def _answered(client: WireClient, expected: bytes) -> str:
    """Whether the answer is the one to a publish that was accepted, or the end."""
    with client:
        answer = client.receive()
    assert answer in {expected, b""}, answer
    return "" if answer else CLOSED


def _mqtt(qos: int, *, retain: bool = False, payload: bytes = b"x") -> Way:
    def send(broker: Broker, topic: bytes) -> str:
        client = mqtt(broker)
        packet_id = 7 if qos else None
        packet = publish(topic, payload, qos=qos, packet_id=packet_id, retain=retain)
        client.send(packet if qos else packet + PINGREQ)
        return _answered(client, {0: PINGRESP, 1: puback(7), 2: pubrec(7)}[qos])

    return send


def _mqtt_will(broker: Broker, topic: bytes) -> str:
    """The client vanishes immediately; if its will was accepted, wait until it is published."""
    client = WireClient("127.0.0.1", broker.port)
    client.send(connect_packet("", will=(topic, b"x", 1, False)))
    before = Counts.of(broker).stored
    told = _answered(client, connack())
    if not told:
        wait_until(lambda: Counts.of(broker).stored == before + 1)
    return told


def _binary(broker: Broker, topic: bytes) -> str:
    return publish_signed(broker, topic, b"x")


def _resp(*words: bytes) -> Way:
    """A command in which TOPIC stands for the topic, QUEUE for its name without ``q:``."""

    def send(broker: Broker, topic: bytes) -> str:
        names = {b"TOPIC": topic, b"QUEUE": topic.removeprefix(b"q:")}
        with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
            try:
                client.execute_command(*(names.get(word, word) for word in words))
            except redis.ResponseError as error:
                return str(error)
        return ""

    return send


def _inline(broker: Broker, topic: bytes) -> str:
    with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as client:
        client.sendall(b"PUBLISH %b x\r\n" % topic)
        answer = client.recv(1_000).decode().rstrip()
    return answer.removeprefix("-ERR ") if answer.startswith("-") else ""


WAYS: dict[str, Way] = {
    "mqtt qos 0": _mqtt(0),
    "mqtt qos 1": _mqtt(1),
    "mqtt qos 2": _mqtt(2),
    "mqtt retained qos 0": _mqtt(0, retain=True),
    "mqtt retained qos 1": _mqtt(1, retain=True),
    "mqtt clearing what is retained": _mqtt(1, retain=True, payload=b""),
    "mqtt will": _mqtt_will,
    "resp publish": _resp(b"PUBLISH", b"TOPIC", b"x"),
    "resp inline": _inline,
    "resp xadd": _resp(b"XADD", b"TOPIC", b"*", b"payload", b"x"),
    "resp xadd of fields": _resp(b"XADD", b"TOPIC", b"*", b"unit", b"C"),
    "resp push": _resp(b"PUSH", b"QUEUE", b"x"),
    "binary publish": _binary,
}


def _pairs(topics: list[bytes]) -> list[tuple[str, bytes]]:
    """Every way with every topic; PUSH reaches queues only."""
    return [(way, t) for way in WAYS for t in topics if way != "resp push" or t[:2] == b"q:"]


def _refusal(way: str, topic: bytes) -> str:
    """Return the error. Where nothing can be signed, it names no command for it."""
    if way.startswith("mqtt"):
        return CLOSED
    if way in {"resp xadd", "resp xadd of fields", "resp push"}:
        name = topic.decode()
        return f"Topic '{name}' requires signed messages; this command cannot carry a signature"
    return unsigned_text(topic)


# ── the claims ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("way", "topic"), _pairs(GUARDED))
def test_an_unsigned_publish_is_refused(broker, way, topic):
    """The client gets an error, it is counted, and the message is neither delivered nor journaled."""
    with Witnesses(broker) as witnesses:
        before = Counts.of(broker)
        told = WAYS[way](broker, topic)
        assert told == _refusal(way, topic)
        assert Counts.of(broker).since(before) == (0, 1, {"unsigned": 1})
        assert witnesses.saw_nothing()


@pytest.mark.parametrize(("way", "topic"), _pairs(FREE))
def test_other_topics_are_free(roomy_broker, way, topic):
    before = Counts.of(roomy_broker)
    assert WAYS[way](roomy_broker, topic) == ""
    assert Counts.of(roomy_broker).since(before) == (1, 0, {})


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("mqtt")])
def test_an_mqtt_client_is_disconnected_for_a_reason_that_is_counted(broker, way):
    disconnects = broker.server.counters.disconnects
    before = disconnects[DisconnectReason.SIGNATURE_REFUSED]
    assert WAYS[way](broker, b"secure/a") == CLOSED
    assert disconnects[DisconnectReason.SIGNATURE_REFUSED] == before + 1


def test_of_many_at_once_each_is_refused_and_counted(broker):
    before = Counts.of(broker)
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(5):
            pipeline.publish("secure/a", number)
        answers = pipeline.execute(raise_on_error=False)
    assert [str(answer) for answer in answers] == [unsigned_text(b"secure/a")] * 5
    assert Counts.of(broker).since(before) == (0, 5, {"unsigned": 5})


def test_an_unsigned_client_cannot_clear_what_a_signed_one_retained(roomy_broker):
    broker, signer = roomy_broker, register(roomy_broker)
    topic, payload = b"secure/kept", b"21.5"
    with mqtt(broker) as device:
        envelope = signer.envelope_2(topic, payload, now_ms(broker))
        device.publish_acknowledged(b"$signed/" + topic, envelope, retain=True)
    assert WAYS["mqtt clearing what is retained"](broker, topic) == CLOSED
    with mqtt(broker) as reader:
        reader.subscribe((topic, 0))
        reader.expect(publish(topic, payload, retain=True))


@pytest.mark.parametrize("way", ["resp xadd", "binary publish"])
def test_only_envelopes_go_to_the_topics_of_envelopes(broker, way):
    """A subscriber of ``$signed/`` gets only what the broker has verified."""
    with Witnesses(broker) as witnesses:
        told = WAYS[way](broker, b"$signed/secure/a")
        assert told == "Topics below $signed/ take envelopes with signed messages only"
        assert witnesses.saw_nothing()


def test_a_signature_does_not_open_the_topics_of_envelopes(broker):
    """The binary protocol has its own signatures, and does not use envelopes."""
    topic, payload = b"$signed/secure/a", b"no envelope"
    signature = register(broker).sign_1(topic, payload)
    with Witnesses(broker) as witnesses:
        told = publish_signed(broker, topic, payload, signature)
        assert told == "Topics below $signed/ take envelopes with signed messages only"
        assert witnesses.saw_nothing()


def test_a_will_in_an_envelope_is_refused_too(broker):
    """A will cannot be signed when it is published, and an earlier signature would be stale."""
    assert WAYS["mqtt will"](broker, b"$signed/secure/a") == CLOSED


def test_a_will_left_before_a_topic_demanded_signatures_is_not_published(tmp_path):
    """The client vanished with the broker, which starts again with a stricter configuration."""
    with Broker(data=tmp_path) as lax:
        client = mqtt(lax, "vanishing", will=("plant/x", b"x", 1, False))
        lax.stop(kill=True)
        client.abort()
    with Broker(data=tmp_path, signing={"required": ["plant/*"]}) as strict:
        assert Counts.of(strict).stored == 0


def test_who_may_subscribe_is_not_restricted(broker):
    with mqtt(broker) as reader:
        reader.subscribe((b"secure/#", 2), (b"$signed/secure/#", 0))
