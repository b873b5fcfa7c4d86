"""The three delivery protocols, on both sides of the broker."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
)

pytestmark = both_versions


@pytest.mark.proves("MQTT-4.3.1-1", "MQTT-3.3.4-1", "MQTT-2.3.1-5", "MQTT-3.3.1-2")
def test_qos_0_is_forwarded_without_id_or_dup_and_not_acknowledged(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    publisher.send(publish(unique, b"\0\x01 two bytes that could pass for an id"))
    subscriber.expect(publish(unique, b"\0\x01 two bytes that could pass for an id"))
    publisher.expect_nothing()


@pytest.mark.proves("MQTT-4.3.2-2", "MQTT-2.3.1-6", "MQTT-3.3.4-1")
@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_qos_1_is_acknowledged_by_puback_with_its_id(connect, unique, packet_id):
    publisher = connect()
    publisher.send(publish(unique, b"m", qos=1, packet_id=packet_id))
    publisher.expect(puback(packet_id))
    publisher.expect_nothing()


@pytest.mark.proves("MQTT-4.3.3-2", "MQTT-2.3.1-6", "MQTT-3.3.4-1")
@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_qos_2_is_acknowledged_by_pubrec_and_pubcomp_with_its_id(connect, unique, packet_id):
    publisher = connect()
    publisher.send(publish(unique, b"m", qos=2, packet_id=packet_id))
    publisher.expect(pubrec(packet_id))
    publisher.send(pubrel(packet_id))
    publisher.expect(pubcomp(packet_id))
    publisher.expect_nothing()


@pytest.mark.proves("MQTT-4.3.2-2")
@pytest.mark.parametrize("dup", [False, True])
def test_the_id_of_an_acknowledged_qos_1_publish_means_a_new_message(connect, unique, dup):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 0))
    publisher.send(publish(unique, b"first", qos=1, packet_id=5))
    publisher.expect(puback(5))
    publisher.send(publish(unique, b"second", qos=1, packet_id=5, dup=dup))
    publisher.expect(puback(5))
    subscriber.expect(publish(unique, b"first"), publish(unique, b"second"))


@pytest.mark.proves("MQTT-4.3.3-2")
@pytest.mark.parametrize("dup", [False, True])
def test_an_unreleased_qos_2_id_is_received_again_but_not_delivered_again(connect, unique, dup):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 0))
    publisher.send(publish(unique, b"once", qos=2, packet_id=6))
    publisher.expect(pubrec(6))
    publisher.send(publish(unique, b"once", qos=2, packet_id=6, dup=dup))
    publisher.expect(pubrec(6))
    publisher.send(pubrel(6))
    publisher.expect(pubcomp(6))
    subscriber.expect(publish(unique, b"once"))
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-4.3.3-2", "MQTT-4.1.0-1")
def test_unreleased_qos_2_ids_are_remembered_over_a_reconnect(connect, unique):
    subscriber = connect()
    subscriber.subscribe((f"{unique}/t", 0))
    publisher = connect(unique, clean=False)
    publisher.send(publish(f"{unique}/t", b"once", qos=2, packet_id=7))
    publisher.expect(pubrec(7))
    publisher.abort()

    publisher = connect(unique, clean=False, session_present=True)
    publisher.send(publish(f"{unique}/t", b"once", qos=2, packet_id=7, dup=True))
    publisher.expect(pubrec(7))
    publisher.send(pubrel(7))
    publisher.expect(pubcomp(7))
    subscriber.expect(publish(f"{unique}/t", b"once"))
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-4.3.3-2")
def test_the_id_of_a_completed_qos_2_publish_means_a_new_message(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 0))
    publisher.publish_acknowledged(unique, b"first", qos=2, packet_id=8)
    publisher.publish_acknowledged(unique, b"second", qos=2, packet_id=8)
    subscriber.expect(publish(unique, b"first"), publish(unique, b"second"))


@pytest.mark.proves("MQTT-4.3.3-2")
def test_pubrel_is_answered_by_pubcomp_even_if_repeated(connect, unique):
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m", qos=2, packet_id=9)
    publisher.send(pubrel(9))  # its PUBCOMP might have been lost
    unknown = packet(0x70, b"\x00\x09\x92")  # 5.0 has a code for it
    assert publisher.receive() in {pubcomp(9), unknown}


@pytest.mark.proves("MQTT-4.3.2-1", "MQTT-2.3.1-4", "MQTT-2.3.1-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_deliveries_in_flight_have_ids_of_their_own(connect, unique, qos):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    payloads = [b"%d" % number for number in range(10)]
    for payload in payloads:
        publisher.publish_acknowledged(unique, payload, qos=qos)
    ids = {subscriber.expect_publish(unique, payload, qos=qos) for payload in payloads}
    assert len(ids) == len(payloads)


@pytest.mark.proves("MQTT-4.3.2-1", "MQTT-4.4.0-1", "MQTT-3.3.1-1", "MQTT-2.3.1-4")
def test_an_unacknowledged_qos_1_delivery_is_sent_again_with_its_id_and_dup(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    connect().publish_acknowledged(f"{unique}/t", b"m")
    packet_id = subscriber.expect_publish(f"{unique}/t", b"m", qos=1, dup=False)
    subscriber.abort()
    again = publish(f"{unique}/t", b"m", qos=1, packet_id=packet_id, dup=True)
    for _ in range(2):  # and again, until it is acknowledged
        subscriber = connect(unique, clean=False, session_present=True)
        subscriber.expect(again)
        subscriber.abort()
    subscriber = connect(unique, clean=False, session_present=True)
    subscriber.expect(again)
    subscriber.send(puback(packet_id))
    subscriber.disconnect()
    connect(unique, clean=False, session_present=True).expect_nothing()


@pytest.mark.proves("MQTT-4.3.3-1", "MQTT-2.3.1-6", "MQTT-3.6.1-1")
def test_a_qos_2_delivery_goes_publish_pubrec_pubrel_pubcomp(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=2)
    packet_id = subscriber.expect_publish(unique, b"m", qos=2, dup=False)
    subscriber.send(pubrec(packet_id))
    subscriber.expect(pubrel(packet_id))
    subscriber.send(pubcomp(packet_id))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.3.3-1", "MQTT-4.4.0-1", "MQTT-3.3.1-1")
def test_a_qos_2_delivery_resumes_where_it_stood(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    connect().publish_acknowledged(f"{unique}/t", b"m", qos=2)
    packet_id = subscriber.expect_publish(f"{unique}/t", b"m", qos=2)
    subscriber.abort()

    subscriber = connect(unique, clean=False, session_present=True)
    subscriber.expect(publish(f"{unique}/t", b"m", qos=2, packet_id=packet_id, dup=True))
    subscriber.send(pubrec(packet_id))
    subscriber.expect(pubrel(packet_id))
    subscriber.abort()

    subscriber = connect(unique, clean=False, session_present=True)
    subscriber.expect(pubrel(packet_id))  # never the PUBLISH again
    subscriber.send(pubcomp(packet_id))
    subscriber.disconnect()
    connect(unique, clean=False, session_present=True).expect_nothing()


@pytest.mark.proves("MQTT-4.3.3-1")
def test_a_repeated_pubrec_is_answered_by_pubrel_again(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=2)
    packet_id = subscriber.expect_publish(unique, b"m", qos=2)
    subscriber.send(pubrec(packet_id), pubrec(packet_id))
    subscriber.expect(pubrel(packet_id), pubrel(packet_id))


@pytest.mark.proves("MQTT-3.3.1-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_dup_of_the_publisher_is_not_passed_on(connect, unique, qos):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    publisher.send(publish(unique, b"m", qos=qos, packet_id=3, dup=True))
    if qos == 2:
        publisher.expect(pubrec(3))
        publisher.send(pubrel(3))
    subscriber.expect_publish(unique, b"m", qos=qos, dup=False)


@pytest.mark.proves("MQTT-4.5.0-1")
def test_a_message_goes_to_every_session_that_matches(connect, unique):
    away = connect(f"{unique}-away", clean=False)
    away.subscribe((f"{unique}/#", 1))
    away.disconnect()
    here = [connect(f"{unique}-{number}") for number in range(3)]
    for number, client in enumerate(here):
        client.subscribe((f"{unique}/+", number))
    connect().publish_acknowledged(f"{unique}/t", b"m", qos=2)
    for number, client in enumerate(here):
        client.expect_publish(f"{unique}/t", b"m", qos=number)
    away = connect(f"{unique}-away", clean=False, session_present=True)
    away.expect_publish(f"{unique}/t", b"m", qos=1)


@pytest.mark.proves("MQTT-4.5.0-1")
def test_a_publisher_that_subscribes_hears_itself(connect, unique):
    client = connect()
    client.subscribe((unique, 1))
    client.send(publish(unique, b"m", qos=1, packet_id=40))
    received = sorted([client.receive()[0] >> 4, client.receive()[0] >> 4])
    assert received == [3, 4]  # one PUBLISH, one PUBACK, in either order


@pytest.mark.proves("MQTT-3.3.5-1")
@pytest.mark.parametrize("levels", [(0, 1, 2), (2, 1, 0), (1, 0, 0), (0, 2, 1)])
def test_overlapping_subscriptions_deliver_at_the_highest_qos_among_them(connect, unique, levels):
    subscriber, publisher = connect(), connect()
    filters = (f"{unique}/a/b", f"{unique}/+/b", f"{unique}/#")
    for topic_filter, qos in zip(filters, levels, strict=True):
        subscriber.subscribe((topic_filter, qos))
    publisher.publish_acknowledged(f"{unique}/a/b", b"m", qos=2)
    publisher.publish_acknowledged(f"{unique}/end", b"end", qos=2)
    copies = []
    while (copy := subscriber.receive_publish())[3] == b"m":
        copies.append(copy[0] >> 1 & 3)
    assert max(copies) == max(levels)


@pytest.mark.proves("MQTT-3.3.5-2")
def test_a_publish_that_is_not_allowed_is_acknowledged_or_closes(connect, unique):
    """Topics under $SYS belong to the broker: no client's message reaches a subscriber."""
    topic, refusal = f"$SYS/{unique}", packet(0x40, b"\0\4\x87")  # as version 5 can say it
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((topic, 0))
    publisher.send(publish(topic, b"forged", qos=1, packet_id=4))
    assert publisher.receive() in {puback(4), refusal, b""}
    subscriber.expect_nothing_from(connect())


@pytest.mark.proves("MQTT-4.3.2-1")
def test_an_acknowledgement_of_nothing_changes_nothing(connect, unique):
    """An id unknown to the broker may be a late answer to what an older session was sent."""
    client = connect()
    client.send(puback(77), pubcomp(78))
    client.subscribe((unique, 1))
    connect().publish_acknowledged(unique, b"m")
    client.expect_publish(unique, b"m", qos=1)


@pytest.mark.proves("MQTT-3.3.4-1", "MQTT-4.8.0-1")
@pytest.mark.parametrize(("qos", "wrong"), [(1, pubrec), (2, puback)])
def test_the_wrong_acknowledgement_for_a_delivery_closes(connect, unique, qos, wrong):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=qos)
    subscriber.send(wrong(subscriber.expect_publish(unique, b"m", qos=qos)))
    subscriber.expect_close()


@pytest.mark.proves("MQTT-4.3.2-2", "MQTT-3.3.4-1")
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 200_000])
def test_payloads_of_any_size_arrive_byte_for_byte(connect, unique, size):
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    payload = (bytes(range(256)) * (size // 256 + 1))[:size]
    connect().publish_acknowledged(unique, payload, qos=1)
    subscriber.expect(publish(unique, payload))


@pytest.mark.proves("MQTT-4.3.3-1")
@pytest.mark.parametrize("clean", [True, False])
def test_pubcomp_in_the_place_of_pubrec_closes(connect, unique, clean):
    subscriber = connect(unique, clean=clean)
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=2)
    subscriber.send(pubcomp(subscriber.expect_publish(unique, b"m", qos=2)))
    subscriber.expect_close()
