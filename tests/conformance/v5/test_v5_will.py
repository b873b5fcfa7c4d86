"""Wills in version 5: delay, properties, and every way a connection can end.

A will that is due later needs time to pass: those tests have a broker with a virtual clock.
"""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will

PROPERTIES = {
    "payload_format": 1, "content_type": "text/plain", "response_topic": "answer/here",
    "correlation_data": b"\0\xff", "user": [("b", "2"), ("a", "1"), ("b", "2")],
}  # fmt: skip


@pytest.fixture
def watch(connect):
    """A client that sees the wills of a topic, in a broker of its own where one is given."""

    def watching(topic, *, at=None):
        watcher = connect(at=at, keep_alive=0)
        watcher.subscribe((topic, 2))
        return watcher

    return watching


# ── At once ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-9", "MQTT-3.1.2-12")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_of_a_broken_connection_is_published_with_its_qos(connect, watch, unique, qos):
    watcher = watch(unique)
    connect(will=Will(unique, b"gone", qos)).abort()
    watcher.expect_publish(unique, b"gone", qos=qos)


@pytest.mark.proves5("MQTT-3.1.3-10", "MQTT-3.3.2-17")
@pytest.mark.parametrize("qos", [0, 1])
def test_a_will_is_published_with_its_properties_but_not_its_delay(connect, watch, unique, qos):
    watcher = watch(unique)
    own = v5.block(will_delay=0, **PROPERTIES)
    connect(will=Will(unique, b"gone", qos, properties=own)).abort()
    watcher.expect_publish(unique, b"gone", qos=qos, **PROPERTIES)


@pytest.mark.proves5("MQTT-3.1.2-14")
def test_a_will_without_retain_is_not_retained(connect, watch, unique):
    watcher = watch(unique)
    connect(will=Will(unique, b"passing", 1)).abort()
    watcher.expect_publish(unique, b"passing", qos=1)
    newcomer = watch(unique)
    newcomer.expect_nothing()


@pytest.mark.proves5("MQTT-3.1.2-15")
def test_a_will_with_retain_is_retained(connect, watch, unique):
    watcher = watch(unique)
    own = v5.block(**PROPERTIES)
    connect(will=Will(unique, b"lasting", 1, retain=True, properties=own)).abort()
    watcher.expect_publish(unique, b"lasting", qos=1, **PROPERTIES)
    newcomer = watch(unique)
    newcomer.expect_publish(unique, b"lasting", qos=1, retain=True, **PROPERTIES)


@pytest.mark.proves5("MQTT-3.14.4-3", "MQTT-3.1.2-8", "MQTT-3.1.2-10")
@pytest.mark.parametrize("goodbye", [v5.disconnect(), v5.disconnect(0)], ids=["short", "long"])
def test_disconnect_0x00_discards_the_will(connect, watch, unique, goodbye):
    watcher = watch(unique)
    client = connect(will=Will(unique, b"never"))
    client.send(goodbye)
    client.expect_close()
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-3.14.2-1")
@pytest.mark.parametrize(
    "code",
    [0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
)
def test_disconnect_with_any_other_code_leaves_the_will_due(connect, watch, unique, code):
    watcher = watch(unique)
    connect(will=Will(unique, b"gone")).disconnect(code)
    watcher.expect_publish(unique, b"gone")


@pytest.mark.proves5("MQTT-3.14.2-1", "MQTT-3.1.2-8")
@pytest.mark.parametrize("code", [0x01, 0x8B, 0x8E, 0x9C, 0xA2, 0xFF])
def test_a_disconnect_with_a_code_that_is_no_clients_is_a_protocol_error(
    connect, watch, unique, code
):
    watcher = watch(unique)
    client = connect(will=Will(unique, b"gone"))
    client.send(v5.disconnect(code))
    client.expect_disconnect(0x82)
    watcher.expect_publish(unique, b"gone")


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-4.13.1-1")
def test_the_will_of_a_client_thrown_out_is_published(connect, watch, unique):
    watcher = watch(unique)
    client = connect(will=Will(unique, b"thrown out"))
    client.send(v5.packet(0x36, b"\0\1t\0\1\0"))
    client.expect_disconnect(0x81)
    watcher.expect_publish(unique, b"thrown out")


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-3.1.4-3")
@pytest.mark.parametrize("clean", [True, False])
def test_the_will_of_a_connection_taken_over_is_published(connect, watch, unique, clean):
    watcher = watch(f"{unique}/w")
    connect(unique, session_expiry=600, will=Will(f"{unique}/w", b"taken over"))
    connect(unique, clean=clean, session_expiry=600, session_present=not clean)
    watcher.expect_publish(f"{unique}/w", b"taken over")


@pytest.mark.proves5("MQTT-3.1.2-10")
@pytest.mark.parametrize("expiry", [0, 600])
def test_a_will_is_published_once_and_then_forgotten(connect, watch, unique, expiry):
    watcher = watch(f"{unique}/w")
    options = {"clean": False, "session_expiry": expiry}
    connect(unique, will=Will(f"{unique}/w", b"once"), **options).abort()
    watcher.expect_publish(f"{unique}/w", b"once")
    connect(unique, session_present=expiry > 0, **options).abort()
    watcher.expect_nothing_from(connect(unique, session_present=expiry > 0, **options))


@pytest.mark.proves5("MQTT-3.1.2-8")
def test_with_session_expiry_0_a_delayed_will_is_due_at_once(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    own = v5.block(will_delay=600)
    connect(at=broker, will=Will("w", b"gone", properties=own)).abort()
    watcher.expect_publish("w", b"gone")


# ── Later ─────────────────────────────────────────────────────────────────────────────────────


def delayed(delay, payload=b"gone", qos=1, **properties):
    return Will("w", payload, qos, properties=v5.block(will_delay=delay, **properties))


@pytest.mark.proves5("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.3-10")
def test_a_delayed_will_is_published_when_its_delay_has_passed(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    will = delayed(30, **PROPERTIES)
    connect("who", at=broker, session_expiry=600, will=will).abort()
    witness = connect(at=broker, keep_alive=0)
    watcher.expect_nothing_from(witness)
    broker.clock.advance(29)
    watcher.expect_nothing_from(witness)
    broker.clock.advance(2)
    watcher.expect_publish("w", b"gone", qos=1, **PROPERTIES)
    broker.clock.advance(600)
    watcher.expect_nothing_from(witness)


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-4.1.0-2")
def test_a_delayed_will_is_due_when_its_session_ends(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=30, will=delayed(600)).abort()
    witness = connect(at=broker, keep_alive=0)
    broker.clock.advance(29)
    watcher.expect_nothing_from(witness)
    broker.clock.advance(2)
    watcher.expect_publish("w", b"gone", qos=1)
    broker.clock.advance(600)
    watcher.expect_nothing_from(witness)


@pytest.mark.proves5("MQTT-3.1.3-9", "MQTT-3.1.2-8")
def test_a_connection_that_continues_the_session_cancels_a_delayed_will(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=600, will=delayed(30)).abort()
    broker.clock.advance(20)
    back = connect(
        "who", at=broker, clean=False, session_expiry=600, session_present=True, keep_alive=0
    )
    broker.clock.advance(600)
    watcher.expect_nothing_from(back)


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-3.1.2-4")
def test_a_clean_start_ends_the_session_and_makes_its_will_due(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=600, will=delayed(30)).abort()
    connect("who", at=broker, clean=True, session_expiry=600)
    watcher.expect_publish("w", b"gone", qos=1)


@pytest.mark.proves5("MQTT-3.1.3-9", "MQTT-3.1.2-8")
@pytest.mark.parametrize(
    ("delay", "clean", "is_published"), [(30, False, False), (30, True, True), (0, False, True)]
)
def test_a_take_over_publishes_a_will_that_it_does_not_cancel(
    own_broker, connect, watch, delay, clean, is_published
):
    broker = own_broker()
    watcher = watch("w", at=broker)
    older = connect("who", at=broker, session_expiry=600, will=delayed(delay))
    newer = connect(
        "who", at=broker, clean=clean, session_expiry=600, session_present=not clean, keep_alive=0
    )
    older.expect_disconnect(0x8E)
    if is_published:
        watcher.expect_publish("w", b"gone", qos=1)
    broker.clock.advance(60)
    watcher.expect_nothing_from(newer)


@pytest.mark.proves5("MQTT-3.1.2-8", "MQTT-3.1.2-23")
def test_disconnect_0x04_keeps_the_delay(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=600, will=delayed(30)).disconnect(4)
    witness = connect(at=broker, keep_alive=0)
    watcher.expect_nothing_from(witness)
    broker.clock.advance(31)
    watcher.expect_publish("w", b"gone", qos=1)


@pytest.mark.proves5("MQTT-3.1.2-8")
def test_disconnect_0x04_that_ends_the_session_makes_the_will_due(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    client = connect("who", at=broker, session_expiry=600, will=delayed(30))
    client.disconnect(4, session_expiry=0)
    watcher.expect_publish("w", b"gone", qos=1)


@pytest.mark.proves5("MQTT-3.3.2-6")
def test_the_expiry_of_a_will_counts_from_its_publication(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=600, will=delayed(30, message_expiry=20)).abort()
    broker.clock.advance(31)
    watcher.expect_publish("w", b"gone", qos=1, message_expiry=20)


# ── A crash between ───────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.3-10")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_a_delayed_will_survives_a_restart_with_its_time(own_broker, connect, watch, kill):
    broker = own_broker()
    connect("who", at=broker, session_expiry=600, will=delayed(100, **PROPERTIES)).abort()
    others = connect("watcher", at=broker), connect(at=broker)
    others[0].subscribe(("other", 0))
    others[1].ping()
    broker.clock.advance(60)
    for other in others:
        other.abort()  # by WebSocket, a stop would wait for their word until a clock that stands still
    broker.restart(kill=kill)
    watcher = watch("w", at=broker)
    witness = connect(at=broker, keep_alive=0)
    broker.clock.advance(30)
    watcher.expect_nothing_from(witness)
    broker.clock.advance(11)
    watcher.expect_publish("w", b"gone", qos=1, **PROPERTIES)
    broker.clock.advance(600)
    watcher.expect_nothing_from(witness)


@pytest.mark.proves5("MQTT-3.1.3-9", "MQTT-3.1.2-10")
def test_a_will_that_was_cancelled_stays_so_after_a_crash(own_broker, connect, watch):
    broker = own_broker()
    connect("who", at=broker, session_expiry=600, will=delayed(100)).abort()
    connect("who", at=broker, clean=False, session_expiry=600, session_present=True).disconnect()
    broker.restart(kill=True)
    watcher = watch("w", at=broker)
    broker.clock.advance(200)
    watcher.expect_nothing_from(connect(at=broker))


@pytest.mark.proves5("MQTT-3.1.2-10")
def test_a_delayed_will_that_was_published_is_not_published_again(own_broker, connect, watch):
    broker = own_broker()
    watcher = watch("w", at=broker)
    connect("who", at=broker, session_expiry=600, will=delayed(10)).abort()
    connect(at=broker).ping()
    broker.clock.advance(11)
    watcher.expect_publish("w", b"gone", qos=1)
    broker.restart(kill=True)
    watcher = watch("w", at=broker)
    broker.clock.advance(200)
    watcher.expect_nothing_from(connect(at=broker))
