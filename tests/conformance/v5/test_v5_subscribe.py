"""SUBSCRIBE and UNSUBSCRIBE in version 5: options, identifiers, retained messages, codes."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import options

# ── SUBACK ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5(
    "MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7",
    "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-2.2.1-6",
)  # fmt: skip
def test_suback_grants_each_filter_in_its_order(connect, unique):
    client = connect()
    requests = [(f"{unique}/{n}", qos) for n, qos in enumerate((2, 0, 1, 2))]
    client.send(v5.subscribe(0xABCD, *requests))
    client.expect_suback(0xABCD, 2, 0, 1, 2)


@pytest.mark.proves5("MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-3.8.4-5")
def test_a_filter_beyond_the_limits_fails_alone(own_broker, connect, unique):
    client = connect(at=own_broker(limits={"topic_bytes_max": 64}))
    client.send(v5.subscribe(1, (unique, 1), ("a" * 65, 1), (f"{unique}/b", 2)))
    suback = client.expect_suback(1, 1, 0x8F, 2)
    assert "64" in str(suback.value("reason_string"))
    client.publish_acknowledged(f"{unique}/b", b"m", qos=0)


@pytest.mark.proves5("MQTT-3.9.2-1", "MQTT-3.9.2-2", "MQTT-3.1.2-29")
@pytest.mark.parametrize(
    "wish", [{"request_problem_information": 0}, {"maximum_packet_size": 26}], ids=["no", "small"]
)
def test_the_reason_of_a_suback_is_left_out_where_it_is_not_wanted(own_broker, connect, wish):
    client = connect("who", at=own_broker(limits={"topic_bytes_max": 64}), **wish)
    client.send(v5.subscribe(1, ("a" * 65, 1)))
    assert client.expect_suback(1, 0x8F).properties == {}


@pytest.mark.proves5("MQTT-3.8.4-8")
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_delivery_has_the_lower_of_published_and_granted_qos(connect, unique, granted, qos):
    subscriber = connect()
    subscriber.subscribe((unique, granted))
    connect().publish_acknowledged(unique, b"m", qos=qos)
    subscriber.expect_publish(unique, b"m", qos=min(granted, qos))


@pytest.mark.proves5("MQTT-3.8.4-3", "MQTT-3.8.4-8")
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 1)])
def test_subscribing_again_replaces_the_qos(connect, unique, before, after):
    subscriber = connect()
    subscriber.subscribe((unique, before))
    subscriber.subscribe((unique, after))
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m", qos=2)
    subscriber.expect_publish(unique, b"m", qos=after)
    subscriber.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.8.4-5", "MQTT-3.8.4-3")
def test_a_filter_twice_in_one_subscribe_counts_as_one_after_the_other(connect, unique):
    subscriber = connect()
    subscriber.send(v5.subscribe(1, (unique, 2), (unique, 0)))
    subscriber.expect_suback(1, 2, 0)
    publisher = connect()
    publisher.publish_acknowledged(unique, b"m", qos=2)
    subscriber.expect_publish(unique, b"m", qos=0)
    subscriber.expect_nothing_from(publisher)


# ── Malformed ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.8.3-5", "MQTT-4.13.1-1")
@pytest.mark.parametrize("bits", [0x40, 0x80, 0xC0])
def test_reserved_bits_of_the_options_are_malformed(connect, unique, bits):
    client = connect()
    client.send(v5.subscribe(1, (unique, bits)))
    client.expect_disconnect(0x81)


@pytest.mark.proves5("MQTT-4.13.1-1")
@pytest.mark.parametrize("bits", [0x03, 0x30], ids=["qos-3", "retain-handling-3"])
def test_an_option_out_of_range_is_a_protocol_error(connect, unique, bits):
    client = connect()
    client.send(v5.subscribe(1, (unique, bits)))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-2.1.3-1")
@pytest.mark.parametrize("flags", [0, 1, 3, 4, 8, 15])
@pytest.mark.parametrize("whole", [v5.subscribe(1, ("a", 0)), v5.unsubscribe(1, "a")])
def test_other_flags_of_subscribe_and_unsubscribe_are_malformed(connect, whole, flags):
    client = connect()
    client.send(bytes([whole[0] & 0xF0 | flags]) + whole[1:])
    client.expect_disconnect(0x81)


@pytest.mark.proves5("MQTT-3.8.3-2", "MQTT-3.10.3-2")
@pytest.mark.parametrize("empty", [v5.subscribe(1), v5.unsubscribe(1)])
def test_a_request_without_filters_is_a_protocol_error(connect, empty):
    client = connect()
    client.send(empty)
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.8.3-2", "MQTT-3.8.3-1")
def test_a_filter_without_options_is_malformed(connect):
    client = connect()
    client.send(v5.packet(0x82, b"\0\1\0", v5.string("a")))
    client.expect_disconnect(0x81)


@pytest.mark.proves5(
    "MQTT-3.8.3-1", "MQTT-3.10.3-1", "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-4.7.3-2"
)
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"a\0b", b"\xc0\xaf"])
@pytest.mark.parametrize("ask", [lambda f: v5.subscribe(1, (f, 0)), lambda f: v5.unsubscribe(1, f)])
def test_a_filter_that_is_no_text_is_malformed(connect, ask, bad):
    client = connect()
    client.send(ask(bad))
    client.expect_disconnect(0x81)


@pytest.mark.proves5("MQTT-2.2.1-3", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "zero",
    [
        v5.subscribe(0, ("a", 0)), v5.unsubscribe(0, "a"), v5.publish("a", qos=1, packet_id=0),
        v5.publish("a", qos=2, packet_id=0), v5.puback(0), v5.pubrec(0), v5.pubrel(0),
        v5.pubcomp(0),
    ],
)  # fmt: skip
def test_packet_id_0_is_malformed(connect, zero):
    client = connect()
    client.send(zero)
    client.expect_disconnect(0x81)


# ── No local ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_keeps_a_client_from_its_own_messages_alone(connect, unique, qos):
    client, other = connect(unique), connect(f"{unique}-o")
    client.subscribe((f"{unique}/t", options(2, no_local=True)))
    other.subscribe((f"{unique}/t", options(2, no_local=True)))
    client.publish_acknowledged(f"{unique}/t", b"mine", qos=qos)
    other.expect_publish(f"{unique}/t", b"mine", qos=qos)
    client.expect_nothing_from(other)
    other.publish_acknowledged(f"{unique}/t", b"theirs", qos=qos)
    client.expect_publish(f"{unique}/t", b"theirs", qos=qos)


@pytest.mark.proves5("MQTT-3.8.3-3")
def test_no_local_is_by_client_id_over_connections(connect, unique):
    """The message waits in the line of another session, and still is the client's own."""
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", options(1, no_local=True)))
    client.publish_acknowledged(f"{unique}/t", b"mine")
    client.disconnect()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.publish_acknowledged(f"{unique}/t", b"mine again")
    client.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-3.8.3-3", "MQTT-3.3.4-3")
def test_another_subscription_without_no_local_still_delivers(connect, unique):
    client = connect(unique)
    client.subscribe((f"{unique}/#", options(2, no_local=True)), subscription_id=1)
    client.subscribe((f"{unique}/t", options(1)), subscription_id=2)
    client.send(v5.publish(f"{unique}/t", b"mine"))
    client.expect_publish(f"{unique}/t", b"mine", subscription_id=[2])


@pytest.mark.proves5("MQTT-3.8.3-3")
def test_a_will_counts_as_published_by_its_client(connect, unique):
    watcher = connect()
    watcher.subscribe((f"{unique}/w", 0))
    own = connect(unique, session_expiry=600, will=v5.Will(f"{unique}/w", b"gone", 1))
    own.subscribe((f"{unique}/w", options(1, no_local=True)))
    own.abort()
    watcher.expect_publish(f"{unique}/w", b"gone")
    own = connect(unique, clean=False, session_expiry=600, session_present=True)
    own.expect_nothing_from(watcher)


# ── Retain as published, retain handling ──────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.1-12", "MQTT-3.3.1-13")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_retain_as_published_decides_the_flag_of_live_messages(connect, unique, qos, retain):
    plain, faithful = connect(), connect()
    plain.subscribe((unique, options(2)))
    faithful.subscribe((unique, options(2, as_published=True)))
    connect().publish_acknowledged(unique, b"m", qos=qos, retain=retain)
    plain.expect_publish(unique, b"m", qos=qos, retain=False)
    faithful.expect_publish(unique, b"m", qos=qos, retain=retain)


@pytest.mark.proves5("MQTT-3.3.1-13", "MQTT-3.3.1-12")
@pytest.mark.parametrize("as_published", [False, True])
def test_retain_as_published_holds_for_messages_that_waited(connect, unique, as_published):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/#", options(1, as_published=as_published, handling=2)))
    client.disconnect()
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/a", b"1", retain=True)
    publisher.publish_acknowledged(f"{unique}/a", b"2")
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.expect_publish(f"{unique}/a", b"1", qos=1, retain=as_published)
    client.expect_publish(f"{unique}/a", b"2", qos=1)


@pytest.mark.proves5("MQTT-3.3.1-9", "MQTT-3.8.4-4")
@pytest.mark.parametrize("as_published", [False, True])
def test_handling_0_sends_retained_messages_with_every_subscribe(connect, unique, as_published):
    connect().publish_acknowledged(unique, b"kept", retain=True)
    client = connect()
    for _ in range(3):
        client.subscribe((unique, options(1, as_published=as_published)))
        client.acknowledge(client.expect_publish(unique, b"kept", qos=1, retain=True))
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.1-9", "MQTT-3.8.4-4")
def test_handling_0_holds_for_a_subscription_of_a_resumed_session(connect, unique):
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 0))
    client.expect_publish(f"{unique}/t", b"kept", retain=True)
    client.disconnect()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.subscribe((f"{unique}/t", 0))
    client.expect_publish(f"{unique}/t", b"kept", retain=True)


@pytest.mark.proves5("MQTT-3.3.1-10")
def test_handling_1_sends_retained_messages_to_a_new_subscription_alone(connect, unique):
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", options(1, handling=1)))
    client.acknowledge(client.expect_publish(f"{unique}/t", b"kept", qos=1, retain=True))
    client.subscribe((f"{unique}/t", options(0, handling=1)))
    client.expect_nothing()
    client.disconnect()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.subscribe((f"{unique}/t", options(1, handling=1)))
    client.expect_nothing()  # the session has it
    client.unsubscribe(f"{unique}/t")
    client.subscribe((f"{unique}/t", options(0, handling=1)))
    client.expect_publish(f"{unique}/t", b"kept", retain=True)


@pytest.mark.proves5("MQTT-3.3.1-11")
def test_handling_2_sends_no_retained_messages(connect, unique):
    publisher = connect()
    publisher.publish_acknowledged(unique, b"kept", retain=True)
    client = connect()
    client.subscribe((unique, options(1, handling=2)))
    client.expect_nothing()
    publisher.publish_acknowledged(unique, b"live")
    client.expect_publish(unique, b"live", qos=1)


@pytest.mark.proves5("MQTT-3.3.1-9", "MQTT-3.3.1-10")
def test_resuming_alone_sends_no_retained_messages(connect, unique):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 1))
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    client.acknowledge(client.expect_publish(f"{unique}/t", b"kept", qos=1))
    client.ping()
    client.disconnect()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.expect_nothing()


@pytest.mark.proves5("MQTT-3.8.4-4", "MQTT-3.8.4-3")
def test_subscribing_again_loses_nothing(connect, unique):
    publisher, client = connect(), connect()
    client.subscribe((unique, 1))
    for number in range(20):
        publisher.send(v5.publish(unique, b"%d" % number, qos=1, packet_id=number + 1))
        client.send(v5.subscribe(2, (unique, options(1, handling=2))))
    payloads, subacks = [], 0
    while len(payloads) < 20 or subacks < 20:
        received = client.take()
        subacks += received.kind == v5.SUBACK
        if received.kind == v5.PUBLISH:
            payloads.append(received.payload)
            client.acknowledge(received)
    assert payloads == [b"%d" % number for number in range(20)]


# ── Subscription identifiers ──────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.4-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("number", [1, 127, 128, 16_384, 268_435_455])
def test_a_delivery_carries_the_id_of_its_subscription(connect, unique, qos, number):
    client = connect()
    client.subscribe((unique, 2), subscription_id=number)
    connect().publish_acknowledged(unique, b"m", qos=qos, user=("a", "b"))
    client.expect_publish(unique, b"m", qos=qos, user=("a", "b"), subscription_id=number)


@pytest.mark.proves5("MQTT-3.3.4-2", "MQTT-3.3.4-3", "MQTT-3.3.4-4")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_overlapping_subscriptions_give_one_copy_of_the_highest_qos_with_all_ids(
    own_broker, connect, unique, qos
):
    """A copy for each would be as lawful; that it is one is our choice."""
    broker = own_broker()
    client = connect(at=broker)
    client.subscribe((f"{unique}/#", 0), subscription_id=1)
    client.subscribe((f"{unique}/+", 2), subscription_id=2)
    client.subscribe((f"{unique}/t", 1), subscription_id=2)
    client.subscribe(("+/t", 1))
    publisher = connect(at=broker)
    publisher.publish_acknowledged(f"{unique}/t", b"m", qos=qos)
    client.expect_publish(f"{unique}/t", b"m", qos=qos, subscription_id=[1, 2, 2])
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.3.4-3", "MQTT-3.8.4-3")
def test_subscribing_again_replaces_the_id_or_removes_it(connect, unique):
    client, publisher = connect(), connect()
    for own in ({"subscription_id": 1}, {"subscription_id": 2}, {}):
        client.subscribe((unique, 0), **own)
        publisher.send(v5.publish(unique, b"m"))
        client.expect_publish(unique, b"m", **own)


@pytest.mark.proves5("MQTT-3.3.4-3", "MQTT-3.3.1-9")
def test_retained_messages_carry_the_id_of_this_subscribe(connect, unique):
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    client = connect()
    client.subscribe((f"{unique}/#", options(0, handling=2)), subscription_id=1)
    client.subscribe((f"{unique}/t", 0), subscription_id=2)
    client.expect_publish(f"{unique}/t", b"kept", retain=True, subscription_id=2)


@pytest.mark.proves5("MQTT-3.3.4-3", "MQTT-3.1.2-23")
def test_messages_that_waited_carry_the_id(connect, unique):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 1), subscription_id=7)
    client.disconnect()
    connect().publish_acknowledged(f"{unique}/t", b"m")
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.expect_publish(f"{unique}/t", b"m", qos=1, subscription_id=7)
    client.abort()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.expect_publish(f"{unique}/t", b"m", qos=1, dup=True, subscription_id=7)


@pytest.mark.proves5("MQTT-3.3.2-3")
def test_a_delivery_matches_the_filter_and_nothing_else_comes(connect, unique):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/+/b", 0))
    for topic in ("a", "a/b", "a/c", "b", "a/b/c"):
        publisher.send(v5.publish(f"{unique}/{topic}", b"m"))
    client.expect_publish(f"{unique}/a/b", b"m")
    client.expect_nothing_from(publisher)


# ── UNSUBSCRIBE ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5(
    "MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6", "MQTT-3.11.3-1", "MQTT-3.11.3-2",
    "MQTT-2.2.1-6", "MQTT-3.11.2-1", "MQTT-3.11.2-2",
)  # fmt: skip
def test_unsuback_tells_for_each_filter_whether_there_was_one(connect, unique):
    client = connect()
    client.subscribe((f"{unique}/a", 1), (f"{unique}/b", 1))
    client.send(v5.unsubscribe(0xABCD, f"{unique}/x", f"{unique}/a", f"{unique}/a", f"{unique}/b"))
    unsuback = client.expect_unsuback(0xABCD, 0x11, 0, 0x11, 0)
    assert unsuback.properties == {}  # nothing that could make it too large


@pytest.mark.proves5("MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-5")
def test_unsubscribe_compares_filters_character_by_character(connect, unique):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/#", 0))
    client.send(v5.unsubscribe(1, f"{unique}/+", f"{unique}/a", f"{unique.upper()}/#"))
    client.expect_unsuback(1, 0x11, 0x11, 0x11)
    publisher.send(v5.publish(f"{unique}/a", b"m"))
    client.expect_publish(f"{unique}/a", b"m")
    client.unsubscribe(f"{unique}/#")
    publisher.send(v5.publish(f"{unique}/a", b"m"))
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.10.4-3", "MQTT-3.10.4-2")
def test_deliveries_that_have_begun_are_completed_after_unsubscribe(connect, unique):
    client = connect(unique, session_expiry=600)
    client.subscribe((f"{unique}/t", 2))
    connect().publish_acknowledged(f"{unique}/t", b"m", qos=2)
    packet_id = client.expect_publish(f"{unique}/t", b"m", qos=2).packet_id
    client.unsubscribe(f"{unique}/t")
    client.abort()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    assert client.expect_publish(f"{unique}/t", b"m", qos=2, dup=True).packet_id == packet_id
    client.send(v5.pubrec(packet_id))
    client.expect_ack(v5.PUBREL, packet_id)
    client.send(v5.pubcomp(packet_id))
    client.expect_nothing()
