"""PUBLISH in version 5: what is forwarded, and the exchanges of QoS 0, 1 and 2 with their codes."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import options
from tests.conformance.wire_client import connack as connack_3_1_1
from tests.conformance.wire_client import connect_packet as connect_3_1_1
from tests.conformance.wire_client import publish as publish_3_1_1
from tests.conformance.wire_client import suback as suback_3_1_1
from tests.conformance.wire_client import subscribe as subscribe_3_1_1

MANY = [("b", "2"), ("a", "1"), ("b", "2"), ("", ""), ("a", "0"), ("ü\ufeff", "\U0001f600")]

PROPERTIES = {
    "payload_format": 1, "content_type": "application/x-own; v=1", "response_topic": "answer/here",
    "correlation_data": bytes(range(256)), "user": MANY,
}  # fmt: skip


# ── What is forwarded ─────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5(
    "MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18",
    "MQTT-3.3.2-20", "MQTT-3.3.2-13", "MQTT-3.3.2-19",
)  # fmt: skip
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_properties_reach_the_subscriber_as_they_were_sent(connect, unique, qos, granted):
    subscriber = connect()
    subscriber.subscribe((unique, granted))
    connect().publish_acknowledged(unique, b"text", qos=qos, **PROPERTIES)
    subscriber.expect_publish(unique, b"text", qos=min(qos, granted), **PROPERTIES)


@pytest.mark.proves5("MQTT-3.3.2-4", "MQTT-3.3.2-16", "MQTT-3.3.2-20")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload_format", 0),
        ("content_type", ""),
        ("content_type", "text/plain"),
        ("content_type", "application/json"),
        ("correlation_data", b""),
        ("user", [("mqtt-content-type", "a name that looks like one of ours")]),
        ("user", [("mqtt-~x", "y")]),
    ],
)
@pytest.mark.parametrize("qos", [0, 1])
def test_a_single_property_is_forwarded_and_nothing_is_added(connect, unique, name, value, qos):
    subscriber = connect()
    subscriber.subscribe((unique, 1))
    connect().publish_acknowledged(unique, b"m", qos=qos, **{name: value})
    subscriber.expect_publish(unique, b"m", qos=qos, **{name: value})


@pytest.mark.proves5("MQTT-2.2.2-1")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_without_properties_is_forwarded_without_any(connect, unique, qos):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"m", qos=qos)
    subscriber.expect_publish(unique, b"m", qos=qos)


@pytest.mark.proves5("MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-16")
def test_properties_wait_with_the_message_for_a_subscriber_that_is_away(connect, unique):
    subscriber = connect(unique, session_expiry=600)
    subscriber.subscribe((f"{unique}/t", 2))
    subscriber.disconnect()
    connect().publish_acknowledged(f"{unique}/t", b"text", qos=2, **PROPERTIES)
    subscriber = connect(unique, clean=False, session_expiry=600, session_present=True)
    subscriber.expect_publish(f"{unique}/t", b"text", qos=2, **PROPERTIES)


@pytest.mark.proves5("MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
def test_properties_are_retained_with_the_message(connect, unique):
    connect().publish_acknowledged(unique, b"text", retain=True, **PROPERTIES)
    subscriber = connect()
    subscriber.subscribe((unique, 1))
    subscriber.expect_publish(unique, b"text", qos=1, retain=True, **PROPERTIES)


@pytest.mark.proves5("MQTT-3.3.2-15", "MQTT-3.3.2-16")
def test_a_request_is_answered_at_its_response_topic(connect, unique):
    server, client = connect(), connect()
    server.subscribe((f"{unique}/request", 1))
    client.subscribe((f"{unique}/answer", 1))
    client.publish_acknowledged(
        f"{unique}/request", b"2+2", response_topic=f"{unique}/answer", correlation_data=b"#1"
    )
    request = server.take()
    server.acknowledge(request)
    server.publish_acknowledged(
        str(request.value("response_topic")),
        b"4",
        correlation_data=request.value("correlation_data"),
    )
    client.expect_publish(f"{unique}/answer", b"4", qos=1, correlation_data=b"#1")


@pytest.mark.proves5("MQTT-1.5.4-3")
def test_a_byte_order_mark_is_a_character_like_any_other(connect, unique):
    topic = f"{unique}/\ufeffa"
    subscriber = connect()
    subscriber.subscribe((f"{unique}/+", 0))
    publisher = connect()
    publisher.send(v5.publish(topic, b"m", content_type="\ufefftext", user=[("\ufeff", "\ufeff")]))
    subscriber.expect_publish(topic, b"m", content_type="\ufefftext", user=[("\ufeff", "\ufeff")])
    other = connect()
    other.subscribe((f"{unique}/a", 0))
    publisher.send(v5.publish(topic, b"m"))
    other.expect_nothing_from(publisher)


@pytest.mark.parametrize("qos", [0, 1])
def test_messages_cross_between_the_versions(connect, dial, unique, qos):
    old = dial()
    old.send(connect_3_1_1(""), subscribe_3_1_1(1, (f"{unique}/new", 0)))
    old.expect(connack_3_1_1(), suback_3_1_1(1, 0))
    new = connect()
    new.subscribe((f"{unique}/old", 1))
    new.publish_acknowledged(f"{unique}/new", b"m", qos=qos, **PROPERTIES)
    old.expect(publish_3_1_1(f"{unique}/new", b"m"))  # without what 3.1.1 cannot say
    old.send(publish_3_1_1(f"{unique}/old", b"m", qos=qos, packet_id=qos or None))
    new.expect_publish(f"{unique}/old", b"m", qos=qos)


# ── QoS 0, 1 and 2: towards the broker ────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.4-1", "MQTT-2.2.1-2", "MQTT-4.3.1-1")
def test_qos_0_is_not_answered(connect, unique):
    client = connect()
    client.send(v5.publish(unique, b"m"))
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-2.2.1-5", "MQTT-3.4.2-1")
def test_qos_1_is_answered_by_a_puback_of_four_bytes(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    client = connect()
    client.send(v5.publish(unique, b"m", qos=1, packet_id=0xABCD))
    client.expect(v5.packet(0x40, b"\xab\xcd"))


@pytest.mark.proves5("MQTT-4.3.2-5", "MQTT-4.5.0-1")
@pytest.mark.parametrize("dup", [False, True])
def test_after_puback_the_same_id_is_a_new_message(connect, unique, dup):
    subscriber = connect()
    subscriber.subscribe((unique, 1))
    client = connect()
    for number in (b"1", b"2"):
        client.send(v5.publish(unique, number, qos=1, packet_id=5, dup=dup))
        client.expect_accepted(v5.PUBACK, 5)
        subscriber.expect_publish(unique, number, qos=1)


@pytest.mark.proves5(
    "MQTT-3.3.4-1", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-2.2.1-5", "MQTT-3.5.2-1",
    "MQTT-3.7.2-1",
)  # fmt: skip
def test_qos_2_is_answered_by_pubrec_and_its_release_by_pubcomp(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    client = connect()
    client.send(v5.publish(unique, b"m", qos=2, packet_id=0xABCD))
    client.expect_accepted(v5.PUBREC, 0xABCD)
    client.send(v5.pubrel(0xABCD))
    client.expect_ack(v5.PUBCOMP, 0xABCD)
    subscriber.expect_publish(unique, b"m")


@pytest.mark.proves5("MQTT-4.3.3-10")
def test_qos_2_before_its_release_is_acknowledged_again_and_not_delivered_twice(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    client = connect()
    for dup in (False, True, True):
        client.send(v5.publish(unique, b"m", qos=2, packet_id=5, dup=dup))
        client.expect_accepted(v5.PUBREC, 5)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5)
    subscriber.expect_publish(unique, b"m")
    subscriber.expect_nothing_from(client)


@pytest.mark.proves5("MQTT-4.3.3-10", "MQTT-4.1.0-1", "MQTT-3.1.2-23")
def test_a_received_qos_2_id_is_known_after_a_reconnect(connect, unique):
    subscriber = connect()
    subscriber.subscribe((f"{unique}/t", 0))
    client = connect(unique, session_expiry=600)
    client.send(v5.publish(f"{unique}/t", b"m", qos=2, packet_id=5))
    client.expect_accepted(v5.PUBREC, 5)
    client.abort()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.send(v5.publish(f"{unique}/t", b"m", qos=2, packet_id=5, dup=True))
    client.expect_accepted(v5.PUBREC, 5)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5)
    subscriber.expect_publish(f"{unique}/t", b"m")
    subscriber.expect_nothing_from(client)


@pytest.mark.proves5("MQTT-4.3.3-8", "MQTT-3.3.1-5")
def test_a_qos_2_message_released_after_a_reconnect_keeps_its_qos_retain_and_properties(
    connect, unique
):
    subscriber = connect()
    subscriber.subscribe((f"{unique}/t", options(2, as_published=True)))
    client = connect(unique, session_expiry=600)
    client.send(v5.publish(f"{unique}/t", b"m", qos=2, packet_id=5, retain=True, **PROPERTIES))
    client.expect_accepted(v5.PUBREC, 5)
    client.abort()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5)
    subscriber.expect_publish(f"{unique}/t", b"m", qos=2, retain=True, **PROPERTIES)
    late = connect()
    late.subscribe((f"{unique}/t", 2))
    late.expect_publish(f"{unique}/t", b"m", qos=2, retain=True, **PROPERTIES)


@pytest.mark.proves5("MQTT-4.3.3-12")
def test_after_pubcomp_the_same_id_is_a_new_message(connect, unique):
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    client = connect()
    for number in (b"1", b"2"):
        client.publish_acknowledged(unique, number, qos=2, packet_id=5)
        subscriber.expect_publish(unique, number)


@pytest.mark.proves5("MQTT-3.7.2-1", "MQTT-4.3.3-11", "MQTT-2.2.1-5")
def test_the_release_of_an_unknown_id_is_told_0x92(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.pubrel(77))
    client.expect_ack(v5.PUBCOMP, 77, 0x92)
    client.ping()


@pytest.mark.proves5("MQTT-3.6.2-1")
def test_a_pubrec_for_an_unknown_id_is_told_0x92(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.pubrec(77))
    client.expect_ack(v5.PUBREL, 77, 0x92)
    client.ping()


# ── Refused messages ──────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-4.3.3-9")
@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
def test_a_reserved_topic_is_refused_with_0x87_and_the_connection_stays(
    own_broker, connect, unique, qos, kind
):
    broker = own_broker()
    client, subscriber = connect(at=broker), connect(at=broker)
    subscriber.subscribe((unique, 0))
    client.send(v5.publish("$SYS/mine", b"m", qos=qos, packet_id=5))
    assert client.expect_ack(kind, 5, 0x87).value("reason_string")
    client.publish_acknowledged(unique, b"m", qos=qos, packet_id=5)  # the id is free at once
    subscriber.expect_publish(unique, b"m")


@pytest.mark.proves5("MQTT-4.3.3-9", "MQTT-3.7.2-1")
def test_a_refused_qos_2_message_has_nothing_to_release(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.publish("$SYS/mine", b"m", qos=2, packet_id=5))
    client.expect_ack(v5.PUBREC, 5, 0x87)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5, 0x92)


@pytest.mark.proves5("MQTT-4.13.1-1")
def test_qos_0_to_a_reserved_topic_ends_the_connection(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.publish("$SYS/mine", b"m"))
    client.expect_disconnect(0x87)


@pytest.mark.proves5("MQTT-3.4.2-1", "MQTT-3.5.2-1")
@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
def test_a_topic_beyond_the_limits_is_told_0x90_and_the_limit(own_broker, connect, qos, kind):
    client = connect(at=own_broker(limits={"topic_bytes_max": 64}))
    client.send(v5.publish("a" * 65, b"m", qos=qos, packet_id=5))
    assert "64" in str(client.expect_ack(kind, 5, 0x90).value("reason_string"))
    client.ping()


@pytest.mark.proves5("MQTT-3.1.2-29", "MQTT-3.4.2-2", "MQTT-3.5.2-2")
@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
@pytest.mark.parametrize(
    "wish", [{"request_problem_information": 0}, {"maximum_packet_size": 26}], ids=["no", "small"]
)
def test_a_reason_string_is_left_out_where_it_is_not_wanted_or_does_not_fit(
    own_broker, connect, qos, kind, wish
):
    client = connect("who", at=own_broker(), **wish)
    client.send(v5.publish("$SYS/a/rather/long/one", b"m", qos=qos, packet_id=5))
    assert client.expect_ack(kind, 5, 0x87).properties == {}


@pytest.mark.proves5("MQTT-3.1.2-29", "MQTT-3.4.2-3", "MQTT-3.5.2-3", "MQTT-3.7.2-3")
def test_acknowledgements_carry_no_user_properties(own_broker, connect, unique):
    client = connect(at=own_broker(), user=("a", "b"))
    client.send(v5.publish("$SYS/mine", b"m", qos=1, packet_id=1, user=("a", "b")))
    assert "user" not in client.expect_ack(v5.PUBACK, 1, 0x87).properties
    client.send(v5.publish("$SYS/mine", b"m", qos=2, packet_id=1, user=("a", "b")))
    assert "user" not in client.expect_ack(v5.PUBREC, 1, 0x87).properties
    client.send(v5.pubrel(1, 0, user=("a", "b")))
    assert "user" not in client.expect_ack(v5.PUBCOMP, 1, 0x92).properties


@pytest.mark.proves5(
    "MQTT-3.6.2-2", "MQTT-3.6.2-3", "MQTT-3.7.2-2", "MQTT-3.7.2-3", "MQTT-3.1.2-24"
)
@pytest.mark.parametrize("limit", [20, 1_000])
def test_releases_and_completions_stay_small(own_broker, connect, limit):
    """A code is enough where an id is unknown."""
    client = connect("who", at=own_broker(), maximum_packet_size=limit)
    client.send(v5.pubrec(77, 0, user=("a", "b")))
    assert client.expect_ack(v5.PUBREL, 77, 0x92).properties == {}
    client.send(v5.pubrel(78, 0, user=("a", "b")))
    assert client.expect_ack(v5.PUBCOMP, 78, 0x92).properties == {}


# ── QoS 1 and 2: towards the subscriber ───────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-4.3.1-1", "MQTT-3.3.1-2", "MQTT-2.2.1-2", "MQTT-3.3.1-3")
@pytest.mark.parametrize("dup", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_dup_of_the_publisher_does_not_reach_the_subscriber(connect, unique, qos, dup):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    lower = connect()
    lower.subscribe((unique, 0))
    publisher = connect()
    publisher.send(v5.publish(unique, b"m", qos=qos, packet_id=1, dup=dup))
    publisher.expect_accepted(v5.PUBACK if qos == 1 else v5.PUBREC, 1)
    publisher.send(*[v5.pubrel(1)] * (qos - 1))
    subscriber.expect_publish(unique, b"m", qos=qos, dup=False)
    lower.expect_publish(unique, b"m", dup=False)


@pytest.mark.proves5("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.2-2", "MQTT-4.3.3-1", "MQTT-4.3.3-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_deliveries_in_flight_have_ids_of_their_own(connect, unique, qos):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    publisher = connect()
    for number in range(10):
        publisher.publish_acknowledged(unique, b"%d" % number, qos=qos)
    ids = {
        subscriber.expect_publish(unique, b"%d" % number, qos=qos).packet_id for number in range(10)
    }
    assert len(ids) == 10


@pytest.mark.proves5(
    "MQTT-4.3.3-4", "MQTT-4.3.3-3", "MQTT-4.3.3-5", "MQTT-3.6.1-1", "MQTT-3.6.2-1", "MQTT-4.4.0-1"
)
def test_a_resumed_session_repeats_what_is_unacknowledged_under_its_ids(connect, unique):
    options = {"session_expiry": 600}
    subscriber = connect(unique, **options)
    subscriber.subscribe((f"{unique}/t", 2))
    publisher = connect()
    for number, qos in enumerate((1, 2, 2, 1)):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number, qos=qos)
    one, two, three, four = (
        subscriber.expect_publish(f"{unique}/t", b"%d" % number, qos=qos).packet_id
        for number, qos in enumerate((1, 2, 2, 1))
    )
    subscriber.send(v5.pubrec(two), v5.puback(four))
    subscriber.expect_ack(v5.PUBREL, two)
    subscriber.ping()
    subscriber.abort()

    subscriber = connect(unique, clean=False, session_present=True, **options)
    repeated = [subscriber.take() for _ in range(3)]
    assert {(p.kind, p.packet_id) for p in repeated} == {
        (v5.PUBLISH, one), (v5.PUBREL, two), (v5.PUBLISH, three)
    }  # fmt: skip
    assert all(p.dup for p in repeated if p.kind == v5.PUBLISH)  # [MQTT-3.3.1-1]
    subscriber.send(v5.puback(one), v5.pubcomp(two), v5.pubrec(three))
    subscriber.expect_ack(v5.PUBREL, three)
    subscriber.send(v5.pubcomp(three))
    subscriber.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.1-1", "MQTT-4.3.2-3", "MQTT-4.6.0-5", "MQTT-4.6.0-1")
def test_repetitions_come_in_order_with_dup_and_properties(connect, unique):
    subscriber = connect(unique, session_expiry=600)
    subscriber.subscribe((f"{unique}/t", 1))
    publisher = connect()
    for number in range(5):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number, **PROPERTIES)
    first = [
        subscriber.expect_publish(f"{unique}/t", b"%d" % n, qos=1, **PROPERTIES).packet_id
        for n in range(5)
    ]
    subscriber.abort()
    subscriber = connect(unique, clean=False, session_expiry=600, session_present=True)
    again = [
        subscriber.expect_publish(f"{unique}/t", b"%d" % n, qos=1, dup=True, **PROPERTIES).packet_id
        for n in range(5)
    ]
    assert again == first


@pytest.mark.proves5("MQTT-4.3.3-6")
def test_after_pubrel_the_message_itself_is_not_sent_again(connect, unique):
    subscriber = connect(unique, session_expiry=600)
    subscriber.subscribe((f"{unique}/t", 2))
    connect().publish_acknowledged(f"{unique}/t", b"m", qos=2)
    packet_id = subscriber.expect_publish(f"{unique}/t", b"m", qos=2).packet_id
    subscriber.send(v5.pubrec(packet_id))
    subscriber.expect_ack(v5.PUBREL, packet_id)
    for _ in range(2):
        subscriber.abort()
        subscriber = connect(unique, clean=False, session_expiry=600, session_present=True)
        subscriber.expect_ack(v5.PUBREL, packet_id)
        subscriber.expect_nothing()


@pytest.mark.proves5("MQTT-4.4.0-1")
def test_nothing_is_repeated_on_a_connection_that_stays(own_broker, connect, unique):
    broker = own_broker()
    subscriber = connect(at=broker, keep_alive=0)
    subscriber.subscribe((unique, 2))
    publisher = connect(at=broker, keep_alive=0)
    publisher.publish_acknowledged(unique, b"m", qos=1)
    publisher.publish_acknowledged(unique, b"m", qos=2)
    subscriber.expect_publish(unique, b"m", qos=1)
    subscriber.expect_publish(unique, b"m", qos=2)
    broker.clock.advance(3_600)
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-4.4.0-2")
@pytest.mark.parametrize(("qos", "refuse"), [(1, v5.puback), (2, v5.pubrec)])
def test_a_message_that_the_subscriber_refuses_is_done(connect, unique, qos, refuse):
    """Its slot is free, no PUBREL follows, and a resumed session does not repeat it."""
    options = {"session_expiry": 600, "receive_maximum": 1}
    subscriber = connect(unique, **options)
    subscriber.subscribe((f"{unique}/t", 2))
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/t", b"1", qos=qos)
    publisher.publish_acknowledged(f"{unique}/t", b"2", qos=qos)
    first = subscriber.expect_publish(f"{unique}/t", b"1", qos=qos)
    subscriber.send(refuse(first.packet_id, 0x83, reason_string="not today"))
    second = subscriber.expect_publish(f"{unique}/t", b"2", qos=qos)
    subscriber.send(refuse(second.packet_id, 0x97))
    subscriber.expect_nothing()
    subscriber.abort()
    subscriber = connect(unique, clean=False, session_present=True, **options)
    subscriber.expect_nothing()


@pytest.mark.proves5("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_a_topic_arrive_in_the_order_they_were_published(connect, unique, qos):
    subscriber = connect()
    subscriber.subscribe((f"{unique}/#", 2))
    publisher = connect()
    packets = [
        v5.publish(f"{unique}/t", b"%d" % n, qos=qos, packet_id=n + 1 if qos else None,
                   **({"user": ("n", str(n))} if n % 2 else {}))
        for n in range(20)
    ]  # fmt: skip
    publisher.send(*packets)
    for number in range(20) if qos else ():
        publisher.expect_accepted(v5.PUBACK if qos == 1 else v5.PUBREC, number + 1)
    publisher.send(*(v5.pubrel(number + 1) for number in range(20) if qos == 2))
    received = [subscriber.take() for _ in range(20)]
    assert [p.payload for p in received] == [b"%d" % n for n in range(20)]


@pytest.mark.proves5("MQTT-4.6.0-2", "MQTT-4.6.0-3", "MQTT-4.6.0-4")
def test_the_broker_acknowledges_in_the_order_of_the_messages(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 2))
    publisher.send(*(v5.publish(unique, b"m", qos=2, packet_id=n) for n in (3, 1, 2)))
    for packet_id in (3, 1, 2):
        publisher.expect_accepted(v5.PUBREC, packet_id)
    publisher.send(*(v5.pubrel(n) for n in (1, 2, 3)))
    for packet_id in (1, 2, 3):
        publisher.expect_ack(v5.PUBCOMP, packet_id)
    ids = [subscriber.expect_publish(unique, b"m", qos=2).packet_id for _ in range(3)]
    subscriber.send(*(v5.pubrec(packet_id) for packet_id in reversed(ids)))
    for packet_id in reversed(ids):
        subscriber.expect_ack(v5.PUBREL, packet_id)


# ── RETAIN ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.1-5", "MQTT-3.3.1-8")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_is_replaced_by_the_next_and_by_that_alone(connect, unique, qos):
    publisher = connect()
    publisher.publish_acknowledged(unique, b"first", qos=qos, retain=True, user=("n", "1"))
    publisher.publish_acknowledged(unique, b"second", qos=qos, retain=True)
    publisher.publish_acknowledged(unique, b"passing", qos=qos)
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    subscriber.expect_publish(unique, b"second", qos=qos, retain=True)
    subscriber.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.1-6", "MQTT-3.3.1-7")
def test_an_empty_retained_message_is_delivered_and_removes_the_other(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, options(1, as_published=True)))
    publisher = connect()
    publisher.publish_acknowledged(unique, b"kept", retain=True)
    watcher.expect_publish(unique, b"kept", qos=1, retain=True)
    publisher.publish_acknowledged(unique, b"", retain=True, user=("a", "b"))
    watcher.expect_publish(unique, b"", qos=1, retain=True, user=("a", "b"))
    late = connect()
    late.subscribe((unique, 1))
    late.expect_nothing()
