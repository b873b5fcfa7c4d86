"""Message expiry: what is left of it, and when it ends a message."""

import pytest

from penstock.testing.clock import VirtualClock
from tests.conformance import packets5 as v5


@pytest.mark.proves5("MQTT-3.3.2-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_delivered_at_once_carries_its_expiry(connect, unique, qos):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=qos, message_expiry=100, user=("a", "b"))
    received = subscriber.take()
    assert received.value("message_expiry") in {99, 100}
    assert received.properties["user"] == [("a", "b")]


@pytest.mark.proves5("MQTT-3.3.2-6", "MQTT-3.3.2-5")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_waited_carries_what_is_left_or_is_not_sent(own_broker, connect, qos):
    broker = own_broker()
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 2))
    client.disconnect()
    publisher = connect(at=broker, keep_alive=0)
    for number, expiry in enumerate((100, 30, 4_294_967_295)):
        publisher.publish_acknowledged("t", b"%d" % number, qos=qos, message_expiry=expiry)
    publisher.publish_acknowledged("t", b"3", qos=qos)
    broker.clock.advance(40)
    client = connect("who", at=broker, clean=False, session_present=True)
    client.expect_publish("t", b"0", qos=qos, message_expiry=60)
    client.expect_publish("t", b"2", qos=qos, message_expiry=4_294_967_295 - 40)
    client.expect_publish("t", b"3", qos=qos)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-5")
def test_an_expired_message_frees_its_place_in_the_window(own_broker, connect):
    broker = own_broker()
    client = connect("who", at=broker, receive_maximum=1, keep_alive=0)
    client.subscribe(("t", 1))
    publisher = connect(at=broker, keep_alive=0)
    publisher.publish_acknowledged("t", b"first")
    for number in range(5):
        publisher.publish_acknowledged("t", b"%d" % number, message_expiry=10)
    publisher.publish_acknowledged("t", b"last")
    first = client.expect_publish("t", b"first", qos=1)
    broker.clock.advance(20)
    client.acknowledge(first)
    client.expect_publish("t", b"last", qos=1)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-5")
def test_a_full_queue_gives_up_what_has_expired_first(own_broker, connect):
    broker = own_broker(limits={"queue_messages_max": 3})
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 1))
    client.disconnect()
    publisher = connect(at=broker, keep_alive=0)
    publisher.publish_acknowledged("t", b"0")
    publisher.publish_acknowledged("t", b"1", message_expiry=10)
    publisher.publish_acknowledged("t", b"2")
    broker.clock.advance(20)
    publisher.publish_acknowledged("t", b"3")
    client = connect("who", at=broker, clean=False, session_present=True)
    for number in (0, 2, 3):
        client.expect_publish("t", b"%d" % number, qos=1)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_expiry_holds_for_what_waits_in_a_share(own_broker, connect):
    broker = own_broker()
    member = connect("member", at=broker, session_expiry=600)
    member.subscribe(("$share/g/t", 1))
    member.disconnect()
    publisher = connect(at=broker, keep_alive=0)
    publisher.publish_acknowledged("t", b"ends", message_expiry=10)
    publisher.publish_acknowledged("t", b"stays", message_expiry=100)
    broker.clock.advance(40)
    member = connect("member", at=broker, clean=False, session_present=True)
    member.expect_publish("t", b"stays", qos=1, message_expiry=60)
    member.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-6", "MQTT-3.3.2-5")
def test_the_expiry_of_a_retained_message_counts_down_and_ends_it(own_broker, connect):
    broker = own_broker()
    connect(at=broker).publish_acknowledged("t", b"kept", retain=True, message_expiry=100)
    broker.clock.advance(40)
    client = connect(at=broker, keep_alive=0)
    client.subscribe(("t", 1))
    client.expect_publish("t", b"kept", qos=1, retain=True, message_expiry=60)
    broker.clock.advance(61)
    late = connect(at=broker)
    late.subscribe(("t", 1))
    late.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_a_part_of_a_second_counts_as_a_whole_one(own_broker, connect):
    broker = own_broker()
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 1))
    client.disconnect()
    connect(at=broker).publish_acknowledged("t", b"m", message_expiry=10)
    broker.clock.advance(9.5)
    client = connect("who", at=broker, clean=False, session_present=True)
    client.expect_publish("t", b"m", qos=1, message_expiry=1)


@pytest.mark.proves5("MQTT-3.3.2-5")
@pytest.mark.parametrize("qos", [0, 1])
def test_an_expiry_of_0_reaches_those_who_are_connected(connect, unique, qos):
    here = connect()
    here.subscribe((f"{unique}/t", 1))
    away = connect(unique, session_expiry=600)
    away.subscribe((f"{unique}/t", 1))
    away.disconnect()
    connect().publish_acknowledged(f"{unique}/t", b"now or never", qos=qos, message_expiry=0)
    here.expect_publish(f"{unique}/t", b"now or never", qos=qos, message_expiry=0)
    away = connect(unique, clean=False, session_expiry=600, session_present=True)
    away.expect_nothing()


@pytest.mark.proves5("MQTT-4.3.3-7", "MQTT-4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_was_sent_does_not_expire(own_broker, connect, qos):
    broker = own_broker()
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 2))
    connect(at=broker).publish_acknowledged("t", b"m", qos=qos, message_expiry=10)
    packet_id = client.expect_publish("t", b"m", qos=qos, message_expiry=10).packet_id
    client.abort()
    broker.clock.advance(60)
    client = connect("who", at=broker, clean=False, session_present=True)
    again = client.expect_publish("t", b"m", qos=qos, dup=True, message_expiry=0)
    assert again.packet_id == packet_id
    client.acknowledge(again)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-4.3.3-13", "MQTT-4.3.3-11")
def test_the_exchange_of_an_expired_qos_2_message_is_completed(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker, keep_alive=0)
    client.send(v5.publish("t", b"m", qos=2, packet_id=5, message_expiry=10))
    client.expect_accepted(v5.PUBREC, 5)
    broker.clock.advance(60)
    client.send(v5.publish("t", b"m", qos=2, packet_id=5, message_expiry=10, dup=True))
    client.expect_accepted(v5.PUBREC, 5)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5)


@pytest.mark.proves5("MQTT-3.3.2-5", "MQTT-3.3.2-6")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_expiry_counts_on_through_a_restart(own_broker, connect, kill):
    broker = own_broker()
    client = connect("who", at=broker, session_expiry=600)
    client.subscribe(("t", 1))
    client.disconnect()
    publisher = connect(at=broker)
    publisher.publish_acknowledged("t", b"ends", message_expiry=30)
    publisher.publish_acknowledged("t", b"stays", message_expiry=100)
    publisher.publish_acknowledged("kept", b"stays", retain=True, message_expiry=100)
    publisher.publish_acknowledged("kept/not", b"ends", retain=True, message_expiry=30)
    broker.stop(kill=kill)
    broker.clock.advance(40)
    broker.start()
    client = connect("who", at=broker, clean=False, session_present=True)
    client.acknowledge(client.expect_publish("t", b"stays", qos=1, message_expiry=60))
    client.subscribe(("kept/#", 1))
    client.expect_publish("kept", b"stays", qos=1, retain=True, message_expiry=60)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.2-6")
@pytest.mark.parametrize("qos", [0, 1])
def test_no_more_is_left_than_there_was_though_the_clock_went_back(
    own_broker, connect, monkeypatch, qos
):
    behind_ms, wall_ms = [0], VirtualClock.wall_ms
    monkeypatch.setattr(VirtualClock, "wall_ms", lambda clock: wall_ms(clock) - behind_ms[0])
    broker = own_broker()
    waiting = {}
    for name, topic_filter in (("queue", "t"), ("share", "$share/g/t")):
        client = connect(name, at=broker, session_expiry=600)
        client.subscribe((topic_filter, 1))
        client.disconnect()
    connect(at=broker).publish_acknowledged("t", b"m", retain=True, message_expiry=10)
    behind_ms[0] = 3_600_000
    for name in ("queue", "share"):
        waiting[name] = connect(name, at=broker, clean=False, session_present=True)
    for name, asked in (("retained", {}), ("replay", {"user": ("replay", "last=1")})):
        waiting[name] = connect(at=broker)
        waiting[name].subscribe(("t", qos), **asked)
    left = {name: client.take().value("message_expiry") for name, client in waiting.items()}
    assert set(left.values()) == {10}, left
