"""What a user may do by the binary protocol: each verdict as a client sees it."""

from hashlib import sha256

import pytest

from penstock.core.commands import AccessChanged
from penstock.testing import Broker
from penstock.trust.book import Change, put
from penstock.trust.rows import Ban, Quotas, Role, User
from penstock.trust.rules import Action
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance_binary.looks import disconnects, drops
from tests.conformance_binary.wire_client import (
    CODES,
    HELLO,
    ack,
    coded,
    error,
    frame,
    ping,
    pong,
    publish,
    subscribe,
    unsubscribe,
)

AUTH = 0x14
RULES = (
    "allow publish,subscribe,read pump/#",
    "deny publish pump/+/secret",
    "deny subscribe,read pump/+/hidden",
    "allow subscribe live/#",
    "allow read old/#",
    "allow publish,work q:jobs",
)


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET)
        own.add_user("bob", SECRET, rules=RULES)
        yield own


@pytest.fixture
def log_in(dial):
    def logged_in(name, **options):
        client = dial(**options)
        client.send(frame(AUTH, 9, name.encode(), SECRET.encode()))
        client.expect(ack(9))
        return client

    return logged_in


def denied(topic: bytes, more: str = "") -> bytes:
    return error(f"Not authorized for topic '{topic.decode()}'{more}")


def test_each_publish_is_answered_by_itself_and_the_connection_goes_on(broker, log_in, unique):
    bob = log_in("bob")
    good, bad = b"pump/" + unique, b"plant/" + unique
    before = drops(broker, "not_authorized")
    bob.send(publish(good, b"1", 1), publish(bad, b"2", 2) * 3, publish(good, b"3", 3), ping())
    bob.expect(ack(1), denied(bad), denied(bad), denied(bad), ack(3), pong())
    assert drops(broker, "not_authorized") == before + 3
    denials = broker.call(lambda: broker.server.parts.admission.denials.of("bob"))
    assert (Action.PUBLISH, bad) in {(one.action, one.topic) for one in denials}


def test_an_error_about_a_long_topic_fits_what_publishers_read(log_in):
    bob = log_in("bob")
    bob.send(publish(b"x/" + "ü".encode() * 120, b"m"))
    bob.expect_error("Not authorized for topic 'x/")


def test_a_topic_needs_the_right_to_subscribe_and_the_right_to_read(log_in, unique):
    bob, ann = log_in("bob"), log_in("ann")
    for root in (b"pump", b"live", b"old", b"other"):
        ann.publish(root + b"/" + unique, b"history")
    assert [one.payload for one in bob.subscribe(b"pump/" + unique)] == [b"history"]
    history = ": its history comes first; a filter has none"
    bob.send(*(subscribe(root + b"/" + unique) for root in (b"live", b"old", b"other")))
    bob.expect(
        denied(b"live/" + unique, history), denied(b"old/" + unique), denied(b"other/" + unique)
    )
    bob.expect_nothing()


def test_a_filter_is_narrowed_to_what_may_be_received(log_in, unique):
    bob, ann = log_in("bob"), log_in("ann")
    assert bob.subscribe(b"+/" + unique + b"/#") == []
    for root in (b"other", b"pump", b"old", b"live"):
        ann.publish(root + b"/" + unique + b"/x", root)
    ann.publish(b"pump/" + unique + b"/hidden", b"hidden")
    ann.publish(b"pump/" + unique + b"/shown", b"shown")
    assert bob.receive_payloads(3) == [b"pump", b"live", b"shown"]


def test_a_filter_of_which_nothing_is_allowed_is_refused(log_in, unique):
    bob = log_in("bob")
    for topic_filter in (b"other/#", b"pump/+/hidden", b"$SYS/#"):
        bob.send(subscribe(topic_filter))
        bob.expect(denied(topic_filter))


def test_a_queue_needs_the_right_to_work(log_in, unique):
    bob, ann = log_in("bob"), log_in("ann")
    other = b"q:" + unique
    bob.send(subscribe(other), publish(other, b"job"), subscribe(b"q:jobs"))
    bob.expect(denied(other), denied(other), ack(1))
    ann.publish(b"q:jobs", b"job")
    assert bob.receive_payloads(1) == [b"job"]


def test_an_acknowledgement_of_what_one_may_not_receive_is_no_progress(broker, log_in, unique):
    ann, bob = log_in("ann"), log_in("bob")
    ann.publish(b"other/" + unique, b"m")
    sequence = ann.subscribe(b"other/" + unique)[0].sequence
    bob.subscribe(b"pump/" + unique, client_id=unique)
    bob.send(ack(sequence))
    bob.expect_nothing()
    progress = broker.server.broker.subscribers.progress
    assert broker.call(lambda: progress(unique, b"other/" + unique)) is None


# ── client ids


def user(name: str, role: str, **fields: object) -> Change:
    return put(User(name, (role,), secrets=(sha256(SECRET.encode()).digest(),), **fields))


def test_a_client_id_must_be_one_of_the_users(broker, log_in, unique):
    broker.change_access(user("dora", "client", client_ids=("dora-*",)))
    dora = log_in("dora")
    dora.send(subscribe(unique, b"other"))
    dora.expect_error("Cannot subscribe", "user dora may not use this client id")
    assert dora.subscribe(unique, b"dora-" + unique) == []


def test_a_banned_client_id_is_refused(broker, log_in, unique):
    broker.change_access(put(Ban("client:banned-" + unique.decode())))
    ann = log_in("ann")
    ann.send(subscribe(unique, b"banned-" + unique))
    ann.expect_error("Cannot subscribe", "banned")


def test_the_client_id_of_a_subscribe_stands_for_c_from_then_on(broker, log_in, unique):
    broker.add_user("emil", SECRET, rules=["allow publish,subscribe,read own/%c/#"])
    emil = log_in("emil")
    own, other = b"own/" + unique + b"/x", b"own/" + unique + b"2/x"
    emil.send(publish(own, b"m"), subscribe(other, unique), publish(own, b"m"))
    emil.expect(denied(own), denied(other), denied(own))
    emil.send(subscribe(own, unique, 5), publish(own, b"m", 6), publish(other, b"m"))
    emil.expect(ack(5))
    assert {emil.receive_bytes() for _ in range(3)} >= {ack(6), denied(other)}


def test_another_users_client_id_is_refused_and_its_progress_untouched(broker, log_in, unique):
    ann, bob, topic = log_in("ann"), log_in("bob"), b"pump/" + unique
    ann.publish(topic, b"1", b"2")
    first, _ = ann.subscribe(topic, unique)
    ann.acknowledge(first)
    bob.send(subscribe(topic, unique))
    bob.expect_error("Cannot subscribe", "belongs to another user")
    ann.close()
    bob.send(subscribe(topic, unique))
    bob.expect_error("Cannot subscribe", "belongs to another user")
    again = log_in("ann")
    assert [one.payload for one in again.subscribe(topic, unique)] == [b"2"]


def test_a_quota_of_subscriptions_counts_what_there_is(broker, log_in, unique):
    broker.change_access(user("fred", "client", quotas=Quotas(subscriptions=2)))
    fred = log_in("fred")
    topics = [unique + b"/%d" % number for number in range(3)]
    fred.subscribe(topics[0])
    fred.subscribe(topics[1])
    fred.subscribe(topics[1])
    fred.send(subscribe(topics[2]))
    fred.expect_error("Cannot subscribe", "user fred may have 2 subscriptions")
    fred.send(unsubscribe(topics[0], 7))
    fred.expect(ack(7))
    assert fred.subscribe(topics[2]) == []
    broker.change_access(put(Role("unrelated", ())))  # renews everybody's rights
    fred.send(subscribe(unique + b"/4"))
    fred.expect_error("Cannot subscribe", "user fred may have 2 subscriptions")


# ── rights that change


def test_lost_rights_end_subscriptions_with_a_word(broker, log_in, unique):
    broker.add_user("carl", SECRET, rules=["allow publish,subscribe,read,work #"])
    carl, ann = log_in("carl"), log_in("ann")
    topics = b"a/" + unique, b"b/" + unique, b"q:" + unique, b"c/" + unique + b"/#"
    for topic in topics:
        carl.subscribe(topic)
    rules = "allow subscribe,read b/#", "allow subscribe,read d/#"
    broker.add_user("carl", SECRET, rules=rules)
    for topic in (topics[0], topics[2], topics[3]):
        carl.expect(error(f"The right to '{topic.decode()}' was withdrawn: unsubscribed"))
    for topic in (topics[0], topics[2], b"c/" + unique + b"/x", topics[1]):
        ann.publish(topic, topic)
    assert carl.receive_payloads(1) == [topics[1]]


# ── strangers


@pytest.fixture
def remote(own_broker):
    """A broker where clients of this machine must log in, too."""
    broker = own_broker(auth=LOGIN_REQUIRED)
    broker.add_user("root", SECRET, roles=("admin",))
    broker.add_user("ann", SECRET)
    return broker


def test_a_stranger_may_do_nothing_but_log_in(remote, dial, unique):
    client = dial(at=remote)
    client.send(
        publish(unique, b"m", 1), subscribe(unique), subscribe(b"q:x"), unsubscribe(b"y", 2)
    )
    client.expect(denied(unique), denied(unique), denied(b"q:x"), ack(2))
    client.send(ping(), frame(AUTH, 9, b"ann", SECRET.encode()), publish(unique, b"m", 3))
    client.expect(pong(), ack(9), ack(3))
    assert [one.payload for one in client.subscribe(unique)] == [b"m"]


def test_a_stranger_may_say_hello_and_gets_no_rights_by_it(remote, dial, unique):
    client = dial(at=remote)
    client.greet(unique, features=CODES)
    client.send(publish(unique, b"m", 5), ping())
    text = f"Not authorized for topic '{unique.decode()}'"
    client.expect(coded(b"not_authorized", 5, text), pong())


def test_a_stranger_that_makes_work_is_shown_the_door(remote, dial, unique):
    client = dial(at=remote)
    client.send(publish(unique, b"m", 1) * 31, ping(), subscribe(unique), ping())
    client.expect(*[denied(unique)] * 31, pong())
    client.expect_error("Login required — connection closed")
    client.expect_close()
    assert disconnects(remote, "login_required") == 1


@pytest.mark.parametrize("payload", [b"", b"\1"], ids=["sound", "malformed"])
def test_the_hello_that_is_one_too_many_is_named_by_the_error(remote, dial, payload):
    client = dial(at=remote)
    client.greet(features=CODES)
    client.send(ping() * 31, frame(HELLO, 77, b"", payload))
    client.expect(*[pong()] * 31)
    client.expect(coded(b"login_required", 77, "Login required — connection closed"))
    client.expect_close()


@pytest.mark.parametrize("command", [3, 0x10, AUTH])
def test_a_stranger_may_not_send_large_frames(remote, dial, command):
    client = dial(at=remote)
    client.send(frame(command, 1, b"t", bytes(20_000))[:100])
    client.expect_error("Message too large — connection closed")
    client.expect_close()


def test_a_stranger_has_as_long_to_log_in_as_a_client_to_speak(remote, dial):
    client, other = dial(at=remote), dial(at=remote)
    client.send(ping())
    client.expect(pong())
    other.send(frame(AUTH, 9, b"ann", SECRET.encode()))
    other.expect(ack(9))
    remote.clock.advance(11)
    client.expect_close()
    other.expect_nothing()
    assert disconnects(remote, "login_required") == 1


def test_rights_are_the_same_after_a_kill(own_broker, log_in, unique):
    broker = own_broker()
    broker.add_user("bob", SECRET, rules=RULES)
    for _ in range(2):
        bob = log_in("bob", at=broker)
        bob.send(publish(b"pump/x", b"m", 1), publish(b"plant/x", b"m", 2))
        bob.expect(ack(1), denied(b"plant/x"))
        broker.restart(kill=True)


@pytest.mark.parametrize("topic", [b"race/1", b"race/+"])
def test_a_subscription_that_is_overtaken_by_a_change_of_rights_is_refused(broker, log_in, topic):
    """It is judged when it comes, and takes effect when all before it is on disk."""
    broker.add_user("racer", SECRET, rules=["allow subscribe,read race/#"])
    racer, ann = log_in("racer"), log_in("ann")
    ann.publish(b"race/1", b"history")

    def overtake():
        parts = broker.server.parts
        (connection,) = [c for c in parts.connections.clients if c.principal.user == "racer"]
        change = put(Role("racer", ("allow subscribe,read other/#",)))
        with parts.pipeline.as_leader():
            parts.pipeline.submit(AccessChanged([change], "", "", "", 0), None, durable=True)
        connection.data_received(subscribe(topic, sequence=7))

    broker.call(overtake)
    racer.expect(denied(topic))
    ann.publish(b"race/1", b"later")
    racer.expect_nothing()
