"""How long sessions last, and when their wills are due: by the times that commands carry."""

import pytest
from tests.unit.core.broker_bench import Bench, kinds

from penstock.core.commands import (
    AccessChanged,
    Closed,
    Expired,
    SessionOpened,
    Subscribed,
    WillMessage,
    WillSent,
    from_event,
    to_event,
)
from penstock.core.effects import Accepted, TakenOver, WillLeft
from penstock.obs.reasons import DropReason
from penstock.trust.book import put
from penstock.trust.rows import User

NEVER = 2**32 - 1


def will(delay_s: int = 0) -> WillMessage:
    return WillMessage(b"w", b"bye", 1, False, delay_s=delay_s)


class Clients(Bench):
    """A bench whose commands carry times, as MQTT 5 needs them."""

    def connect(
        self, now_ms=1_000, *, clean=False, expiry_s=0, last=None, receive_maximum=0, user=""
    ):
        self.connections += 1
        opened = SessionOpened(
            b"ann",
            self.connections,
            clean,
            last,
            is_paced=True,
            user=user,
            version=5,
            expiry_s=expiry_s,
            receive_maximum=receive_maximum,
            now_ms=now_ms,
        )
        return self.apply(opened, f"ann#{self.connections}")

    def vanish(self, now_ms=2_000, *, expiry_s=-1, connection=None):
        """The connection ends without a goodbye."""
        session = self.broker.sessions.get(b"ann")
        left = session.will if session is not None else None
        at_ms = now_ms + left.delay_s * 1000 if left is not None else 0
        number = connection or self.connections
        return self.apply(Closed(b"ann", number, now_ms, expiry_s, at_ms))

    def change_users(self, *changes):
        return self.apply(AccessChanged(list(changes), "root", "http", "", 1_000))

    @property
    def session(self):
        return self.broker.sessions.get(b"ann")

    def due(self, now_ms):
        table = self.broker.session_table
        return [pending.connection for s in table.wills.due(now_ms, 9) for pending in s.wills]


def is_present(effects) -> bool:
    (accepted,) = [control for control in effects.controls if isinstance(control, Accepted)]
    return accepted.session_present


@pytest.fixture
def clients():
    return Clients()


# ── expiry ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [False, True])
def test_a_session_with_an_expiry_outlives_its_connection_however_it_began(clients, clean):
    assert not is_present(clients.connect(clean=clean, expiry_s=60))
    clients.vanish(2_000)
    assert is_present(clients.connect(61_999, expiry_s=60))


def test_without_an_expiry_it_ends_with_its_connection(clients):
    clients.connect(clean=False, expiry_s=0)
    assert not clients.session.durable
    clients.vanish()
    assert clients.session is None


def test_a_session_whose_time_has_passed_is_gone_at_connect_though_nobody_swept_it(clients):
    clients.connect(expiry_s=60)
    clients.subscribe("ann", (b"#", 1))
    clients.vanish(2_000)
    clients.publish(b"t", b"x")
    assert not is_present(clients.connect(62_000, expiry_s=60))
    assert clients.counters.drops[DropReason.SESSION_EXPIRED] == 1
    assert clients.broker.routes.subscription_count == clients.broker.queues.count == 0


def test_a_durable_session_resumed_without_expiry_is_journaled_and_ends_with_that_connection(
    clients,
):
    clients.connect(expiry_s=60)
    clients.vanish()
    assert is_present(clients.connect(3_000, expiry_s=0))
    assert clients.session.durable
    clients.vanish(4_000)
    assert clients.session is None


def test_disconnect_may_end_or_prolong_a_durable_session(clients):
    clients.connect(expiry_s=60)
    clients.apply(Closed(b"ann", 1, 2_000, 600, 0))
    assert is_present(clients.connect(500_000, expiry_s=60))
    clients.apply(Closed(b"ann", 2, 500_000, 0, 0))
    assert clients.session is None


def test_who_takes_over_a_session_without_expiry_finds_none(clients):
    clients.connect(expiry_s=60)
    clients.vanish()
    clients.connect(3_000, expiry_s=0)
    effects = clients.connect(4_000, expiry_s=60)
    assert TakenOver in kinds(effects)
    assert not is_present(effects)
    assert is_present(clients.connect(5_000, expiry_s=60))


def test_the_sweep_finds_sessions_in_the_order_of_their_ends_and_within_the_limit():
    bench = Bench(session_expiry_s=100)
    for number, (name, expiry_s) in enumerate({b"a": 50, b"b": 10, b"c": NEVER, b"d": -1}.items()):
        opened = SessionOpened(name, number, False, None, expiry_s=expiry_s, now_ms=1)
        bench.apply(opened)
        bench.apply(Closed(name, number, 1_000))
    ends = bench.broker.session_table.ends

    def due(now_ms):
        return [session.client_id for session in ends.due(now_ms, 9)]

    assert due(10_999) == []
    assert due(11_000) == [b"b"]
    assert due(11_000) == [b"b"]  # until a command has ended it
    bench.apply(Expired(b"b", 1))
    assert due(100_999) == [b"a"]
    assert due(101_000) == [b"a", b"c", b"d"]


def test_a_client_that_came_back_is_not_swept(clients):
    clients.connect(expiry_s=10)
    clients.vanish(1_000)
    clients.connect(2_000, expiry_s=10)
    assert not clients.broker.session_table.ends.due(99_000, 9)
    clients.vanish(5_000)
    clients.apply(Expired(b"ann", 1))  # meant the first connection
    assert clients.session is not None
    assert not clients.broker.session_table.ends.due(14_999, 9)
    assert clients.broker.session_table.ends.due(15_000, 9)


def test_the_window_is_that_of_the_connection(clients):
    clients.connect(expiry_s=60, receive_maximum=2)
    clients.subscribe("ann", (b"t", 1))
    assert len(clients.publish(b"t", b"1", b"2", b"3").deliveries["ann#1"]) == 2
    assert clients.session.queue_count == 1
    clients.vanish()
    again = clients.connect(3_000, expiry_s=60).deliveries["ann#2"]
    assert len(again) == 3


def test_expiry_version_window_and_wills_are_in_the_row(clients):
    clients.connect(expiry_s=60, receive_maximum=7, last=will(30))
    clients.vanish(2_000)
    session = clients.restarted().broker.sessions[b"ann"]
    assert (session.expiry_s, session.version, session.window) == (60, 5, 7)
    assert [(one.connection, one.at_ms) for one in session.wills] == [(1, 32_000)]


# ── wills ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("delay_s", "expiry_s", "at_ms"), [(0, 0, 0), (0, 60, 0), (30, 0, 0), (30, 60, 32_000)]
)
def test_a_will_is_due_at_the_earliest_of_its_delay_and_the_sessions_end(
    clients, delay_s, expiry_s, at_ms
):
    clients.connect(expiry_s=expiry_s, last=will(delay_s))
    assert WillLeft(b"ann") in clients.vanish(2_000).controls
    assert clients.due(at_ms - 1) == []
    assert clients.due(at_ms) == [1]


def test_a_delay_beyond_the_session_ends_with_it(clients):
    clients.connect(expiry_s=10, last=will(3_600))
    clients.vanish(2_000)
    assert clients.due(11_999) == []
    assert clients.due(12_000) == [1]


def test_a_client_that_comes_back_in_time_cancels_its_will(clients):
    clients.connect(expiry_s=60, last=will(30))
    clients.vanish(2_000)
    clients.connect(31_999, expiry_s=60)
    assert clients.due(99_000) == []


def test_a_client_that_comes_back_too_late_does_not(clients):
    clients.connect(expiry_s=60, last=will(30))
    clients.vanish(2_000)
    assert is_present(clients.connect(32_000, expiry_s=60))
    assert clients.due(32_000) == [1]


def test_a_clean_start_ends_the_session_and_its_will_is_due(clients):
    clients.connect(expiry_s=60, last=will(30))
    clients.vanish(2_000)
    assert WillLeft(b"ann") in clients.connect(3_000, clean=True, expiry_s=60).controls
    assert clients.due(3_000) == [1]
    clients.apply(WillSent(b"ann", 1))
    assert clients.due(99_000) == []
    assert clients.session.connected


@pytest.mark.parametrize(
    ("delay_s", "expiry_s", "clean", "is_due"),
    [(0, 60, False, True), (30, 60, False, False), (30, 0, False, True), (30, 60, True, True)],
)
def test_a_take_over_leaves_the_will_unless_it_continues_in_time(
    clients, delay_s, expiry_s, clean, is_due
):
    """At another node, whose connection no ``Closed`` has ended before."""
    clients.connect(expiry_s=expiry_s, last=will(delay_s))
    clients.connect(2_000, clean=clean, expiry_s=60)
    assert clients.due(2_000) == ([1] if is_due else [])
    clients.vanish(3_000, connection=1)  # that node's own word comes late
    assert clients.session.connected
    assert clients.due(99_000) == ([1] if is_due else [])


def test_a_session_that_ended_waits_for_its_will_alone(clients):
    clients.connect(expiry_s=0, last=will())
    clients.subscribe("ann", (b"#", 1))
    clients.vanish()
    assert clients.session.is_over
    assert clients.broker.routes.subscription_count == 0
    assert clients.broker.session_row(b"ann") is not None
    assert clients.restarted().broker.sessions[b"ann"].is_over
    clients.apply(Subscribed(b"ann", 1, [(b"#", 1)]))
    assert clients.broker.routes.subscription_count == 0
    assert not is_present(clients.connect(3_000, expiry_s=60))
    assert clients.due(3_000) == [1]  # the next session keeps it until it is published


def test_when_the_will_is_sent_nothing_is_left_of_a_session_that_ended(clients):
    clients.connect(expiry_s=0, last=will())
    clients.vanish()
    clients.apply(WillSent(b"ann", 1))
    assert clients.session is None
    assert clients.broker.session_row(b"ann") is None
    assert b"ann" in clients.broker.dirty
    assert not clients.broker.away


def test_an_expired_session_leaves_its_will(clients):
    clients.connect(expiry_s=60, last=will(30))
    clients.vanish(2_000)
    assert WillLeft(b"ann") in clients.apply(Expired(b"ann", 1)).controls
    assert clients.due(0) == [1]


@pytest.mark.parametrize("end", ["user deleted", "clean start"])
def test_a_will_that_waits_is_due_when_its_session_ends_otherwise(clients, end):
    """Its time was another one before: whoever looks for wills that are due must find it."""
    clients.change_users(put(User("root", ("admin",))), put(User("ann", ("client",))))
    clients.connect(expiry_s=600, last=will(delay_s=300), user="ann")
    clients.vanish(2_000)
    (left,) = clients.session.wills
    if end == "clean start":
        clients.connect(3_000, clean=True, expiry_s=600, user="ann")
    else:
        clients.change_users(("user", "ann", None))
    for now_ms in (3_000, 400_000):  # also if it could not be published at once
        assert clients.due(now_ms) == [left.connection]
    clients.apply(WillSent(b"ann", left.connection))
    assert clients.due(400_000) == []
    assert (clients.session is None) == (end == "user deleted")


def test_wills_of_several_connections_are_published_one_by_one(clients):
    for number in range(3):
        clients.connect(number * 1_000 + 1_000, clean=True, expiry_s=60, last=will(30))
    assert clients.due(3_000) == [1, 2]
    clients.apply(WillSent(b"ann", 2))
    assert clients.due(3_000) == [1]
    clients.vanish(4_000)
    assert clients.due(4_000) == [1, 3]  # the last one waits, the first does not
    clients.apply(WillSent(b"ann", 1))
    assert clients.due(4_000) == []


def test_a_will_is_left_once_however_often_its_end_is_told(clients):
    clients.connect(expiry_s=60, last=will())
    clients.vanish(2_000)
    clients.vanish(3_000)
    assert [one.at_ms for one in clients.session.wills] == [0]
    assert clients.session.away_since_ms == 2_000


# ── what former versions wrote ────────────────────────────────────────────────────────────────


def test_events_of_former_versions_are_read_and_leave_no_will():
    """They published a will before they journaled the end of its connection."""
    opened = from_event((1, b"ann", 1, False, (b"w", b"bye", 1, False), False, 0, True))
    assert (opened.version, opened.expiry_s, opened.receive_maximum, opened.now_ms) == (4, -1, 0, 0)
    bench = Bench()
    bench.apply(opened)
    bench.apply(from_event((1, b"ann", 2, False, None, True, 1)))
    bench.apply(from_event((2, b"ann", 2, 9_000)))
    session = bench.broker.sessions[b"ann"]
    assert (session.durable, session.expiry_s, session.wills) == (True, -1, ())


def test_commands_of_sessions_come_back_from_the_journal():
    for command in (
        SessionOpened(b"a", 1, True, will(3), version=5, expiry_s=9, receive_maximum=4, now_ms=7),
        Closed(b"a", 1, 5, 0, 9),
        WillSent(b"a", 1),
    ):
        assert from_event(to_event(command)) == command
