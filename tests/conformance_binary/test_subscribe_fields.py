"""SUBSCRIBE says more: where to begin, how much at a time, retained messages first."""

import pytest

from penstock.dispatch import unacked
from tests.conformance.wire_client import wait_until
from tests.conformance_binary.wire_client import (
    NO_REPLY,
    RETAIN,
    SUBSCRIBE,
    ack,
    field,
    frame,
    ping,
    pong,
    publish,
    publish_2,
    unsubscribe,
)

EARLIEST, LATEST = field(1, b"\0"), field(1, b"\1")
RETAINED_FIRST = field(3, b"")


def last(count):
    return field(1, b"\2" + count.to_bytes(4, "big"))


def since(time_ms):
    return field(1, b"\3" + time_ms.to_bytes(8, "big"))


def prefetch(count):
    return field(2, count.to_bytes(2, "big"))


def subscribe(client, topic, *fields, client_id=b""):
    """Subscribe; return what arrives before the answer."""
    name = client_id + b"\0" + topic if client_id else topic
    client.send(frame(SUBSCRIBE, 9, name, b"\2" + b"".join(fields)))
    return client.receive_until(ack(9))


def payloads(frames):
    return [found.payload for found in frames]


# ── start


@pytest.mark.parametrize("client_id", [b"", b"reader"], ids=["without a name", "with a name"])
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", [b"a", b"b", b"c"]),
        (EARLIEST, [b"a", b"b", b"c"]),
        (LATEST, []),
        (last(0), []),
        (last(2), [b"b", b"c"]),
        (last(9), [b"a", b"b", b"c"]),
        (since(1), [b"a", b"b", b"c"]),
        (since(1 << 50), []),
    ],
    ids=repr,
)
def test_a_new_subscriber_begins_where_it_says(dial, unique, client_id, start, expected):
    publisher, client = dial(), dial()
    publisher.publish(unique, b"a", b"b", b"c")
    name = client_id + unique if client_id else b""
    assert payloads(subscribe(client, unique, start, client_id=name)) == expected
    publisher.publish(unique, b"new")
    assert client.receive_payloads(1) == [b"new"]


def test_a_time_is_that_of_the_messages(own_broker, dial):
    broker = own_broker()
    publisher = dial(at=broker)
    publisher.publish(b"t", b"early")
    broker.clock.advance(10)
    now_ms = broker.call(broker.server.parts.connections.wall_ms)
    broker.clock.advance(20)
    publisher.publish(b"t", b"late")
    client = dial(at=broker)
    assert payloads(subscribe(client, b"t", since(now_ms))) == [b"late"]


@pytest.mark.parametrize("start", [EARLIEST, LATEST, last(1), since(1)], ids=repr)
def test_a_start_does_not_count_where_there_is_progress(dial, unique, start):
    publisher, client = dial(), dial()
    publisher.publish(unique, b"a", b"b", b"c")
    first = subscribe(client, unique, client_id=unique)
    client.acknowledge(first[0])
    again = dial()
    assert payloads(subscribe(again, unique, start, client_id=unique)) == [b"b", b"c"]


@pytest.mark.parametrize("history", [[], [b"old"]], ids=["no history", "history"])
def test_a_named_subscriber_that_began_at_the_end_misses_nothing_while_away(
    own_broker, dial, history
):
    broker = own_broker()
    publisher = dial(at=broker)
    publisher.publish(b"t", *history)
    with dial(at=broker) as client:
        assert subscribe(client, b"t", LATEST, client_id=b"c") == []
        client.expect_nothing()
    publisher.publish(b"t", b"meanwhile")
    broker.restart(kill=True)
    again = dial(at=broker)
    assert payloads(subscribe(again, b"t", LATEST, client_id=b"c")) == [b"meanwhile"]


@pytest.mark.parametrize("fields", [field(1, b"\4"), field(1, b"\2"), field(2, b"\0\0")], ids=repr)
def test_fields_that_cannot_be_are_an_error_and_nothing_is_subscribed(dial, unique, fields):
    client = dial()
    client.send(frame(SUBSCRIBE, 9, unique, b"\2" + fields), ping())
    client.expect_error("Malformed SUBSCRIBE")
    client.expect(pong())
    dial().publish(unique, b"m")
    client.expect_nothing()


# ── prefetch


def test_a_subscriber_is_sent_as_many_as_it_wants_in_flight(dial, unique):
    publisher, client = dial(), dial()
    publisher.publish(unique, *(b"%d" % n for n in range(10)))
    subscribe_frame = frame(SUBSCRIBE, 9, unique + b"\0" + unique, b"\2" + prefetch(3))
    client.send(subscribe_frame)
    flying = client.receive_messages(3)
    for number in range(3, 10):
        client.send(ack(flying.pop(0).sequence))
        received = client.receive()
        assert received.payload == b"%d" % number
        flying.append(received)
    assert client.receive_bytes() == ack(9)  # the end of the history
    client.send(*(ack(found.sequence) for found in flying))
    client.expect_nothing()
    publisher.publish(unique, *(b"%d" % n for n in range(10, 15)))
    client.receive_messages(3)
    client.expect_nothing()


def test_topics_that_are_read_at_the_same_time_share_the_prefetch(dial, unique):
    publisher, client = dial(), dial()
    topics = [b"%b/%d" % (unique, number) for number in range(8)]
    for topic in topics:
        assert subscribe(client, topic, prefetch(3), client_id=unique) == []
    payloads = [b"%d" % number for number in range(5)]  # more than may be sent: they are read
    publisher.send(*(publish(topic, one) for topic in topics for one in payloads))
    publisher.expect(*[ack(1)] * 40)
    flying = client.receive_messages(3)
    received = len(flying)
    while received < 40:
        client.expect_nothing()
        client.send(*(ack(found.sequence) for found in flying))
        flying = client.receive_messages(min(3, 40 - received))
        received += len(flying)


def test_a_topic_that_is_left_gives_its_prefetch_to_others(dial, unique):
    publisher, client = dial(), dial()
    left, kept = unique + b"/left", unique + b"/kept"
    for topic in (left, kept):
        assert subscribe(client, topic, prefetch(2), client_id=unique) == []
    publisher.publish(left, b"1", b"2")
    client.receive_messages(2)
    publisher.publish(kept, b"3")
    client.expect_nothing()
    client.send(unsubscribe(left, 5))
    assert {client.receive().payload for _ in range(2)} == {b"", b"3"}, "the ACK and a message"


def test_messages_of_a_filter_that_nobody_acknowledges_use_up_no_prefetch(
    dial, unique, monkeypatch
):
    monkeypatch.setattr(unacked, "RANGES_MAX", 64)
    publisher, client = dial(), dial()
    assert subscribe(client, unique, prefetch(1), client_id=unique) == []
    assert subscribe(client, unique + b"/+") == []
    publisher.publish(unique, b"first", b"second")
    (first,) = client.receive_messages(1)
    for number in range(200):  # each commit is a range of its own
        publisher.publish(unique + b"/%d" % (number % 2), b"m")
    client.receive_messages(200)
    client.send(ack(first.sequence))
    assert client.receive_payloads(1) == [b"second"]


def test_what_was_sent_before_a_repeated_subscribe_makes_no_room(dial, unique):
    publisher, client = dial(), dial()
    publisher.publish(unique, *(b"%d" % n for n in range(20)))
    early = subscribe(client, unique, client_id=unique)
    assert subscribe(client, unique, LATEST, prefetch(3)) == []
    client.send(*(ack(found.sequence) for found in early))
    client.expect_nothing()
    publisher.publish(unique, *(b"%d" % n for n in range(20, 30)))
    assert client.receive_payloads(3) == [b"20", b"21", b"22"]
    client.expect_nothing()


def test_acknowledgements_of_an_earlier_connection_make_no_room(dial, unique):
    publisher = dial()
    publisher.publish(unique, *(b"%d" % n for n in range(10)))
    first = dial()
    early = subscribe(first, unique, client_id=unique)
    client = dial()
    client.send(frame(SUBSCRIBE, 9, unique + b"\0" + unique, b"\2" + prefetch(2)))
    client.receive_messages(2)
    client.send(*(ack(found.sequence) for found in early[5:]))
    publisher.expect_nothing()
    client.send(ack(early[0].sequence), ack(early[1].sequence))
    assert client.receive_payloads(2) == [b"2", b"3"]


def test_a_worker_has_as_many_jobs_as_it_wants(dial, unique):
    queue = b"q:" + unique
    publisher, slow, other = dial(), dial(), dial()
    subscribe(slow, queue, prefetch(1), client_id=unique + b"1")
    publisher.publish(queue, b"1", b"2", b"3")
    job = slow.receive_messages(1)[0]
    slow.expect_nothing()
    subscribe(other, queue, prefetch(5), client_id=unique + b"2")
    assert other.receive_payloads(2) == [b"2", b"3"]
    publisher.publish(queue, b"4")
    slow.send(ack(job.sequence))
    slow.expect_nothing()
    assert other.receive_payloads(1) == [b"4"]


# ── retained first


def retain(client, topic, payload):
    client.send(publish_2(topic, payload, 1, RETAIN))
    client.expect(ack(1))


def test_a_filter_begins_with_what_is_retained(dial, unique):
    publisher, client = dial(), dial()
    retain(publisher, unique + b"/a", b"1")
    retain(publisher, unique + b"/b", b"2")
    retain(publisher, unique + b"/b", b"3")
    retain(publisher, unique + b"/c", b"4")
    retain(publisher, unique + b"/c", b"")
    publisher.publish(unique + b"/d", b"not retained")
    found = subscribe(client, unique + b"/+", RETAINED_FIRST)
    assert {(one.topic[-1:], one.payload) for one in found} == {(b"a", b"1"), (b"b", b"3")}
    assert all(one.sequence for one in found)
    publisher.publish(unique + b"/a", b"live")
    assert client.receive_payloads(1) == [b"live"]


def test_a_topic_may_begin_with_its_value_and_go_on_live(dial, unique):
    publisher, client = dial(), dial()
    retain(publisher, unique, b"value")
    publisher.publish(unique, b"history")
    assert payloads(subscribe(client, unique, LATEST, RETAINED_FIRST)) == [b"value"]


def test_a_retained_message_without_a_reply_is_retained(dial, unique):
    publisher, client = dial(), dial()
    publisher.send(publish_2(unique, b"v", 1, RETAIN | NO_REPLY))
    publisher.expect_nothing()
    wait_until(lambda: payloads(subscribe(dial(), unique + b"/#", RETAINED_FIRST)) == [b"v"])
    client.expect_nothing()


def test_a_slow_reader_gets_all_that_is_retained(own_broker, dial):
    broker = own_broker(limits={"outbound_bytes_max": 100_000})
    publisher = dial(at=broker)
    for number in range(400):
        publisher.send(publish_2(b"r/%d" % number, b"x" * 2_000, number, RETAIN))
    publisher.expect(*map(ack, range(400)))
    client = dial(at=broker, receive_buffer_bytes=4_096)
    client.send(frame(SUBSCRIBE, 9, b"r/#", b"\2" + RETAINED_FIRST))
    publisher.expect_nothing()
    assert len(client.receive_until(ack(9))) == 400
