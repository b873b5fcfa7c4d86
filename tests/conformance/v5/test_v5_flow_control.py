"""Receive maximum and maximum packet size, in both directions."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will

# ── Receive maximum: towards the client ───────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("maximum", [1, 3])
def test_no_more_than_the_receive_maximum_is_on_its_way(connect, unique, qos, maximum):
    client, publisher = connect(receive_maximum=maximum), connect()
    client.subscribe((unique, 2))
    for number in range(6):
        publisher.publish_acknowledged(unique, b"%d" % number, qos=qos)
    received = [client.expect_publish(unique, b"%d" % n, qos=qos) for n in range(maximum)]
    client.expect_nothing()
    for number in range(maximum, 6):
        client.acknowledge(received[number - maximum])
        received.append(client.expect_publish(unique, b"%d" % number, qos=qos))
        client.expect_nothing()


@pytest.mark.proves5("MQTT-4.9.0-2", "MQTT-3.3.4-9")
def test_pubrec_frees_no_slot_and_pubcomp_does(connect, unique):
    client, publisher = connect(receive_maximum=1), connect()
    client.subscribe((unique, 2))
    publisher.publish_acknowledged(unique, b"1", qos=2)
    publisher.publish_acknowledged(unique, b"2", qos=2)
    first = client.expect_publish(unique, b"1", qos=2).packet_id
    client.send(v5.pubrec(first))
    client.expect_ack(v5.PUBREL, first)
    client.expect_nothing()
    client.send(v5.pubcomp(first))
    client.expect_publish(unique, b"2", qos=2)


@pytest.mark.proves5("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_with_no_slot_left_everything_but_publish_goes_on(connect, unique):
    client, publisher = connect(receive_maximum=1), connect()
    client.subscribe((f"{unique}/t", 1))
    publisher.publish_acknowledged(f"{unique}/t", b"1")
    publisher.publish_acknowledged(f"{unique}/t", b"2")
    client.expect_publish(f"{unique}/t", b"1", qos=1)
    client.ping()
    client.subscribe((f"{unique}/other", 1), packet_id=2)
    client.publish_acknowledged(f"{unique}/elsewhere", b"m", qos=1, packet_id=3)
    client.publish_acknowledged(f"{unique}/elsewhere", b"m", qos=2, packet_id=4)
    client.unsubscribe(f"{unique}/other", packet_id=5)


@pytest.mark.proves5("MQTT-4.9.0-2", "MQTT-4.3.1-1")
def test_qos_0_needs_no_slot(connect, unique):
    client, publisher = connect(receive_maximum=1), connect()
    client.subscribe((f"{unique}/q1", 1), (f"{unique}/q0", 0))
    publisher.publish_acknowledged(f"{unique}/q1", b"1")
    client.expect_publish(f"{unique}/q1", b"1", qos=1)
    publisher.publish_acknowledged(f"{unique}/q0", b"0", qos=0)
    client.expect_publish(f"{unique}/q0", b"0")


@pytest.mark.proves5("MQTT-4.9.0-1", "MQTT-4.9.0-2", "MQTT-4.4.0-1")
def test_each_connection_begins_with_its_own_quota(connect, unique):
    """A resume is paced too: what was on its way before counts anew, oldest first."""
    durable = {"session_expiry": 600}
    client, publisher = connect(unique, receive_maximum=4, **durable), connect()
    client.subscribe((f"{unique}/t", 1))
    for number in range(6):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number)
    ids = [client.expect_publish(f"{unique}/t", b"%d" % n, qos=1).packet_id for n in range(4)]
    client.abort()
    client = connect(unique, clean=False, session_present=True, receive_maximum=1, **durable)
    for number in range(6):
        is_repeated = number < 4
        received = client.expect_publish(f"{unique}/t", b"%d" % number, qos=1, dup=is_repeated)
        assert not is_repeated or received.packet_id == ids[number]
        client.expect_nothing()
        client.acknowledge(received)


# ── Receive maximum: towards the broker ───────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.4-7", "MQTT-4.13.1-1")
def test_a_client_beyond_the_announced_receive_maximum_is_told_0x93(own_broker, connect, unique):
    """QoS 2 messages that are not released stay on their way for as long as the test likes."""
    client = connect(at=own_broker(limits={"receive_maximum": 3}))
    assert client.connack.value("receive_maximum") == 3
    for packet_id in (1, 2, 3):
        client.send(v5.publish(unique, b"m", qos=2, packet_id=packet_id))
        client.expect_accepted(v5.PUBREC, packet_id)
    client.send(v5.publish(unique, b"m", qos=2, packet_id=4))
    client.expect_disconnect(0x93)


@pytest.mark.proves5("MQTT-3.3.4-7", "MQTT-4.9.0-3")
def test_a_client_at_the_receive_maximum_may_release_and_go_on(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"receive_maximum": 2}))
    for packet_id in (1, 2):
        client.send(v5.publish(unique, b"m", qos=2, packet_id=packet_id))
        client.expect_accepted(v5.PUBREC, packet_id)
    client.send(v5.publish(unique, b"qos 0 needs no slot"))
    for packet_id in (1, 2):
        client.send(v5.pubrel(packet_id))
        client.expect_ack(v5.PUBCOMP, packet_id)
    for _ in range(5):
        client.publish_acknowledged(unique, b"m", qos=2, packet_id=1)
        client.publish_acknowledged(unique, b"m", qos=1, packet_id=2)


@pytest.mark.proves5("MQTT-3.3.4-7")
def test_a_refused_message_takes_no_slot(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"receive_maximum": 1}))
    for _ in range(3):
        client.send(v5.publish("$SYS/mine", b"m", qos=2, packet_id=1))
        client.expect_ack(v5.PUBREC, 1, 0x87)
    client.publish_acknowledged(unique, b"m", qos=2)


@pytest.mark.proves5("MQTT-3.3.4-7", "MQTT-4.6.0-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_refusal_that_waits_for_the_answers_before_it_takes_a_slot(own_broker, connect, qos):
    """So a client cannot make the broker keep any number of them."""
    client = connect(at=own_broker(limits={"receive_maximum": 3}))
    topics = ["stored", *["$SYS/mine"] * 20]
    sent = [v5.publish(t, b"m", qos=qos, packet_id=n) for n, t in enumerate(topics, 1)]
    client.send(*sent)
    client.expect_disconnect(0x93)


# ── Maximum packet size: towards the client ───────────────────────────────────────────────────


def size_of(topic, payload, **options):
    return len(v5.publish(topic, payload, **options))


@pytest.mark.proves5("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_too_large_for_a_client_is_left_out_and_the_next_comes(connect, unique, qos):
    """Header bytes count, so a limit is met exactly; the slot of what is left out is free."""
    fitting = size_of(unique, b"x" * 200, qos=qos, packet_id=1 if qos else None)
    client = connect(maximum_packet_size=fitting, receive_maximum=1)
    client.subscribe((unique, 2))
    publisher = connect()
    for length in (201, 200, 5_000, 200):
        publisher.publish_acknowledged(unique, b"x" * length, qos=qos)
    for _ in range(2):
        client.acknowledge(client.expect_publish(unique, b"x" * 200, qos=qos))
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1])
def test_properties_count_for_the_size_of_a_packet(connect, unique, qos):
    identifier = 1 if qos else None
    limit = size_of(unique, b"m", qos=qos, packet_id=identifier, user=("k", "v" * 50))
    client, other = connect(maximum_packet_size=limit), connect()
    for each in (client, other):
        each.subscribe((unique, 1))
    publisher = connect()
    for length in (51, 50):
        publisher.publish_acknowledged(unique, b"m", qos=qos, user=("k", "v" * length))
        other.expect_publish(unique, b"m", qos=qos, user=[("k", "v" * length)])
    client.expect_publish(unique, b"m", qos=qos, user=[("k", "v" * 50)])


@pytest.mark.proves5("MQTT-3.1.2-25", "MQTT-4.4.0-1")
def test_what_was_too_large_does_not_come_back_with_a_larger_limit(connect, unique):
    """It counts as delivered."""
    durable = {"session_expiry": 600}
    client = connect(unique, maximum_packet_size=100, **durable)
    client.subscribe((f"{unique}/t", 1))
    connect().publish_acknowledged(f"{unique}/t", b"x" * 200)
    client.expect_nothing()
    client.disconnect()
    client = connect(unique, clean=False, session_present=True, **durable)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1])
def test_a_retained_message_too_large_is_left_out_of_its_kind_alone(connect, unique, qos):
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/a", b"x" * 200, qos=qos, retain=True)
    publisher.publish_acknowledged(f"{unique}/b", b"small", qos=qos, retain=True)
    client = connect(maximum_packet_size=100)
    client.subscribe((f"{unique}/#", 1))
    client.expect_publish(f"{unique}/b", b"small", qos=qos, retain=True)
    client.expect_nothing()


# ── Maximum packet size: towards the broker ───────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.2.2-15", "MQTT-4.13.1-1")
def test_a_packet_above_the_announced_maximum_is_told_0x95(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"packet_bytes_max": 4_096}))
    assert client.connack.value("maximum_packet_size") == 4_096
    rest = 4_096 - size_of(unique, b"x" * 2_000, qos=1, packet_id=1) + 2_000
    fitting = v5.publish(unique, b"x" * rest, qos=1, packet_id=1)
    assert len(fitting) == 4_096
    client.send(fitting)
    client.expect_accepted(v5.PUBACK, 1)
    client.send(v5.publish(unique, b"x" * (rest + 1), qos=1, packet_id=1)[:64])
    client.expect_disconnect(0x95)  # as soon as its length is known


@pytest.mark.proves5("MQTT-3.1.4-2")
def test_a_connect_too_large_is_told_0x95_once_its_level_is_known(own_broker, dial, unique):
    client = dial(at=own_broker(limits={"connect_bytes_max": 1_024}))
    client.send(v5.connect(unique, will=Will(unique, b"x" * 1_024)))
    client.expect_refusal(0x95)


@pytest.mark.proves5("MQTT-3.1.2-25")
@pytest.mark.parametrize("session_expiry", [0, 600])
@pytest.mark.parametrize("is_replay", [False, True], ids=["retained", "replay"])
def test_what_is_too_large_does_not_stall_retained_messages_or_history(
    own_broker, connect, is_replay, session_expiry
):
    """Each slot that it frees brings the next one, though nothing is acknowledged."""
    broker = own_broker()
    publisher = connect(at=broker)
    for number in range(6):
        payload = b"x" * (5 if number % 2 else 200)
        publisher.publish_acknowledged(f"t/{number}", payload, retain=not is_replay)
    limits = {"receive_maximum": 1, "maximum_packet_size": 100}
    client = connect("who", at=broker, session_expiry=session_expiry, **limits)
    asked = {"user": ("replay", "last=100")} if is_replay else {}
    client.subscribe(("t/#", 1), **asked)
    for number in (1, 3, 5):
        received = client.take()
        assert received.topic == f"t/{number}"
        client.acknowledge(received)
    publisher.publish_acknowledged("t/live", b"m")
    client.expect_publish("t/live", b"m", qos=1)
