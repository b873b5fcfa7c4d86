"""A signature is checked when it comes in: the key, the bytes, and only then the permission."""

import socket

import pytest

from penstock.testing import Broker
from penstock.trust.signatures import is_valid
from penstock.wire.binary import client as frames
from penstock.wire.binary.events import Acked, Failed
from tests.signing.kit import (
    INVALID,
    TIMEOUT_S,
    Binary,
    Counts,
    Signer,
    advance_ms,
    ask,
    not_authorized_text,
    now_ms,
    publish_signed,
    register,
)

# ── the vector of the specification


VECTOR_PUBLIC_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
VECTOR_TOPIC = b"secure/sensors/t"
VECTOR_FRAME = bytes.fromhex(
    "01100000000000000037001000000004"
    "7365637572652f73656e736f72732f74"
    "32312e35"
    "26ba1c0ac8a952268058aa52efcff070d0c848840c77509c1276bd905a533fed"
    "67157272a33032d14aa921c49a46d306cc0b3ba11ab8f62501db2213faee1502"
    "00000007"
)


def test_the_vector_is_published_and_arrives_byte_for_byte(own_broker):
    """As SIGNED_MESSAGE: the same frame but for the command and the sequence, the broker's own."""
    broker = own_broker()
    body = {"device": "v", "topics": "", "public_key": VECTOR_PUBLIC_KEY, "key_id": 7}
    ask(broker.port, "POST", "/keys", **body)
    where, sequence = ("127.0.0.1", broker.port), broker.server.store.next_sequence
    with (
        socket.create_connection(where, TIMEOUT_S) as reader,
        socket.create_connection(where, TIMEOUT_S) as device,
    ):
        reader.sendall(frames.subscribe(1, VECTOR_TOPIC))
        assert reader.recv(100) == bytes.fromhex("01050000000000000001000000000000")
        device.sendall(VECTOR_FRAME)
        assert device.recv(100) == bytes.fromhex("01050000000000000037000000000000")
        message = reader.recv(1_000)
    assert message == b"\x01\x11" + sequence.to_bytes(8, "big") + VECTOR_FRAME[10:]


# ── what may not be changed


@pytest.fixture
def signer(broker: Broker) -> Signer:
    return register(broker)


def test_a_frame_that_was_tampered_with_is_refused(broker, topic, signer):
    """Whichever byte is changed, of topic, payload, signature or key id."""
    honest = frames.signed_publish(topic, b"21.5", 1, signer.sign_1(topic, b"21.5"))
    before, changed = Counts.of(broker), range(16, len(honest), 5)
    with Binary(broker) as client:
        for place in changed:
            frame = bytearray(honest)
            frame[place] ^= 1
            assert client.ask(bytes(frame)) == INVALID, place
        assert client.ask(honest) == ""
    stored, dropped, failures = Counts.of(broker).since(before)
    assert (stored, dropped) == (1, len(changed))
    assert set(failures) <= {"bad_signature", "unknown_key"}


def test_the_sequence_is_not_signed(broker, topic, signer):
    """It belongs to the connection, so a device may sign before it knows."""
    with Binary(broker) as client:
        client.send(frames.signed_publish(topic, b"x", 41, signer.sign_1(topic, b"x")))
        assert client.next() == Acked([41])


def test_a_signature_on_a_free_topic_must_be_right_too(broker, topic, signer):
    free = topic.removeprefix(b"secure/")
    wrong = signer.sign_1(free, b"other")
    assert publish_signed(broker, free, b"x", wrong) == INVALID
    assert publish_signed(broker, free, b"x", signer.sign_1(free, b"x")) == ""


def test_bad_ones_among_good_ones_are_refused_in_their_place(broker, topic, signer):
    good = frames.signed_publish(topic, b"good", 1, signer.sign_1(topic, b"good"))
    bad = frames.signed_publish(topic, b"bad", 2, signer.sign_1(topic, b"good"))
    with Binary(broker) as client:
        client.send(good + bad + good + good + bad)
        answers = []
        while len(answers) < 5:
            event = client.next()
            answers += event.sequences if isinstance(event, Acked) else [event.text]
        assert answers == [1, INVALID, 1, 1, INVALID]
        client.send(frames.subscribe(9, topic))
        assert [client.next().payload for _ in range(3)] == [b"good"] * 3


# ── keys that are not in force


def test_an_unknown_key_is_refused(broker, topic):
    stranger = Signer(4_000_000_000, bytes(32))
    before = Counts.of(broker)
    assert publish_signed(broker, topic, b"x", stranger.sign_1(topic, b"x")) == INVALID
    assert Counts.of(broker).since(before) == (0, 1, {"unknown_key": 1})


@pytest.mark.parametrize("version", [1, 2])
def test_the_key_of_another_is_refused(broker, topic, signer, version):
    """Two devices: neither can sign in the name of the other."""
    impostor = signer._replace(seed=register(broker).seed)
    signature = impostor.sign_1(topic, b"x")
    if version == 2:
        signature = impostor.sign_2(topic, b"x", now_ms(broker))
    assert publish_signed(broker, topic, b"x", signature) == INVALID


def test_revocation_bites_on_the_next_frame_of_an_open_connection(broker, topic, signer):
    """And enabling heals on the next one, too."""
    signature = signer.sign_1(topic, b"x")
    with Binary(broker) as client:
        assert client.publish(topic, b"x", signature) == ""
        ask(broker.port, "POST", f"/keys/{signer.key_id}/revoke")
        before = Counts.of(broker)
        assert client.publish(topic, b"x", signature) == INVALID
        assert Counts.of(broker).since(before) == (0, 1, {"revoked_key": 1})
        ask(broker.port, "POST", f"/keys/{signer.key_id}/enable")
        assert client.publish(topic, b"x", signature) == ""


def test_a_key_expires_at_the_very_millisecond(own_broker, topic):
    broker = own_broker()
    signer = register(broker, expires_s=60)
    signature = signer.sign_1(topic, b"x")
    with Binary(broker) as client:
        assert client.publish(topic, b"x", signature) == ""
        advance_ms(broker, 59_999)
        assert client.publish(topic, b"x", signature) == ""
        advance_ms(broker, 1)
        before = Counts.of(broker)
        assert client.publish(topic, b"x", signature) == INVALID
        assert Counts.of(broker).since(before) == (0, 1, {"expired_key": 1})


# ── permissions


@pytest.mark.parametrize(
    ("topics", "allowed", "refused"),
    [
        ("", [b"secure/a", b"b"], []),
        ("*", [b"secure/a", b"b"], []),
        ("#", [b"secure/a", b"b"], []),
        ("secure/a", [b"secure/a"], [b"secure/a/b", b"secure/ab", b"secure/"]),
        ("secure/a*", [b"secure/a", b"secure/ab", b"secure/a/b"], [b"secure/b"]),
        ("secure/+/t", [b"secure/a/t"], [b"secure/t", b"secure/a/b/t"]),
        ("secure/a/#", [b"secure/a", b"secure/a/b/c"], [b"secure/ab"]),
        ("secure/a, secure/b/*", [b"secure/a", b"secure/b/c"], [b"secure/c", b"secure/a/b"]),
    ],
)
def test_a_key_may_publish_where_its_topics_say(broker, topics, allowed, refused):
    signer = register(broker, topics)
    with Binary(broker) as client:
        for topic in allowed:
            assert client.publish(topic, b"x", signer.sign_1(topic, b"x")) == ""
        for topic in refused:
            told = client.publish(topic, b"x", signer.sign_1(topic, b"x"))
            assert told == not_authorized_text(topic)


def test_permission_is_looked_at_after_the_signature(broker, topic):
    """Who cannot sign learns nothing of what the key may do."""
    signer = register(broker, "elsewhere")
    forged = signer._replace(seed=bytes(32))
    assert publish_signed(broker, topic, b"x", forged.sign_1(topic, b"x")) == INVALID
    before = Counts.of(broker)
    told = publish_signed(broker, topic, b"x", signer.sign_1(topic, b"x"))
    assert told == not_authorized_text(topic)
    assert Counts.of(broker).since(before) == (0, 1, {"not_authorized": 1})


def test_a_refused_signature_takes_no_place_in_the_replay_window(broker, topic):
    signer = register(broker, "elsewhere")
    window = broker.server.parts.gate._window
    before = window.count
    publish_signed(broker, topic, b"x", signer.sign_2(topic, b"x", now_ms(broker)))
    assert window.count == before


# ── what is kept


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_signatures_survive_a_restart_and_come_with_the_history(own_broker, topic, kill):
    """A subscriber that comes later can verify for itself, and needs only the public key."""
    broker = own_broker()
    signer = register(broker)
    signatures = [signer.sign_1(topic, b"one"), signer.sign_2(topic, b"two", now_ms(broker))]
    for payload, signature in zip((b"one", b"two"), signatures, strict=True):
        assert publish_signed(broker, topic, payload, signature) == ""
    broker.restart(kill=kill)
    with Binary(broker) as late:
        history = late.subscribe(topic, b"late")
    assert [message.signature for message in history] == signatures
    for message in history:
        assert is_valid(signer.public_key, topic, message.payload, message.signature)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_keys_and_their_state_survive_a_restart(own_broker, topic, kill):
    broker = own_broker()
    kept, revoked = register(broker, topic.decode()), register(broker)
    ask(broker.port, "POST", f"/keys/{revoked.key_id}/revoke")
    before = ask(broker.port, "GET", "/keys")
    broker.restart(kill=kill)
    assert ask(broker.port, "GET", "/keys") == before
    assert publish_signed(broker, topic, b"x", kept.sign_1(topic, b"x")) == ""
    assert publish_signed(broker, topic, b"x", revoked.sign_1(topic, b"x")) == INVALID
    assert register(broker).key_id > revoked.key_id


def test_who_cannot_read_version_2_gets_the_message_without_its_signature(broker, topic, signer):
    signature = signer.sign_2(topic, b"x", now_ms(broker))
    assert publish_signed(broker, topic, b"x", signature) == ""
    with Binary(broker) as old:
        old.send(frames.subscribe(1, topic))
        message = old.next()
    assert (message.payload, message.signature) == (b"x", None)


def test_errors_fit_what_shipped_publishers_read(broker):
    """They read a reply with one call of 256 bytes."""
    topic = b"secure/" + b"x" * 240
    with Binary(broker) as client:
        client.send(frames.publish(topic, b"", 1))
        event = client.next()
    assert isinstance(event, Failed)
    assert len(event.text.encode()) <= 240
    assert event.text.startswith("Topic 'secure/xxx")
