"""Retained messages on their way to subscribers: what is offered, when, and what is too old."""

from itertools import islice

import pytest
from broker_bench import Bench, kinds
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commands import (
    Offered,
    Published,
    Subscribed,
    Unsubscribed,
    from_event,
    to_event,
)
from penstock.core.delivery import DELIVER_RETAIN
from penstock.core.effects import Effects, FollowUp, SubscribeAnswer
from penstock.core.session import PUBACK, Session
from penstock.core.subscription_options import SUBSCRIBE_FAILED
from penstock.core.topic_tree import TopicTree


def test_retained_messages_of_qos_0_are_sent_at_once_with_the_answer():
    bench = Bench()
    bench.publish(b"a", b"kept", qos=0, retain=True)
    bench.open("ann")
    effects = bench.subscribe("ann", (b"#", 2))
    assert kinds(effects) == [SubscribeAnswer]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", DELIVER_RETAIN, 0, 0, None)]}


def test_retained_messages_above_qos_0_reach_a_live_session_at_once():
    bench = Bench()
    bench.publish(b"a", b"kept", qos=2, retain=True)
    bench.open("ann", clean=True)
    effects = bench.subscribe("ann", (b"a", 1))
    assert kinds(effects) == [SubscribeAnswer]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", 1 | DELIVER_RETAIN, 1, 1, None)]}


def test_retained_messages_above_qos_0_are_journaled_for_a_durable_session():
    """Which they are cannot be determined on replay; so the offer is a separate command."""
    bench = Bench()
    bench.publish(b"a", b"kept", qos=2, retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1), (b"b", 0), (b"c", SUBSCRIBE_FAILED)).controls
    assert isinstance(follow_up, FollowUp)
    assert follow_up.command.offers == [(b"a", 1, 1)]
    effects = bench.apply(follow_up.command, follow_up.waiter)
    assert effects.controls == [SubscribeAnswer("ann#1", 77, [1, 0, SUBSCRIBE_FAILED])]
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", 1 | DELIVER_RETAIN, 1, 1, None)]}


def test_an_offer_whose_filter_was_unsubscribed_meanwhile_is_void():
    bench = Bench()
    bench.publish(b"a", b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.apply(Unsubscribed(b"ann", 1, [b"a"]))
    effects = bench.apply(follow_up.command, "ann#1")
    assert kinds(effects) == [SubscribeAnswer]
    assert not effects.deliveries


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
        first = bench.apply(follow_up.command, follow_up.waiter)
    assert kinds(first) == [SubscribeAnswer]
    assert sorted(first.deliveries["ann#1"]) == [
        (b"one", b"1", 1 | DELIVER_RETAIN, 1, 2, None),
        (b"zero", b"0", DELIVER_RETAIN, 0, 0, None),
    ]


def test_a_retained_message_of_qos_0_that_was_replaced_meanwhile_is_not_sent():
    """The newer one was: it has been routed to the new subscription."""
    bench = Bench()
    bench.publish(b"a", b"old", qos=0, retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.publish(b"a", b"new", qos=0, retain=True)
    assert not bench.apply(follow_up.command, follow_up.waiter).deliveries


def test_an_answer_of_a_durable_session_always_takes_two_steps():
    """Whatever is subscribed to: so a SUBACK cannot overtake the one before it."""
    bench = Bench()
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    assert isinstance(follow_up, FollowUp)
    assert follow_up.command.offers == []


def test_only_the_topics_that_were_overtaken_are_left_out_of_an_offer():
    bench = Bench()
    for topic in (b"a", b"b", b"c"):
        bench.publish(topic, b"old", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"#", 1)).controls
    bench.publish(b"a", b"new", retain=True)
    bench.publish(b"c", b"", qos=0, retain=True)
    effects = bench.apply(follow_up.command, follow_up.waiter)
    assert effects.deliveries == {"ann#1": [(b"b", b"old", 1 | DELIVER_RETAIN, 2, 2, None)]}
    assert bench.broker.sessions[b"ann"].overtaken is None


def test_a_message_that_is_not_retained_does_not_take_the_place_of_the_one_that_is():
    """[MQTT-3.3.1-6]: the last retained message is due, whatever else was published since."""
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"#", 1)).controls
    bench.publish(b"a", b"passing")
    effects = bench.apply(follow_up.command, follow_up.waiter)
    assert effects.deliveries == {"ann#1": [(b"a", b"kept", 1 | DELIVER_RETAIN, 2, 1, None)]}


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
    """A session that is away must not gather; it gets what is retained when it is back."""
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.close("ann")
    bench.publish(b"a", b"new", retain=True)
    session = bench.broker.sessions[b"ann"]
    assert session.overtaken is None
    effects = bench.apply(follow_up.command, follow_up.waiter)
    assert not effects.controls
    assert session.queue_count == 1


def test_a_subscription_whose_connection_is_gone_offers_nothing():
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    effects = bench.apply(Subscribed(b"ann", 1, [(b"a", 1)]), "older")
    assert not effects.controls
    assert not effects.deliveries
    assert bench.broker.sessions[b"ann"].subscriptions == {b"a": 1}


def test_an_offer_is_not_for_the_session_that_came_after():
    """Between SUBSCRIBE and the offer the client may reconnect clean and subscribe to nothing."""
    bench = Bench()
    bench.publish(b"a", b"kept", retain=True)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"a", 1)).controls
    bench.open("ann", clean=True)
    effects = bench.apply(follow_up.command, follow_up.waiter)
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
    later = bench.apply(follow_up.command, follow_up.waiter)
    deliveries = effects.deliveries.get("ann#1", []) + later.deliveries.get("ann#1", [])
    assert deliveries[-1][4] == 2


# ── page by page ──────────────────────────────────────────────────────────────────────────────


class Reader:
    """A client that is sent pages, as ``doors/mqtt/retained_pages`` makes them, and notes what it gets."""

    def __init__(self, bench: Bench, name: str = "ann") -> None:
        self.bench = bench
        self.name = name
        self.got: list[tuple[bytes, int]] = []

    @property
    def session(self) -> Session:
        return self.bench.broker.sessions[self.name.encode()]

    def take(self, effects: Effects) -> None:
        """Get what was sent, and acknowledge it."""
        for topic, payload, flags, packet_id, sequence, _ in effects.deliveries.get(
            self.session.client, []
        ):
            message = self.bench.broker.retained.find(sequence) if payload is None else None
            self.got.append((message.topic if message else topic, flags & 3))
            if packet_id:
                self.take(self.bench.acknowledge(self.name, PUBACK, packet_id))

    def page(self) -> Offered | None:
        offer = self.session.offers[0]
        search = self.bench.broker.retained_delivery.search(offer)
        while not search.step(3):
            pass
        return self.bench.broker.retained_delivery.page(self.session, offer, search, 0)

    def read_all(self) -> None:
        while self.session.offers:
            self.take(self.bench.apply(self.page(), self.session.client))


def retain_many(bench: Bench, count: int) -> list[bytes]:
    topics = [b"r/%d" % number for number in range(count)]
    for topic in topics:
        bench.publish(topic, b"kept", retain=True)
    return topics


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("inflight_max", [1, 3, 1_000])
def test_all_retained_messages_come_once_however_small_window_and_queue(clean, inflight_max):
    """[MQTT-3.3.1-6]: none is dropped because the window and the queue are full."""
    bench = Bench(inflight_max=inflight_max, queue_messages_max=2)
    topics = retain_many(bench, 600)
    bench.open("ann", clean=clean)
    reader = Reader(bench)
    reader.take(bench.subscribe("ann", (b"r/#", 1), (b"r/7", 2)))
    reader.read_all()
    assert [topic for topic, _ in reader.got] == topics
    assert sum(bench.counters.drops.values()) == 0


def test_a_page_that_was_made_twice_is_sent_once():
    bench = Bench()
    retain_many(bench, 5)
    bench.open("ann")
    (follow_up,) = bench.ask("ann", (b"#", 1)).controls
    reader = Reader(bench)
    twin = reader.page()
    reader.take(bench.apply(follow_up.command, follow_up.waiter))
    assert not bench.apply(twin, follow_up.waiter).deliveries
    assert len(reader.got) == 5


def test_a_session_that_comes_back_is_sent_the_rest_as_it_is_retained_now():
    """What changed while the client was away is due, too: nothing of QoS 0 was kept for it."""
    bench = Bench(inflight_max=2)
    retain_many(bench, 8)
    bench.open("ann")
    reader = Reader(bench)
    bench.subscribe("ann", (b"#", 1))
    bench.close("ann")
    bench.publish(b"r/3", b"changed", qos=0, retain=True)
    bench.publish(b"r/4", b"", qos=0, retain=True)
    reader.take(bench.open("ann"))
    reader.read_all()
    assert sorted(reader.got) == sorted(
        [(b"r/%d" % number, 1) for number in (0, 1, 2, 5, 6, 7)] + [(b"r/3", 0)]
    )


def test_an_offer_goes_on_where_it_was_after_a_restart():
    bench = Bench(inflight_max=2)
    retain_many(bench, 8)
    bench.open("ann")
    bench.subscribe("ann", (b"#", 1))
    session = bench.restarted().broker.sessions[b"ann"]
    assert session.offers == bench.broker.sessions[b"ann"].offers
    assert session.offers[0].after == 2


def test_what_was_retained_after_the_subscription_is_left_to_live_delivery():
    bench = Bench(inflight_max=2)
    retain_many(bench, 4)
    bench.open("ann")
    bench.subscribe("ann", (b"#", 1))
    bench.publish(b"r/9", b"new", qos=0, retain=True)
    assert bench.broker.sessions[b"ann"].offers[0].horizon == 4
    reader = Reader(bench)
    bench.acknowledge("ann", PUBACK, 1, 2)
    reader.read_all()
    assert [topic for topic, _ in reader.got] == [b"r/2", b"r/3"]


def test_a_search_that_finds_more_than_it_may_hold_looks_again(monkeypatch):
    monkeypatch.setattr("penstock.core.retained_offers.FOUND_MAX", 50)
    bench = Bench()
    topics = retain_many(bench, 700)
    bench.open("ann", clean=True)
    reader = Reader(bench)
    reader.take(bench.subscribe("ann", (b"#", 1)))
    search = bench.broker.retained_delivery.search(reader.session.offers[0])
    while reader.session.offers:
        while not search.step(64):
            assert len(search._found) <= 100
        page = bench.broker.retained_delivery.page(
            reader.session, reader.session.offers[0], search, 0
        )
        if page is not None:
            reader.take(bench.apply(page, reader.session.client))
    assert [topic for topic, _ in reader.got] == topics


@given(
    st.lists(st.tuples(st.sampled_from("sd"), st.integers(0, 30)), max_size=60),
    st.integers(1, 5),
    st.sampled_from([b"#", b"+/#", b"a/+", b"a/b/#"]),
)
def test_a_walk_meets_what_was_there_all_the_time_once_whatever_changes(changes, pace, wanted):
    tree: TopicTree[int] = TopicTree()
    names = [b"/".join([b"a", b"b", b"c", b"%d" % n][: n % 5 + 1]) + b"/%d" % n for n in range(31)]
    for name in names[::2]:
        tree.set(name, 0)
    expected = {name for name, _ in tree.match(wanted)}
    met, walk = [], tree.walk(wanted)
    for kind, number in changes:
        met += islice(walk, pace)
        if kind == "s":
            tree.set(names[number], 1)
        else:
            tree.pop(names[number])
            expected.discard(names[number])
    met = [name for name in [*met, *walk] if name is not None]
    assert expected <= set(met)
    assert all(met.count(name) == 1 for name in expected)
