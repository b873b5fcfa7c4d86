"""Sessions: what outlives a connection, and for how long."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    puback,
    publish,
    pubrec,
)

pytestmark = both_versions

DAY_S = 24 * 3600


@pytest.mark.proves("MQTT-3.2.2-3", "MQTT-3.2.2-2", "MQTT-3.1.2-4", "MQTT-3.1.4-3")
def test_session_present_is_0_the_first_time_and_1_from_then_on(connect, unique):
    connect(unique, clean=False, session_present=False).disconnect()
    connect(unique, clean=False, session_present=True).disconnect()
    connect(unique, clean=False, session_present=True).abort()


@pytest.mark.proves("MQTT-3.2.2-2", "MQTT-3.1.2-4")
def test_a_session_outlives_a_connection_that_broke(connect, unique):
    connect(unique, clean=False).abort()
    connect(unique, clean=False, session_present=True)


@pytest.mark.proves("MQTT-3.2.2-1", "MQTT-3.1.2-6")
def test_clean_session_1_is_told_session_present_0_although_there_was_one(connect, unique):
    connect(unique, clean=False).disconnect()
    connect(unique, clean=True, session_present=False)


@pytest.mark.proves("MQTT-3.1.2-6", "MQTT-3.1.4-3")
def test_clean_session_1_discards_subscriptions_and_queue(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((unique, 1))
    subscriber.disconnect()
    publisher = connect()
    publisher.publish_acknowledged(unique, b"queued")

    subscriber = connect(unique, clean=True, session_present=False)
    publisher.publish_acknowledged(unique, b"live")
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.1.2-6")
@pytest.mark.parametrize("ending", ["disconnect", "abort"])
def test_a_clean_session_leaves_nothing_for_the_next_one(connect, unique, ending):
    subscriber = connect(unique, clean=True)
    subscriber.subscribe((unique, 1))
    getattr(subscriber, ending)()

    subscriber = connect(unique, clean=False, session_present=False)
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m")
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-3.1.2-4", "MQTT-4.1.0-1")
def test_subscriptions_are_still_there_after_a_reconnect(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/exact", 0), (f"{unique}/+/wild", 1))
    subscriber.disconnect()

    subscriber = connect(unique, clean=False, session_present=True)
    connect().send(publish(f"{unique}/exact", b"1"))
    subscriber.expect(publish(f"{unique}/exact", b"1"))
    connect().publish_acknowledged(f"{unique}/x/wild", b"2")
    subscriber.expect_publish(f"{unique}/x/wild", b"2", qos=1)


@pytest.mark.proves("MQTT-3.1.2-5", "MQTT-4.1.0-1", "MQTT-4.5.0-1", "MQTT-3.2.0-1")
@pytest.mark.parametrize("ending", ["disconnect", "abort"])
def test_qos_1_and_2_wait_for_a_subscriber_that_is_away(connect, unique, ending):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((unique, 2))
    getattr(subscriber, ending)()
    if ending == "abort":  # the broker may take the end of a broken connection late: take it over
        connect(unique, clean=False, session_present=True).disconnect()
    publisher = connect()
    publisher.publish_acknowledged(unique, b"one", qos=1)
    publisher.publish_acknowledged(unique, b"two", qos=2)

    subscriber = connect(unique, clean=False, session_present=True)  # CONNACK comes first
    first = subscriber.expect_publish(unique, b"one", qos=1)
    second = subscriber.expect_publish(unique, b"two", qos=2)
    assert first != second


@pytest.mark.proves("MQTT-3.1.2-5", "MQTT-3.8.4-6")
def test_what_waits_has_the_lower_of_published_and_granted_qos(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((unique, 1))
    subscriber.disconnect()
    connect().publish_acknowledged(unique, b"m", qos=2)
    subscriber = connect(unique, clean=False, session_present=True)
    subscriber.expect_publish(unique, b"m", qos=1)


@pytest.mark.proves("MQTT-4.1.0-1")
def test_what_was_acknowledged_is_not_sent_again(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((unique, 1))
    connect().publish_acknowledged(unique, b"m")
    subscriber.send(puback(subscriber.expect_publish(unique, b"m", qos=1)))
    subscriber.disconnect()
    connect(unique, clean=False, session_present=True).expect_nothing()


@pytest.mark.proves("MQTT-3.1.2-7")
def test_retained_messages_outlive_the_session_that_published_them(connect, unique):
    publisher = connect(unique, clean=True)
    publisher.publish_acknowledged(unique, b"kept", retain=True)
    publisher.disconnect()
    connect(unique, clean=True).disconnect()

    subscriber = connect()
    subscriber.subscribe((unique, 0))
    subscriber.expect(publish(unique, b"kept", retain=True))


@pytest.mark.proves("MQTT-3.1.3-2")
def test_a_session_belongs_to_its_client_id(connect, unique):
    first, second = f"{unique}-1", f"{unique}-2"
    for client_id in (first, second):
        client = connect(client_id, clean=False)
        client.subscribe((client_id, 1))
        client.disconnect()
    connect().publish_acknowledged(second, b"for the second")
    connect(first, clean=False, session_present=True).expect_nothing()
    resumed = connect(second, clean=False, session_present=True)
    resumed.expect_publish(second, b"for the second", qos=1)


@pytest.mark.proves("MQTT-3.1.4-2", "MQTT-3.1.2-4", "MQTT-4.4.0-1")
def test_taking_over_a_connection_resumes_its_session(connect, unique):
    older = connect(unique, clean=False)
    older.subscribe((unique, 1))
    connect().publish_acknowledged(unique, b"m")
    packet_id = older.expect_publish(unique, b"m", qos=1)

    newer = connect(unique, clean=False, session_present=True)
    newer.expect(publish(unique, b"m", qos=1, packet_id=packet_id, dup=True))
    older.expect_close()


@pytest.mark.proves("MQTT-3.1.4-2", "MQTT-3.1.2-6")
def test_taking_over_with_clean_session_1_discards_the_older_session(connect, unique):
    older = connect(unique, clean=False)
    older.subscribe((unique, 1))
    newer = connect(unique, clean=True, session_present=False)
    older.expect_close()
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m")
    newer.expect_nothing_from(publisher)


@pytest.mark.proves("MQTT-4.1.0-2")
def test_a_session_lasts_as_long_as_its_connection(own_broker, connect, unique):
    broker = own_broker(limits={"session_expiry_s": 60})
    subscriber = connect(unique, at=broker, clean=False, keep_alive=0)
    subscriber.subscribe((unique, 1))
    broker.clock.advance(61)
    connect(at=broker).publish_acknowledged(unique, b"still here")
    subscriber.expect_publish(unique, b"still here", qos=1)


@pytest.mark.proves("MQTT-3.1.2-4", "MQTT-4.1.0-1")
def test_a_session_is_kept_for_a_day_after_its_connection(own_broker, connect, unique):
    broker = own_broker()
    witness = connect(at=broker, keep_alive=0)
    connect(unique, at=broker, clean=False).disconnect()
    witness.publish_acknowledged(unique, b"the session is on disk before this")
    broker.clock.advance(DAY_S - 1)
    connect(unique, at=broker, clean=False, session_present=True).disconnect()
    witness.publish_acknowledged(unique, b"and its end before this")
    broker.clock.advance(DAY_S + 1)
    connect(unique, at=broker, clean=False, session_present=False)


def test_the_queue_of_an_expired_session_is_dropped_and_counted(own_broker, connect, unique):
    broker = own_broker(limits={"session_expiry_s": 60})
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((unique, 1))
    subscriber.disconnect()
    connect(at=broker).publish_acknowledged(unique, b"lost")
    broker.clock.advance(61)
    connect(unique, at=broker, clean=False, session_present=False).expect_nothing()
    assert broker.metrics()['penstock_dropped_total{reason="session_expired"}'] == 1


@pytest.mark.proves("MQTT-4.1.0-1")
def test_a_qos_2_publish_may_be_finished_on_the_next_connection(connect, unique):
    publisher = connect(unique, clean=False)
    publisher.send(publish(unique, b"m", qos=2, packet_id=11))
    publisher.expect(pubrec(11))
    publisher.abort()
    publisher = connect(unique, clean=False, session_present=True)
    publisher.send(publish(unique, b"m", qos=2, packet_id=11, dup=True))
    publisher.expect(pubrec(11))
