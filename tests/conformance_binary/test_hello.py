"""HELLO: what is agreed, what it changes, and that nothing changes without it."""

import pytest

from tests.conformance_binary.looks import disconnects, drops
from tests.conformance_binary.wire_client import (
    CODES,
    ERROR,
    MESSAGE,
    NUMBERS,
    SUBSCRIBE,
    WELCOME,
    WITHHELD,
    ack,
    coded,
    error,
    field,
    frame,
    hello,
    ping,
    pong,
    publish,
)

EPOCH = bytes(range(1, 9))


def test_a_broker_says_what_it_grants_and_what_time_it_is(own_broker, dial):
    broker = own_broker(limits={"idle_timeout_s": 300})
    client = dial(at=broker)
    welcome = client.greet(b"pump-7", features=CODES | NUMBERS, epoch=EPOCH)
    now_ms = broker.call(broker.server.parts.connections.wall_ms)
    assert welcome.pop(5) == pytest.approx(now_ms, abs=60_000)
    assert welcome == {1: CODES | NUMBERS, 2: 16 * 1024 * 1024, 3: 300}


@pytest.mark.parametrize(
    ("client_id", "asked", "granted"),
    [
        (b"", {}, 0),
        (b"", {"features": 0xFFFFFFFF}, CODES),
        (b"pump", {"features": NUMBERS}, 0),
        (b"", {"features": NUMBERS, "epoch": EPOCH}, 0),
        (b"pump", {"features": NUMBERS, "epoch": EPOCH}, NUMBERS),
    ],
)
def test_only_what_is_known_and_possible_is_granted(dial, client_id, asked, granted):
    assert dial().greet(client_id, **asked)[1] == granted


def test_a_second_hello_is_an_error_and_changes_nothing(dial, unique):
    client = dial()
    client.greet(unique)
    client.send(hello(b"other", 5, features=CODES), frame(0x55, 6))
    client.expect(error("Malformed HELLO: it may be said once"), error("Unknown command"))


@pytest.mark.parametrize(
    "payload",
    [
        field(1, b"abc"),
        field(2, (255).to_bytes(4, "big")),
        field(3, b"\0"),
        field(4, b"1234567"),
        field(9, b"?")[:-1],
        b"\1",
        field(9, bytes(1_022)),
    ],
    ids=["features", "too small a frame", "keep-alive", "epoch", "cut", "head cut", "too long"],
)
def test_a_hello_with_faulty_fields_is_an_error_and_may_be_repeated(dial, payload):
    client = dial()
    client.send(frame(0x20, 1, b"", payload))
    client.expect_error("Malformed HELLO")
    client.greet(features=CODES)


def test_fields_of_unknown_types_are_skipped_and_the_last_of_a_type_counts(dial):
    client = dial()
    fields = field(200, b"new") + field(1, bytes(4)) + field(1, bytes([0, 0, 0, CODES]))
    client.send(frame(0x20, 4, b"", fields), frame(0x55, 6))
    assert client.receive().command == WELCOME
    client.expect(coded(b"unknown_command", 6, "Unknown command"))


def test_a_client_id_that_none_may_have_is_refused(dial):
    client = dial()
    client.send(hello(b"a\0b"))
    client.expect_error("Client id refused: it has a NUL")
    client.send(hello(b"x" * 257))
    client.expect_error("Client id refused: 257 bytes")


# ── coded errors


def test_an_error_names_its_request_and_its_code(dial, unique):
    client = dial()
    client.greet(features=CODES)
    client.send(
        frame(0x55, 11), publish(b"a/#", b"", 12), publish(b"$SYS/x", b"", 13), publish(unique)
    )
    client.expect(coded(b"unknown_command", 11, "Unknown command"))
    for sequence in (12, 13):
        received = client.receive()
        assert received[:3] == (ERROR, sequence, b"topic_invalid")
        assert received.payload.startswith(b"Not a topic to publish to: ")
        assert len(received.topic + received.payload) <= 240
    client.expect(ack(1))


def test_the_last_error_names_the_frame_that_ends_the_connection(dial):
    client = dial()
    client.greet(features=CODES)
    client.send(publish(b"t" * 1_025, b"", 77))
    client.expect(coded(b"topic_too_long", 77, "Topic too long — connection closed"))
    client.expect_close()


def test_a_farewell_names_no_request(dial, unique):
    first, second = dial(), dial()
    first.greet(unique, features=CODES)
    first.subscribe(b"t")
    second.subscribe(b"t", unique)
    first.expect(coded(b"taken_over", 0, "Another connection uses this client id"))
    first.expect_close()


# ── client id and topics


def test_the_client_id_of_hello_is_that_of_the_first_subscribe(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.publish(b"t", b"1", b"2")
    client.greet(b"billing")
    client.acknowledge(*client.subscribe(b"t"))
    assert set(broker.server.broker.subscribers.by_id) == {b"billing"}
    again = dial(at=broker)
    again.greet(b"billing")
    assert again.subscribe(b"t") == []


def test_a_client_id_alone_takes_nothing_over(dial, unique):
    first, second = dial(), dial()
    first.greet(unique)
    first.subscribe(b"t")
    second.greet(unique)
    second.expect_nothing()
    first.expect_nothing()


def test_behind_hello_topics_may_be_as_long_as_those_of_other_protocols(dial, unique):
    topic = unique + b"/" + b"x" * (1_023 - len(unique))
    client, publisher = dial(), dial()
    client.send(hello(b"", 1), frame(SUBSCRIBE, 2, topic))
    assert client.receive().command == WELCOME
    client.expect(ack(2))
    publisher.send(hello(b"", 1), publish(topic, b"m", 3))
    assert publisher.receive().command == WELCOME
    publisher.expect(ack(3))
    assert client.receive().topic == topic
    old = dial()
    old.send(publish(topic, b"m", 3))
    old.expect_error("Topic too long")


# ── largest frame


def test_a_message_that_the_client_does_not_take_is_withheld_and_may_be_acknowledged(
    own_broker, dial
):
    broker = own_broker()
    publisher = dial(at=broker)
    publisher.publish(b"t", b"a", b"b" * 1_000, b"c")
    client = dial(at=broker)
    client.greet(b"small", frame_bytes=256)
    small, large, last = client.subscribe(b"t")
    assert [small.payload, last.payload] == [b"a", b"c"]
    assert large[:3] == (WITHHELD, small.sequence + 1, b"t")
    assert large.payload == (1_000).to_bytes(4, "big")
    assert drops(broker, "too_large") == 1
    client.acknowledge(small, large, last)
    again = dial(at=broker)
    again.greet(b"small", frame_bytes=256)
    assert again.subscribe(b"t") == []


def test_a_frame_of_the_largest_size_is_taken_and_one_byte_more_is_not(dial, unique):
    client, publisher = dial(), dial()
    client.greet(frame_bytes=300)
    client.subscribe(unique)
    fits = 300 - 16 - len(unique)
    publisher.publish(unique, b"x" * fits, b"x" * (fits + 1))
    assert client.receive().command == MESSAGE
    withheld = client.receive()
    assert (withheld.command, int.from_bytes(withheld.payload, "big")) == (WITHHELD, fits + 1)


def test_the_topic_of_a_withheld_message_is_cut_between_two_characters(dial, unique):
    topic = unique + b"/" + "ü".encode() * 200
    client, publisher = dial(), dial()
    client.greet(frame_bytes=256)
    client.subscribe(unique + b"/#")
    publisher.greet()
    publisher.publish(topic, b"m")
    withheld = client.receive()
    assert withheld.command == WITHHELD
    assert topic.startswith(withheld.topic)
    assert 235 <= len(withheld.topic) <= 236
    withheld.topic.decode()


def test_a_job_that_the_worker_does_not_take_is_withheld(dial, unique):
    worker, publisher = dial(), dial()
    worker.greet(unique, frame_bytes=256)
    worker.subscribe(b"q:" + unique)
    publisher.publish(b"q:" + unique, b"x" * 500)
    assert worker.receive().command == WITHHELD


def test_others_get_the_message_whole(dial, unique):
    small, large, publisher = dial(), dial(), dial()
    small.greet(frame_bytes=256)
    small.subscribe(unique)
    large.subscribe(unique)
    publisher.publish(unique, b"x" * 500)
    assert small.receive().command == WITHHELD
    assert large.receive_payloads(1) == [b"x" * 500]


# ── keep-alive


def test_silence_ends_after_one_and_a_half_times_the_keep_alive(own_broker, dial):
    broker = own_broker(limits={"idle_timeout_s": 330})
    client, witness = dial(at=broker), dial(at=broker)
    witness.expect_nothing()
    assert client.greet(keep_alive=10)[3] == 15
    broker.clock.advance(14.9)
    client.expect_nothing()
    broker.clock.advance(15.1)
    client.expect_close()
    assert disconnects(broker, "keep_alive_timeout") == 1
    witness.expect_nothing()


def test_a_long_keep_alive_replaces_the_idle_limit(own_broker, dial):
    broker = own_broker(limits={"idle_timeout_s": 30})
    client = dial(at=broker)
    client.greet(keep_alive=100)
    broker.clock.advance(149)
    client.expect_nothing()


def test_hello_may_share_a_segment_with_what_follows(dial, unique):
    client = dial()
    client.send(hello(b"", 1, features=CODES), frame(0x55, 2), publish(unique, b"", 3), ping())
    assert client.receive().command == WELCOME
    client.expect(coded(b"unknown_command", 2, "Unknown command"), ack(3), pong())
