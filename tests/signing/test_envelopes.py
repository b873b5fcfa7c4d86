"""Signatures over MQTT: in envelopes to ``$signed/TOPIC``, and in envelopes back from there."""

import random

import pytest
import redis

from penstock.doors.mqtt.publishing import MqttPublishing
from penstock.errors import StorageFull
from penstock.model.message import Signature
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from penstock.trust.signatures import is_valid
from penstock.wire.mqtt.envelope import opened, sealed
from tests.conformance.wire_client import (
    PINGREQ,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    wait_until,
)
from tests.signing.kit import (
    INVALID,
    TIMEOUT_S,
    Binary,
    Counts,
    Signer,
    ask,
    mqtt,
    not_authorized_text,
    now_ms,
    publish_signed,
    register,
    subscribed,
)

PREFIX = b"$signed/"
PAYLOAD = b"21.5"


@pytest.fixture
def signer(broker: Broker) -> Signer:
    return register(broker)


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def signature(
    broker: Broker, topic: bytes, signer: Signer, request: pytest.FixtureRequest
) -> Signature:
    """Of either version, for the payload that all use here."""
    if request.param == 1:
        return signer.sign_1(topic, PAYLOAD)
    return signer.sign_2(topic, PAYLOAD, now_ms(broker))


def history(broker: Broker, topic: bytes) -> list[tuple[bytes, bytes | None]]:
    """What the journal holds of a topic: payloads and signatures."""
    with Binary(broker) as reader:
        received = reader.subscribe(topic)
    return [(m.payload, m.signature.signature if m.signature else None) for m in received]


def ended(broker: Broker, reason: DisconnectReason) -> int:
    return broker.server.counters.disconnects[reason]


# ── going in


@pytest.mark.parametrize("retain", [False, True], ids=["", "retained"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_envelope_is_a_publish_to_its_topic(broker, topic, signature, qos, retain):
    """Subscribers get the plain message; the signature is stored with it."""
    with subscribed(broker, topic) as reader, mqtt(broker) as device:
        envelope = sealed(signature, PAYLOAD)
        device.publish_acknowledged(PREFIX + topic, envelope, qos=qos, retain=retain)
        reader.expect(publish(topic, PAYLOAD))
    broker.clock.advance(0)
    assert history(broker, topic) == [(PAYLOAD, signature.signature)]
    with subscribed(broker, topic) as late:
        if retain:
            late.expect(publish(topic, PAYLOAD, retain=True))
        late.expect_nothing()


def test_an_envelope_reaches_a_session_that_is_away(broker, topic, signer):
    with mqtt(broker, topic.decode(), clean=False) as reader:
        reader.subscribe((topic, 1))
        reader.disconnect()
    with mqtt(broker) as device:
        device.publish_acknowledged(PREFIX + topic, signer.envelope_1(topic, PAYLOAD))
    with mqtt(broker, topic.decode(), clean=False, session_present=True) as reader:
        reader.expect_publish(topic, PAYLOAD, qos=1)


def test_many_envelopes_at_once_are_all_taken(broker, topic, signer):
    packets = [
        publish(PREFIX + topic, signer.envelope_1(topic, b"%d" % number), qos=qos, packet_id=pid)
        for number, (qos, pid) in enumerate([(0, None), (1, 1), (1, 2), (2, 3), (0, None), (1, 4)])
    ]
    with mqtt(broker) as device:
        device.send(*packets)
        device.expect_in_any_order(puback(1), puback(2), pubrec(3), puback(4))
    assert [payload for payload, _ in history(broker, topic)] == [b"%d" % n for n in range(6)]


def test_redis_clients_may_publish_envelopes_too(broker, topic, signer):
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        client.publish(PREFIX + topic, signer.envelope_1(topic, PAYLOAD))
        with pytest.raises(redis.ResponseError, match=INVALID):
            client.publish(PREFIX + topic, signer.envelope_1(topic, PAYLOAD) + b"!")
    broker.clock.advance(0)
    assert len(history(broker, topic)) == 1


def test_of_envelopes_in_a_pipeline_those_before_a_bad_one_are_taken(broker, topic, signer):
    good = [signer.envelope_2(topic, b"%d" % n, now_ms(broker)) for n in range(3)]
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        pipeline = client.pipeline(transaction=False)
        for envelope in (good[0], good[1], good[1] + b"!", good[2]):
            pipeline.publish(PREFIX + topic, envelope)
        *taken, bad, behind = pipeline.execute(raise_on_error=False)
        assert taken == [0, 0]
        assert str(bad) == f"signature_refused: {INVALID}"
        assert str(behind) == "signature_refused: behind one that was refused"
        assert client.publish(PREFIX + topic, good[2]) == 0
    broker.clock.advance(0)
    assert [payload for payload, _ in history(broker, topic)] == [b"0", b"1", b"2"]


# ── bad ones


def bad_envelopes(topic: bytes, signer: Signer) -> dict[str, bytes]:
    good = signer.envelope_1(topic, PAYLOAD)
    return {
        "empty": b"",
        "cut": good[:68],
        "of no version": b"\x03" + good[1:],
        "of another payload": good + b"!",
        "of another topic": signer.envelope_1(topic + b"x", PAYLOAD),
        "of another key": sealed(signer._replace(seed=bytes(32)).sign_1(topic, PAYLOAD), PAYLOAD),
    }


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("name", bad_envelopes(b"", Signer(1, bytes(32))))
def test_a_bad_envelope_ends_the_connection_with_a_reason(broker, topic, signer, name, qos):
    envelope = bad_envelopes(topic, signer)[name]
    is_malformed = name in {"empty", "cut", "of no version"}
    reason = "MALFORMED_PACKET" if is_malformed else "SIGNATURE_REFUSED"
    before, counted = ended(broker, DisconnectReason[reason]), Counts.of(broker)
    with mqtt(broker) as device:
        device.send(publish(PREFIX + topic, envelope, qos=qos, packet_id=7 if qos else None))
        device.expect_close()
    assert ended(broker, DisconnectReason[reason]) == before + 1
    refused = {} if is_malformed else {"bad_signature": 1}
    assert Counts.of(broker).since(counted) == (0, len(refused), refused)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (b"", DisconnectReason.TOPIC_INVALID),
        (b"secure/+", DisconnectReason.TOPIC_INVALID),
        (b"$signed/secure/x", DisconnectReason.TOPIC_INVALID),
        (b"$SYS/broker/version", DisconnectReason.TOPIC_RESERVED),
    ],
)
def test_an_envelope_must_be_for_a_topic_that_may_be_published_to(broker, signer, inner, reason):
    before, counted = ended(broker, reason), Counts.of(broker)
    with mqtt(broker) as device:
        device.send(publish(PREFIX + inner, signer.envelope_1(inner, PAYLOAD)))
        device.expect_close()
    assert ended(broker, reason) == before + 1
    assert Counts.of(broker).stored == counted.stored


def test_permission_revocation_and_policy_hold_for_envelopes(own_broker):
    strict = b"secure/strict"
    broker = own_broker(signing={"rules": [{"filter": "secure/strict", "versions": [2]}]})
    signer = register(broker, "secure/mine,secure/strict")
    with mqtt(broker) as device:
        device.publish_acknowledged(
            b"$signed/secure/mine", signer.envelope_1(b"secure/mine", PAYLOAD)
        )
        ask(broker.port, "POST", f"/keys/{signer.key_id}/revoke")
        device.send(publish(b"$signed/secure/mine", signer.envelope_1(b"secure/mine", PAYLOAD)))
        device.expect_close()
    ask(broker.port, "POST", f"/keys/{signer.key_id}/enable")
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        for topic, text in {
            b"secure/other": not_authorized_text(b"secure/other"),
            strict: "Topic 'secure/strict' does not accept this version of signature",
        }.items():
            with pytest.raises(redis.ResponseError) as refusal:
                client.publish(PREFIX + topic, signer.envelope_1(topic, PAYLOAD))
            assert str(refusal.value) == f"signature_refused: {text}"


def test_the_door_withstands_any_bytes_in_an_envelope(broker, topic, signer):
    """Valid ones with bytes changed, removed and added: nothing is stored, and nothing breaks."""
    chance = random.Random(3)
    failures = ended(broker, DisconnectReason.INTERNAL_ERROR)
    good = bytearray(signer.envelope_2(topic, PAYLOAD, now_ms(broker)))
    before = Counts.of(broker)
    for _ in range(100):
        raw = bytearray(good[: chance.randrange(len(good) + 1)])
        raw += chance.randbytes(chance.randrange(4))
        if raw:
            raw[chance.randrange(len(raw))] ^= chance.randrange(1, 256)
        with mqtt(broker) as device:
            device.send(publish(PREFIX + topic, bytes(raw)) + PINGREQ)
            device.expect_close()
    assert Counts.of(broker).stored == before.stored
    assert ended(broker, DisconnectReason.INTERNAL_ERROR) == failures


# ── repetitions


def test_a_repeated_publish_of_version_2_is_acknowledged_and_stored_once(broker, topic, signer):
    """The client saw no PUBACK before its connection broke, and sends the same bytes again."""
    envelope = signer.envelope_2(topic, PAYLOAD, now_ms(broker))
    with mqtt(broker, topic.decode(), clean=False) as device:
        device.publish_acknowledged(PREFIX + topic, envelope, packet_id=5)
    with mqtt(broker, topic.decode(), clean=False, session_present=True) as device:
        device.send(publish(PREFIX + topic, envelope, qos=1, packet_id=5, dup=True))
        device.expect(puback(5))
    assert len(history(broker, topic)) == 1


def test_a_repeated_publish_does_not_hide_what_stands_beside_it(broker, topic, signer):
    envelopes = [signer.envelope_2(topic, b"%d" % n, now_ms(broker)) for n in range(3)]
    with mqtt(broker) as device:
        device.publish_acknowledged(PREFIX + topic, envelopes[1], packet_id=2)
    with mqtt(broker) as device:
        numbered = enumerate(envelopes, start=1)
        device.send(*(publish(PREFIX + topic, e, qos=1, packet_id=n) for n, e in numbered))
        device.expect(puback(1), puback(2), puback(3))
    assert [payload for payload, _ in history(broker, topic)] == [b"1", b"0", b"2"]


@pytest.mark.parametrize("clean", [False, True])
def test_a_repeated_publish_of_qos_2_is_taken_to_its_end_once(broker, topic, signer, clean):
    """By the packet id if the session remembers it, else by the nonce."""
    envelope = signer.envelope_2(topic, PAYLOAD, now_ms(broker))
    name = f"{topic.decode()}/{clean}"
    packet = publish(PREFIX + topic, envelope, qos=2, packet_id=5)
    with mqtt(broker, name, clean=clean) as device:
        device.send(packet)
        device.expect(pubrec(5))
    with mqtt(broker, name, clean=clean, session_present=not clean) as device:
        device.send(packet)
        device.expect(pubrec(5))
        device.send(pubrel(5))
        device.expect(pubcomp(5))
    assert len(history(broker, topic)) == 1


def test_what_came_before_a_bad_envelope_is_stored(broker, topic, signer):
    """Otherwise its repetition would be taken for a replay, acknowledged, and lost."""
    good = publish(
        PREFIX + topic, signer.envelope_2(topic, PAYLOAD, now_ms(broker)), qos=1, packet_id=1
    )
    bad = publish(PREFIX + topic, signer.envelope_1(topic, PAYLOAD) + b"!", qos=1, packet_id=2)
    with mqtt(broker) as device:
        device.send(good, bad)
        device.receive_until(b"")
    with mqtt(broker) as device:
        device.send(good)
        device.expect(puback(1))
    assert len(history(broker, topic)) == 1


def test_what_the_disk_refused_may_be_sent_again_under_the_same_signature(
    own_broker, topic, monkeypatch
):
    broker = own_broker()
    signer = register(broker)
    envelope = signer.envelope_2(topic, PAYLOAD, now_ms(broker))
    packet = publish(PREFIX + topic, envelope, qos=1, packet_id=1)

    def full(*_arguments):
        raise StorageFull("no space")

    with monkeypatch.context() as disk:
        disk.setattr(type(broker.server.store.whole), "commit", full)
        with mqtt(broker) as device:
            device.send(packet)
            device.expect_close()
    for _ in range(2):  # the second time as a repetition of what is stored
        with mqtt(broker) as device:
            device.send(packet)
            device.expect(puback(1))
    assert len(history(broker, topic)) == 1


def _stored(broker: Broker, topic: bytes) -> int:
    info = broker.server.store.topic(topic)
    return info.count if info else 0


@pytest.mark.parametrize("qos", [0, 1])
def test_envelopes_of_one_client_are_opened_some_at_a_time(own_broker, topic, qos, monkeypatch):
    """Other clients are served in between; all are stored, in order."""
    broker = own_broker()
    signer = register(broker)
    count = 3 * SIGNED_AT_ONCE + 1
    opened_at_once = []
    inner = MqttPublishing._open

    def counting(self, topic, payloads, now_ms):
        opened_at_once.append(len(payloads))
        return inner(self, topic, payloads, now_ms)

    monkeypatch.setattr(MqttPublishing, "_open", counting)
    packets = [
        publish(
            PREFIX + topic,
            signer.envelope_1(topic, b"%d" % number),
            qos=qos,
            packet_id=(number + 1) if qos else None,
        )
        for number in range(count)
    ]
    with mqtt(broker) as device:
        device.send(b"".join(packets))
        wait_until(lambda: sum(opened_at_once) == count)
        wait_until(lambda: _stored(broker, topic) == count)
    assert [payload for payload, _ in history(broker, topic)] == [b"%d" % n for n in range(count)]
    assert max(opened_at_once) <= SIGNED_AT_ONCE


# ── coming out


@pytest.mark.parametrize("way", ["binary", "mqtt", "redis"])
def test_subscribers_of_envelopes_can_verify_what_any_protocol_signed(
    broker, topic, signer, signature, way
):
    """They need only the public key; the topic is the part after the prefix."""
    with subscribed(broker, b"$signed/secure/#", 1) as reader:
        if way == "binary":
            assert publish_signed(broker, topic, PAYLOAD, signature) == ""
        elif way == "mqtt":
            with mqtt(broker) as device:
                device.publish_acknowledged(PREFIX + topic, sealed(signature, PAYLOAD), qos=0)
        else:
            with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
                client.publish(PREFIX + topic, sealed(signature, PAYLOAD))
        _, _, name, envelope = reader.receive_publish()
    assert name == PREFIX + topic
    found, payload = opened(envelope)
    assert (found, payload) == (signature, PAYLOAD)
    assert is_valid(signer.public_key, name.removeprefix(PREFIX), payload, found)


def test_envelopes_are_of_signed_messages_only_and_not_for_everybody(own_broker):
    """``#`` does not match topics that begin with ``$`` [MQTT-4.7.2-1]."""
    broker, free = own_broker(), b"free"
    signer = register(broker)
    with (
        subscribed(broker, PREFIX + free) as envelopes,
        subscribed(broker, b"#") as everything,
        mqtt(broker) as device,
    ):
        device.publish_acknowledged(free, b"unsigned")
        device.publish_acknowledged(PREFIX + free, signer.envelope_1(free, PAYLOAD))
        assert opened(envelopes.receive_publish()[3])[1] == PAYLOAD
        everything.expect(publish(free, b"unsigned"), publish(free, PAYLOAD))
        everything.expect_nothing()
