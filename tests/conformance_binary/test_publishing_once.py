"""Publishes with numbers: stored once, however often they are sent."""

import itertools

import pytest

from penstock.client import connect
from penstock.core.producers import WINDOW
from tests.conformance_binary.wire_client import (
    NO_REPLY,
    NUMBERS,
    RETAIN,
    ack,
    ping,
    pong,
    publish,
    publish_2,
)

EPOCH, OTHER_EPOCH = bytes(range(8)), bytes(range(1, 9))


@pytest.fixture
def publisher(dial, unique):
    """Open a connection of the same client; ``epoch`` names the client's start."""

    def connect(epoch=EPOCH, client_id=unique, **place):
        client = dial(**place)
        assert client.greet(client_id, features=NUMBERS, epoch=epoch)[1] == NUMBERS
        return client

    return connect


def stored(dial, topic, **place):
    return [message.payload for message in dial(**place).subscribe(topic)]


def test_a_repeated_publish_is_acknowledged_and_stored_once(publisher, dial, unique):
    client = publisher()
    for _ in range(3):
        client.send(publish(unique, b"m", 7))
        client.expect(ack(7))
    assert stored(dial, unique) == [b"m"]


def test_a_repetition_on_the_next_connection_is_recognised(publisher, dial, unique):
    with publisher() as client:
        client.publish(unique, b"a", b"b", b"c")
    again = publisher()
    again.send(*(publish(unique, b"abcde"[n : n + 1], n) for n in range(1, 5)))
    again.expect(*map(ack, range(1, 5)))
    assert stored(dial, unique) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_repetition_of_what_is_still_on_its_way_to_the_disk_waits_for_it(publisher, dial, unique):
    """Both connections send before the broker answers either: one chunk each, no turn between."""
    topics = [b"%b/%d" % (unique, number) for number in range(50)]
    first, second = publisher(), publisher()
    for number, topic in enumerate(topics):
        first.send(publish(topic, b"m", number), ping())
        second.send(publish(topic, b"m", number), ping())
    for number in range(len(topics)):
        for client in (first, second):
            client.expect(ack(number), pong())
    for topic in topics:
        assert stored(dial, topic) == [b"m"]


def test_what_was_published_with_a_number_can_be_read_in_bulk(own_broker, publisher):
    """The name of its producer is text for clients of the queue protocol, and for Spark."""
    broker = own_broker()
    client = publisher(at=broker)
    client.send(publish(b"t", b"m", 1))
    client.expect(ack(1))
    with connect([f"127.0.0.1:{broker.port}"]) as reader:
        [part] = reader.fetch("t")
    [(_, _, producer, seq)] = part.producers
    assert (next(iter(part)).payload, producer[:8], seq) == (b"m", b"$binary/", 1)


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3]))[:6], ids=str)
def test_numbers_in_any_order_and_twice_in_one_piece_are_each_stored_once(
    publisher, dial, unique, order
):
    client = publisher()
    numbers = [*order, *order, 2, 3, 4]
    client.send(*(publish(unique, b"%d" % number, number) for number in numbers))
    client.expect(*map(ack, numbers))
    assert stored(dial, unique) == [b"%d" % number for number in [*order, 4]]


def test_numbers_count_by_topic_client_and_epoch(publisher, dial, unique):
    for client in (publisher(), publisher(OTHER_EPOCH), publisher(client_id=unique + b"2")):
        for topic in (unique, unique + b"/2"):
            client.send(publish(topic, b"m", 1), publish(topic, b"m", 1))
            client.expect(ack(1), ack(1))
    assert len(stored(dial, unique)) == len(stored(dial, unique + b"/2")) == 3


def test_who_has_not_agreed_is_not_deduplicated(dial, unique):
    client = dial()
    client.greet(unique, epoch=EPOCH)
    client.send(publish(unique, b"m", 1), publish(unique, b"m", 1))
    client.expect(ack(1), ack(1))
    assert stored(dial, unique) == [b"m", b"m"]


def test_a_number_that_left_the_window_is_new(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.greet(b"c", features=NUMBERS, epoch=EPOCH)
    count = WINDOW + 1
    for first in range(0, count, 5_000):
        numbers = range(first, min(first + 5_000, count))
        client.send(*(publish(b"t", b"", number) for number in numbers))
        client.expect(*map(ack, numbers))
    client.send(publish(b"t", b"again", 0), publish(b"t", b"again", count - 1))
    client.expect(ack(0), ack(count - 1))
    assert broker.call(lambda: broker.server.store.topic(b"t").next_offset) == count + 1


def test_repetitions_are_counted(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.greet(b"c", features=NUMBERS, epoch=EPOCH)
    client.send(*[publish(b"t", b"m", 1)] * 4)
    client.expect(*[ack(1)] * 4)
    assert broker.metrics()["penstock_repeated_publishes_total"] == 3


def test_a_deleted_topic_forgets_its_numbers(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.greet(b"c", features=NUMBERS, epoch=EPOCH)
    client.send(publish(b"t", b"m", 1))
    client.expect(ack(1))
    with connect([f"{broker.host}:{broker.port}"]) as admin:
        admin.delete_topic("t")
    client.send(publish(b"t", b"m", 1))
    client.expect(ack(1))
    assert stored(dial, b"t", at=broker) == [b"m"]


def test_the_greatest_numbers_are_numbers(publisher, dial, unique):
    client = publisher()
    numbers = [2**64 - 2, 2**64 - 1, 0]
    for _ in range(2):
        client.send(*(publish(unique, b"%d" % number, number) for number in numbers))
        client.expect(*map(ack, numbers))
    assert len(stored(dial, unique)) == 3


# ── PUBLISH_2


def test_a_retained_publish_is_retained_and_deduplicated(publisher, dial, unique):
    client = publisher()
    for _ in range(2):
        client.send(publish_2(unique, b"on", 1, RETAIN))
        client.expect(ack(1))
    assert stored(dial, unique) == [b"on"]


def test_publish_2_without_flags_is_publish(dial, unique):
    client = dial()
    client.send(publish_2(unique, b"m", 5))
    client.expect(ack(5))
    assert stored(dial, unique) == [b"m"]


@pytest.mark.parametrize("flags", [4, 0x80, 7])
def test_flags_that_nobody_knows_are_an_error(dial, unique, flags):
    client = dial()
    client.send(publish_2(unique, b"m", 5, flags), ping())
    client.expect_error("Malformed PUBLISH_2")
    client.expect(pong())


def test_a_publish_without_a_reply_has_none_and_arrives(dial, unique):
    client, subscriber = dial(), dial()
    subscriber.subscribe(unique)
    client.send(*(publish_2(unique, b"%d" % n, n, NO_REPLY) for n in range(3)), ping())
    client.expect(pong())
    assert subscriber.receive_payloads(3) == [b"0", b"1", b"2"]


def test_a_refused_publish_without_a_reply_is_counted_by_its_reason(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.send(publish_2(b"a/#", b"m", 1, NO_REPLY), publish_2(b"$SYS/x", b"m", 2, NO_REPLY))
    client.expect_nothing()
    metrics = broker.metrics()
    assert metrics['penstock_dropped_total{reason="topic_refused"}'] == 2
