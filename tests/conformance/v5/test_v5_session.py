"""Sessions in version 5: Clean Start, expiry, take-over, keep-alive.

Time passes where the broker's clock is virtual; those tests need a broker of their own.
"""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will
from tests.conformance.wire_client import connack as connack_3_1_1
from tests.conformance.wire_client import connect_packet as connect_3_1_1

NEVER = 4_294_967_295


# ── Clean Start and expiry are two things ─────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.2-4", "MQTT-3.2.2-2", "MQTT-3.1.4-4")
def test_clean_start_1_forgets_what_was(connect, unique):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 1))
    client.disconnect()
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/t", b"waits")
    client = connect(unique, clean=True, session_expiry=600, session_present=False)
    publisher.publish_acknowledged(f"{unique}/t", b"nobody subscribes")
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-3.1.2-5", "MQTT-3.2.2-3", "MQTT-4.5.0-1")
@pytest.mark.parametrize("clean", [True, False])
def test_a_session_with_an_expiry_outlives_its_connection_however_it_began(connect, unique, clean):
    client = connect(unique, clean=clean, session_expiry=600)
    client.subscribe((f"{unique}/t", 1))
    client.abort()
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/t", b"waits")
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.expect_publish(f"{unique}/t", b"waits", qos=1)


@pytest.mark.proves5("MQTT-3.1.2-6", "MQTT-3.2.2-3")
def test_clean_start_0_without_a_session_begins_one(connect, unique):
    client = connect(unique, clean=False, session_expiry=600, session_present=False)
    client.disconnect()
    connect(unique, clean=False, session_present=True)


@pytest.mark.proves5("MQTT-4.1.0-2", "MQTT-3.2.2-3")
@pytest.mark.parametrize("expiry", [{}, {"session_expiry": 0}], ids=["none", "0"])
@pytest.mark.parametrize("end", ["abort", "disconnect"])
def test_without_an_expiry_the_session_ends_with_its_connection(connect, unique, expiry, end):
    client = connect(unique, clean=False, **expiry)
    client.subscribe((f"{unique}/t", 1))
    getattr(client, end)()
    client = connect(unique, clean=False, session_present=False)
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/t", b"m")
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.1.2-5", "MQTT-4.1.0-2")
def test_a_durable_session_resumed_without_expiry_ends_with_that_connection(connect, unique):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 1))
    client.disconnect()
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/t", b"waits")
    client = connect(unique, clean=False, session_present=True)
    client.expect_publish(f"{unique}/t", b"waits", qos=1)
    client.disconnect()
    connect(unique, clean=False, session_expiry=600, session_present=False)


@pytest.mark.proves5("MQTT-4.1.0-2", "MQTT-3.2.2-3")
def test_a_take_over_finds_no_session_where_it_was_to_end_with_its_connection(connect, unique):
    older = connect(unique, clean=False)
    connect(unique, clean=False, session_present=False)
    older.expect_disconnect(0x8E)


@pytest.mark.proves5("MQTT-3.1.2-5", "MQTT-3.1.4-3")
def test_a_take_over_continues_a_durable_session(connect, unique):
    older = connect(unique, session_expiry=600)
    older.subscribe((f"{unique}/t", 1))
    newer = connect(unique, clean=False, session_expiry=600, session_present=True)
    older.expect_disconnect(0x8E)
    connect().publish_acknowledged(f"{unique}/t", b"m")
    newer.expect_publish(f"{unique}/t", b"m", qos=1)


@pytest.mark.proves5("MQTT-4.1.0-2", "MQTT-3.1.2-23")
def test_a_session_ends_when_its_expiry_has_passed_and_not_before(own_broker, connect):
    broker = own_broker()
    for who, waited, is_there in [("early", 59, True), ("late", 61, False)]:
        connect(who, at=broker, session_expiry=60).disconnect()
        broker.clock.advance(waited)
        connect(who, at=broker, clean=False, session_present=is_there)


@pytest.mark.proves5("MQTT-4.1.0-1")
def test_a_session_does_not_end_while_it_is_connected(own_broker, connect):
    broker = own_broker()
    client = connect("here", at=broker, session_expiry=10, keep_alive=0)
    client.subscribe(("t", 1))
    broker.clock.advance(3_600)
    connect(at=broker).publish_acknowledged("t", b"m")
    client.expect_publish("t", b"m", qos=1)


@pytest.mark.proves5("MQTT-4.1.0-2")
def test_the_time_of_a_session_runs_while_the_broker_is_down(own_broker, connect):
    broker = own_broker()
    connect("early", at=broker, session_expiry=100).disconnect()
    connect("late", at=broker, session_expiry=10).disconnect()
    broker.stop()
    broker.clock.advance(50)
    broker.start()
    connect("late", at=broker, clean=False, session_present=False)
    connect("early", at=broker, clean=False, session_present=True)


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_the_expiry_is_capped_and_connack_says_so(own_broker, connect):
    broker = own_broker(limits={"session_expiry_s": 60})
    for wish in (61, NEVER):
        client = connect("who", at=broker, session_expiry=wish)
        assert client.connack.value("session_expiry") == 60
    assert connect("other", at=broker, session_expiry=59).connack.value("session_expiry") is None
    client.disconnect()
    broker.clock.advance(61)
    connect("who", at=broker, clean=False, session_present=False)


# ── DISCONNECT changes the expiry ─────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.2-23")
def test_disconnect_may_end_a_durable_session(connect, unique):
    connect(unique, session_expiry=600).disconnect(0, session_expiry=0)
    connect(unique, clean=False, session_present=False)


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_disconnect_may_shorten_and_lengthen_the_life_of_a_session(own_broker, connect):
    broker = own_broker()
    connect("shorter", at=broker, session_expiry=100).disconnect(0, session_expiry=10)
    connect("longer", at=broker, session_expiry=10).disconnect(0, session_expiry=100)
    broker.clock.advance(50)
    connect("shorter", at=broker, clean=False, session_present=False)
    connect("longer", at=broker, clean=False, session_present=True)


@pytest.mark.proves5("MQTT-4.13.1-1", "MQTT-3.1.2-8")
def test_disconnect_may_not_give_life_to_a_session_without(connect, unique):
    """A DISCONNECT with a fault is none: the will is due."""
    watcher = connect()
    watcher.subscribe((f"{unique}/w", 0))
    client = connect(unique, will=Will(f"{unique}/w", b"gone"))
    client.send(v5.disconnect(0, session_expiry=1))
    client.expect_disconnect(0x82)
    watcher.expect_publish(f"{unique}/w", b"gone")
    connect(unique, clean=False, session_present=False)


def test_disconnect_may_repeat_that_a_session_has_no_life(connect, unique):
    connect(unique).disconnect(0, session_expiry=0)


# ── Both versions share sessions ──────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.2-5", "MQTT-3.1.3-2")
def test_a_session_may_change_its_version_with_each_connection(own_broker, connect, dial):
    broker = own_broker()
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 1), subscription_id=3)
    client.disconnect()
    publisher = connect(at=broker)
    publisher.publish_acknowledged("t", b"1", user=("a", "b"))
    old = dial(at=broker)
    old.send(connect_3_1_1("who", clean=False))
    old.expect(connack_3_1_1(session_present=True))
    packet_id, topic, payload = old.receive_publish()[1:]  # no properties: 3.1.1 has none
    assert (topic, payload) == (b"t", b"1")
    old.send(v5.puback(packet_id), v5.PINGREQ)
    old.expect(v5.PINGRESP)
    old.send(v5.DISCONNECT)
    old.expect_close()
    publisher.publish_acknowledged("t", b"2", user=("a", "b"))
    client = connect("who", at=broker, clean=False, session_present=True)
    client.expect_publish("t", b"2", qos=1, user=("a", "b"), subscription_id=3)


@pytest.mark.proves5("MQTT-3.14.2-1", "MQTT-4.13.2-1", "MQTT-3.14.4-2")
def test_a_broker_that_stops_says_so(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker)
    broker.stop()
    client.expect_disconnect(0x8B)


# ── Keep-alive ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.12.4-1")
def test_each_pingreq_is_answered_by_one_pingresp(connect):
    client = connect()
    client.send(v5.PINGREQ * 3)
    client.expect(v5.PINGRESP, v5.PINGRESP, v5.PINGRESP)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.1.2-22", "MQTT-3.2.2-22")
def test_a_silent_client_is_told_0x8d_after_one_and_a_half_times_its_promise(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker, keep_alive=10)
    assert client.connack.value("server_keep_alive") is None
    broker.clock.advance(14.9)
    client.ping()
    broker.clock.advance(15.1)
    client.expect_disconnect(0x8D)


@pytest.mark.proves5("MQTT-3.1.2-22", "MQTT-3.1.2-8")
def test_a_client_closed_for_its_silence_has_its_will_published(own_broker, connect, unique):
    broker = own_broker()
    watcher = connect(at=broker, keep_alive=0)
    watcher.subscribe((unique, 0))
    client = connect(at=broker, keep_alive=1, will=Will(unique, b"gone"))
    broker.clock.advance(2)
    client.expect_disconnect(0x8D)
    watcher.expect_publish(unique, b"gone")


@pytest.mark.proves5("MQTT-3.2.2-22")
def test_keep_alive_0_means_for_ever(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker, keep_alive=0)
    broker.clock.advance(10 * 24 * 3600)
    client.ping()


@pytest.mark.proves5("MQTT-3.2.2-21")
@pytest.mark.parametrize("promised", [0, 31, 65_535])
def test_a_keep_alive_above_the_cap_is_told_and_the_cap_is_enforced(own_broker, connect, promised):
    broker = own_broker(limits={"keep_alive_s_max": 30})
    client = connect(at=broker, keep_alive=promised)
    assert client.connack.value("server_keep_alive") == 30
    broker.clock.advance(44)
    client.ping()
    broker.clock.advance(46)
    client.expect_disconnect(0x8D)


@pytest.mark.proves5("MQTT-3.2.2-22")
@pytest.mark.parametrize("promised", [1, 30])
def test_a_keep_alive_below_the_cap_is_not_told_anew(own_broker, connect, promised):
    client = connect(at=own_broker(limits={"keep_alive_s_max": 30}), keep_alive=promised)
    assert client.connack.value("server_keep_alive") is None
