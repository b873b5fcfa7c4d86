"""Frames and their replies: the layout, every command, every limit at and one beyond."""

import pytest

from tests.conformance_binary.looks import disconnects
from tests.conformance_binary.wire_client import (
    MESSAGE,
    PUBLISH,
    SIGNED_MESSAGE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    ack,
    error,
    frame,
    ping,
    pong,
    publish,
    subscribe,
    unsubscribe,
)

U64_MAX = 2**64 - 1
FRAME_BYTES_MAX = 16 * 1024 * 1024
TOO_LARGE = "Message too large — connection closed"


# ── vectors


def test_the_vectors_of_the_specification_are_taken_and_given_byte_for_byte(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.send(bytes.fromhex("01010000000000000001000c000000007375622d3100616c65727473"))
    client.expect(bytes.fromhex("01050000000000000001000000000000"))
    other = dial(at=broker)
    other.send(bytes.fromhex("010300000000000000010004000000056368617448656c6c6f"))
    other.expect(ack(1))
    other.publish(b"alerts", b"msg1")
    client.expect(bytes.fromhex("01040000000000000002000600000004616c657274736d736731"))
    client.send(bytes.fromhex("01060000000000000000000000000000"))
    client.expect(bytes.fromhex("01070000000000000000000000000000"))
    client.send(bytes.fromhex("01070000000000000000000000000000"))
    client.expect(bytes.fromhex("0108000000000000000000000000000f556e6b6e6f776e20636f6d6d616e64"))


# ── replies


@pytest.mark.parametrize("sequence", [0, 1, 42, 2**32, 2**63, U64_MAX])
@pytest.mark.parametrize("command", [PUBLISH, SUBSCRIBE, UNSUBSCRIBE])
def test_an_ack_echoes_the_sequence_of_the_request(dial, unique, command, sequence):
    client = dial()
    client.send(frame(command, sequence, unique))
    client.expect(ack(sequence))


def test_the_same_sequence_may_be_used_again_and_again(dial, unique):
    client = dial()
    client.send(publish(unique, b"m", 7) * 50, publish(unique, b"m", 0) * 50)
    client.expect(*[ack(7)] * 50, *[ack(0)] * 50)


@pytest.mark.parametrize("sequence", [0, 9, U64_MAX])
def test_a_pong_has_sequence_0_whatever_the_ping_carried(dial, sequence):
    client = dial()
    client.send(ping(sequence))
    client.expect(pong())


def test_a_ping_with_topic_and_payload_is_a_ping(dial):
    client = dial()
    client.send(frame(0x06, 3, b"topic", b"payload"), ping())
    client.expect(pong(), pong())


def test_an_unsubscribe_is_acknowledged_though_nothing_was_subscribed(dial, unique):
    client = dial()
    client.send(unsubscribe(unique, 5))
    client.expect(ack(5))


@pytest.mark.parametrize("command", [0x00, 0x04, 0x07, 0x08, 0x09, 0x0F, 0x15, 0x7F, 0xFF])
def test_an_unknown_command_gets_an_error_and_the_connection_goes_on(dial, unique, command):
    client = dial()
    client.send(frame(command, 9, b"topic", b"payload"), publish(unique, b"m", 3), ping())
    client.expect(error("Unknown command"), ack(3), pong())


def test_a_signed_message_from_a_client_is_dropped_without_a_word(dial):
    client = dial()
    client.send(frame(SIGNED_MESSAGE, 1, b"t", b"p") + bytes(68), ping())
    client.expect(pong())


def test_an_ack_from_a_client_without_a_name_is_ignored(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.publish(b"t", b"m")
    client.subscribe(b"t")
    client.send(*map(ack, (0, 1, 5, U64_MAX)))
    client.expect_nothing()
    assert not broker.server.broker.subscribers.by_id
    assert len(dial(at=broker).subscribe(b"t")) == 1


def test_the_payload_of_a_subscribe_is_ignored(dial, unique):
    client = dial()
    client.send(frame(SUBSCRIBE, 1, unique, b"whatever"))
    client.expect(ack(1))


REFUSED_TOPICS = [b"", b"a/#", b"+/a", b"nul\0nul", b"\xff\xfe", b"$SYS/x", b"/" * 200]


@pytest.mark.parametrize("topic", REFUSED_TOPICS, ids=repr)
def test_a_publish_to_no_topic_gets_one_error_each_and_the_connection_goes_on(dial, topic):
    client = dial()
    client.send(publish(topic, b"m", 1), publish(topic, b"m", 2), ping())
    client.expect_error("Not a topic")
    client.expect_error("Not a topic")
    client.expect(pong())


@pytest.mark.parametrize("topic", [b"", b"a/#/b", b"a+/b", b"/" * 200], ids=repr)
def test_a_subscribe_to_no_filter_gets_an_error_and_the_connection_goes_on(dial, topic):
    client = dial()
    client.send(subscribe(topic[:256]), ping())
    client.expect_error("Cannot subscribe")
    client.expect(pong())


def test_an_error_fits_what_publishers_read_however_long_the_topic(dial):
    client = dial()
    client.send(publish(b"#" * 256), publish(b"\xff" * 256), subscribe(b"#" * 256))
    for _ in range(3):
        client.expect_error("")


def test_an_unsigned_publish_below_secure_is_refused_with_the_text_of_the_protocol(dial):
    client = dial()
    client.send(publish(b"secure/door", b"open", 1), publish(b"secure", b"free", 2))
    text = "Topic 'secure/door' requires signed publish (CMD_SIGNED_PUBLISH)"
    client.expect(error(text), ack(2))


def test_a_signature_of_an_unknown_key_is_refused_with_the_text_of_the_protocol(dial, unique):
    client = dial()
    client.send(frame(0x10, 55, unique, b"21.5") + bytes(64) + (7).to_bytes(4, "big"), ping())
    client.expect(error("Invalid signature or unknown key"), pong())


# ── pieces


def test_frames_may_be_split_at_every_byte(dial, unique):
    frames = [
        subscribe(unique, b"split-" + unique, 1),
        publish(unique, b"payload", 2),
        frame(0x33, 0, b"unknown", b"command"),
        ping(),
        unsubscribe(unique, 3),
    ]
    whole = b"".join(frames)
    for cut in range(1, len(whole)):
        client = dial()
        client.send(whole[:cut])
        client.send(whole[cut:])
        history = [received.payload for received in client.receive_until(ack(1))]
        assert history == [b"payload"] * (cut - 1)
        assert client.receive_payloads(1) == [b"payload"]
        client.expect(ack(2), error("Unknown command"), pong(), ack(3))
        client.close()


def test_frames_may_come_byte_by_byte(dial, unique):
    client = dial()
    for byte in subscribe(unique, None, 1) + publish(unique, b"x", 2) + ping():
        client.send(bytes([byte]))
    client.expect(ack(1))
    assert client.receive_payloads(1) == [b"x"]
    client.expect(ack(2), pong())


# ── limits


def test_a_topic_field_of_256_bytes_is_taken_and_one_of_257_ends_the_connection(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.publish(b"t" * 256, b"m")
    client.subscribe(b"t" * 200, b"c" * 55)
    client.send(publish(b"t" * 257))
    client.expect(error("Topic too long — connection closed"))
    client.expect_close()
    named = dial(at=broker)
    named.send(subscribe(b"t" * 200, b"c" * 56))
    named.expect(error("Topic too long — connection closed"))
    named.expect_close()
    assert disconnects(broker, "topic_invalid") == 2


@pytest.mark.parametrize("topic", [b"t", b"u" * 256])
def test_a_frame_of_16_mib_is_taken_and_delivered(dial, topic):
    client = dial()
    client.socket.settimeout(20)
    payload = b"x" * (FRAME_BYTES_MAX - 16 - len(topic))
    client.subscribe(topic)
    client.send(publish(topic, payload, 4))
    received = client.receive()
    assert (received.command, received.topic, received.payload) == (MESSAGE, topic, payload)
    client.expect(ack(4))


def test_a_frame_of_one_byte_more_gets_an_error_and_a_close(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    header = publish(b"t", b"")[:12] + (FRAME_BYTES_MAX - 16).to_bytes(4, "big")
    client.send(header)  # the announced size is enough to refuse it
    client.expect(error(TOO_LARGE))
    client.expect_close()
    assert disconnects(broker, "packet_too_large") == 1


def test_the_trailer_of_a_signed_publish_counts_towards_the_limit(dial):
    client = dial()
    client.send(frame(0x10, 1, b"t", b"")[:12] + (FRAME_BYTES_MAX - 84).to_bytes(4, "big"))
    client.expect(error(TOO_LARGE))
    client.expect_close()


def test_the_limit_of_a_frame_can_be_configured(own_broker, dial):
    broker = own_broker(limits={"frame_bytes_max": 1024})
    client = dial(at=broker)
    client.publish(b"t", b"x" * (1024 - 17))
    client.send(publish(b"t", b"x" * (1024 - 16)))
    client.expect(error(TOO_LARGE))
    client.expect_close()


@pytest.mark.parametrize("version", [0, 2, 0x2A, 0xFF])
def test_another_version_within_the_stream_gets_an_error_and_a_close(dial, version):
    client = dial()
    client.send(ping(), frame(0x06, version=version), ping())
    client.expect(pong(), error("Unsupported protocol version — connection closed"))
    client.expect_close()


BAD = [
    frame(PUBLISH, 1, b"t" * 300, b""),
    publish(b"t")[:12] + b"\xff\xff\xff\xff",
    b"\x02",
]


@pytest.mark.parametrize("bad", BAD, ids=["topic", "payload", "version"])
def test_a_bad_frame_harms_its_own_connection_alone(dial, unique, bad):
    witness, culprit = dial(), dial()
    witness.subscribe(unique)
    culprit.publish(unique, b"before")
    culprit.send(bad)
    culprit.expect_error("connection closed")
    culprit.expect_close()
    assert witness.receive_payloads(1) == [b"before"]
    witness.send(publish(unique, b"after", 9))
    assert witness.receive_payloads(1) == [b"after"]
    witness.expect(ack(9))


@pytest.mark.parametrize("bad", BAD, ids=["topic", "payload", "version"])
def test_what_came_before_a_bad_frame_is_answered_before_it(dial, unique, bad):
    for _ in range(10):
        client = dial()
        client.send(publish(unique, b"m", 1), ping(), publish(unique, b"m", 2), bad)
        client.expect(ack(1), pong(), ack(2))
        client.expect_error("connection closed")
        client.expect_close()
        client.close()


def test_the_connections_above_the_limit_are_closed_without_a_byte(own_broker, dial):
    broker = own_broker(limits={"clients_max": 2})
    clients = [dial(at=broker) for _ in range(2)]
    for client in clients:
        client.expect_nothing()
    beyond = dial(at=broker)
    beyond.send(ping())
    beyond.expect_close()
    for client in clients:
        client.expect_nothing()
