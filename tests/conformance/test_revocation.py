"""What a change of users and rules does to what is live: connections, sessions, wills."""

from hashlib import sha256

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from penstock.trust.book import put, removed
from penstock.trust.rows import Ban, Role, User
from tests.access import SECRET
from tests.conformance.wire_client import (
    WireClient,
    connack,
    connect_packet,
    puback,
    publish,
    suback,
    subscribe,
    wait_until,
)

NOT_AUTHORIZED = 5


def user(name: str, *roles: str, secret: str = SECRET, is_disabled: bool = False) -> User:
    """A user with a generated secret."""
    digest = sha256(secret.encode()).digest()
    return User(name, roles, secrets=(digest,), is_disabled=is_disabled)


@pytest.fixture
def broker(own_broker):
    own = own_broker()
    own.add_user("root", SECRET, roles=("admin",))
    for name in ("ann", "bob"):
        own.add_user(name, SECRET)
    own.change_access(put(Role("all", ("allow publish,subscribe,read,work #",))))
    own.change_access(put(user("ann", "all")), put(user("bob", "all")))
    return own


def packet(name: str, client_id: str, **fields) -> bytes:
    return connect_packet(client_id, username=name, password=SECRET.encode(), **fields)


@pytest.fixture
def enter(dial):
    """Connect as a user; the client has its CONNACK."""

    def entered(name: str, client_id: str, *, present: bool = False, **fields) -> WireClient:
        client = dial()
        client.send(packet(name, client_id, **fields))
        client.expect(connack(session_present=present))
        return client

    return entered


def counted(broker: Broker, reason: str) -> float:
    return broker.metrics().get(f'penstock_disconnects_total{{reason="{reason}"}}', 0)


def test_another_users_client_id_is_refused_and_its_session_untouched(broker, enter, dial):
    ann = enter("ann", "pump", clean=False)
    ann.send(subscribe(1, ("t", 1)))
    ann.expect(suback(1, 1))
    for clean in (True, False):
        bob = dial()
        bob.send(packet("bob", "pump", clean=clean))
        bob.expect(connack(code=NOT_AUTHORIZED))
        bob.expect_close()
    ann.send(publish("t", b"still there", qos=1, packet_id=7))
    ann.expect_in_any_order(puback(7), publish("t", b"still there", qos=1, packet_id=1))
    assert counted(broker, "not_authorized") == 2


def test_owners_of_sessions_survive_kill_9(broker, enter, dial):
    enter("ann", "pump", clean=False).abort()
    broker.restart(kill=True)
    bob = dial()
    bob.send(packet("bob", "pump"))
    bob.expect(connack(code=NOT_AUTHORIZED))
    enter("ann", "pump", clean=False, present=True)


@pytest.mark.parametrize(
    "change",
    [
        put(user("ann", "all", is_disabled=True)),
        put(user("ann", "all", secret="another-secret-of-20")),
        removed(User("ann")),
    ],
    ids=["disabled", "new secret", "deleted"],
)
def test_connections_of_users_whose_credentials_are_gone_end_at_once(broker, enter, change):
    ann, bob = enter("ann", "one"), enter("bob", "two")
    broker.change_access(change)
    ann.expect_close()
    bob.expect_nothing()
    assert counted(broker, "credentials_revoked") == 1


@pytest.mark.parametrize("name", ["user:ann", "client:pump", "address:127.0.0.0/8"])
def test_a_ban_ends_the_connections_that_it_concerns(broker, enter, name):
    ann, bob = enter("ann", "pump"), enter("bob", "other")
    broker.change_access(put(Ban(name)))
    ann.expect_close()
    if name.startswith("address"):
        bob.expect_close()
    else:
        bob.ping()
    ends = broker.call(lambda: broker.server.counters.disconnects[DisconnectReason.BANNED])
    assert ends == 1 + name.startswith("address")


def test_a_user_with_other_rights_stays_connected_and_has_them_at_once(broker, enter):
    ann, bob = enter("ann", "one"), enter("bob", "two")
    ann.send(subscribe(1, ("#", 1)))
    ann.expect(suback(1, 1))
    broker.change_access(put(Role("half", ("allow subscribe a/#",))), put(user("ann", "half")))
    bob.send(publish("b/x", b"1", qos=1, packet_id=1), publish("a/x", b"2", qos=1, packet_id=2))
    bob.expect_in_any_order(puback(1), puback(2))
    ann.expect(publish("a/x", b"2", qos=1, packet_id=1))
    ann.send(publish("a/x", b"mine", qos=1, packet_id=3))
    ann.expect_close()


def test_what_is_queued_is_not_delivered_after_the_right_is_lost(broker, enter):
    ann, bob = enter("ann", "one", clean=False), enter("bob", "two")
    ann.send(subscribe(1, ("#", 1)))
    ann.expect(suback(1, 1))
    ann.abort()
    wait_until(lambda: b"one" in broker.server.broker.away)
    bob.send(publish("b/x", b"1", qos=1, packet_id=1), publish("a/x", b"2", qos=1, packet_id=2))
    bob.expect_in_any_order(puback(1), puback(2))
    broker.change_access(put(Role("half", ("allow subscribe a/#",))), put(user("ann", "half")))
    ann = enter("ann", "one", clean=False, present=True)
    ann.expect(publish("a/x", b"2", qos=1, packet_id=2))
    wait_until(lambda: broker.metrics()['penstock_dropped_total{reason="not_authorized"}'] == 1)
    assert list(broker.server.broker.sessions[b"one"].inflight) == [2]


def test_what_is_in_flight_is_not_repeated_after_the_right_is_lost(broker, enter):
    ann, bob = enter("ann", "one", clean=False), enter("bob", "two")
    ann.send(subscribe(1, ("b/#", 2)))
    ann.expect(suback(1, 2))
    bob.send(publish("b/x", b"1", qos=1, packet_id=1))
    bob.expect(puback(1))
    ann.expect(publish("b/x", b"1", qos=1, packet_id=1))
    ann.abort()
    wait_until(lambda: b"one" in broker.server.broker.away)
    broker.change_access(put(user("ann")))
    ann = enter("ann", "one", clean=False, present=True)
    wait_until(lambda: not broker.server.broker.sessions[b"one"].inflight)
    ann.expect_nothing()


def test_a_will_is_dropped_if_its_right_is_lost_before_it_is_due(broker, enter):
    bob = enter("bob", "two")
    bob.send(subscribe(1, ("#", 0)))
    bob.expect(suback(1, 0))
    ann = enter("ann", "one", will=("last/words", b"bye", 0, False))
    eve = enter("ann", "other", will=("a/words", b"bye", 0, False))
    broker.change_access(put(Role("half", ("allow publish a/#",))), put(user("ann", "half")))
    ann.abort()
    wait_until(lambda: b"one" not in broker.server.broker.sessions)
    eve.abort()
    bob.expect(publish("a/words", b"bye"))


def test_the_will_of_a_deleted_user_is_dropped(broker, enter):
    bob = enter("bob", "two")
    bob.send(subscribe(1, ("#", 0)))
    bob.expect(suback(1, 0))
    ann = enter("ann", "one", will=("last/words", b"bye", 0, False))
    broker.change_access(removed(User("ann")))
    ann.expect_close()
    bob.expect_nothing()


def test_retained_messages_of_an_author_who_lost_the_right_are_withheld(broker, enter):
    ann, bob = enter("ann", "one"), enter("bob", "two")
    ann.send(publish("k/ann", b"kept", qos=1, packet_id=1, retain=True))
    ann.expect(puback(1))
    bob.send(publish("k/bob", b"kept", qos=1, packet_id=1, retain=True))
    bob.expect(puback(1))
    broker.change_access(put(user("ann", is_disabled=True)))
    broker.restart(kill=True)
    bob = enter("bob", "two")
    bob.send(subscribe(1, ("k/#", 0)))
    bob.expect_in_any_order(suback(1, 0), publish("k/bob", b"kept", retain=True))
    withheld = [message.topic for message in broker.server.broker.owners.withheld()]
    assert withheld == [b"k/ann"]


def test_retained_messages_of_an_author_whose_rules_name_the_client_id_are_sent(broker, enter):
    broker.change_access(
        put(Role("own", ("allow publish own/%c/#",))), put(user("ann", "own")),
    )  # fmt: skip
    ann, bob = enter("ann", "pump"), enter("bob", "two")
    ann.send(publish("own/pump/x", b"kept", qos=1, packet_id=1, retain=True))
    ann.expect(puback(1))
    bob.send(subscribe(1, ("own/#", 0)))
    bob.expect_in_any_order(suback(1, 0), publish("own/pump/x", b"kept", retain=True))


def test_clients_without_a_name_become_local_ones_when_the_first_user_is_added(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.send(connect_packet("one"))
    client.expect(connack())
    broker.add_user("root", SECRET, roles=("admin",))
    broker.change_access(put(Role("local", ("allow publish,subscribe a/#",))))
    client.send(subscribe(1, ("#", 0)), publish("b", b"1"), publish("a/x", b"2"))
    client.expect_in_any_order(suback(1, 0), publish("a/x", b"2"))
