"""Shared subscriptions by the rules of version 5: a share is its name and its filter.

Here are the rules of the standard; what groups of other protocols see of a share is in
``tests/conformance/test_shared_subscriptions.py`` and ``tests/crossing``.
"""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import options


def subscribe_shared(client, topic_filter, qos=1, **properties):
    """Subscribe to a share: QoS 2 is granted as 1 by our broker, and as 2 by others."""
    client.send(v5.subscribe(1, (topic_filter, qos), **properties))
    suback = client.take()
    assert suback.kind == v5.SUBACK, suback
    assert min(qos & 3, 1) <= suback.codes[0] <= qos & 3, suback


def dealt(members):
    """Receive what is on its way to each of the members, and acknowledge it."""
    found = {member: [] for member in members}
    for member in members:
        member.send(v5.PINGREQ)
    waiting = set(members)
    while waiting:
        for member in list(waiting):
            received = member.take()
            if received.kind == 13:
                waiting.remove(member)
            else:
                found[member].append(received)
                member.acknowledge(received)
    return found


@pytest.mark.proves5("MQTT-4.8.2-1", "MQTT-4.8.2-2")
@pytest.mark.parametrize(
    "bad",
    ["$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a"],
)
def test_a_filter_that_is_no_share_is_refused(own_broker, connect, bad):
    """The share is wrong, not the packet: SUBACK tells 0x8F, and the connection stays."""
    client = connect(at=own_broker())
    client.send(v5.subscribe(1, (bad, 1)))
    client.expect_suback(1, 0x8F)
    client.ping()


@pytest.mark.proves5("MQTT-4.8.2-2")
@pytest.mark.parametrize("bad", ["$share/g+/a", "$share/#/a"])
def test_a_share_name_that_makes_the_filter_malformed_ends_the_connection(connect, bad):
    client = connect()
    client.send(v5.subscribe(1, (bad, 1)))
    client.expect_disconnect(0x8F)


@pytest.mark.proves5("MQTT-3.8.3-4", "MQTT-4.13.1-1")
def test_no_local_on_a_share_is_a_protocol_error(connect, unique):
    client = connect()
    client.send(v5.subscribe(1, (f"$share/g/{unique}", options(1, no_local=True))))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-4.8.2-1")
def test_each_message_goes_to_one_member_and_all_get_some(connect, unique):
    members, publisher = [connect() for _ in range(3)], connect()
    for member in members:
        subscribe_shared(member, f"$share/g/{unique}/t")
    watcher = connect()
    watcher.subscribe((f"{unique}/t", 0))
    for number in range(30):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number)
    for number in range(30):
        watcher.expect_publish(f"{unique}/t", b"%d" % number)
    found = []
    while len(found) < 30:  # deals go on while members acknowledge
        for member, received in dealt(members).items():
            found += [(each.payload, member) for each in received]
    assert sorted(payload for payload, _ in found) == sorted(b"%d" % n for n in range(30))
    assert {member for _, member in found} == set(members)


def test_name_and_filter_together_are_the_share(connect, unique):
    """Two shares of one name with different filters each get the message, as do two names."""
    shares = [f"$share/g/{unique}/t", f"$share/g/{unique}/+", f"$share/h/{unique}/t"]
    members = [connect() for _ in shares]
    for member, share in zip(members, shares, strict=True):
        subscribe_shared(member, share)
    connect().publish_acknowledged(f"{unique}/t", b"m")
    for member in members:
        member.expect_publish(f"{unique}/t", b"m", qos=1)


@pytest.mark.proves5("MQTT-4.8.2-3", "MQTT-3.8.4-8")
@pytest.mark.parametrize("granted", [0, 1])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_member_is_sent_messages_with_the_qos_granted_to_it(connect, unique, granted, qos):
    member = connect()
    subscribe_shared(member, f"$share/g/{unique}", granted)
    connect().publish_acknowledged(unique, b"m", qos=qos, user=("a", "b"))
    member.expect_publish(unique, b"m", qos=min(granted, qos), user=("a", "b"))


@pytest.mark.proves5("MQTT-4.8.2-3", "MQTT-3.8.4-7")
def test_qos_2_is_granted_as_1_and_suback_says_so(own_broker, connect, unique):
    broker = own_broker()
    member = connect(at=broker)
    member.send(v5.subscribe(1, (f"$share/g/{unique}", 2)))
    member.expect_suback(1, 1)
    connect(at=broker).publish_acknowledged(unique, b"m", qos=2)
    member.expect_publish(unique, b"m", qos=1)


@pytest.mark.proves5("MQTT-4.8.2-6", "MQTT-4.4.0-2")
@pytest.mark.parametrize("code", [0x80, 0x83, 0x97])
def test_a_message_that_a_member_refuses_goes_to_no_other(connect, unique, code):
    refusing, publisher = connect(), connect()
    subscribe_shared(refusing, f"$share/g/{unique}")
    publisher.publish_acknowledged(unique, b"refused")
    refused = refusing.expect_publish(unique, b"refused", qos=1)
    other = connect()
    subscribe_shared(other, f"$share/g/{unique}")
    refusing.send(v5.puback(refused.packet_id, code))
    refusing.expect_nothing()
    refusing.disconnect()
    other.expect_nothing_from(publisher)


@pytest.mark.parametrize("handling", [0, 1, 2])
def test_retained_messages_are_not_sent_to_a_share(connect, unique, handling):
    connect().publish_acknowledged(unique, b"kept", retain=True)
    member = connect()
    subscribe_shared(member, f"$share/g/{unique}", options(1, handling=handling))
    member.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.4-3", "MQTT-3.3.1-13")
def test_a_delivery_has_the_id_and_options_of_the_members_own_share(connect, unique):
    member = connect()
    subscribe_shared(member, f"$share/g/{unique}", options(1, as_published=True), subscription_id=5)
    connect().publish_acknowledged(unique, b"m", retain=True)
    member.expect_publish(unique, b"m", qos=1, retain=True, subscription_id=5)


@pytest.mark.proves5("MQTT-3.3.4-3")
@pytest.mark.parametrize("qos", [0, 1])
def test_ids_of_a_share_hold_for_what_had_to_wait_for_the_member(connect, unique, qos):
    member, publisher = connect(receive_maximum=1), connect()
    subscribe_shared(member, f"$share/g/{unique}", options(qos), subscription_id=5)
    member.subscribe((f"{unique}/other", 0), subscription_id=6)
    for number in range(5):
        publisher.publish_acknowledged(unique, b"%d" % number, content_type="text/plain")
    for number in range(5):
        received = member.expect_publish(
            unique, b"%d" % number, qos=qos, content_type="text/plain", subscription_id=5
        )
        member.acknowledge(received)


def test_a_share_without_an_id_does_not_borrow_one(connect, unique):
    member = connect()
    subscribe_shared(member, f"$share/g/{unique}/t", options(0))
    member.subscribe((f"{unique}/#", options(0, no_local=True)), subscription_id=6)
    connect().publish_acknowledged(f"{unique}/t", b"m")
    copies = [member.take(), member.take()]
    assert {copy.value("subscription_id") for copy in copies} == {None, 6}


@pytest.mark.proves5("MQTT-3.3.4-3")
def test_a_plain_match_of_a_member_is_another_copy(connect, unique):
    member = connect()
    subscribe_shared(member, f"$share/g/{unique}", subscription_id=5)
    member.subscribe((unique, 0), subscription_id=6)
    connect().publish_acknowledged(unique, b"m")
    copies = [member.take(), member.take()]
    assert {(copy.qos, copy.value("subscription_id")) for copy in copies} == {(1, 5), (0, 6)}


def test_a_share_exists_while_a_session_has_it(own_broker, connect, unique):
    """Messages wait in the share, also of a topic that first appears while all are away."""
    broker = own_broker()
    member = connect("member", at=broker, session_expiry=600)
    subscribe_shared(member, f"$share/g/{unique}/+")
    member.disconnect()
    connect(at=broker).publish_acknowledged(f"{unique}/new", b"m")
    member = connect("member", at=broker, clean=False, session_present=True)
    member.expect_publish(f"{unique}/new", b"m", qos=1)


@pytest.mark.proves5("MQTT-4.1.0-2")
@pytest.mark.parametrize("end", ["unsubscribed", "ended"])
def test_a_share_ends_with_its_last_session_and_what_waited_with_it(
    own_broker, connect, unique, end
):
    broker = own_broker()
    share = f"$share/g/{unique}/t"
    member = connect("member", at=broker, session_expiry=600)
    subscribe_shared(member, share)
    if end == "unsubscribed":
        member.unsubscribe(share)
    else:
        member.disconnect(0, session_expiry=0)
    publisher = connect(at=broker)
    publisher.publish_acknowledged(f"{unique}/t", b"for nobody")
    newcomer = connect("newcomer", at=broker)
    subscribe_shared(newcomer, share)
    newcomer.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-3.3.1-3")
def test_what_a_lost_member_did_not_acknowledge_goes_to_another_as_new(own_broker, connect, unique):
    broker = own_broker()
    publisher = connect(at=broker)
    first = connect(at=broker)
    subscribe_shared(first, f"$share/g/{unique}")
    publisher.publish_acknowledged(unique, b"m")
    first.expect_publish(unique, b"m", qos=1)
    second = connect(at=broker)
    subscribe_shared(second, f"$share/g/{unique}")
    first.abort()
    second.expect_publish(unique, b"m", qos=1, dup=False)


@pytest.mark.proves5("MQTT-3.1.2-25")
def test_a_message_too_large_for_its_member_is_done_and_counted(own_broker, connect, unique):
    """The standard leaves the choice: to drop it, or to find a member that takes it."""
    broker = own_broker()
    member, publisher = connect(at=broker, maximum_packet_size=100), connect(at=broker)
    subscribe_shared(member, f"$share/g/{unique}")
    publisher.publish_acknowledged(unique, b"x" * 200)
    publisher.publish_acknowledged(unique, b"fits")
    member.acknowledge(member.expect_publish(unique, b"fits", qos=1))
    member.expect_nothing()
    assert broker.metrics()['penstock_dropped_total{reason="too_large"}'] == 1


@pytest.mark.proves5("MQTT-4.9.0-2")
def test_a_member_is_dealt_no_more_than_it_can_be_sent(own_broker, connect, unique):
    """The others get the rest, though it acknowledges nothing."""
    broker = own_broker()
    narrow, wide = connect(at=broker, receive_maximum=1), connect(at=broker)
    for member in (narrow, wide):
        subscribe_shared(member, f"$share/g/{unique}")
    connect(at=broker).send(
        *(v5.publish(unique, b"%d" % n, qos=1, packet_id=n) for n in range(1, 21))
    )
    found = [narrow.take(), *[wide.take() for _ in range(19)]]
    assert {packet.payload for packet in found} == {b"%d" % n for n in range(1, 21)}
    narrow.expect_nothing()


@pytest.mark.proves5("MQTT-3.3.4-9", "MQTT-4.9.0-2")
def test_own_and_shared_deliveries_share_the_receive_maximum(own_broker, connect, unique):
    broker = own_broker()
    member, publisher = connect(at=broker, receive_maximum=2), connect(at=broker)
    subscribe_shared(member, f"$share/g/{unique}/s")
    member.subscribe((f"{unique}/own", 1))
    for number in range(3):
        publisher.publish_acknowledged(f"{unique}/s", b"%d" % number)
        publisher.publish_acknowledged(f"{unique}/own", b"%d" % number)
    on_their_way = [member.take(), member.take()]
    member.expect_nothing()
    for _ in range(4):
        member.acknowledge(on_their_way.pop(0))
        on_their_way.append(member.take())
        member.expect_nothing()
