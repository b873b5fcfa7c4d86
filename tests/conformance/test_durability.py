"""What a broker acknowledged survives kill -9: memory is lost, the disk is unchanged.

``restart(kill=True)`` abandons the broker without a flush and starts it again on the same data and
port. What was acknowledged before must be there; what was not may be, so nothing is claimed of it.
"""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    unsuback,
    unsubscribe,
)

pytestmark = both_versions


@pytest.fixture(params=["kill", "stop"])
def restart(request):
    """Restart after kill -9 and after a clean stop: both give the same guarantees."""
    return lambda broker: broker.restart(kill=request.param == "kill")


@pytest.mark.proves("MQTT-4.1.0-1", "MQTT-3.2.2-2", "MQTT-3.1.2-4")
def test_sessions_and_subscriptions_survive(own_broker, connect, unique, restart):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/exact", 1), (f"{unique}/+/wild", 2), (f"{unique}/gone", 0))
    subscriber.send(unsubscribe(9, f"{unique}/gone"))
    subscriber.expect(unsuback(9))
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    publisher = connect(at=broker)
    publisher.publish_acknowledged(f"{unique}/gone", b"0", qos=2)
    publisher.publish_acknowledged(f"{unique}/exact", b"1", qos=2)
    publisher.publish_acknowledged(f"{unique}/x/wild", b"2", qos=2)
    subscriber.expect_publish(f"{unique}/exact", b"1", qos=1)
    subscriber.expect_publish(f"{unique}/x/wild", b"2", qos=2)


@pytest.mark.proves("MQTT-3.1.2-6")
def test_clean_sessions_do_not_survive(own_broker, connect, unique, restart):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=True)
    subscriber.subscribe((unique, 1))
    restart(broker)
    subscriber = connect(unique, at=broker, clean=False, session_present=False)
    publisher = connect(at=broker)
    publisher.publish_acknowledged(unique, b"m")
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.1.2-6")
def test_a_session_that_was_discarded_stays_discarded(own_broker, connect, unique, restart):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((unique, 1))
    subscriber.disconnect()
    connect(unique, at=broker, clean=True).disconnect()
    restart(broker)
    connect(unique, at=broker, clean=False, session_present=False)


@pytest.mark.proves("MQTT-3.1.2-5", "MQTT-4.1.0-1", "MQTT-4.6.0-6")
def test_acknowledged_messages_still_wait_in_their_order(own_broker, connect, unique, restart):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/#", 2))
    subscriber.disconnect()
    publisher = connect(at=broker)
    sent = [(f"{unique}/{number % 3}", b"%d" % number, 1 + number % 2) for number in range(30)]
    for topic, payload, qos in sent:
        publisher.publish_acknowledged(topic, payload, qos=qos)
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    for topic, payload, qos in sent:
        subscriber.expect_publish(topic, payload, qos=qos)
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.4.0-1", "MQTT-4.6.0-1", "MQTT-3.3.1-1", "MQTT-2.3.1-4")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_in_flight_is_sent_again_with_its_ids_in_its_order(
    own_broker, connect, unique, restart, qos
):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    publisher = connect(at=broker)
    payloads = [b"%d" % number for number in range(10)]
    for payload in payloads:
        publisher.publish_acknowledged(f"{unique}/t", payload, qos=qos)
    ids = [subscriber.expect_publish(f"{unique}/t", payload, qos=qos) for payload in payloads]
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    for packet_id, payload in zip(ids, payloads, strict=True):
        subscriber.expect(publish(f"{unique}/t", payload, qos=qos, packet_id=packet_id, dup=True))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.4.0-1", "MQTT-4.6.0-6")
def test_in_flight_comes_before_what_waited_for_the_window(own_broker, connect, unique, restart):
    broker = own_broker(limits={"inflight_max": 3})
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    publisher = connect(at=broker)
    payloads = [b"%d" % number for number in range(6)]
    for payload in payloads:
        publisher.publish_acknowledged(f"{unique}/t", payload)
    ids = [subscriber.expect_publish(f"{unique}/t", p, qos=1) for p in payloads[:3]]
    subscriber.expect_nothing()
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    for packet_id, payload in zip(ids, payloads[:3], strict=True):
        subscriber.expect(publish(f"{unique}/t", payload, qos=1, packet_id=packet_id, dup=True))
    subscriber.expect_nothing()
    subscriber.send(*map(puback, ids))
    for payload in payloads[3:]:
        subscriber.expect_publish(f"{unique}/t", payload, qos=1)


@pytest.mark.proves("MQTT-4.3.3-1", "MQTT-4.4.0-1")
def test_a_released_delivery_is_released_again_and_not_published_again(
    own_broker, connect, unique, restart
):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    connect(at=broker).publish_acknowledged(f"{unique}/t", b"m", qos=2)
    packet_id = subscriber.expect_publish(f"{unique}/t", b"m", qos=2)
    subscriber.send(pubrec(packet_id))
    subscriber.expect(pubrel(packet_id))
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    subscriber.expect(pubrel(packet_id))
    subscriber.send(pubcomp(packet_id))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.4.0-1", "MQTT-4.3.3-1", "MQTT-4.6.0-1")
def test_deliveries_at_all_stages_resume_each_at_its_own(own_broker, connect, unique, restart):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 2))
    publisher = connect(at=broker)
    for number, qos in enumerate((2, 1, 2)):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number, qos=qos)
    released = subscriber.expect_publish(f"{unique}/t", b"0", qos=2)
    first = subscriber.expect_publish(f"{unique}/t", b"1", qos=1)
    second = subscriber.expect_publish(f"{unique}/t", b"2", qos=2)
    subscriber.send(pubrec(released))
    subscriber.expect(pubrel(released))
    restart(broker)

    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    subscriber.expect_in_any_order(
        pubrel(released),
        publish(f"{unique}/t", b"1", qos=1, packet_id=first, dup=True),
        publish(f"{unique}/t", b"2", qos=2, packet_id=second, dup=True),
    )
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.3.3-2", "MQTT-4.1.0-1")
def test_a_received_qos_2_id_is_remembered_and_its_message_delivered_once(
    own_broker, connect, unique, restart
):
    broker = own_broker()
    subscriber = connect(f"{unique}-s", at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    subscriber.disconnect()
    publisher = connect(unique, at=broker, clean=False)
    publisher.send(publish(f"{unique}/t", b"once", qos=2, packet_id=7))
    publisher.expect(pubrec(7))
    restart(broker)

    publisher = connect(unique, at=broker, clean=False, session_present=True)
    publisher.send(publish(f"{unique}/t", b"once", qos=2, packet_id=7, dup=True))
    publisher.expect(pubrec(7))
    publisher.send(pubrel(7))
    publisher.expect(pubcomp(7))
    subscriber = connect(f"{unique}-s", at=broker, clean=False, session_present=True)
    subscriber.expect_publish(f"{unique}/t", b"once", qos=1)
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-4.3.3-2")
def test_a_completed_qos_2_id_means_a_new_message(own_broker, connect, unique, restart):
    broker = own_broker()
    publisher = connect(unique, at=broker, clean=False)
    publisher.publish_acknowledged(f"{unique}/t", b"first", qos=2, packet_id=7)
    restart(broker)

    subscriber = connect(at=broker)
    subscriber.subscribe((f"{unique}/t", 0))
    publisher = connect(unique, at=broker, clean=False, session_present=True)
    publisher.publish_acknowledged(f"{unique}/t", b"second", qos=2, packet_id=7)
    subscriber.expect(publish(f"{unique}/t", b"second"))


@pytest.mark.proves("MQTT-3.3.1-5", "MQTT-3.3.1-10", "MQTT-3.1.2-7")
def test_retained_messages_survive_and_removed_ones_do_not_return(
    own_broker, connect, unique, restart
):
    broker = own_broker()
    publisher = connect(at=broker)
    publisher.publish_acknowledged(f"{unique}/kept", b"old", retain=True)
    publisher.publish_acknowledged(f"{unique}/kept", b"new", qos=2, retain=True)
    publisher.publish_acknowledged(f"{unique}/removed", b"m", retain=True)
    publisher.publish_acknowledged(f"{unique}/removed", b"", retain=True)
    restart(broker)

    subscriber = connect(at=broker)
    subscriber.subscribe((f"{unique}/#", 2))
    subscriber.expect_publish(f"{unique}/kept", b"new", qos=2, retain=True)
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-4.1.0-1")
def test_after_an_orderly_stop_nothing_acknowledged_is_sent_again(own_broker, connect, unique):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    connect(at=broker).publish_acknowledged(f"{unique}/t", b"m")
    subscriber.send(puback(subscriber.expect_publish(f"{unique}/t", b"m", qos=1)))
    subscriber.disconnect()
    broker.restart(kill=False)
    connect(unique, at=broker, clean=False, session_present=True).expect_nothing()


@pytest.mark.proves("MQTT-4.1.0-1", "MQTT-4.6.0-6")
def test_promises_hold_over_several_restarts(own_broker, connect, unique):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    for number in range(4):
        connect(at=broker).publish_acknowledged(f"{unique}/t", b"%d" % number)
        broker.restart(kill=True)
    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    received = [subscriber.receive_publish() for _ in range(4)]
    assert [payload for *_, payload in received] == [b"0", b"1", b"2", b"3"]
    assert len({packet_id for _, packet_id, *_ in received}) == 4


@pytest.mark.proves("MQTT-3.1.2-4", "MQTT-4.1.0-1")
def test_an_absence_over_a_restart_still_counts_towards_expiry(own_broker, connect, unique):
    broker = own_broker(limits={"session_expiry_s": 100})
    connect(unique, at=broker, clean=False).disconnect()
    connect(at=broker).publish_acknowledged(unique, b"the end is on disk before this")
    broker.clock.advance(60)
    broker.restart(kill=True)
    broker.clock.advance(50)
    connect(unique, at=broker, clean=False, session_present=False)


@pytest.mark.proves("MQTT-3.1.2-8")
def test_the_wills_of_clients_that_lost_a_killed_broker_are_published(own_broker, connect, unique):
    broker = own_broker()
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/will", 1))
    subscriber.disconnect()
    connect(at=broker, will=(f"{unique}/will", b"gone", 1, False))
    broker.restart(kill=True)
    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    subscriber.expect_publish(f"{unique}/will", b"gone", qos=1)
