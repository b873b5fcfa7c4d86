"""What each command does to the broker's state, and which effects it asks for."""

import pytest
from broker_bench import WILL, Bench, kinds

from penstock.core.broker import Broker
from penstock.core.commands import (
    Acknowledged,
    Closed,
    DeliveriesLost,
    Drained,
    Expired,
    Offered,
    Published,
    Received,
    Released,
    Repeated,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    from_event,
    to_event,
)
from penstock.core.delivery import DELIVER_DUP, DELIVER_PUBREL
from penstock.core.effects import (
    Accepted,
    Effects,
    PortionSent,
    SubscribeAnswer,
    TakenOver,
    Unkept,
    UnsubscribeAnswer,
)
from penstock.core.session import PUBACK, PUBCOMP, PUBREC, PUBREL, PUBREL_UNKNOWN
from penstock.core.session_deliveries import PORTION
from penstock.core.subscription_options import SUBSCRIBE_FAILED
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason

# ── opening ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [True, False])
def test_the_first_connection_is_accepted_without_a_session_present(clean):
    bench = Bench()
    effects = bench.open("ann", clean=clean)
    session = bench.broker.sessions[b"ann"]
    assert effects.controls == [Accepted("ann#1", session, session_present=False)]
    assert session.durable is not clean
    assert session.connected


@pytest.mark.parametrize(
    ("first_clean", "second_clean", "present"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, False)],
)
def test_only_a_durable_session_is_resumed_and_only_if_asked_for(
    first_clean, second_clean, present
):
    """[MQTT-3.1.2-4] to [MQTT-3.1.2-6]: a clean session is neither resumed nor resumes."""
    bench = Bench()
    bench.open("ann", clean=first_clean)
    bench.subscribe("ann", (b"t", 1))
    effects = bench.open("ann", clean=second_clean)
    taken_over, accepted = effects.controls
    assert taken_over == TakenOver("ann#1")
    assert accepted.session_present is present
    assert bench.broker.routes.subscription_count == present
    assert bench.broker.sessions[b"ann"].durable is not second_clean


def test_a_session_that_is_away_is_resumed_without_a_take_over():
    bench = Bench()
    bench.open("ann")
    bench.close("ann")
    assert list(bench.broker.away) == [b"ann"]
    assert kinds(bench.open("ann")) == [Accepted]
    assert not bench.broker.away


def test_resumption_repeats_what_is_unfinished_and_then_sends_what_waited():
    """[MQTT-4.4.0-1]: same ids, same order, DUP; a PUBREL where PUBREC had come."""
    bench = Bench(inflight_max=3)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 2))
    bench.publish(b"t", b"1", qos=1)
    bench.publish(b"t", b"2", b"3", qos=2)
    bench.acknowledge("ann", PUBREC, 2)
    bench.publish(b"t", b"4", qos=1)
    bench.close("ann")
    bench.publish(b"t", b"5", qos=2)
    bench.broker.session_table.inflight_max = 4

    effects = bench.open("ann")
    assert effects.deliveries == {
        "ann#2": [
            (b"", None, 1 | DELIVER_DUP, 1, 1, None),
            (b"", None, DELIVER_PUBREL, 2, 2, None),
            (b"", None, 2 | DELIVER_DUP, 3, 3, None),
            (b"", None, 1, 4, 4, None),
        ]
    }
    assert bench.counters.redelivered_total == 3
    assert bench.broker.queues.count == 1


def test_a_will_is_kept_with_its_session_and_goes_with_the_connection():
    bench = Bench()
    bench.open("ann", will=WILL)
    again = bench.restarted()
    assert again.broker.sessions[b"ann"].will == WILL
    bench.close("ann")
    assert bench.broker.sessions[b"ann"].will is None


def test_a_live_session_has_a_row_only_if_it_has_a_will():
    bench = Bench()
    bench.open("ann", clean=True, will=WILL)
    bench.open("bob", clean=True)
    assert list(bench.broker.dirty) == [b"ann"]
    assert bench.broker.session_row(b"ann") is not None
    assert bench.broker.session_row(b"bob") is None
    assert bench.broker.session_row(b"nobody") is None


# ── closing and expiring ──────────────────────────────────────────────────────────────────────


def test_a_durable_session_outlives_its_connection():
    bench = Bench()
    bench.open("ann")
    bench.close("ann")
    session = bench.broker.sessions[b"ann"]
    assert not session.connected
    assert session.client is None
    assert session.away_since_ms == 9_000


def test_a_live_session_ends_with_its_connection():
    bench = Bench()
    bench.open("ann", clean=True, will=WILL)
    bench.subscribe("ann", (b"t", 1))
    bench.broker.dirty.clear()
    bench.close("ann")
    assert not bench.broker.sessions
    assert bench.broker.routes.subscription_count == 0
    assert list(bench.broker.dirty) == [b"ann"]  # its row is to be deleted


def test_the_end_of_an_older_connection_changes_nothing():
    bench = Bench()
    bench.open("ann")
    bench.open("ann")
    bench.close("ann", connection=1)
    assert bench.broker.sessions[b"ann"].connected
    bench.close("nobody", connection=1)


def test_expiry_discards_the_session_and_counts_what_waited():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", b"1", b"2")
    bench.apply(Expired(b"ann", 1))
    assert not bench.broker.sessions
    assert not bench.broker.away
    assert bench.broker.queues.count == 0
    assert bench.counters.drops[DropReason.SESSION_EXPIRED] == 2


@pytest.mark.parametrize("case", ["unknown", "connected", "newer"])
def test_expiry_is_void_unless_the_session_is_still_as_the_same_connection_left_it(case):
    bench = Bench()
    bench.open("ann")
    if case == "newer":
        bench.open("ann")
        bench.close("ann")
    bench.apply(Expired(b"bob" if case == "unknown" else b"ann", 1))
    assert list(bench.broker.sessions) == [b"ann"]


# ── subscribing ───────────────────────────────────────────────────────────────────────────────


def test_a_subscription_is_answered_with_one_code_per_filter():
    bench = Bench()
    bench.open("ann")
    effects = bench.subscribe("ann", (b"a", 2), (b"b", SUBSCRIBE_FAILED), (b"c", 0))
    assert effects.controls == [SubscribeAnswer("ann#1", 77, [2, SUBSCRIBE_FAILED, 0])]
    assert bench.broker.sessions[b"ann"].subscriptions == {b"a": 2, b"c": 0}


def test_subscribing_again_replaces_the_qos():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"a", 2))
    bench.subscribe("ann", (b"a", 1))
    assert bench.broker.sessions[b"ann"].subscriptions == {b"a": 1}
    assert bench.publish(b"a", b"x", qos=2).deliveries == {"ann#1": [(b"a", b"x", 1, 1, 1, None)]}


def test_commands_for_a_session_that_is_gone_do_nothing():
    bench = Bench()
    for command in (
        Subscribed(b"ann", 1, [(b"a", 1)]),
        Unsubscribed(b"ann", 1, [b"a"]),
        Offered(b"ann", 1, 1, [1], [(b"a", 1, 1)]),
        Acknowledged(b"ann", PUBREC, [1]),
        Received(b"ann", [1]),
        Repeated(b"ann", [1]),
        DeliveriesLost(b"ann", 1, [1]),
    ):
        effects = bench.apply(command, "late")
        assert not effects.controls
        assert not effects.acks
        assert not effects.deliveries
    assert not bench.broker.sessions


def test_an_acknowledgement_of_an_earlier_connection_is_void():
    """It came by another node, and is late; here the message is being repeated already."""
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"a", 2))
    bench.publish(b"a", b"x", qos=2)
    assert bench.open("ann").deliveries == {"ann#2": [(b"", None, 2 | DELIVER_DUP, 1, 1, None)]}
    late = Acknowledged(b"ann", PUBREC, [1], connection=1)
    assert not bench.apply(late).acks
    assert [state for _, _, state, _ in bench.broker.sessions[b"ann"].unfinished()] == [2]
    own = Acknowledged(b"ann", PUBREC, [1], connection=2)
    assert bench.apply(own).acks == {("ann#2", PUBREL): [1]}


def test_unsubscribing_is_answered_even_if_nothing_matched():
    bench = Bench()
    bench.open("ann")
    unsubscribe = Unsubscribed(b"ann", 5, [b"a", b"never"])
    assert bench.apply(unsubscribe, "ann#1").controls == [
        UnsubscribeAnswer("ann#1", 5, [False] * 2)
    ]
    bench.subscribe("ann", (b"a", 1))
    assert bench.apply(unsubscribe, "ann#1").controls == [
        UnsubscribeAnswer("ann#1", 5, [True, False])
    ]
    assert bench.broker.routes.subscription_count == 0
    assert not bench.publish(b"a", b"x").deliveries
    assert not bench.apply(unsubscribe).controls  # replayed: no client waits for an answer


# ── publishing ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)])
def test_a_publish_is_acknowledged_by_the_packet_of_its_qos(qos, kind):
    effects = Bench().publish(b"t", b"x", b"y", qos=qos, outlet="bob")
    assert effects.acks == {("bob", kind): [50, 51]}


def test_a_publish_of_qos_0_comes_by_only_to_be_retained():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 2))
    effects = bench.publish(b"t", b"x", qos=0, retain=True)
    assert not effects.deliveries
    assert not effects.acks
    assert bench.broker.retained.count == 1


@pytest.mark.parametrize("published", [1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_delivery_has_the_lower_of_the_two_qos(published, granted):
    """[MQTT-3.8.4-6]."""
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", granted))
    (delivery,) = bench.publish(b"t", b"x", qos=published).deliveries["ann#1"]
    assert delivery[2] == min(published, granted)
    assert bool(delivery[3]) == bool(delivery[2])


def test_overlapping_subscriptions_give_one_copy_at_the_highest_qos():
    """[MQTT-3.3.5-1]."""
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"a/b", 0), (b"a/+", 2), (b"#", 1))
    assert bench.publish(b"a/b", b"x", qos=2).deliveries == {
        "ann#1": [(b"a/b", b"x", 2, 1, 1, None)]
    }


def test_a_session_that_is_away_gets_qos_1_later_and_qos_0_never():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"one", 1), (b"zero", 0))
    bench.close("ann")
    bench.publish(b"one", b"x")
    bench.publish(b"zero", b"y")
    assert bench.open("ann").deliveries == {"ann#2": [(b"", None, 1, 1, 1, None)]}


def test_a_run_fills_the_window_and_the_rest_waits():
    bench = Bench(inflight_max=2)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    effects = bench.publish(b"t", b"1", b"2", b"3")
    assert effects.deliveries == {
        "ann#1": [(b"t", b"1", 1, 1, 1, None), (b"t", b"2", 1, 2, 2, None)]
    }
    assert bench.broker.queues.count == 1
    effects = bench.acknowledge("ann", PUBACK, 1)
    assert effects.deliveries == {"ann#1": [(b"", None, 1, 3, 3, None)]}
    assert bench.broker.queues.count == 0


def test_a_run_that_fits_leaves_behind_what_is_already_going():
    bench = Bench()
    bench.open("ann", clean=True)
    bench.subscribe("ann", (b"t", 1))
    effects = Effects()
    for position, payloads in ((0, [b"1", b"2"]), (2, [b"3"])):
        bench.broker.apply(Published(b"t", payloads, 1, False, position, 5, []), None, effects)
    assert [delivery[1] for delivery in effects.deliveries["ann#1"]] == [b"1", b"2", b"3"]
    assert not bench.broker.dirty  # a live session has no row


@pytest.mark.parametrize(
    ("drops_oldest", "reason", "kept"),
    [
        (True, DropReason.QUEUE_FULL_OLDEST, [2, 3]),
        (False, DropReason.QUEUE_FULL_NEWEST, [1, 2]),
    ],
)
def test_a_full_queue_drops_by_its_policy_and_counts(drops_oldest, reason, kept):
    bench = Bench(queue_messages_max=2, queue_drops_oldest=drops_oldest)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", b"1", b"2", b"3")
    assert bench.counters.drops[reason] == 1
    assert bench.broker.queues.count == 2
    assert [delivery[4] for delivery in bench.open("ann").deliveries["ann#2"]] == kept


# ── acknowledging ─────────────────────────────────────────────────────────────────────────────


def test_pubrec_is_answered_with_pubrel_even_for_an_id_that_is_not_known():
    """The client must be able to finish."""
    bench = Bench()
    bench.open("ann")
    assert bench.acknowledge("ann", PUBREC, 9).acks == {("ann#1", PUBREL_UNKNOWN): [9]}


def test_a_handshake_of_qos_2_ends_with_pubcomp():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 2))
    bench.publish(b"t", b"x", qos=2)
    assert bench.acknowledge("ann", PUBREC, 1).acks == {("ann#1", PUBREL): [1]}
    assert not bench.acknowledge("ann", PUBCOMP, 1).acks
    assert bench.broker.sessions[b"ann"].inflight_count == 0


def test_releasing_is_answered_with_pubcomp_whether_or_not_the_session_is_there():
    bench = Bench()
    bench.open("ann")
    bench.apply(Received(b"ann", [3, 4]))
    session = bench.broker.sessions[b"ann"]
    assert session.has_received(3)
    assert bench.apply(Released(b"ann", [3]), "ann#1").acks == {("ann#1", PUBCOMP): [3]}
    assert not session.has_received(3)
    assert session.has_received(4)
    assert bench.apply(Released(b"bob", [3]), "bob#1").acks == {("bob#1", PUBCOMP): [3]}
    assert not bench.apply(Released(b"ann", [4])).acks  # replayed


def test_a_repetition_is_acknowledged_if_its_first_copy_arrived():
    """[MQTT-4.3.3-2]: acknowledged, and not delivered again."""
    bench = Bench()
    bench.open("ann")
    bench.apply(Received(b"ann", [3, 4]))
    effects = bench.repeat("ann", 3, 4)
    assert effects.acks == {("ann#1", PUBREC): [3, 4]}
    assert not effects.controls


def test_a_repetition_whose_first_copy_was_refused_must_be_sent_again():
    bench = Bench()
    bench.open("ann")
    bench.apply(Received(b"ann", [3]))
    effects = bench.repeat("ann", 3, 4)
    assert effects.controls == [Unkept("ann#1")]
    assert effects.acks == {("ann#1", PUBREC): [3]}


def test_a_repetition_of_a_connection_that_lost_its_session_is_not_answered():
    bench = Bench()
    bench.open("ann")
    older = bench.broker.sessions[b"ann"].client
    bench.open("ann")
    bench.apply(Received(b"ann", [3]))
    effects = bench.apply(Repeated(b"ann", [3]), older)
    assert not effects.acks
    assert not effects.controls


def test_what_the_journal_has_no_more_is_counted_and_its_id_is_free():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.publish(b"t", b"x")
    session = bench.broker.sessions[b"ann"]
    bench.lose("ann", 1)
    bench.lose("ann", 1)
    assert session.inflight_count == 0
    assert bench.counters.drops[DropReason.RETENTION] == 1


def test_what_waits_goes_on_when_the_window_was_full_of_lost_messages():
    bench = Bench(inflight_max=1)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.publish(b"t", b"lost", b"waits")
    session = bench.broker.sessions[b"ann"]
    effects = bench.lose("ann", 1)
    assert effects.deliveries == {"ann#1": [(b"", None, 1, 2, 2, None)]}
    bench.publish(b"t", b"new")
    assert session.inflight_count == 1


def test_a_loss_of_an_earlier_connection_spares_the_ids_of_the_next():
    """RetryQueue back by a full disk, it may come when the client has a new session with the same ids."""
    bench = Bench()
    for _ in range(2):
        bench.open("ann", clean=True)
        bench.subscribe("ann", (b"t", 1))
        bench.publish(b"t", b"x")
    bench.apply(DeliveriesLost(b"ann", 1, [1]))
    assert bench.broker.sessions[b"ann"].inflight_count == 1


def test_a_loss_survives_a_restart():
    """The journal says it too, so replay has the window free where it was."""
    lost = from_event(to_event(DeliveriesLost(b"ann", 1, [1])))
    bench, replayed = Bench(inflight_max=1), Bench(inflight_max=1)
    for one, loss in ((bench, DeliveriesLost(b"ann", 1, [1])), (replayed, lost)):
        one.open("ann")
        one.subscribe("ann", (b"t", 1))
        one.publish(b"t", b"lost")
        one.apply(loss)
        one.publish(b"t", b"new")
    assert bench.broker.session_row(b"ann") == replayed.broker.session_row(b"ann")
    assert bench.broker.sessions[b"ann"].inflight_count == 1


# ── recovery ──────────────────────────────────────────────────────────────────────────────────

ENTRY_COMMANDS = [
    SessionOpened(b"ann", 2, clean=True, will=None),
    Closed(b"ann", 1, 1),
    Subscribed(b"ann", 1, [(b"new", 1)]),
    Unsubscribed(b"ann", 1, [b"t"]),
    Offered(b"ann", 1, 1, [1], [(b"t", 1, 1)]),
    Acknowledged(b"ann", PUBACK, [1]),
    Received(b"ann", [1]),
    Released(b"ann", [8]),
    DeliveriesLost(b"ann", 1, [1]),
    Published(b"t", [b"y"], 1, False, 0, 5, []),
]


@pytest.mark.parametrize("command", ENTRY_COMMANDS, ids=lambda c: type(c).__name__)
def test_replay_skips_what_the_row_contains_and_applies_what_came_after(command):
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.publish(b"t", b"x")
    bench.apply(Received(b"ann", [8]))
    row = bench.broker.session_row(b"ann")
    for index, is_contained in ((bench.broker.index, True), (bench.broker.index + 1, False)):
        broker = Broker(Counters())
        broker.begin_recovery()
        broker.load_session(row)
        broker.begin(index, 9)
        broker.apply(command, None, Effects())
        broker.index = bench.broker.index
        unchanged = b"ann" in broker.sessions and broker.session_row(b"ann") == row
        assert unchanged is is_contained


@pytest.mark.parametrize("is_contained", [True, False])
def test_replay_skips_an_expiry_that_the_row_contains(is_contained):
    bench = Bench()
    bench.open("ann")
    bench.close("ann")
    again = bench.restarted()
    again.broker.begin(bench.broker.index + (not is_contained), 1)
    again.broker.apply(Expired(b"ann", 1), None, Effects())
    assert (b"ann" in again.broker.sessions) is is_contained


def test_after_recovery_the_longest_away_is_first_and_orphans_are_those_still_connected():
    bench = Bench()
    for name, away_since_ms in (("late", 30), ("early", 10), ("here", 0), ("mid", 20)):
        bench.open(name)
        if away_since_ms:
            bench.apply(Closed(name.encode(), bench.connections, away_since_ms))
    again = bench.restarted().broker
    again.settle_recovery()
    assert list(again.away) == [b"early", b"mid", b"late"]
    assert [session.client_id for session in again.orphans()] == [b"here"]


def test_recovery_brings_back_subscriptions_and_the_count_of_what_waits():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", b"1", b"2")
    again = bench.restarted()
    again.broker.settle_recovery()
    assert again.broker.queues.count == 2
    again.sequence = bench.sequence
    again.publish(b"t", b"3")
    assert again.broker.queues.count == 3


def test_the_oldest_needed_message_is_asked_of_durable_sessions_only():
    bench = Bench()
    assert bench.broker.oldest_needed() is None
    for name, clean in (("live", True), ("ann", False), ("bob", False)):
        bench.open(name, clean=clean)
        bench.subscribe(name, (b"for/" + name.encode(), 1))
    for name in (b"live", b"bob", b"ann"):
        bench.publish(b"for/" + name, b"x")
    assert bench.broker.oldest_needed() == 2


@pytest.mark.parametrize(
    "command",
    [*ENTRY_COMMANDS[:-1], Expired(b"a", 3), SessionOpened(b"a", 1, clean=False, will=WILL)],
)
def test_an_event_stands_for_its_command(command):
    assert from_event(to_event(command)) == command


# ── what waits is sent in portions ────────────────────────────────────────────────────────────


def test_a_session_that_comes_back_is_sent_a_portion_and_the_rest_as_it_reads():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", *[b"%d" % number for number in range(1_000)])
    opened = SessionOpened(b"ann", 9, clean=False, will=None, is_paced=True)
    effects = bench.apply(opened, "ann#9")
    assert len(effects.deliveries["ann#9"]) == PORTION
    sent = [delivery[4] for delivery in effects.deliveries["ann#9"]]
    while PortionSent("ann#9") in effects.controls:
        effects = bench.apply(Drained(b"ann", 9), "ann#9")
        assert len(effects.deliveries["ann#9"]) <= 4 * PORTION
        sent += [delivery[4] for delivery in effects.deliveries["ann#9"]]
    assert sent == list(range(1, 1_001))


def test_what_comes_while_portions_are_sent_may_wait_in_the_room_of_the_window():
    """Or messages would be dropped that a client with an open window has room for."""
    bench = Bench(queue_messages_max=100)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", *[b"%d" % number for number in range(100)])
    bench.apply(SessionOpened(b"ann", 9, clean=False, will=None, is_paced=True), "ann#9")
    bench.publish(b"t", *[b"new"] * 500)
    assert bench.broker.sessions[b"ann"].queue_count == 600 - PORTION
    assert not sum(bench.counters.drops.values())


def test_a_portion_for_an_earlier_connection_is_not_sent():
    bench = Bench()
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.close("ann")
    bench.publish(b"t", *[b"%d" % number for number in range(100)])
    bench.apply(SessionOpened(b"ann", 9, clean=False, will=None, is_paced=True), "ann#9")
    assert not bench.apply(Drained(b"ann", 8), "ann#8").deliveries
