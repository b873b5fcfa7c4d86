"""Frames to bytes: the vectors byte for byte, the joined like the single, the impossible refused."""

import pytest
from nacl.signing import SigningKey

from penstock.errors import LocalProtocolError
from penstock.model.message import Signature
from penstock.wire.binary import client, encode
from penstock.wire.binary.frame import (
    FRAME_BYTES_MAX,
    TOPIC_BYTES_MAX,
    TRAILER_BYTES,
    BinaryCommand,
)
from tests.wire.binary.vectors import vector

TOPIC, PAYLOAD = b"secure/sensors/t", b"21.5"
VERSION_1 = Signature(1, 7, SigningKey(bytes(range(32))).sign(TOPIC + PAYLOAD).signature)
VERSION_2 = Signature(2, 7, b"\xab" * 64, 0x190_1234_5678, bytes(range(1, 9)))

SAID_BY_A_CLIENT = {
    "PUBLISH": client.publish(b"chat", b"Hello", 1),
    "SUBSCRIBE with a client id": client.subscribe(1, b"alerts", b"sub-1"),
    "SUBSCRIBE without a client id": client.subscribe(2, b"alerts"),
    "SUBSCRIBE that accepts version 2": client.subscribe(2, b"t", accepts_version_2=True),
    "UNSUBSCRIBE": client.unsubscribe(3, b"alerts"),
    "ACK": encode.ack(42),
    "PING": client.ping(),
    "SIGNED_PUBLISH": client.signed_publish(TOPIC, PAYLOAD, 55, VERSION_1),
    "AUTH": client.auth(4, b"ann", b"s3cret"),
    "AUTH that asks for a challenge": client.auth(4, b"key:7"),
    "SIGNED_PUBLISH of version 2": client.signed_publish(b"t", b"xy", 55, VERSION_2),
}
SAID_BY_A_BROKER = {
    "MESSAGE": encode.message(b"alerts", b"msg1", 42),
    "SIGNED_MESSAGE": encode.signed_message(TOPIC, PAYLOAD, 55, VERSION_1),
    "SIGNED_MESSAGE of version 2": encode.signed_message(b"t", b"xy", 55, VERSION_2),
    "ACK": encode.ack(42),
    "PONG": encode.pongs(1),
    "CHALLENGE": encode.challenge(4, bytes(range(32))),
    "ERROR": encode.error("Unknown command"),
}


@pytest.mark.parametrize("name", SAID_BY_A_CLIENT)
def test_a_client_says_the_vector_byte_for_byte(name):
    assert SAID_BY_A_CLIENT[name] == vector("server", name)


@pytest.mark.parametrize("name", SAID_BY_A_BROKER)
def test_a_broker_says_the_vector_byte_for_byte(name):
    assert SAID_BY_A_BROKER[name] == vector("client", name)


# ── Many at once ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sequences", [[], [9], [3, 1, 2**64 - 1], range(10, 13)])
def test_many_acknowledgements_are_the_single_ones_joined(sequences):
    assert encode.acks(sequences) == b"".join(encode.ack(sequence) for sequence in sequences)


@pytest.mark.parametrize("sequences", [range(7, 10), [5, 900, 2]])
def test_many_messages_are_the_single_ones_joined(sequences):
    payloads = [b"", b"x", b"y" * 300]
    single = [
        encode.message(b"a/b", payload, sequence)
        for payload, sequence in zip(payloads, sequences, strict=True)
    ]
    assert encode.messages(b"a/b", payloads, sequences) == b"".join(single)
    assert encode.messages(b"a/b", [], []) == b""


def test_many_publishes_are_the_single_ones_joined_and_count_up():
    payloads = [b"", b"x", b"y" * 300]
    single = [client.publish(b"t", payload, 41 + at) for at, payload in enumerate(payloads)]
    assert client.publishes(b"t", payloads, 41) == b"".join(single)
    assert client.publishes(b"t", [], 41) == b""


def test_pongs_have_sequence_0_as_often_as_asked():
    assert encode.pongs(3) == vector("client", "PONG") * 3
    assert encode.pongs(0) == b""


# ── Errors ────────────────────────────────────────────────────────────────────────────────────


def error_payload(text):
    return encode.error(text)[16:]


@pytest.mark.parametrize("before", range(236, 242))
def test_an_error_is_cut_between_two_characters(before):
    """A dash of three bytes stands across every place at which 240 bytes may end."""
    text = "x" * before + "—" + "y" * 9
    payload = error_payload(text)
    assert text.startswith(payload.decode())
    assert 238 <= len(payload) <= 240
    assert len(encode.error(text)) <= 256


def test_an_error_of_240_bytes_is_left_as_it_is():
    assert error_payload("x" * 240) == b"x" * 240
    assert error_payload("x" * 241) == b"x" * 240


def test_an_error_from_bytes_is_utf_8_even_if_they_are_not():
    assert error_payload(b"Topic 'a\xff'") == "Topic 'a\ufffd'".encode()
    assert error_payload("—".encode()) == "—".encode()
    assert error_payload("lone \udc80") == b"lone ?"


# ── The impossible ────────────────────────────────────────────────────────────────────────────


def with_fields(version=1, key_id=1, signature=bytes(64), signed_ms=0, nonce=bytes(8)):
    return Signature(version, key_id, signature, signed_ms, nonce)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: encode.ack(-1), id="negative sequence"),
        pytest.param(lambda: encode.ack(2**64), id="sequence of nine bytes"),
        pytest.param(lambda: encode.acks([1, 2**64]), id="one of many sequences"),
        pytest.param(lambda: encode.message(b"t" * 65_536, b"", 1), id="topic beyond its field"),
        pytest.param(lambda: encode.messages(b"t" * 65_536, [b""], [1]), id="topic of many"),
        pytest.param(lambda: client.publish(b"t" * 1_025, b"", 1), id="topic beyond the limit"),
        pytest.param(lambda: client.publishes(b"t" * 1_025, [b""], 1), id="topic of a run"),
        pytest.param(lambda: client.subscribe(1, b"t" * 1_023, b"a"), id="id and topic together"),
        pytest.param(lambda: client.subscribe(1, b"t", b"a\0b"), id="client id with a NUL"),
        pytest.param(lambda: client.unsubscribe(1, b"t" * 1_025), id="topic to unsubscribe from"),
        pytest.param(
            lambda: encode.signed_message(b"t", b"", 1, with_fields(version=3)), id="version 3"
        ),
        pytest.param(
            lambda: encode.signed_message(b"t", b"", 1, with_fields(signature=bytes(63))),
            id="signature too short",
        ),
        pytest.param(
            lambda: encode.signed_message(b"t", b"", 1, with_fields(key_id=2**32)),
            id="key id of five bytes",
        ),
        pytest.param(
            lambda: encode.signed_message(b"t", b"", 1, with_fields(2, nonce=bytes(7))),
            id="nonce too short",
        ),
        pytest.param(
            lambda: client.signed_publish(b"t", b"", 1, with_fields(2, signed_ms=-1)),
            id="signed before 1970",
        ),
    ],
)
def test_the_impossible_is_refused(ask):
    with pytest.raises(LocalProtocolError):
        ask()


def test_the_longest_topic_can_be_asked_for():
    assert client.publish(b"t" * TOPIC_BYTES_MAX, b"", 1)
    assert client.subscribe(1, b"t" * (TOPIC_BYTES_MAX - 2), b"a")
    assert client.unsubscribe(1, b"t" * TOPIC_BYTES_MAX)


def test_the_largest_frame_can_be_asked_for_and_no_larger():
    payload = bytes(FRAME_BYTES_MAX - 17)
    assert len(client.publish(b"t", payload, 1)) == FRAME_BYTES_MAX
    assert len(client.publishes(b"t", [payload], 1)) == FRAME_BYTES_MAX
    for ask in (client.publish, lambda t, p, s: client.publishes(t, [b"", p], s)):
        with pytest.raises(LocalProtocolError, match="frame of 16777217 bytes"):
            ask(b"t", payload + b"x", 1)


@pytest.mark.parametrize("signature", [VERSION_1, VERSION_2], ids=["version 1", "version 2"])
def test_the_trailer_counts_towards_the_largest_frame(signature):
    trailer_bytes = {1: 68, 2: 84}[signature.version]
    payload = bytes(FRAME_BYTES_MAX - 17 - trailer_bytes)
    assert len(client.signed_publish(b"t", payload, 1, signature)) == FRAME_BYTES_MAX
    with pytest.raises(LocalProtocolError, match="frame of 16777217 bytes"):
        client.signed_publish(b"t", payload + b"x", 1, signature)


def test_a_topic_with_a_nul_of_its_own_gets_an_empty_client_id_in_front():
    assert client.subscribe(1, b"a\0b").endswith(b"\0a\0b")
    assert client.unsubscribe(1, b"a\0b").endswith(b"\0a\0b")


def test_trailers_have_the_sizes_of_the_protocol():
    assert TRAILER_BYTES == {
        BinaryCommand.SIGNED_PUBLISH: 68,
        BinaryCommand.SIGNED_MESSAGE: 68,
        BinaryCommand.SIGNED_PUBLISH_2: 84,
        BinaryCommand.SIGNED_MESSAGE_2: 84,
    }
