"""Expiry, headers, no local and identifiers of messages, from ``Published`` to deliveries."""

import pytest
from tests.unit.core.broker_bench import Bench

from penstock.core.commands import DeliveriesLost, Published, PublishedBy, RetainedExpired
from penstock.core.delivery import (
    DELIVER_DUP,
    DELIVER_ID_SHIFT,
    DELIVER_OWN,
    DELIVER_PUBLISHED_RETAIN,
    DELIVER_RETAIN,
)
from penstock.core.effects import Effects
from penstock.core.retained import RetainedMessage
from penstock.core.session import PUBACK, PUBREC, PUBREC_REFUSED
from penstock.model.message import CONTENT_TYPE_SHIFT, FLAG_RETAIN_UNKEPT, Extras
from penstock.obs.reasons import DropReason

NO_LOCAL = 4


class Publishers(Bench):
    """A bench whose messages have extras; ``by`` is journaled as the publisher."""

    def send(self, *extras, topic=b"t", qos=1, retain=False, marks=0, by=b"", time_ms=5_000):
        self.broker.begin(self.broker.index + 1, self.sequence)
        self.sequence += len(extras)
        if by:
            self.broker.apply(PublishedBy(by, len(extras)), None, Effects())
        payloads = [b"x"] * len(extras)
        return self.route(
            Published(topic, payloads, qos, retain, 0, time_ms, [], False, list(extras), marks)
        )

    def route(self, message):
        """Apply a message in the entry that has begun."""
        effects = Effects()
        self.broker.apply(message, None, effects)
        return effects


def until(expires_ms):
    return Extras(((b"n", b"v"),), expires_ms=expires_ms)


@pytest.fixture
def bench():
    bench = Publishers(queue_messages_max=2)
    bench.open("ann")
    bench.subscribe("ann", (b"t", 1))
    return bench


def queued(bench):
    return [packed >> 3 for packed in bench.broker.sessions[b"ann"].queue or ()]


def test_a_delivery_carries_the_extras_of_its_message(bench):
    one, other = until(9_000), None
    found = bench.send(one, other).deliveries["ann#1"]
    assert [delivery[5] for delivery in found] == [one, None]


def test_a_delivery_says_how_its_message_was_published(bench):
    marks = FLAG_RETAIN_UNKEPT | 2 << CONTENT_TYPE_SHIFT
    ((_, _, flags, *_),) = bench.send(None, marks=marks).deliveries["ann#1"]
    assert flags == 1 | DELIVER_PUBLISHED_RETAIN | 2 << 6


def test_an_expiry_of_0_is_for_whoever_is_connected(bench):
    assert bench.send(until(5_000)).deliveries
    bench.close("ann")
    bench.send(until(5_000))
    assert queued(bench) == []
    assert bench.counters.drops[DropReason.EXPIRED] == 1


def test_a_full_queue_drops_what_has_expired_first(bench):
    bench.close("ann")
    bench.send(None)
    bench.send(until(6_000))
    bench.send(None, time_ms=6_000)
    assert queued(bench) == [1, 3]
    assert bench.counters.drops[DropReason.EXPIRED] == 1
    assert bench.counters.drops[DropReason.QUEUE_FULL_OLDEST] == 0
    bench.send(None, time_ms=7_000)
    assert queued(bench) == [3, 4]
    assert bench.broker.queues.count == 2


def test_what_was_sent_does_not_expire_and_is_repeated(bench):
    bench.close("ann")
    bench.send(until(6_000))
    assert bench.broker.sessions[b"ann"].notes.expiries == {1: 6_000}
    assert len(bench.open("ann").deliveries["ann#2"]) == 1
    assert bench.broker.sessions[b"ann"].notes.is_empty
    bench.close("ann")
    ((_, _, flags, *_),) = bench.open("ann").deliveries["ann#3"]
    assert flags & DELIVER_DUP


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("is_denied", DropReason.NOT_AUTHORIZED),
        ("is_expired", DropReason.EXPIRED),
        ("is_too_large", DropReason.TOO_LARGE),
        ("", DropReason.RETENTION),
    ],
)
def test_what_is_not_sent_is_counted_by_its_reason_and_frees_its_id(bench, field, reason):
    bench.send(None)
    why = {field: True} if field else {}
    bench.apply(DeliveriesLost(b"ann", 1, [1], **why))
    assert bench.counters.drops[reason] == 1
    assert bench.broker.sessions[b"ann"].inflight_count == 0


def test_a_refused_pubrec_ends_the_delivery_without_a_pubrel(bench):
    bench.subscribe("ann", (b"t", 2))
    bench.send(None, qos=2)
    assert not bench.acknowledge("ann", PUBREC_REFUSED, 1).acks
    assert bench.broker.sessions[b"ann"].inflight_count == 0
    assert bench.broker.sessions[b"ann"].fault_of(PUBREC_REFUSED, [1]) == 0
    bench.send(None, qos=2)
    bench.acknowledge("ann", PUBREC, 2)
    assert bench.acknowledge("ann", PUBREC_REFUSED, 2).acks == {}
    assert bench.broker.sessions[b"ann"].inflight_count == 1  # too late: PUBREL was sent


# ── retained ──────────────────────────────────────────────────────────────────────────────────


def test_a_retained_message_keeps_headers_expiry_and_type(bench):
    bench.send(until(9_000), retain=True, marks=1 << CONTENT_TYPE_SHIFT)
    message = bench.broker.retained.get(b"t")
    assert (message.extras, message.content_type) == (until(9_000), 1)
    assert RetainedMessage.decode(message.encode()) == message


def test_one_that_expires_at_once_replaces_another_and_is_gone(bench):
    bench.send(None, retain=True)
    bench.send(until(5_000), retain=True)
    assert bench.broker.retained.get(b"t") is None


def test_expired_ones_are_found_and_removed_unless_they_were_replaced(bench):
    retained = bench.broker.retained
    bench.send(until(6_000), retain=True)
    bench.send(until(7_000), topic=b"u", retain=True)
    assert retained.due(5_999, 9) == []
    assert retained.due(6_000, 9) == retained.due(6_000, 9) == [(b"t", 1)]
    bench.send(None, retain=True, time_ms=6_500)
    bench.apply(RetainedExpired([(b"t", 1), (b"u", 2)]))
    assert [message.topic for message in retained.match(b"#")] == [b"t"]
    assert retained.due(99_000, 9) == []


def test_a_subscription_is_not_sent_what_has_expired(bench):
    bench.send(until(6_000), retain=True)
    search = _offer(bench, b"t")
    session = bench.broker.sessions[b"bob"]
    offer, page = session.offers[0], bench.broker.retained_delivery.page
    assert page(session, offer, search, 5_999).offers == [(b"t", 1, 1)]
    assert page(session, offer, search, 6_000).offers == []


def _offer(bench, topic_filter):
    bench.open("bob")
    bench.ask("bob", (topic_filter, 1))
    search = bench.broker.retained_delivery.search(bench.broker.sessions[b"bob"].offers[0])
    assert search.step(100)
    return search


def test_a_retained_message_has_the_identifier_of_its_subscribe_also_when_repeated(bench):
    bench.publish(b"t", b"x", retain=True)
    bench.open("bob")
    ((_, _, flags, packet_id, *_),) = bench.subscribe("bob", (b"#", 1 | 7 << 8)).deliveries["bob#2"]
    assert flags == 1 | DELIVER_RETAIN | 7 << DELIVER_ID_SHIFT
    bench.close("bob")
    restarted = bench.restarted()
    restarted.broker.settle_recovery()
    restarted.connections = bench.connections
    ((_, _, flags, *_),) = restarted.open("bob").deliveries["bob#3"]
    assert flags == 1 | DELIVER_DUP | DELIVER_RETAIN | 7 << DELIVER_ID_SHIFT
    restarted.acknowledge("bob", PUBACK, packet_id)
    assert restarted.broker.sessions[b"bob"].notes.is_empty


def test_handling_1_sends_retained_messages_to_a_filter_that_the_session_did_not_have(bench):
    bench.publish(b"t", b"x", retain=True)
    bench.open("bob")
    if_new, never, always = 1 | 16, 1 | 32, 1
    assert bench.subscribe("bob", (b"#", if_new)).deliveries
    assert not bench.subscribe("bob", (b"#", if_new)).deliveries
    assert not bench.subscribe("bob", (b"t", never)).deliveries
    assert bench.subscribe("bob", (b"#", always)).deliveries


# ── no local ──────────────────────────────────────────────────────────────────────────────────


def test_no_local_leaves_out_the_clients_own_messages_alone(bench):
    bench.subscribe("ann", (b"t", 1 | NO_LOCAL))
    assert not bench.send(None, by=b"ann").deliveries
    assert bench.send(None, by=b"bob").deliveries
    assert bench.send(None).deliveries


def test_another_match_without_it_delivers_with_its_own_qos(bench):
    bench.subscribe("ann", (b"t", 2 | NO_LOCAL), (b"#", 1))
    ((_, _, flags, *_),) = bench.send(None, qos=2, by=b"ann").deliveries["ann#1"]
    assert flags == 1 | DELIVER_OWN
    bench.close("ann")
    bench.send(None, qos=2, by=b"ann")
    restarted = bench.restarted()
    restarted.broker.settle_recovery()
    restarted.connections = bench.connections
    found = restarted.open("ann").deliveries["ann#2"]
    assert [flags for _, _, flags, *_ in found] == [1 | DELIVER_DUP | DELIVER_OWN, 1 | DELIVER_OWN]
    restarted.acknowledge("ann", PUBACK, 1, 2)
    assert restarted.broker.sessions[b"ann"].notes.is_empty


def test_of_a_run_that_several_published_only_the_first_count_as_the_clients_own(bench):
    """So a replay may join what came as two commands."""
    bench.subscribe("ann", (b"t", 1 | NO_LOCAL))
    bench.broker.begin(9, 50)
    bench.broker.apply(PublishedBy(b"ann", 2), None, Effects())
    message = Published(b"t", [b"1", b"2", b"3"], 1, False, 0, 5_000, [])
    found = bench.route(message).deliveries["ann#1"]
    assert [(payload, sequence) for _, payload, _, _, sequence, _ in found] == [(b"3", 52)]
    assert len(bench.route(message).deliveries["ann#1"]) == 3
