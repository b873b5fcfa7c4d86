"""To whom sessions, subscribers and sinks belong, and what a change of users does to them."""

import pytest
from tests.unit.core.broker_bench import Bench, kinds

from penstock.core.broker import Broker
from penstock.core.commands import (
    AccessChanged,
    Authored,
    Closed,
    DeliveriesLost,
    Identified,
    KeysStored,
    Progressed,
    SessionOpened,
    SinkBegan,
    SinkClaimed,
    SinkEnded,
)
from penstock.core.effects import (
    Accepted,
    AccessApplied,
    IdentityTaken,
    Outcome,
    SessionDenied,
    TakenOver,
)
from penstock.core.owners import OWNED_BY_ANOTHER
from penstock.core.tables import Moment, tables_of
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.book import put, removed
from penstock.trust.keys import Key
from penstock.trust.rows import Role, Token, User

ROOT = User("root", ("admin",), secrets=(b"r" * 32,))
ANN = User("ann", ("client",))
BOB = User("bob", ("client",))
LIMITED = Role("limited", ("allow subscribe,publish a/#", "deny subscribe a/secret"))


class Owned(Bench):
    """A bench with users."""

    def change(self, *changes):
        command = AccessChanged(list(changes), "root", "test", "", 1)
        effects = self.apply(command, "admin")
        (fault,) = [one.value for one in effects.controls if isinstance(one, Outcome)]
        assert not fault, fault
        return effects

    def enter(self, name, user, *roles, clean=False):
        self.connections += 1
        opened = SessionOpened(
            name.encode(), self.connections, clean, None, user=user, roles=tuple(roles)
        )
        return self.apply(opened, f"{name}#{self.connections}")

    def queued(self, name):
        return self.broker.sessions[name.encode()].queue_count

    def reloaded(self):
        """A broker from the rows of this one."""
        again = Broker(Counters())
        disk = {}
        for table in tables_of(self.broker):
            table.begin_round()
            for name, key, row in table.take(10_000, Moment(self.broker.index, 0)):
                if row is not None:
                    disk.setdefault(name, []).append((key, row))
        for table in tables_of(again):
            table.load(lambda name: disk.get(name, []))
        again.begin_recovery()
        again.settle_recovery()
        return again


@pytest.fixture
def bench():
    made = Owned()
    made.change(put(ROOT), put(ANN), put(BOB), put(LIMITED), put(User("eve", ("limited",))))
    return made


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [True, False])
def test_another_user_neither_ends_nor_inherits_a_session(bench, clean):
    bench.enter("pump", "ann")
    bench.subscribe("pump", (b"a", 1))
    effects = bench.enter("pump", "bob", clean=clean)
    assert effects.controls == [SessionDenied("pump#2", OWNED_BY_ANOTHER)]
    session = bench.broker.sessions[b"pump"]
    assert (session.user, session.client, session.subscriptions) == ("ann", "pump#1", {b"a": 1})


def test_nobody_gets_the_session_of_a_user_even_while_it_is_away(bench):
    bench.enter("pump", "ann")
    bench.close("pump")
    assert kinds(bench.enter("pump", "", "local")) == [SessionDenied]
    assert bench.broker.sessions[b"pump"].client is None


def test_of_two_users_who_come_at_once_the_first_in_the_log_is_the_owner(bench):
    bench.apply(SessionOpened(b"pump", 1, clean=True, will=None, everywhere=True, user="ann"))
    effects = bench.apply(
        SessionOpened(b"pump", 2, clean=True, will=None, everywhere=True, user="bob"), "bob#2"
    )
    assert kinds(effects) == [SessionDenied]
    assert bench.broker.sessions[b"pump"].user == "ann"


def test_its_owner_takes_a_session_over(bench):
    bench.enter("pump", "ann")
    assert kinds(bench.enter("pump", "ann"))[:2] == [TakenOver, Accepted]


def test_a_session_of_nobody_is_adopted_by_the_first_user(bench):
    bench.open("pump")
    bench.subscribe("pump", (b"a", 1))
    bench.close("pump")
    (accepted,) = [c for c in bench.enter("pump", "ann").controls if isinstance(c, Accepted)]
    assert accepted.session_present
    assert kinds(bench.enter("pump", "bob")) == [SessionDenied]


def test_the_session_of_a_deleted_user_ends_and_is_not_inherited_by_its_namesake(bench):
    bench.enter("pump", "ann")
    bench.subscribe("pump", (b"a", 1))
    bench.change(removed(ANN))
    assert b"pump" not in bench.broker.sessions
    bench.change(put(ANN))
    (accepted,) = [c for c in bench.enter("pump", "ann").controls if isinstance(c, Accepted)]
    assert not accepted.session_present


def test_owners_survive_a_restart(bench):
    bench.enter("pump", "ann", "limited")
    bench.apply(Identified(b"reader", 5, "ann", 1), "waiter")
    bench.apply(SinkBegan(b"table", 1, [], b"", "ann"))
    bench.publish(b"a", b"kept", retain=True)
    bench.sequence -= 1
    bench.apply(Authored(b"a", "ann"))
    again = bench.reloaded()
    session = again.sessions[b"pump"]
    assert (session.user, session.roles) == ("ann", ("limited",))
    assert again.subscribers.by_id[b"reader"].user == "ann"
    assert again.sinks.by_name[b"table"].user == "ann"
    assert again.retained.get(b"a").author == "ann"
    assert again.access.version == bench.broker.access.version


# ── durable subscribers and sinks ─────────────────────────────────────────────────────────────


def test_another_user_does_not_get_the_client_id_of_a_durable_subscriber(bench):
    effects = bench.apply(Identified(b"reader", 1, "ann", 5), "ann#1")
    assert effects.controls == [Outcome("ann#1", ""), IdentityTaken(b"reader", 1)]
    effects = bench.apply(Identified(b"reader", 2, "bob", 6), "bob#2")
    assert effects.controls == [Outcome("bob#2", OWNED_BY_ANOTHER)]
    bench.apply(Progressed(b"reader", b"t", [(0, 5)], 7, "bob"))
    assert bench.broker.subscribers.progress(b"reader", b"t") is None


def test_a_subscriber_of_nobody_is_adopted_with_its_progress(bench):
    bench.apply(Progressed(b"reader", b"t", [(0, 5)], 7))
    bench.apply(Identified(b"reader", 1, "ann", 8))
    assert bench.broker.subscribers.by_id[b"reader"].user == "ann"
    assert bench.broker.subscribers.progress(b"reader", b"t").mark == 5


def test_a_sink_belongs_to_the_user_who_first_staged_or_began(bench):
    assert bench.apply(SinkClaimed(b"s", "ann"), "w").controls == [Outcome("w", True)]
    assert bench.apply(SinkClaimed(b"s", "bob"), "w").controls == [Outcome("w", False)]
    assert bench.apply(SinkBegan(b"s", 1, [], b"", "bob"), "w").controls == [Outcome("w", False)]
    assert bench.apply(SinkBegan(b"s", 1, [], b"", "ann"), "w").controls == [Outcome("w", True)]


def test_the_sinks_of_a_deleted_user_keep_their_epochs_and_can_be_adopted(bench):
    bench.apply(SinkBegan(b"s", 1, [], b"", "ann"))
    bench.apply(SinkEnded(b"s", 1, 1, 5))
    bench.change(removed(ANN))
    assert bench.broker.sinks.by_name[b"s"].epoch == 1
    assert bench.apply(SinkBegan(b"s", 2, [], b"", "bob"), "w").controls == [Outcome("w", True)]


# ── narrowing ─────────────────────────────────────────────────────────────────────────────────


def test_a_wildcard_subscription_gets_what_its_user_may_receive(bench):
    bench.enter("pump", "eve")
    bench.subscribe("pump", (b"#", 1))
    for topic in (b"a/x", b"a/secret", b"b"):
        bench.publish(topic, b"m")
    session = bench.broker.sessions[b"pump"]
    assert session.inflight_count == 1


def test_a_right_that_is_lost_narrows_the_subscription_with_the_next_message(bench):
    bench.enter("pump", "ann")
    bench.subscribe("pump", (b"a/#", 1))
    bench.publish(b"a/x", b"before")
    bench.change(put(User("ann", ())))
    bench.publish(b"a/x", b"after")
    assert bench.broker.sessions[b"pump"].inflight_count == 1
    bench.change(put(ANN))
    bench.publish(b"a/x", b"again")
    assert bench.broker.sessions[b"pump"].inflight_count == 2


def test_nothing_is_queued_for_a_user_who_is_disabled(bench):
    bench.enter("pump", "ann")
    bench.subscribe("pump", (b"a/#", 1))
    bench.close("pump")
    bench.publish(b"a/x", b"1")
    bench.change(put(User("ann", ("client",), is_disabled=True)))
    bench.publish(b"a/x", b"2")
    assert bench.queued("pump") == 1


def test_roles_of_a_token_limit_its_owner(bench):
    bench.change(put(User("ann", ("client", "limited"))))
    bench.change(put(Token("token123", "ann", bytes(32), ("limited",))))
    bench.enter("pump", "ann", "limited")
    bench.subscribe("pump", (b"#", 1))
    bench.publish(b"b", b"m")
    bench.publish(b"a/x", b"m")
    assert bench.broker.sessions[b"pump"].inflight_count == 1


def test_an_adopted_session_is_narrowed_to_its_new_owner(bench):
    bench.open("pump")
    bench.subscribe("pump", (b"#", 1))
    bench.publish(b"b", b"for anybody")
    bench.close("pump")
    bench.enter("pump", "eve")
    before = bench.broker.sessions[b"pump"].inflight_count
    bench.publish(b"b", b"m")
    assert bench.broker.sessions[b"pump"].inflight_count == before


def test_statistics_and_audit_reach_those_who_may_monitor_or_administer(bench):
    bench.change(put(User("mia", ("monitor",))))
    for name, user in (("m", "mia"), ("r", "root"), ("a", "ann")):
        bench.enter(name, user)
        bench.subscribe(name, (b"$SYS/#", 1), (b"$audit/#", 1), (b"$dlq/#", 1))
    bench.publish(b"$SYS/x", b"1")
    bench.publish(b"$audit/access", b"1")
    counts = {name: bench.broker.sessions[name.encode()].inflight_count for name in "mra"}
    assert counts == {"m": 1, "r": 2, "a": 0}


# ── retained messages ─────────────────────────────────────────────────────────────────────────


def retain(bench, topic, author):
    bench.publish(topic, b"kept", retain=True)
    bench.sequence -= 1
    bench.apply(Authored(topic, author))
    bench.sequence += 1


def offered(bench, name, topic_filter=b"#"):
    effects = bench.subscribe(name, (topic_filter, 1))
    return [delivery[0] for run in effects.deliveries.values() for delivery in run]


def test_retained_messages_are_narrowed_like_live_ones(bench):
    for topic in (b"a/x", b"a/secret", b"b"):
        retain(bench, topic, "ann")
    bench.enter("pump", "eve")
    assert offered(bench, "pump") == [b"a/x"]


def test_retained_messages_of_an_author_without_the_right_are_withheld_and_listed(bench):
    retain(bench, b"a/x", "ann")
    retain(bench, b"a/y", "bob")
    bench.change(put(User("ann", ())))
    bench.enter("pump", "bob")
    assert offered(bench, "pump") == [b"a/y"]
    assert [message.topic for message in bench.broker.owners.withheld()] == [b"a/x"]
    bench.change(put(ANN))
    bench.enter("tank", "bob")
    assert offered(bench, "tank") == [b"a/x", b"a/y"]


def test_an_author_is_judged_with_the_client_id_that_the_topic_names(bench):
    bench.change(put(Role("own", ("allow publish own/%c/#",))), put(User("ann", ("own",))))
    retain(bench, b"own/pump/x", "ann")
    assert list(bench.broker.owners.withheld()) == []
    bench.change(put(Role("own", ("allow publish other/%c/#",))))
    assert [message.topic for message in bench.broker.owners.withheld()] == [b"own/pump/x"]


def test_an_author_that_is_a_key_is_judged_by_the_key(bench):
    bench.apply(KeysStored([Key(7, bytes(32), "pump", "plant/*", 1).encode()]))
    retain(bench, b"plant/x", "key:7")
    assert list(bench.broker.owners.withheld()) == []
    bench.apply(KeysStored([Key(7, bytes(32), "pump", "plant/*", 1, revoked_ms=2).encode()]))
    assert [message.topic for message in bench.broker.owners.withheld()] == [b"plant/x"]


def test_an_author_is_noted_only_for_the_message_just_retained(bench):
    retain(bench, b"a/x", "ann")
    bench.publish(b"b", b"m")
    bench.apply(Authored(b"a/x", "bob"))
    assert bench.broker.retained.get(b"a/x").author == "ann"


# ── in flight, keys ───────────────────────────────────────────────────────────────────────────


def test_deliveries_that_are_denied_are_settled_and_counted_as_such(bench):
    bench.enter("pump", "ann")
    bench.subscribe("pump", (b"a", 1))
    bench.publish(b"a", b"m")
    session = bench.broker.sessions[b"pump"]
    lost = DeliveriesLost(b"pump", session.connection, list(session.inflight), is_denied=True)
    bench.apply(lost)
    assert not session.inflight
    assert bench.counters.drops[DropReason.NOT_AUTHORIZED] == 1
    assert bench.counters.drops[DropReason.RETENTION] == 0


def test_several_keys_are_stored_at_once(bench):
    keys = [Key(1, bytes(32), "d", "#", 1, successor=2), Key(2, b"2" * 32, "d", "#", 1)]
    effects = bench.apply(KeysStored([key.encode() for key in keys]), "waiter")
    assert effects.controls == [AccessApplied(()), Outcome("waiter", None)]
    assert bench.broker.keys.all() == keys


def test_a_session_that_a_key_opened_is_judged_by_the_key(bench):
    bench.change(put(Role("keys", ("allow subscribe plant/%u/#",))))
    key = Key(7, bytes(32), "pump", "plant/pump/*", 1)
    bench.apply(KeysStored([key.encode()]))
    opened = SessionOpened(b"p", 1, clean=False, will=None, user="key:7", via="key")
    bench.apply(opened, "p#1")
    bench.subscribe("p", (b"#", 1))
    bench.publish(b"plant/pump/x", b"own")
    bench.publish(b"plant/tank/x", b"of another")
    assert bench.broker.sessions[b"p"].inflight_count == 1
    revoked = Key(7, bytes(32), "pump", "plant/pump/*", 1, revoked_ms=2)
    bench.apply(KeysStored([revoked.encode()]))
    bench.publish(b"plant/pump/x", b"too late")
    assert bench.broker.sessions[b"p"].inflight_count == 1


def test_roles_of_a_json_web_token_count_without_a_row_of_its_user(bench):
    opened = SessionOpened(
        b"p", 1, clean=False, will=None, user="web", roles=("limited",), via="jwt"
    )
    bench.apply(opened, "p#1")
    bench.subscribe("p", (b"#", 1))
    bench.publish(b"a/x", b"m")
    bench.publish(b"b", b"m")
    assert bench.broker.sessions[b"p"].inflight_count == 1


def test_a_void_open_leaves_the_closed_session_of_its_owner_alone(bench):
    bench.enter("pump", "ann")
    bench.enter("pump", "bob")
    bench.apply(Closed(b"pump", 2, 5))
    assert bench.broker.sessions[b"pump"].connected
