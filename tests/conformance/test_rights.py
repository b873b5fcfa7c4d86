"""What a user may do by MQTT: each verdict as a client of 3.1.1 sees it."""

from hashlib import sha256

import pytest

from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Quotas, Role, User
from penstock.trust.rules import Action
from tests.access import SECRET
from tests.conformance.wire_client import (
    connack,
    connect_packet,
    puback,
    publish,
    pubrec,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)

RULES = (
    "allow publish,subscribe,work pump/#",
    "deny publish pump/+/secret",
    "deny subscribe pump/+/hidden",
    "allow publish own/%c/#",
    "allow subscribe plant/#",
)


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET)
        own.add_user("bob", SECRET, rules=RULES)
        yield own


@pytest.fixture
def ann(connect, unique):
    return connect(unique + "-ann", username="ann", password=SECRET.encode())


@pytest.fixture
def bob(connect, unique):
    return connect(unique + "-bob", username="bob", password=SECRET.encode())


def dropped(broker: Broker) -> float:
    return broker.metrics()['penstock_dropped_total{reason="not_authorized"}']


def denied(broker: Broker, name: str) -> list[tuple[Action, bytes]]:
    denials = broker.server.parts.admission.denials
    return [(one.action, one.topic) for one in broker.call(lambda: denials.of(name))]


# ── PUBLISH


def test_a_denied_publish_of_qos_0_is_dropped_and_counted_and_the_rest_goes_on(
    broker, ann, bob, unique
):
    ann.send(subscribe(1, ("pump/#", 0), ("plant/#", 0)))
    ann.expect(suback(1, 0, 0))
    before = dropped(broker)
    denied_topic, allowed = f"plant/{unique}", f"pump/{unique}"
    bob.send(
        publish(allowed, b"1"),
        publish(denied_topic, b"2") * 3,
        publish(allowed, b"3"),
        publish(allowed + "/secret", b"4"),
        publish(denied_topic, b"5", retain=True),
        publish(allowed, b"6"),
    )
    bob.ping()
    for payload in (b"1", b"3", b"6"):
        ann.expect(publish(allowed, payload))
    assert dropped(broker) == before + 5
    assert (Action.PUBLISH, denied_topic.encode()) in denied(broker, "bob")


@pytest.mark.proves("MQTT-3.3.5-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_denied_publish_that_wants_an_answer_ends_the_connection_without_one(
    broker, ann, bob, unique, qos
):
    ann.send(subscribe(1, ("plant/#", 2)))
    ann.expect(suback(1, 2))
    bob.send(publish(f"pump/{unique}", b"1", qos=1, packet_id=1))
    bob.expect(puback(1))
    bob.send(publish(f"plant/{unique}", b"2", qos=qos, packet_id=2))
    bob.expect_close()
    ann.expect_nothing()
    assert (Action.PUBLISH, f"plant/{unique}".encode()) in denied(broker, "bob")


def test_the_client_id_stands_for_c_in_a_rule(bob, connect, unique):
    bob.send(publish(f"own/{unique}-bob/x", b"1", qos=1, packet_id=1))
    bob.expect(puback(1))
    bob.send(publish(f"own/{unique}/x", b"1", qos=1, packet_id=2))
    bob.expect_close()
    # A client id with a separator or a wildcard matches no %c.
    for evil in (f"{unique}/x", "#", "+"):
        client = connect(evil, username="bob", password=SECRET.encode())
        client.send(publish(f"own/{unique}/x", b"1", qos=1, packet_id=1))
        client.expect_close()


def test_a_topic_that_another_user_published_to_is_not_open_to_everybody(ann, bob, unique):
    topic = f"plant/{unique}"
    ann.send(subscribe(1, (topic, 0)), publish(topic, b"ann's"))
    ann.expect(suback(1, 0), publish(topic, b"ann's"))
    bob.send(publish(topic, b"bob's"))
    bob.ping()
    ann.expect_nothing()


# ── SUBSCRIBE


@pytest.mark.proves("MQTT-3.9.3-1", "MQTT-3.9.3-2")
def test_each_filter_is_judged_by_itself(bob, unique):
    filters = (f"pump/{unique}", "own/#", "plant/#", f"pump/{unique}/hidden", "#", "other")
    bob.send(subscribe(9, *((name, 1) for name in filters)))
    bob.expect(suback(9, 1, 0x80, 1, 0x80, 1, 0x80))


def test_a_denied_filter_gets_nothing_and_an_allowed_one_its_messages(ann, bob, unique):
    bob.send(subscribe(1, (f"other/{unique}", 1), (f"pump/{unique}", 1)))
    bob.expect(suback(1, 0x80, 1))
    ann.send(publish(f"other/{unique}", b"no", qos=1, packet_id=1))
    ann.send(publish(f"pump/{unique}", b"yes", qos=1, packet_id=2))
    ann.expect(puback(1), puback(2))
    bob.expect(publish(f"pump/{unique}", b"yes", qos=1, packet_id=1))


def test_statistics_are_for_those_who_may_monitor(bob, connect, unique):
    bob.send(subscribe(1, ("$SYS/#", 0), ("$SYS/broker/version", 0)))
    bob.expect(suback(1, 0x80, 0x80))


def test_dead_letters_are_for_those_who_manage_their_topic(ann, bob, unique):
    for client in (ann, bob):
        client.send(subscribe(1, (f"$dlq/pump/{unique}/g", 0)))
        client.expect(suback(1, 0x80))


def test_a_shared_subscription_needs_the_right_to_work_as_well(ann, bob, unique):
    bob.send(
        subscribe(
            1,
            (f"$share/g/pump/{unique}", 1),
            (f"$share/g/plant/{unique}", 1),
            ("$share/g/own/x", 1),
        )
    )
    bob.expect(suback(1, 1, 0x80, 0x80))
    ann.send(publish(f"pump/{unique}", b"job", qos=1, packet_id=1))
    ann.expect(puback(1))
    assert bob.receive()[2:].endswith(b"job")


def test_a_shared_subscription_leaves_out_topics_that_are_denied(ann, bob, unique):
    bob.send(subscribe(1, ("$share/g/pump/+/+", 1)))
    bob.expect(suback(1, 1))
    ann.send(publish(f"pump/{unique}/hidden", b"no", qos=1, packet_id=1))
    ann.send(publish(f"pump/{unique}/shown", b"yes", qos=1, packet_id=2))
    ann.expect(puback(1), puback(2))
    assert bob.receive()[2:].endswith(b"yes")


# ── quotas


def test_a_quota_of_sessions_refuses_one_more(broker, connect, dial, unique):
    secrets = (sha256(SECRET.encode()).digest(),)
    quotas = Quotas(sessions=1, subscriptions=2)
    broker.change_access(put(User("gerd", ("client",), secrets=secrets, quotas=quotas)))
    login = {"username": "gerd", "password": SECRET.encode()}
    connect(unique, clean=False, **login)
    client = dial()
    client.send(connect_packet(unique + "2", clean=False, **login))
    client.expect(connack(code=5))
    client.expect_close()
    connect(unique + "3", **login)
    connect(unique, clean=False, session_present=True, **login)


def test_a_quota_of_subscriptions_refuses_one_more_filter(broker, connect, unique):
    secrets = (sha256(SECRET.encode()).digest(),)
    quotas = Quotas(subscriptions=2)
    broker.change_access(put(User("hans", ("client",), secrets=secrets, quotas=quotas)))
    client = connect(unique, username="hans", password=SECRET.encode())
    client.send(subscribe(1, ("a", 0), ("b", 0), ("c", 0)))
    client.expect(suback(1, 0, 0, 0x80))
    client.send(unsubscribe(2, "a"))
    client.expect(unsuback(2))
    client.send(subscribe(3, ("b", 0), ("c", 0)))
    client.expect(suback(3, 0, 0))
    broker.change_access(put(Role("unrelated", ())))  # renews everybody's rights
    client.send(subscribe(4, ("d", 0)))
    client.expect(suback(4, 0x80))


# ── envelopes


def test_an_envelope_is_judged_by_the_topic_within(broker, bob, unique):
    before = dropped(broker)
    bob.send(publish(f"$signed/plant/{unique}", b"no envelope at all"))
    bob.ping()
    assert dropped(broker) == before + 1
    bob.send(publish(f"$signed/plant/{unique}", b"x", qos=1, packet_id=1))
    bob.expect_close()
    assert (Action.PUBLISH, f"plant/{unique}".encode()) in denied(broker, "bob")


def test_a_subscription_to_envelopes_is_judged_by_the_topic_within(bob, unique):
    bob.send(subscribe(1, (f"$signed/pump/{unique}", 0), (f"$signed/other/{unique}", 0)))
    bob.expect(suback(1, 0, 0x80))


# ── a broker that comes back


def test_rights_are_the_same_after_a_kill(own_broker, connect, unique):
    broker = own_broker()
    broker.add_user("bob", SECRET, rules=RULES)
    for _ in range(2):
        client = connect(unique, at=broker, username="bob", password=SECRET.encode())
        client.send(subscribe(1, ("pump/a", 1), ("other", 1)))
        client.expect(suback(1, 1, 0x80))
        client.send(publish("pump/b", b"m", qos=2, packet_id=1))
        client.expect(pubrec(1))
        client.send(publish("plant/b", b"m", qos=1, packet_id=2))
        client.expect_close()
        broker.restart(kill=True)


def test_without_credentials_a_client_of_this_machine_has_the_role_local(broker, dial, unique):
    client = dial()
    client.send(connect_packet(unique))
    client.expect(connack())
    client.send(publish(f"anything/{unique}", b"m", qos=1, packet_id=1))
    client.expect(puback(1))
    client.send(subscribe(2, ("$SYS/#", 0)))
    client.expect(suback(2, 0))
