"""Order: messages of one client arrive in the order sent, live, queued or repeated."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    connack,
    connect_packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
)

pytestmark = both_versions


def numbered(count):
    return [b"%d" % number for number in range(count)]


@pytest.mark.proves("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_burst_arrives_in_its_order(connect, unique, qos):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    payloads = numbered(200)
    packet_ids = range(1, len(payloads) + 1)
    publisher.send(
        *(
            publish(unique, payload, qos=qos, packet_id=packet_id if qos else None)
            for packet_id, payload in zip(packet_ids, payloads, strict=True)
        )
    )
    if qos == 2:
        publisher.expect(*map(pubrec, packet_ids))
        publisher.send(*map(pubrel, packet_ids))
    for payload in payloads:
        subscriber.expect_publish(unique, payload, qos=qos)


@pytest.mark.proves("MQTT-4.6.0-2", "MQTT-4.6.0-6")
def test_pubacks_come_in_the_order_of_the_publishes(connect, unique):
    publisher = connect()
    ids = [7, 3, 65_535, 1, 4, 2]
    publisher.send(*(publish(unique, b"m", qos=1, packet_id=packet_id) for packet_id in ids))
    publisher.expect(*map(puback, ids))


@pytest.mark.proves("MQTT-4.6.0-3", "MQTT-4.6.0-6")
def test_pubrecs_come_in_the_order_of_the_publishes(connect, unique):
    publisher = connect()
    ids = [7, 3, 65_535, 1, 4, 2]
    publisher.send(*(publish(unique, b"m", qos=2, packet_id=packet_id) for packet_id in ids))
    publisher.expect(*map(pubrec, ids))
    publisher.send(*map(pubrel, ids))
    publisher.expect(*map(pubcomp, ids))


@pytest.mark.proves("MQTT-4.6.0-4", "MQTT-4.6.0-6")
def test_pubrels_come_in_the_order_of_the_pubrecs(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    for payload in numbered(5):
        publisher.publish_acknowledged(unique, payload, qos=2)
    ids = [subscriber.expect_publish(unique, payload, qos=2) for payload in numbered(5)]
    ids.reverse()
    subscriber.send(*map(pubrec, ids))
    subscriber.expect(*map(pubrel, ids))


@pytest.mark.proves("MQTT-4.6.0-6", "MQTT-3.1.2-5")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_waited_arrives_in_its_order_before_what_is_new(connect, unique, qos):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    subscriber.disconnect()
    publisher = connect()
    for payload in numbered(20):
        publisher.publish_acknowledged(f"{unique}/t", payload, qos=qos)
    subscriber = connect(unique, clean=False, session_present=True)
    publisher.publish_acknowledged(f"{unique}/t", b"new", qos=qos)
    for payload in [*numbered(20), b"new"]:
        subscriber.expect_publish(f"{unique}/t", payload, qos=qos)


@pytest.mark.proves("MQTT-4.6.0-1", "MQTT-4.6.0-6", "MQTT-4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_repeated_keeps_its_order_and_ids(connect, unique, qos):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    publisher = connect()
    for payload in numbered(8):
        publisher.publish_acknowledged(f"{unique}/t", payload, qos=qos)
    ids = [subscriber.expect_publish(f"{unique}/t", payload, qos=qos) for payload in numbered(8)]
    subscriber.abort()

    subscriber = connect(unique, clean=False, session_present=True)
    for packet_id, payload in zip(ids, numbered(8), strict=True):
        subscriber.expect(publish(f"{unique}/t", payload, qos=qos, packet_id=packet_id, dup=True))


@pytest.mark.proves("MQTT-4.6.0-1", "MQTT-4.4.0-1", "MQTT-4.3.3-1")
def test_gaps_of_acknowledged_deliveries_do_not_disturb_what_is_repeated(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    publisher = connect()
    for payload in numbered(6):
        publisher.publish_acknowledged(f"{unique}/t", payload)
    ids = [subscriber.expect_publish(f"{unique}/t", payload, qos=1) for payload in numbered(6)]
    subscriber.send(puback(ids[1]), puback(ids[4]))
    subscriber.disconnect()

    subscriber = connect(unique, clean=False, session_present=True)
    for place in (0, 2, 3, 5):
        subscriber.expect(
            publish(f"{unique}/t", b"%d" % place, qos=1, packet_id=ids[place], dup=True)
        )
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.6.0-6")
def test_each_of_several_publishers_keeps_its_order(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 1))
    publishers = [connect() for _ in range(3)]
    for number in range(50):
        for name, publisher in zip(b"abc", publishers, strict=True):
            payload = bytes([name, number])
            publisher.send(publish(unique, payload, qos=1, packet_id=number + 1))
    received = [subscriber.receive_publish()[3] for _ in range(150)]
    for name in b"abc":
        assert [p[1] for p in received if p[0] == name] == list(range(50))


@pytest.mark.proves("MQTT-4.6.0-5", "MQTT-4.6.0-6")
def test_order_is_kept_under_a_wildcard_for_each_topic(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((f"{unique}/#", 1))
    for number in range(60):
        topic = f"{unique}/{number % 3}"
        publisher.send(publish(topic, b"%d" % number, qos=1, packet_id=number + 1))
    received = [subscriber.receive_publish() for _ in range(60)]
    for level in range(3):
        topic = f"{unique}/{level}".encode()
        mine = [int(payload) for _, _, name, payload in received if name == topic]
        assert mine == list(range(level, 60, 3))


@pytest.mark.proves("MQTT-4.6.0-6", "MQTT-4.6.0-1")
def test_a_small_window_keeps_the_order(own_broker, connect, unique):
    broker = own_broker(limits={"inflight_max": 2})
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    publisher = connect(at=broker)
    for payload in numbered(6):
        publisher.publish_acknowledged(f"{unique}/t", payload)
    first, second = (subscriber.expect_publish(f"{unique}/t", p, qos=1) for p in (b"0", b"1"))
    subscriber.expect_nothing()  # two are in flight, the others wait
    subscriber.abort()

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    subscriber.expect(publish(f"{unique}/t", b"0", qos=1, packet_id=first, dup=True))
    subscriber.expect(publish(f"{unique}/t", b"1", qos=1, packet_id=second, dup=True))
    subscriber.send(puback(first), puback(second))
    for payload in numbered(6)[2:]:
        packet_id = subscriber.expect_publish(f"{unique}/t", payload, qos=1)
        subscriber.send(puback(packet_id))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.6.0-6", "MQTT-3.1.2-5")
def test_what_is_published_during_a_reconnect_does_not_overtake_what_waited(connect, dial, unique):
    """The queue is read from disk while new messages are in memory and could overtake it."""
    publisher = connect()
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    for _ in range(20):
        subscriber.disconnect()
        for number in range(10):
            publisher.publish_acknowledged(f"{unique}/t", b"%d" % number)
        subscriber = dial()
        subscriber.send(connect_packet(unique, clean=False))
        fresh = [publish(f"{unique}/t", b"%d" % n, qos=1, packet_id=n) for n in range(10, 40)]
        for packet in fresh:
            publisher.send(packet)
        subscriber.expect(connack(session_present=True))
        for number in range(40):
            packet_id = subscriber.expect_publish(f"{unique}/t", b"%d" % number, qos=1)
            subscriber.send(puback(packet_id))
        publisher.expect(*(puback(n) for n in range(10, 40)))
