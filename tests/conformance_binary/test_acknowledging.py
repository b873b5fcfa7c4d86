"""Exactly once: what a named subscriber acknowledged is not delivered again, all else is."""

import pytest

from penstock.doors.binary import acknowledgements
from tests.conformance_binary.looks import disconnects, drops
from tests.conformance_binary.wire_client import ack, error, ping, pong, publish, wait_until


@pytest.fixture(params=["stay", "stop", "kill"])
def between(request):
    """What happens to the broker between two connections of a client."""
    if request.param == "stay":
        return lambda _broker: None
    return lambda broker: broker.restart(kill=request.param == "kill")


def payloads(frames):
    return [received.payload for received in frames]


def numbered(count, start=0):
    return [b"%d" % number for number in range(start, start + count)]


# ── the scenarios of the specification


def test_basic_acknowledgement(own_broker, dial, between):
    broker = own_broker()
    subscriber, publisher = dial(at=broker), dial(at=broker)
    subscriber.subscribe(b"test/ack", b"test-client-1")
    publisher.publish(b"test/ack", *numbered(10))
    messages = subscriber.receive_messages(10)
    assert payloads(messages) == numbered(10)
    subscriber.acknowledge(*messages)
    between(broker)
    assert dial(at=broker).subscribe(b"test/ack", b"test-client-1") == []


@pytest.mark.parametrize("acknowledged", [0, 1, 24, 25, 49, 50])
def test_exactly_the_rest_comes_on_reconnect(own_broker, dial, between, acknowledged):
    broker = own_broker()
    dial(at=broker).publish(b"test/reconnect", *numbered(50))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(b"test/reconnect", b"test-client-2")
    assert payloads(messages) == numbered(50)
    subscriber.acknowledge(*messages[:acknowledged])
    subscriber.close()
    between(broker)
    again = dial(at=broker).subscribe(b"test/reconnect", b"test-client-2")
    assert again == messages[acknowledged:]


def test_clients_are_independent(own_broker, dial, between):
    broker = own_broker()
    one, two = dial(at=broker), dial(at=broker)
    one.subscribe(b"test/multi", b"client-A")
    two.subscribe(b"test/multi", b"client-B")
    dial(at=broker).publish(b"test/multi", *numbered(20))
    one.acknowledge(*one.receive_messages(20))
    assert payloads(two.receive_messages(20)) == numbered(20)
    between(broker)
    assert dial(at=broker).subscribe(b"test/multi", b"client-A") == []
    assert payloads(dial(at=broker).subscribe(b"test/multi", b"client-B")) == numbered(20)


def test_all_that_was_published_before_comes_from_history(own_broker, dial, between):
    broker = own_broker()
    dial(at=broker).publish(b"test/sequential", *numbered(100))
    between(broker)
    received = dial(at=broker).subscribe(b"test/sequential", b"test-client-seq")
    assert payloads(received) == numbered(100)


def test_what_is_published_while_a_client_is_away_is_owed_to_it(own_broker, dial, between):
    broker = own_broker()
    subscriber, publisher = dial(at=broker), dial(at=broker)
    subscriber.subscribe(b"t", b"name")
    publisher.publish(b"t", b"1")
    subscriber.acknowledge(*subscriber.receive_messages(1))
    subscriber.close()
    publisher.publish(b"t", b"2")
    between(broker)
    dial(at=broker).publish(b"t", b"3")
    assert payloads(dial(at=broker).subscribe(b"t", b"name")) == [b"2", b"3"]


# ── any acknowledgement


@pytest.mark.parametrize(
    "chosen",
    [[9], [0, 2, 4, 6, 8], [9, 8, 7, 0], [5, 5, 5], [3, 4, 5, 0, 1]],
    ids=str,
)
def test_acknowledgements_in_any_order_leave_exactly_the_others(own_broker, dial, between, chosen):
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(10))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(b"t", b"name")
    subscriber.acknowledge(*(messages[number] for number in chosen))
    subscriber.close()
    between(broker)
    left = [message for number, message in enumerate(messages) if number not in chosen]
    assert dial(at=broker).subscribe(b"t", b"name") == left


@pytest.mark.parametrize("sequence", [0, 4, 1_000, 2**63, 2**64 - 1])
def test_an_acknowledgement_of_nothing_is_harmless_now_and_later(own_broker, dial, sequence):
    broker = own_broker()
    publisher, subscriber = dial(at=broker), dial(at=broker)
    publisher.publish(b"t", *numbered(3))
    subscriber.subscribe(b"t", b"name")
    subscriber.send(ack(sequence))
    subscriber.expect_nothing()
    publisher.publish(b"t", b"3")  # it gets sequence 4, which was acknowledged before it was
    assert subscriber.receive_payloads(1) == [b"3"]
    assert payloads(dial(at=broker).subscribe(b"t", b"name")) == numbered(4)


def test_acknowledging_one_topic_hides_nothing_of_another(own_broker, dial, between):
    broker = own_broker()
    publisher = dial(at=broker)
    publisher.publish(b"old", b"1", b"2")
    publisher.publish(b"new", b"3", b"4")
    subscriber = dial(at=broker)
    subscriber.acknowledge(*subscriber.subscribe(b"new", b"name"))
    subscriber.close()
    between(broker)
    assert payloads(dial(at=broker).subscribe(b"old", b"name")) == [b"1", b"2"]


def test_what_an_earlier_connection_was_sent_can_be_acknowledged_by_a_later_one(
    own_broker, dial, between
):
    """The new connection was sent none of them: their offsets are read from the journal."""
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(100))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(b"t", b"name")
    subscriber.close()
    between(broker)
    later = dial(at=broker)
    later.subscribe(b"other", b"name")
    later.acknowledge(*messages[:90])
    between(broker)
    assert dial(at=broker).subscribe(b"t", b"name") == messages[90:]


def test_what_a_filter_brought_can_be_acknowledged(own_broker, dial, between):
    broker = own_broker()
    subscriber, publisher = dial(at=broker), dial(at=broker)
    subscriber.subscribe(b"#", b"name")
    publisher.publish(b"a", b"1", b"2")
    publisher.publish(b"b", b"3")
    messages = subscriber.receive_messages(3)
    subscriber.acknowledge(messages[0], messages[2])
    between(broker)
    assert payloads(dial(at=broker).subscribe(b"a", b"name")) == [b"2"]
    assert dial(at=broker).subscribe(b"b", b"name") == []


def test_another_name_on_the_same_connection_replaces_the_first(own_broker, dial):
    broker = own_broker()
    dial(at=broker).publish(b"t", b"1", b"2")
    subscriber = dial(at=broker)
    subscriber.subscribe(b"t", b"first")
    messages = subscriber.subscribe(b"t", b"second")
    assert payloads(messages) == [b"1", b"2"]
    subscriber.acknowledge(messages[0])
    assert payloads(dial(at=broker).subscribe(b"t", b"first")) == [b"1", b"2"]
    assert payloads(dial(at=broker).subscribe(b"t", b"second")) == [b"2"]


def test_acknowledgements_are_counted(own_broker, dial):
    broker = own_broker()
    dial(at=broker).publish(b"t", b"1", b"2")
    subscriber = dial(at=broker)
    subscriber.acknowledge(*subscriber.subscribe(b"t", b"name"))
    assert broker.call(lambda: broker.server.counters.acknowledged_total) == 2


def test_known_acknowledgements_are_not_journaled_again(own_broker, dial):
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(10))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(b"t", b"name")
    subscriber.acknowledge(*messages)
    before = broker.call(lambda: broker.server.store.next_index)
    subscriber.acknowledge(*messages * 10)
    assert broker.call(lambda: broker.server.store.next_index) == before


# ── durable


@pytest.mark.parametrize("kind", ["topic", "unknown", "job"])
def test_a_pong_behind_an_ack_says_that_the_disk_has_it(own_broker, dial, kind):
    """While the disk hangs there is no PONG; when it arrives, the ACK is on disk."""
    broker = own_broker()
    topic = b"q:t" if kind == "job" else b"t"
    dial(at=broker).publish(topic, *numbered(5))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(topic, b"name")
    messages += subscriber.receive_messages(5 - len(messages))
    if kind == "unknown":
        subscriber = dial(at=broker)
        subscriber.subscribe(b"other", b"name")
    commits = broker.server.store.whole.commit
    done = []
    broker.server.store.whole.commit = lambda batch: (commits(batch), done.append(batch.events))[0]
    subscriber.send(*(ack(message.sequence) for message in messages), ping())
    subscriber.expect(pong())
    assert any(done)


def test_kill_right_after_the_pong_and_the_ack_is_remembered(start, dial):
    broker = start()
    dial(at=broker).publish(b"t", *numbered(100))
    subscriber = dial(at=broker)
    messages = subscriber.subscribe(b"t", b"name")
    subscriber.acknowledge(*messages[:50])
    broker.kill()
    broker.wait_killed()
    assert dial(at=start()).subscribe(b"t", b"name") == messages[50:]


# ── take-over


def test_a_client_id_is_taken_over_with_all_that_is_not_acknowledged(own_broker, dial):
    broker = own_broker()
    publisher, older, newer = (dial(at=broker) for _ in range(3))
    publisher.publish(b"t", *numbered(5))
    messages = older.subscribe(b"t", b"same")
    older.acknowledge(*messages[:2])
    assert newer.subscribe(b"t", b"same") == messages[2:]
    older.expect(error("Another connection uses this client id"))
    older.expect_close()
    assert disconnects(broker, "session_taken_over") == 1
    publisher.publish(b"t", b"live")
    assert newer.receive_payloads(1) == [b"live"]


def test_acknowledgements_on_their_way_to_the_disk_count_for_the_one_who_takes_over(
    own_broker, dial
):
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(5))
    for _ in range(10):
        older, newer = dial(at=broker), dial(at=broker)
        messages = older.subscribe(b"t", b"same")
        if not messages:
            break
        older.send(ack(messages[0].sequence))
        wait_until(
            lambda: broker.server.parts.binary_door.identities[b"same"]._replies._acks_asked == 1
        )
        assert newer.subscribe(b"t", b"same") == messages[1:]
        older.close()
        newer.close()


def test_a_name_is_free_again_when_its_connection_is_gone(own_broker, dial):
    broker = own_broker()
    dial(at=broker).subscribe(b"t", b"same")
    first = dial(at=broker)
    first.subscribe(b"t", b"same")
    first.close()
    wait_until(lambda: not broker.server.parts.binary_door.identities)
    dial(at=broker).subscribe(b"t", b"same")
    assert disconnects(broker, "session_taken_over") == 1


def test_names_of_mqtt_clients_are_names_of_others(own_broker, dial):
    from tests.conformance.wire_client import WireClient, connack, connect_packet

    broker = own_broker()
    subscriber = dial(at=broker)
    subscriber.subscribe(b"t", b"same")
    with WireClient(broker.host, broker.port) as device:
        device.send(connect_packet("same"))
        device.expect(connack())
        subscriber.expect_nothing()
        device.ping()


# ── limits


def test_beyond_the_limit_no_new_durable_subscriber_is_made(own_broker, dial):
    broker = own_broker(limits={"sessions_max": 2})
    dial(at=broker).publish(b"t", b"1")
    for name in (b"one", b"two"):
        client = dial(at=broker)
        client.acknowledge(*client.subscribe(b"t", name))
    third = dial(at=broker)
    third.send(b"\x01\x01" + bytes(8) + b"\0\x07" + bytes(4) + b"three\0t")
    third.expect_error("2 durable subscribers")
    assert dial(at=broker).subscribe(b"t", b"one") == []


def test_the_number_of_subscriptions_is_limited(own_broker, dial):
    broker = own_broker(limits={"subscriptions_max": 3})
    client = dial(at=broker)
    for topic in (b"a", b"b/#", b"q:c"):
        client.subscribe(topic)
    client.send(b"\x01\x01" + bytes(8) + b"\0\x01" + bytes(4) + b"d")
    client.expect_error("3 subscriptions")
    client.expect_nothing()


def test_a_subscriber_is_forgotten_after_its_time_and_not_while_it_is_connected(own_broker, dial):
    broker = own_broker(limits={"subscriber_expiry_s": 100, "idle_timeout_s": 10_000})
    dial(at=broker).publish(b"t", b"1")
    gone, here = dial(at=broker), dial(at=broker)
    gone.acknowledge(*gone.subscribe(b"t", b"gone"))
    here.acknowledge(*here.subscribe(b"t", b"here"))
    gone.close()
    wait_until(lambda: b"gone" not in broker.server.parts.binary_door.identities)
    known = broker.server.broker.subscribers.by_id
    broker.clock.advance(99)
    assert set(known) == {b"gone", b"here"}
    broker.clock.advance(2)
    wait_until(lambda: set(known) == {b"here"})
    assert payloads(dial(at=broker).subscribe(b"t", b"gone")) == [b"1"]


# ── retention


def removed(broker, topic, first_offset):
    """Run retention."""

    def is_removed():
        broker.clock.advance(1.1)
        return broker.server.store.topic(topic).first_offset >= first_offset

    wait_until(is_removed)


@pytest.fixture
def short_memory(own_broker):
    return own_broker(retention={"messages_max": 10, "age_s_max": 0})


def test_a_subscriber_is_told_how_much_retention_took_from_it(short_memory, dial):
    broker, publisher = short_memory, dial(at=short_memory)
    for payload in numbered(5):
        publisher.publish(b"t", payload)
    subscriber = dial(at=broker)
    subscriber.acknowledge(subscriber.subscribe(b"t", b"name")[1])
    subscriber.close()
    for payload in numbered(25, 5):
        publisher.publish(b"t", payload)
    removed(broker, b"t", 20)
    subscriber = dial(at=broker)
    subscriber.send(
        publish(b"other", b"", 5), b"\x01\x01" + bytes(8) + b"\0\x06" + bytes(4) + b"name\0t"
    )
    subscriber.expect(ack(5), error("19 messages of 't' were removed by retention unread"))
    assert payloads(subscriber.receive_until(ack(0))) == numbered(10, 20)
    assert drops(broker, "retention") == 19


def test_a_newcomer_is_told_nothing(short_memory, dial):
    publisher = dial(at=short_memory)
    for payload in numbered(30):
        publisher.publish(b"t", payload)
    removed(short_memory, b"t", 20)
    assert payloads(dial(at=short_memory).subscribe(b"t", b"new")) == numbered(10, 20)
    assert payloads(dial(at=short_memory).subscribe(b"t")) == numbered(10, 20)
    assert drops(short_memory, "retention") == 0


def test_who_acknowledged_what_was_removed_is_told_nothing(short_memory, dial):
    publisher, subscriber = dial(at=short_memory), dial(at=short_memory)
    subscriber.subscribe(b"t", b"name")
    for payload in numbered(30):
        publisher.publish(b"t", payload)
    subscriber.acknowledge(*subscriber.receive_messages(30))
    removed(short_memory, b"t", 20)
    assert dial(at=short_memory).subscribe(b"t", b"name") == []


def test_acknowledgements_that_must_be_looked_up_are_never_too_many(own_broker, dial, monkeypatch):
    """Beyond the bound nothing more is read for a while; what a PONG confirms is all of it."""
    monkeypatch.setattr(acknowledgements, "UNKNOWN_MAX", 4)
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(600))
    stranger = dial(at=broker)
    stranger.subscribe(b"another", b"me")
    for sequence in (*range(1, 600, 2), *range(2, 601, 2)):  # no two in a row, in many pieces
        stranger.send(ack(sequence))
    stranger.send(ping())
    stranger.expect(pong())
    broker.restart(kill=True)
    assert dial(at=broker).subscribe(b"t", b"me") == []
