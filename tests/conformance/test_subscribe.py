"""SUBSCRIBE and UNSUBSCRIBE: one answer each, replacement, exact filters."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    string,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)

pytestmark = both_versions


@pytest.mark.proves("MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-2.3.1-7")
@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_suback_has_the_id_of_its_subscribe(connect, unique, packet_id):
    client = connect()
    client.send(subscribe(packet_id, (unique, 0)))
    client.expect(suback(packet_id, 0))
    client.expect_nothing()


@pytest.mark.proves("MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-3.8.4-4")
def test_suback_has_one_code_per_filter_in_their_order(connect, unique):
    levels = [2, 0, 1, 1, 0, 2, 0]
    client = connect()
    client.send(subscribe(7, *((f"{unique}/{place}", qos) for place, qos in enumerate(levels))))
    client.expect(suback(7, *levels))


@pytest.mark.proves("MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
def test_filters_above_the_limit_get_the_failure_code_in_their_places(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"subscriptions_max": 2}))
    client.send(subscribe(7, (f"{unique}/a", 1), (f"{unique}/b", 2), (f"{unique}/c", 0)))
    client.expect(suback(7, 1, 2, 0x80))
    client.send(subscribe(8, (f"{unique}/a", 0)))
    client.expect(suback(8, 0))  # replacing one adds none


@pytest.mark.proves("MQTT-3.8.4-4", "MQTT-3.8.4-3")
def test_a_refused_filter_does_not_spoil_the_ones_behind_it(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"subscriptions_max": 1}))
    client.subscribe((f"{unique}/a", 0))
    client.send(subscribe(8, (f"{unique}/b", 0), (f"{unique}/a", 1)))
    client.expect(suback(8, 0x80, 1))


@pytest.mark.proves("MQTT-3.8.4-4", "MQTT-3.8.4-3")
def test_a_filter_twice_in_one_subscribe_counts_once(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"subscriptions_max": 1}))
    client.send(subscribe(8, (unique, 0), (unique, 1)))
    client.expect(suback(8, 0, 1))


@pytest.mark.proves("MQTT-3.8.4-4")
def test_many_filters_in_one_subscribe_work_like_many_subscribes(connect, unique):
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/a", b"kept a", retain=True)
    publisher.publish_acknowledged(f"{unique}/b", b"kept b", retain=True)
    client = connect()
    client.subscribe((f"{unique}/a", 0), (f"{unique}/b", 0), (f"{unique}/c", 0))
    client.expect_in_any_order(
        publish(f"{unique}/a", b"kept a", retain=True),
        publish(f"{unique}/b", b"kept b", retain=True),
    )
    publisher.send(publish(f"{unique}/c", b"live"))
    client.expect(publish(f"{unique}/c", b"live"))


@pytest.mark.proves("MQTT-3.8.4-4", "MQTT-3.8.4-3")
def test_of_the_same_filter_twice_in_one_subscribe_the_later_counts(connect, unique):
    client = connect()
    client.subscribe((unique, 0), (unique, 1))
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m")
    client.expect_publish(unique, b"m", qos=1)
    client.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.8.4-3")
@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (2, 1), (1, 1)])
def test_subscribing_again_replaces_and_does_not_double(connect, unique, before, after):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/+", before))
    client.subscribe((f"{unique}/+", after))
    publisher.publish_acknowledged(f"{unique}/t", b"m", qos=2)
    client.expect_publish(f"{unique}/t", b"m", qos=after)
    client.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.8.4-3")
def test_subscribing_again_does_not_interrupt_the_flow(connect, unique):
    client, publisher = connect(), connect()
    client.subscribe((unique, 0))
    numbers = range(300)
    for number in numbers:
        publisher.send(publish(unique, b"%d" % number))
        if number % 10 == 0:
            client.send(subscribe(9, (unique, 0)))
    received = [client.receive() for _ in range(330)]
    assert [p for p in received if p[0] == 0x30] == [publish(unique, b"%d" % n) for n in numbers]
    assert received.count(suback(9, 0)) == 30


@pytest.mark.proves("MQTT-3.8.4-6")
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_delivery_has_the_lower_of_published_and_granted_qos(connect, unique, published, granted):
    client = connect()
    client.subscribe((unique, granted))
    connect().publish_acknowledged(unique, b"m", qos=published)
    client.expect_publish(unique, b"m", qos=min(published, granted))


BAD_SUBSCRIBES = {
    "MQTT-3.8.1-1-flags-0": packet(0x80, b"\0\1", string("a"), b"\0"),
    "MQTT-3.8.1-1-flags-3": packet(0x83, b"\0\1", string("a"), b"\0"),
    "MQTT-3.8.3-3-no-filter": packet(0x82, b"\0\1"),
    "MQTT-3.8.3-3-no-qos": packet(0x82, b"\0\1", string("a")),
    "MQTT-3-8.3-4-qos-3": subscribe(1, ("a", 3)),
    "MQTT-3-8.3-4-reserved-bit-6": subscribe(1, ("a", 0x40)),
    "MQTT-3-8.3-4-reserved-bit-7": subscribe(1, ("a", 0x80)),
    "MQTT-3-8.3-4-in-the-second-filter": subscribe(1, ("a", 0), ("b", 3)),
    "MQTT-3.8.3-1-not-utf8": subscribe(1, (b"a\xff", 0)),
    "MQTT-2.3.1-1-id-0": subscribe(0, ("a", 0)),
}


@pytest.mark.proves(
    "MQTT-3.8.1-1", "MQTT-3.8.3-1", "MQTT-3.8.3-3", "MQTT-3-8.3-4", "MQTT-2.3.1-1", "MQTT-4.8.0-1"
)
@pytest.mark.parametrize("bad", BAD_SUBSCRIBES.values(), ids=BAD_SUBSCRIBES.keys())
def test_a_malformed_subscribe_closes_without_an_answer(connect, bad):
    client = connect()
    client.send(bad)
    client.expect_close()


@pytest.mark.proves("MQTT-3.10.4-4", "MQTT-2.3.1-7")
@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_unsuback_has_the_id_of_its_unsubscribe(connect, unique, packet_id):
    client = connect()
    client.subscribe((unique, 0))
    client.send(unsubscribe(packet_id, unique))
    client.expect(unsuback(packet_id))


@pytest.mark.proves("MQTT-3.10.4-5")
def test_unsubscribing_from_nothing_is_answered_all_the_same(connect, unique):
    client = connect()
    client.send(unsubscribe(3, unique))
    client.expect(unsuback(3))


@pytest.mark.proves("MQTT-3.10.4-1", "MQTT-3.10.4-2")
@pytest.mark.parametrize("topic_filter", ["t", "+/t", "#"])
def test_after_unsuback_nothing_more_is_added(connect, unique, topic_filter):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/{topic_filter}", 1))
    client.send(unsubscribe(2, f"{unique}/{topic_filter}"))
    client.expect(unsuback(2))
    for topic in ("t", "x/t"):
        publisher.publish_acknowledged(f"{unique}/{topic}", b"m")
    client.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.10.4-1")
@pytest.mark.parametrize("almost", ["A/+", "a/b", "a/#", "a/+/", "/a/+", "a", "+/+"])
def test_a_filter_is_removed_only_by_its_own_spelling(connect, unique, almost):
    client = connect()
    client.subscribe((f"{unique}/a/+", 0))
    client.send(unsubscribe(2, f"{unique}/{almost}"))
    client.expect(unsuback(2))
    connect().send(publish(f"{unique}/a/b", b"still"))
    client.expect(publish(f"{unique}/a/b", b"still"))


@pytest.mark.proves("MQTT-3.10.4-6", "MQTT-3.10.4-1")
def test_many_filters_in_one_unsubscribe_get_one_answer(connect, unique):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/a", 0), (f"{unique}/b", 0), (f"{unique}/c", 0))
    client.send(unsubscribe(4, f"{unique}/a", f"{unique}/nothing", f"{unique}/c"))
    client.expect(unsuback(4))
    client.expect_nothing()
    for level in "abc":
        publisher.send(publish(f"{unique}/{level}", b"m"))
    client.expect(publish(f"{unique}/b", b"m"))
    client.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.10.4-3")
def test_unsubscribing_leaves_a_qos_2_delivery_to_be_finished(connect, unique):
    client = connect()
    client.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=2)
    packet_id = client.expect_publish(unique, b"m", qos=2)
    client.send(unsubscribe(2, unique))
    client.expect(unsuback(2))
    client.send(pubrec(packet_id))
    client.expect(pubrel(packet_id))
    client.send(pubcomp(packet_id))
    client.expect_nothing()


@pytest.mark.proves("MQTT-3.10.4-3", "MQTT-4.4.0-1")
def test_unsubscribing_leaves_a_qos_1_delivery_to_be_repeated(connect, unique):
    client = connect(unique, clean=False)
    client.subscribe((unique, 1))
    connect().publish_acknowledged(unique, b"m")
    packet_id = client.expect_publish(unique, b"m", qos=1)
    client.send(unsubscribe(2, unique))
    client.expect(unsuback(2))
    client.disconnect()
    client = connect(unique, clean=False, session_present=True)
    client.expect(publish(unique, b"m", qos=1, packet_id=packet_id, dup=True))
    client.send(puback(packet_id))


@pytest.mark.proves("MQTT-3.10.4-2", "MQTT-4.1.0-1")
def test_what_was_unsubscribed_stays_so_after_a_reconnect(connect, unique):
    client = connect(unique, clean=False)
    client.subscribe((unique, 1))
    client.send(unsubscribe(2, unique))
    client.expect(unsuback(2))
    client.disconnect()
    connect().publish_acknowledged(unique, b"m")
    connect(unique, clean=False, session_present=True).expect_nothing()


BAD_UNSUBSCRIBES = {
    "MQTT-3.10.1-1-flags-0": packet(0xA0, b"\0\1", string("a")),
    "MQTT-3.10.1-1-flags-f": packet(0xAF, b"\0\1", string("a")),
    "MQTT-3.10.3-2-no-filter": packet(0xA2, b"\0\1"),
    "MQTT-3.10.3-1-not-utf8": unsubscribe(1, b"\xc0\x80"),
    "MQTT-2.3.1-1-id-0": unsubscribe(0, "a"),
}


@pytest.mark.proves(
    "MQTT-3.10.1-1", "MQTT-3.10.3-1", "MQTT-3.10.3-2", "MQTT-2.3.1-1", "MQTT-4.8.0-1"
)
@pytest.mark.parametrize("bad", BAD_UNSUBSCRIBES.values(), ids=BAD_UNSUBSCRIBES.keys())
def test_a_malformed_unsubscribe_closes_without_an_answer(connect, bad):
    client = connect()
    client.send(bad)
    client.expect_close()
