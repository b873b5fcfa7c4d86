"""Retained messages on their way to subscribers: what is offered, when, and what is too old."""

import pytest
from broker_bench import Bench, kinds

from penstock.core.broker import SUBSCRIBE_FAILED
from penstock.core.commands import Published, Subscribed, Unsubscribed, from_event, to_event
from penstock.core.effects import DELIVER_RETAIN, Effects, FollowUp, SubscribeAnswer


def test_retained_messages_of_qos_0_are_sent_at_once_with_the_answer():
    bench = Bench()
    bench.publish(b"a", b"kept", qos=0, retain=True)
    bench.open("ann")
    effects = bench.subscribe("ann", (b"#", 2))
    assert kinds(effects) == [SubscribeAnswer]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", DELIVER_RETAIN, 0, 0)]}


def test_retained_messages_above_qos_0_reach_a_live_session_at_once():
    bench = Bench()
    bench.publish(b"a", b"kept", qos=2, retain=True)
    bench.open("ann", clean=True)
    effects = bench.subscribe("ann", (b"a", 1))
    assert kinds(effects) == [SubscribeAnswer]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", 1 | DELIVER_RETAIN, 1, 1)]}


def test_retained_messages_above_qos_0_are_journaled_for_a_durable_session():
    """Which they are cannot be asked again on replay; so the offer is a command of its own."""
    bench = Bench()
    bench.publish(b"a", b"kept", qos=2, retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1), (b"b", 0), (b"c", SUBSCRIBE_FAILED)).controls
    assert isinstance(follow_up, FollowUp)
    assert follow_up.command.offers == [(b"a", 1, 1)]
    effects = bench.apply(follow_up.command, follow_up.outlet)
    assert effects.controls == [SubscribeAnswer("ann#1", 77, [1, 0, SUBSCRIBE_FAILED])]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", 1 | DELIVER_RETAIN, 1, 1)]}


def test_an_offer_that_was_replaced_meanwhile_is_read_from_the_journal():
    bench = Bench()
    bench.publish(b"a", b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.apply(Unsubscribed(b"ann", 1, [b"a"]))
    bench.publish(b"a", b"new", retain=True)
    effects = bench.apply(follow_up.command, "ann#1")
    assert effects.deliveries == {"ann#1": [(b"a", None, 1 | DELIVER_RETAIN, 1, 1)]}


@pytest.mark.parametrize("clean", [True, False])
def test_retained_messages_of_qos_0_come_after_the_answer_and_are_not_written(clean):
    """[MQTT-3.8.4-4]: a durable session's answer waits for the second step, and so do they."""
    bench = Bench()
    bench.publish(b"zero", b"0", qos=0, retain=True)
    bench.publish(b"one", b"1", qos=1, retain=True)
    bench.open("ann", clean=clean)
    first = bench.ask("ann", (b"#", 1))
    if not clean:
        assert not first.deliveries
        (follow_up,) = first.controls
        assert from_event(to_event(follow_up.command)).live == []
        first = bench.apply(follow_up.command, follow_up.outlet)
    assert kinds(first) == [SubscribeAnswer]
    assert sorted(first.deliveries["ann#1"]) == [
        (b"one", b"1", 1 | DELIVER_RETAIN, 1, 2),
        (b"zero", b"0", DELIVER_RETAIN, 0, 0),
    ]


def test_a_retained_message_of_qos_0_that_was_replaced_meanwhile_is_not_sent():
    """The newer one was: it has been routed to the new subscription."""
    bench = Bench()
    bench.publish(b"a", b"old", qos=0, retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.publish(b"a", b"new", qos=0, retain=True)
    assert not bench.apply(follow_up.command, follow_up.outlet).deliveries


def test_an_answer_of_a_durable_session_always_takes_two_steps():
    """Whatever is subscribed to: so a SUBACK cannot overtake the one before it."""
    bench = Bench()
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    assert isinstance(follow_up, FollowUp)
    assert follow_up.command.offers == []


def test_only_the_topics_that_were_overtaken_are_left_out_of_an_offer():
    bench = Bench()
    for topic in (b"a", b"b"):
        bench.publish(topic, b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"#", 1)).controls
    bench.publish(b"a", b"new")
    effects = bench.apply(follow_up.command, follow_up.outlet)
    assert effects.deliveries == {"ann#1": [(b"b", b"old", 1 | DELIVER_RETAIN, 2, 2)]}
    assert bench.broker.sessions[b"ann"].overtaken is None


def test_what_overtook_an_offer_is_known_after_a_crash_too():
    """The row is taken between the two steps; the second is replayed on top of it."""
    bench = Bench()
    bench.publish(b"a", b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.publish(b"a", b"new", retain=True)
    again = bench.restarted()
    for one in (bench, again):
        one.broker.begin(bench.broker.index + 1, bench.sequence)
        one.broker.apply(follow_up.command, None, Effects())
    assert again.broker.sessions[b"ann"].inflight == bench.broker.sessions[b"ann"].inflight
    assert bench.broker.sessions[b"ann"].inflight_count == 1


def test_an_offer_whose_connection_has_ended_is_void_and_nothing_is_noted_for_it():
    """The client had no SUBACK and will ask again; a session that is away must not gather."""
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.close("ann")
    bench.publish(b"a", b"new")
    session = bench.broker.sessions[b"ann"]
    assert session.overtaken is None
    effects = bench.apply(follow_up.command, follow_up.outlet)
    assert not effects.controls
    assert session.queue_count == 1


def test_a_connection_that_takes_a_session_over_has_no_offers_to_wait_for():
    """The end of the one before may come later, kept by a disk that was full."""
    bench = Bench()
    bench.open("ann")
    bench.ask("ann", (b"a", 1))
    bench.open("ann")
    assert bench.broker.sessions[b"ann"].overtaken is None


def test_a_subscription_whose_connection_is_gone_offers_nothing():
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    effects = bench.apply(Subscribed(b"ann", 1, [(b"a", 1)]), "older")
    assert not effects.controls
    assert not effects.deliveries
    assert bench.broker.sessions[b"ann"].subscriptions == {b"a": 1}


def test_an_offer_is_not_for_the_session_that_came_after():
    """Between SUBSCRIBE and the offer the client may connect anew, clean, and subscribe nothing."""
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.open("ann", clean=True)
    effects = bench.apply(follow_up.command, follow_up.outlet)
    assert not effects.deliveries
    assert bench.broker.sessions[b"ann"].inflight_count == 0


def test_an_empty_retained_message_clears_and_the_last_of_a_run_stays():
    bench = Bench()
    bench.publish(b"a", b"1", b"2", retain=True)
    message = bench.broker.retained.get(b"a")
    assert (message.payload, message.sequence, message.time_ms) == (b"2", 2, 5_000)
    bench.publish(b"a", b"3", b"", retain=True)
    assert bench.broker.retained.get(b"a") is None


def test_a_retained_message_has_the_time_of_its_arrival_not_of_its_commit():
    bench = Bench()
    bench.apply(Published(b"a", [b"x"], 1, True, 0, 1_234, []))
    assert bench.broker.retained.get(b"a").time_ms == 1_234


def test_what_the_journal_holds_as_retained_is_retained_whatever_the_limit():
    """The door asks ``admits``; replay, with rows newer than the entry, must not ask again."""
    bench = Bench(retained_max=1)
    bench.publish(b"a", b"1", retain=True)
    assert not bench.broker.retained.admits(b"b")
    bench.publish(b"b", b"2", retain=True)
    assert bench.broker.retained.count == 2
    assert sum(bench.counters.drops.values()) == 0


def test_a_retained_message_does_not_come_after_a_newer_one():
    """[MQTT-4.6.0-6]: who subscribes must not end up with the older value."""
    bench = Bench()
    bench.publish(b"t", b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"t", 1)).controls
    effects = bench.publish(b"t", b"new", retain=True)
    later = bench.apply(follow_up.command, follow_up.outlet)
    deliveries = effects.deliveries.get("ann#1", []) + later.deliveries.get("ann#1", [])
    assert deliveries[-1][4] == 2


def test_a_retained_message_that_waits_behind_newer_ones_is_still_needed():
    bench = Bench(inflight_max=1)
    bench.publish(b"old", b"x", retain=True)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    bench.publish(b"t", b"in flight", b"waits")
    (follow_up,) = bench.ask("ann", (b"old", 1)).controls
    bench.apply(follow_up.command, follow_up.outlet)
    assert bench.broker.oldest_needed() == 1
