"""Shared subscriptions, ``$share/<group>/<filter>``: each message goes to one member of the group.

They are a part of MQTT 5 that clients of 3.1.1 can use as well. What the members of a group have
done is kept by the broker, not by their sessions.
"""

import shutil
import subprocess
import threading

import pytest
import redis
from paho.mqtt.client import CallbackAPIVersion, Client

from tests.conformance.wire_client import (
    connect_packet,
    puback,
    publish,
    pubrec,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
    wait_until,
)

FIRST_SHARED_ID = 32_768


def numbered(count, start=0):
    return [b"%d" % number for number in range(start, start + count)]


def publish_all(publisher, topic, payloads):
    """Publish with QoS 1, all at once: one commit, or few."""
    ids = range(1, len(payloads) + 1)
    publisher.send(
        *[publish(topic, p, qos=1, packet_id=i) for i, p in zip(ids, payloads, strict=True)]
    )
    publisher.expect(*map(puback, ids))


def shares(broker, topic, group="g"):
    """Return the number of members of a group."""
    return broker.call(broker.server.parts.dispatchers.workers, topic.encode(), group.encode())


def group_of(broker, topic, group="g"):
    return broker.server.parts.broker.groups.get(topic.encode(), group.encode())


@pytest.fixture
def member(connect):
    """Connect and share: ``member(broker, topic)``."""

    def join(broker, topic_filter, client_id="", *, qos=1, group="g", count=1, **options):
        client = connect(client_id, at=broker, **options)
        client.subscribe((f"$share/{group}/{topic_filter}", qos))
        wait_until(lambda: shares(broker, topic_filter, group) == count)
        return client

    return join


# ── who gets what


def test_each_message_goes_to_one_member_and_all_have_their_part(own_broker, connect, member):
    broker = own_broker()
    members = [member(broker, "jobs", count=number) for number in (1, 2)]
    publish_all(connect(at=broker), "jobs", numbered(10))
    got = [[client.receive_publish()[3] for _ in range(5)] for client in members]
    assert sorted(got[0] + got[1]) == numbered(10)


def test_messages_that_come_one_by_one_go_round(own_broker, connect, member):
    broker = own_broker()
    members = [member(broker, "jobs", count=number) for number in (1, 2)]
    publisher = connect(at=broker)
    for payload in numbered(4):
        publisher.publish_acknowledged("jobs", payload)
        receiver = members[int(payload) % 2]
        receiver.send(puback(receiver.expect_publish("jobs", payload, qos=1)))
        receiver.ping()


def test_two_groups_get_every_message_each(own_broker, connect, member):
    broker = own_broker()
    first, second = member(broker, "jobs", group="a"), member(broker, "jobs", group="b")
    connect(at=broker).publish_acknowledged("jobs", b"m")
    first.expect_publish("jobs", b"m", qos=1)
    second.expect_publish("jobs", b"m", qos=1)


def test_who_shares_and_subscribes_gets_a_message_by_both(own_broker, connect, member):
    broker = own_broker()
    client = member(broker, "jobs")
    client.subscribe(("jobs", 1))
    connect(at=broker).publish_acknowledged("jobs", b"m")
    ids = [client.expect_publish("jobs", b"m", qos=1) for _ in range(2)]
    assert sorted(ids) == [1, FIRST_SHARED_ID]
    client.send(puback(1), puback(FIRST_SHARED_ID))
    client.ping()
    wait_until(lambda: not group_of(broker, "jobs").pending)


def test_a_subscription_begins_now_and_a_group_that_is_there_goes_on(own_broker, connect, member):
    broker = own_broker()
    publisher = connect(at=broker)
    publisher.publish_acknowledged("jobs", b"before")
    first = member(broker, "jobs")
    publisher.publish_acknowledged("jobs", b"while")
    first.send(puback(first.expect_publish("jobs", b"while", qos=1)))
    first.disconnect()
    publisher.publish_acknowledged("jobs", b"away")
    member(broker, "jobs").expect_publish("jobs", b"away", qos=1)


# ── when a member goes


@pytest.mark.parametrize("how", ["abort", "disconnect", "unsubscribe", "taken over"])
def test_what_a_member_did_not_acknowledge_goes_to_another(own_broker, connect, member, dial, how):
    broker = own_broker()
    dying = member(broker, "jobs", "dying")
    publish_all(connect(at=broker), "jobs", numbered(4))
    ids = [dying.expect_publish("jobs", payload, qos=1) for payload in numbered(4)]
    dying.send(puback(ids[1]))
    dying.ping()
    living = connect(at=broker)
    living.subscribe(("$share/g/jobs", 1))
    if how == "unsubscribe":
        dying.send(unsubscribe(7, "$share/g/jobs"))
        dying.expect(unsuback(7))
    elif how == "taken over":
        dial(at=broker).send(connect_packet("dying"))
    else:
        getattr(dying, how)()
    again = [
        living.expect_publish("jobs", payload, qos=1, dup=True) for payload in (b"0", b"2", b"3")
    ]
    living.send(*map(puback, again))
    living.ping()
    wait_until(lambda: not group_of(broker, "jobs").pending)


def test_an_acknowledgement_after_leaving_changes_nothing(own_broker, connect, member):
    broker = own_broker()
    late = member(broker, "jobs")
    connect(at=broker).publish_acknowledged("jobs", b"m")
    packet_id = late.expect_publish("jobs", b"m", qos=1)
    late.send(unsubscribe(7, "$share/g/jobs"))
    late.expect(unsuback(7))
    late.send(puback(packet_id))
    late.ping()
    member(broker, "jobs").expect_publish("jobs", b"m", qos=1, dup=True)


def test_a_member_of_a_durable_session_is_one_again_when_it_comes_back(own_broker, connect, member):
    broker = own_broker()
    client = member(broker, "jobs", "durable", clean=False)
    client.disconnect()
    wait_until(lambda: shares(broker, "jobs") == 0)
    connect(at=broker).publish_acknowledged("jobs", b"m")
    again = connect("durable", at=broker, clean=False, session_present=True)
    again.expect_publish("jobs", b"m", qos=1)


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_loses_nothing_and_what_was_done_is_done(own_broker, connect, member, kill):
    broker = own_broker()
    client = member(broker, "jobs", "durable", clean=False)
    publish_all(connect(at=broker), "jobs", numbered(3))
    ids = [client.expect_publish("jobs", payload, qos=1) for payload in numbered(3)]
    client.send(puback(ids[0]))
    client.ping()
    wait_until(lambda: len(group_of(broker, "jobs").pending) == 2)
    broker.restart(kill=kill)
    again = connect("durable", at=broker, clean=False, session_present=True)
    for payload in numbered(2, 1):
        again.expect_publish("jobs", payload, qos=1, dup=True)


# ── QoS, window, ids


@pytest.mark.parametrize(("asked", "granted"), [(0, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_a_message_comes_with_the_lower_qos_and_with_1_at_most(
    own_broker, connect, asked, granted, sent
):
    broker = own_broker()
    client = connect(at=broker)
    client.send(subscribe(3, ("$share/g/jobs", asked)))
    client.expect(suback(3, granted))
    connect(at=broker).publish_acknowledged("jobs", b"m", qos=sent)
    client.expect_publish("jobs", b"m", qos=min(sent, granted))


def test_what_is_sent_with_qos_0_is_done(own_broker, connect, member):
    broker = own_broker()
    client = member(broker, "jobs", qos=0)
    publish_all(connect(at=broker), "jobs", numbered(3))
    for payload in numbered(3):
        client.expect_publish("jobs", payload, qos=0)
    wait_until(lambda: not group_of(broker, "jobs").pending)
    client.abort()
    wait_until(lambda: shares(broker, "jobs") == 0)
    second = member(broker, "jobs")
    publisher = connect(at=broker)
    second.expect_nothing_from(publisher)


def test_a_member_has_no_more_than_the_window_and_gets_more_as_it_acknowledges(
    own_broker, connect, member
):
    broker = own_broker(limits={"inflight_max": 4})
    client = member(broker, "jobs")
    publisher = connect(at=broker)
    publish_all(publisher, "jobs", numbered(10))
    ids = [client.expect_publish("jobs", payload, qos=1) for payload in numbered(4)]
    client.expect_nothing_from(publisher)
    client.send(puback(ids[2]), puback(ids[0]))
    for payload in numbered(2, 4):
        client.expect_publish("jobs", payload, qos=1)
    client.expect_nothing_from(publisher)


def test_the_window_is_one_for_all_topics_of_a_client(own_broker, connect):
    broker = own_broker(limits={"inflight_max": 1})
    client, publisher = connect(at=broker), connect(at=broker)
    client.subscribe(("$share/g/a", 1), ("$share/g/b", 1))
    publisher.publish_acknowledged("a", b"1")
    packet_id = client.expect_publish("a", b"1", qos=1)
    publisher.publish_acknowledged("b", b"2")
    client.expect_nothing_from(publisher)
    client.send(puback(packet_id))
    client.expect_publish("b", b"2", qos=1)


def test_a_pubrec_for_a_message_of_qos_1_ends_the_connection(own_broker, connect, member):
    broker = own_broker()
    client = member(broker, "jobs")
    connect(at=broker).publish_acknowledged("jobs", b"m")
    client.send(pubrec(client.expect_publish("jobs", b"m", qos=1)))
    client.expect_close()


# ── filters


def test_wildcards_share_topics_that_are_there_and_those_that_come(own_broker, connect):
    broker = own_broker()
    client, publisher = connect(at=broker), connect(at=broker)
    publisher.publish_acknowledged("plant/old", b"before")
    publisher.publish_acknowledged("other", b"before")
    client.subscribe(("$share/g/plant/+", 1))
    assert group_of(broker, "plant/old", "g/plant/+") is not None
    publisher.publish_acknowledged("other", b"x")
    publisher.publish_acknowledged("plant/old", b"1")
    publisher.publish_acknowledged("plant/new", b"2")
    publisher.publish_acknowledged("plant/too/deep", b"x")
    publisher.publish_acknowledged("plant/new", b"3")
    got = {client.receive_publish()[2:] for _ in range(3)}
    assert got == {(b"plant/old", b"1"), (b"plant/new", b"2"), (b"plant/new", b"3")}
    assert group_of(broker, "other", "g/plant/+") is None


def test_of_a_filter_with_wildcards_the_topic_above_is_found_too(own_broker, connect):
    broker = own_broker()
    client, publisher = connect(at=broker), connect(at=broker)
    publisher.publish_acknowledged("plant", b"before")
    publisher.publish_acknowledged("planet", b"before")
    client.subscribe(("$share/g/plant/#", 1))
    assert group_of(broker, "plant", "g/plant/#") is not None
    assert group_of(broker, "planet", "g/plant/#") is None


def test_shares_of_one_name_with_different_filters_get_a_message_each(own_broker, connect):
    broker = own_broker()
    client, publisher = connect(at=broker), connect(at=broker)
    client.subscribe(("$share/g/plant/a", 1), ("$share/g/plant/#", 1))
    publisher.publish_acknowledged("plant/a", b"twice")
    client.expect_publish("plant/a", b"twice", qos=1)
    client.expect_publish("plant/a", b"twice", qos=1)
    client.expect_nothing_from(publisher)
    client.send(unsubscribe(5, "$share/g/plant/a"))
    client.expect(unsuback(5))
    publisher.publish_acknowledged("plant/a", b"still")
    client.expect_publish("plant/a", b"still", qos=1)
    client.send(unsubscribe(6, "$share/g/plant/#"))
    client.expect(unsuback(6))
    publisher.publish_acknowledged("plant/a", b"no more")
    client.expect_nothing_from(publisher)


@pytest.mark.parametrize("kill", [False, True])
def test_a_topic_that_appears_while_all_members_are_away_waits_for_them(own_broker, connect, kill):
    broker = own_broker()
    client = connect("worker", at=broker, clean=False)
    client.subscribe(("$share/g/plant/+", 1))
    client.disconnect()
    connect(at=broker).publish_acknowledged("plant/new", b"first")
    broker.restart(kill=kill)
    again = connect("worker", at=broker, clean=False, session_present=True)
    again.expect_publish("plant/new", b"first", qos=1)


def test_a_topic_whose_group_was_not_made_before_a_crash_gets_it_later(own_broker, connect):
    broker = own_broker()
    client = connect("worker", at=broker, clean=False)
    client.subscribe(("$share/g/plant/+", 1))
    client.disconnect()
    broker.call(broker.server.parts.share_keeper._unfollow, b"$share/g/plant/+")
    connect(at=broker).publish_acknowledged("plant/new", b"first")
    assert group_of(broker, "plant/new", "g/plant/+") is None
    broker.restart(kill=True)
    again = connect("worker", at=broker, clean=False, session_present=True)
    again.expect_publish("plant/new", b"first", qos=1)


@pytest.mark.parametrize(
    "wrong", ["$share/", "$share/g", "$share/g/", "$share//t", "$share/+/t", "$share/a+b/t"]
)
def test_what_names_no_group_or_no_filter_fails(own_broker, connect, wrong):
    """Or it is no filter at all, and the connection ends, as with any such."""
    client = connect(at=own_broker())
    client.send(subscribe(3, (wrong, 1), ("fine", 1)))
    received = client.receive()
    assert received in (suback(3, 0x80, 1), b"")
    assert (received == b"") == (wrong == "$share/a+b/t")


def test_a_group_with_a_name_too_long_fails(own_broker, connect):
    client = connect(at=own_broker())
    client.send(subscribe(3, (f"$share/{'g' * 257}/t", 1), (f"$share/{'g' * 256}/t", 1)))
    client.expect(suback(3, 0x80, 1))


def test_retained_messages_are_not_sent_for_a_shared_subscription(own_broker, connect):
    broker = own_broker()
    publisher, client = connect(at=broker), connect(at=broker)
    publisher.publish_acknowledged("jobs", b"retained", retain=True)
    client.subscribe(("$share/g/jobs", 1))
    client.expect_nothing_from(publisher)


def test_nobody_publishes_to_what_reads_like_a_shared_subscription(own_broker, connect):
    client = connect(at=own_broker())
    client.send(publish("$share/g/jobs", b"m", qos=1, packet_id=1))
    client.expect_close()


# ── other clients


@pytest.mark.skipif(not shutil.which("mosquitto_sub"), reason="mosquitto_sub is not installed")
def test_mosquitto_and_paho_share_a_group_and_one_finishes_what_the_other_left(own_broker, connect):
    broker = own_broker()
    got, has_all = [], threading.Event()

    def on_message(_client, _userdata, message):
        got.append(message.payload)
        if len(set(got)) == 20:
            has_all.set()

    paho = Client(CallbackAPIVersion.VERSION2)
    paho.on_message = on_message
    paho.on_connect = lambda client, *_: client.subscribe("$share/g/jobs", qos=1)
    command = ["mosquitto_sub", "-h", broker.host, "-p", str(broker.port), "-q", "1"]
    with subprocess.Popen([*command, "-t", "$share/g/jobs"], stdout=subprocess.PIPE) as mosquitto:
        paho.connect(broker.host, broker.port)
        paho.loop_start()
        wait_until(lambda: shares(broker, "jobs") == 2)
        publisher = connect(at=broker)
        publish_all(publisher, "jobs", numbered(20))
        printed = {mosquitto.stdout.readline().strip() for _ in range(10)}
        mosquitto.kill()
        wait_until(lambda: len(got) == 10)
        assert {*got} | printed == {*numbered(20)}
        assert not {*got} & printed
    publish_all(publisher, "jobs", numbered(10, 20))
    wait_until(lambda: len(got) == 20)
    paho.disconnect()
    paho.loop_stop()
    assert {*got[10:]} == {*numbered(10, 20)}


def test_what_a_member_left_a_pull_gets(own_broker, connect, member):
    """A queue's workers are a group like any other."""
    broker = own_broker()
    client = member(broker, "q:jobs", group="workers")
    publish_all(connect(at=broker), "q:jobs", numbered(2))
    for payload in numbered(2):
        client.expect_publish("q:jobs", payload, qos=1)
    client.abort()
    with redis.Redis(port=broker.port, protocol=2) as puller:
        assert puller.execute_command("PULL", "jobs", "COUNT", 2, "BLOCK", 5_000) == numbered(2)
