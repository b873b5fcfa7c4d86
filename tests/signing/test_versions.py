"""Version 1 leaves open what version 2 closes; the policy of a topic says which it accepts."""

import pytest

from penstock.trust.replay import AHEAD_MS_MAX, ReplayWindow
from penstock.wire.binary import client as frames
from penstock.wire.binary.client import BinaryClientMachine
from tests.signing.kit import (
    INVALID,
    Binary,
    Counts,
    advance_ms,
    now_ms,
    publish_signed,
    register,
)

STALE = "Signature too old: check the clock and sign again"
AHEAD = "Signature from the future: check the clock and sign again"
BEFORE_START = "Signature made before the broker started: sign again"
REPLAYED = "Signature used before: sign each publish with a new nonce"
WINDOW_FULL = "Too many signed publishes at once: try again later"

WINDOW_S = 300


def refused_version(topic: bytes) -> str:
    return f"Topic '{topic.decode()}' does not accept this version of signature"


# ── version 1, and what is wrong with it


def test_bytes_can_be_moved_between_topic_and_payload_of_version_1(broker, topic):
    """A known weakness, kept for devices that support nothing else: the policy can forbid it."""
    signature = register(broker).sign_1(topic + b"a", b"bc")
    assert publish_signed(broker, topic + b"ab", b"c", signature) == ""


def test_a_frame_of_version_1_can_be_sent_again(broker, topic):
    """A known weakness: nothing in the frame says when it was made."""
    signature = register(broker).sign_1(topic, b"x")
    before = Counts.of(broker)
    for _ in range(3):
        assert publish_signed(broker, topic, b"x", signature) == ""
    assert Counts.of(broker).since(before) == (3, 0, {})


def test_version_1_survives_a_restart_of_the_broker(own_broker, topic):
    broker = own_broker()
    signature = register(broker).sign_1(topic, b"x")
    assert publish_signed(broker, topic, b"x", signature) == ""
    broker.restart()
    assert publish_signed(broker, topic, b"x", signature) == ""


# ── policy


def test_version_1_is_refused_where_the_policy_demands_version_2(own_broker):
    broker = own_broker(signing={"rules": [{"filter": "secure/strict/#", "versions": [2]}]})
    signer = register(broker)
    strict, lax = b"secure/strict/x", b"secure/lax"
    before = Counts.of(broker)
    told = publish_signed(broker, strict, b"x", signer.sign_1(strict, b"x"))
    assert told == refused_version(strict)
    assert Counts.of(broker).since(before) == (0, 1, {"version_refused": 1})
    assert publish_signed(broker, lax, b"x", signer.sign_1(lax, b"x")) == ""
    signature = signer.sign_2(strict, b"x", now_ms(broker))
    assert publish_signed(broker, strict, b"x", signature) == ""


def test_version_2_is_refused_where_the_policy_accepts_version_1_alone(own_broker, topic):
    broker = own_broker(signing={"versions": [1]})
    signer = register(broker)
    signature = signer.sign_2(topic, b"x", now_ms(broker))
    assert publish_signed(broker, topic, b"x", signature) == refused_version(topic)
    assert publish_signed(broker, topic, b"x", signer.sign_1(topic, b"x")) == ""


def test_version_2_of_a_free_topic_cannot_be_passed_off_as_version_1(broker, topic):
    """The same 64 bytes in a frame of version 1, for whichever topic."""
    signer = register(broker)
    signature = signer.sign_2(topic, b"x", now_ms(broker))
    downgraded = signer.sign_1(topic, b"x")
    downgraded = type(downgraded)(1, signer.key_id, signature.signature)
    assert publish_signed(broker, topic, b"x", downgraded) == INVALID


# ── version 2


def test_version_2_binds_the_boundary_of_topic_and_payload(broker, topic):
    signature = register(broker).sign_2(topic + b"a", b"bc", now_ms(broker))
    assert publish_signed(broker, topic + b"ab", b"c", signature) == INVALID
    assert publish_signed(broker, topic + b"a", b"bc", signature) == ""


def test_version_2_is_accepted_once(broker, topic):
    """On the same connection, on another one, and replayed by an eavesdropper."""
    signature = register(broker).sign_2(topic, b"x", now_ms(broker))
    before = Counts.of(broker)
    with Binary(broker) as client:
        assert client.publish(topic, b"x", signature) == ""
        assert client.publish(topic, b"x", signature) == REPLAYED
    assert publish_signed(broker, topic, b"x", signature) == REPLAYED
    assert Counts.of(broker).since(before) == (1, 2, {"replayed": 2})


def test_version_2_binds_the_key_id(broker, topic):
    """A frame of another key id is another frame, even if both devices sign the same bytes."""
    signer, other = register(broker), register(broker)
    signature = signer.sign_2(topic, b"x", now_ms(broker))
    renamed = type(signature)(
        2, other.key_id, signature.signature, signature.signed_ms, signature.nonce
    )
    assert publish_signed(broker, topic, b"x", renamed) == INVALID
    assert publish_signed(broker, topic, b"x", signature) == ""


def test_two_devices_may_use_the_same_nonce_at_the_same_time(broker, topic):
    when = now_ms(broker)
    for signer in (register(broker), register(broker)):
        signature = signer.sign_2(topic, b"x", when, b"8 bytes.")
        assert publish_signed(broker, topic, b"x", signature) == ""


def test_version_2_is_stale_when_the_window_is_over(own_broker, topic):
    broker = own_broker(signing={"window_s": WINDOW_S})
    signer = register(broker)
    when = now_ms(broker)
    advance_ms(broker, WINDOW_S * 1_000 + 1)
    in_time = signer.sign_2(topic, b"x", when)
    assert publish_signed(broker, topic, b"x", in_time) == ""
    late = signer.sign_2(topic, b"x", when)
    advance_ms(broker, 1)
    before = Counts.of(broker)
    assert publish_signed(broker, topic, b"x", late) == STALE
    assert publish_signed(broker, topic, b"x", in_time) == STALE
    assert Counts.of(broker).since(before) == (0, 2, {"stale": 2})


def test_version_2_may_be_ahead_of_the_brokers_clock_a_little(broker, topic):
    signer, clock_ms = register(broker), broker.server.parts.wall_ms()
    at_the_limit = signer.sign_2(topic, b"x", clock_ms + AHEAD_MS_MAX)
    beyond = signer.sign_2(topic, b"x", clock_ms + AHEAD_MS_MAX + 1)
    assert publish_signed(broker, topic, b"x", at_the_limit) == ""
    before = Counts.of(broker)
    assert publish_signed(broker, topic, b"x", beyond) == AHEAD
    assert Counts.of(broker).since(before) == (0, 1, {"ahead": 1})


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
@pytest.mark.parametrize("ahead_ms", [0, AHEAD_MS_MAX], ids=["right clock", "clock ahead"])
def test_version_2_is_not_accepted_again_after_a_restart(own_broker, topic, ahead_ms, kill):
    """Not even of a device whose clock is ahead, which signed after our start by its own clock."""
    broker = own_broker()
    signer = register(broker)
    signature = signer.sign_2(topic, b"x", broker.server.parts.wall_ms() + ahead_ms)
    assert publish_signed(broker, topic, b"x", signature) == ""
    advance_ms(broker, 1)
    broker.restart(kill=kill)
    before = Counts.of(broker)
    assert publish_signed(broker, topic, b"x", signature) == REPLAYED
    assert Counts.of(broker).since(before) == (0, 1, {"replayed": 1})
    fresh = signer.sign_2(topic, b"x", signature.signed_ms + 1)
    assert publish_signed(broker, topic, b"x", fresh) == ""


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_what_was_signed_before_a_restart_and_is_new_is_accepted(own_broker, topic, kill):
    """A device whose publish was lost with the broker sends the same bytes again."""
    broker = own_broker()
    signer = register(broker)
    first, lost = (signer.sign_2(topic, b"x", now_ms(broker)) for _ in range(2))
    assert publish_signed(broker, topic, b"x", first) == ""
    broker.clock.advance(1)
    broker.restart(kill=kill)
    assert publish_signed(broker, topic, b"x", lost) == ""
    assert publish_signed(broker, topic, b"x", lost) == REPLAYED


def test_a_full_window_refuses_until_it_has_moved_on(own_broker, topic):
    broker = own_broker(signing={"nonces_max": 1_000, "window_s": 60})
    signer = register(broker)

    def sign_many(count: int) -> bytes:
        when = now_ms(broker)
        return b"".join(
            frames.signed_publish(topic, b"x", 1, signer.sign_2(topic, b"x", when))
            for _ in range(count)
        )

    with Binary(broker) as client:
        client.send(sign_many(1_000) + frames.ping())
        while type(client.next()).__name__ != "BinaryPong":
            pass
        before = Counts.of(broker)
        assert client.ask(sign_many(1)) == WINDOW_FULL
        assert Counts.of(broker).since(before) == (0, 1, {"window_full": 1})
        one = signer.sign_1(topic, b"x")
        assert client.publish(topic, b"x", one) == ""
        broker.clock.advance(70)
        assert client.ask(sign_many(1)) == ""


def test_what_is_not_stored_is_forgotten_with_its_time():
    """Memory stays bounded though the disk refuses everything for days."""
    window = ReplayWindow(window_ms=1_000, entries_max=100, started_ms=0)
    for now in range(1_000, 100_000, 100):
        assert window.check(7, b"8 bytes.", now, now) is None
        assert not window.is_stored(7, b"8 bytes.", now)
    assert window.count == len(window._unstored) < 20


def test_the_trailer_of_version_2_is_signature_key_id_time_and_nonce(broker, topic):
    """What a device has to send, in the words of the page on the protocol."""
    signer = register(broker)
    signature = signer.sign_2(topic, b"x", now_ms(broker), b"nonce..8")
    frame = frames.signed_publish(topic, b"x", 1, signature)
    trailer = (
        signature.signature
        + signer.key_id.to_bytes(4, "big")
        + signature.signed_ms.to_bytes(8, "big")
        + b"nonce..8"
    )
    assert frame[16 + len(topic) + 1 :] == trailer
    with Binary(broker) as reader, Binary(broker) as device:
        reader.subscribe(topic)
        assert device.ask(frame) == ""
        assert reader.next().signature == signature
    assert BinaryClientMachine().receive(frame)  # to a client it is a violation, not a wedge
