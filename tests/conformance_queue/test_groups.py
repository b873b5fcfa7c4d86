"""Topics, groups, leases and retention, as the behaviour checks of the specification state them.

Where Penstock does something else on purpose, the test says so; the reasons are in
docs/reference/queue-protocol.md.
"""

import pytest

from tests.conformance_queue.wire_client import (
    GROUP,
    offsets_of,
    payloads_of,
    request,
    wait_until,
)


def leases_of(items):
    return [item.lease_id for item in items]


# ── topics


@pytest.mark.parametrize(
    ("kind", "topics"),
    [
        ({"produce": {"topic": "t"}}, 1),
        ({"create_topic": {"topic": "t"}}, 1),
        ({"set_rate_limit": {"topic": "t", "rate_per_sec": 1}}, 1),
        ({"set_retention": {"topic": "t", "max_messages": 1}}, 1),
        ({"configure_topic": {"topic": "t"}}, 1),
        ({"poll": {"topic": "t", "group": "g"}}, 0),
        ({"ack": {"topic": "t", "group": "g", "lease_id": 1}}, 0),
        ({"nack": {"topic": "t", "group": "g", "lease_id": 1}}, 0),
        ({"commit": {"topic": "t", "group": "g", "offset": 5}}, 0),
        ({"delete_topic": {"topic": "t"}}, 0),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_which_requests_create_a_topic(dial, own_broker, kind, topics):
    """Requests for what does not exist are answered like any other."""
    client = dial(at=own_broker())
    assert not client.ask(**kind).HasField("error")
    assert client.stats().topics == topics


def test_creating_an_existing_topic_changes_nothing(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 5, "burst": 2})
    client.produce(topic, b"x")
    client.ok(create_topic={"topic": topic})
    described = client.describe(topic)
    assert (described.rate_per_sec, described.messages) == (5, 1)


def test_a_deleted_topic_starts_over_but_lease_ids_continue(client, topic):
    client.ok(set_retention={"topic": topic, "max_messages": 5})
    client.produce(topic, b"old", b"old", producer_id="p", seq=1)
    [old] = client.poll(topic, maximum=1)
    client.ok(delete_topic={"topic": topic})
    assert client.produce(topic, b"new", producer_id="p", seq=1) == [0]
    assert client.describe(topic).max_messages == 0
    [new] = client.poll(topic)
    assert (new.offset, new.payload) == (0, b"new")
    assert new.lease_id > old.lease_id
    client.ack(topic, [old])
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": new.lease_id})
    assert payloads_of(client.poll(topic)) == [b"new"]


# ── producing once


def test_a_repeated_message_is_answered_with_the_first_offset(client, topic):
    """Only the number counts: any order, gaps and 0 are fine, another payload is ignored."""
    numbered = {"topic": topic, "producer_id": "p"}
    seqs = [0, 7, 3, 7, 0, 8, 3]
    client.send(
        *(
            request(produce={**numbered, "seq": seq, "payload": b"%d" % place, "priority": 1})
            for place, seq in enumerate(seqs)
        )
    )
    offsets = [response.produced.offset for response in client.receive_many(len(seqs))]
    assert offsets == [0, 1, 2, 1, 0, 3, 2]
    assert payloads_of(client.poll(topic)) == [b"0", b"1", b"2", b"5"]


def test_messages_without_a_producer_id_are_never_duplicates(client, topic):
    assert client.produce(topic, b"x", b"x", seq=5) == [0, 1]


def test_numbers_belong_to_one_producer_and_one_topic(client, topic):
    other = f"{topic}/other"
    assert client.produce(topic, b"x", producer_id="p", seq=1) == [0]
    assert client.produce(topic, b"x", producer_id="q", seq=1) == [1]
    assert client.produce(other, b"x", producer_id="p", seq=1) == [0]
    assert client.produce(topic, b"x", producer_id="p", seq=1) == [0]


def test_the_offset_of_a_known_message_is_returned_even_if_it_is_gone(client, topic):
    client.ok(set_retention={"topic": topic, "max_messages": 1})
    client.produce(topic, b"x", producer_id="p", seq=1)
    client.produce(topic, b"y", b"z")
    assert client.produce(topic, b"x", producer_id="p", seq=1) == [0]
    assert offsets_of(client.poll(topic)) == [2]


def test_the_last_100_000_numbers_of_a_topic_are_remembered(client, topic):
    def produce(first, count):
        many = {"topic": topic, "producer_id": "p", "seq": first, "payloads": [b""] * count}
        [stretch] = client.ask(produce_many=many).produced_many.stretches
        return stretch.offset

    produce(0, 50_000)
    produce(50_000, 50_000)
    assert produce(0, 1) == 0
    assert produce(100_000, 1) == 100_000
    assert produce(1, 1) == 1
    assert produce(0, 1) == 100_001  # the oldest was forgotten for the one before
    assert produce(2, 1) == 2


# ── groups


def test_a_group_begins_with_the_oldest_message(client, topic):
    client.ok(set_retention={"topic": topic, "max_messages": 2})
    client.produce(topic, b"a", b"b", b"c")
    assert offsets_of(client.poll(topic)) == [1, 2]


def test_a_poll_of_an_unknown_topic_creates_only_its_group(dial, own_broker):
    """In HermesMQ the group would not exist, and lose what others finish before its next poll."""
    client = dial(at=own_broker())
    assert client.poll("t", "late") == []
    assert client.stats().topics == 0
    client.produce("t", b"a", b"b", b"c")
    client.ack("t", client.poll("t", "early"), "early")
    assert payloads_of(client.poll("t", "late")) == [b"a", b"b", b"c"]


def test_a_new_group_does_not_get_what_every_group_has_finished(dial, own_broker):
    client = dial(at=own_broker())
    client.produce("t", b"a", b"b", b"c")
    client.ack("t", client.poll("t", "g1"), "g1")
    assert client.stats().messages == 0
    assert client.poll("t", "g2") == []
    client.produce("t", b"d")
    assert payloads_of(client.poll("t", "g2")) == [b"d"]


def test_messages_stay_for_the_slowest_group(dial, own_broker):
    client = dial(at=own_broker())
    client.produce("t", *[b"x"] * 10)
    client.poll("t", "g2", 1, visibility_timeout_ms=10**9)
    client.ack("t", client.poll("t", "g1"), "g1")
    assert client.stats().messages == 10
    client.ok(commit={"topic": "t", "group": "g2", "offset": 10})
    stats = client.stats()
    assert (stats.messages, stats.in_flight) == (0, 0)


def test_each_message_goes_to_every_group_and_to_one_member_of_each(dial, client, topic):
    client.produce(topic, *[b"%d" % number for number in range(10)])
    other = dial()
    ours, theirs = client.poll(topic, maximum=4), other.poll(topic, maximum=9)
    assert (offsets_of(ours), offsets_of(theirs)) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])
    assert offsets_of(other.poll(topic, "h")) == list(range(10))


def test_stats_count_what_is_in_flight(dial, own_broker):
    broker = own_broker()
    client = dial(at=broker)
    client.produce("t", *[b"x"] * 5)
    items = client.poll("t", visibility_timeout_ms=1_000)
    client.poll("t", "h", 2)
    assert client.stats().in_flight == 7
    client.ack("t", items[:1])
    assert client.stats().in_flight == 6


# ── leases


def test_an_acknowledged_message_is_not_redelivered(client, broker, topic):
    client.produce(topic, b"x")
    client.ack(topic, client.poll(topic, visibility_timeout_ms=100))
    broker.clock.advance(10)
    assert client.poll(topic) == []


def test_a_late_acknowledgement_counts_until_the_next_poll(client, broker, topic):
    client.produce(topic, b"x")
    items = client.poll(topic, visibility_timeout_ms=100)
    broker.clock.advance(0.3)
    client.ack(topic, items)
    assert client.poll(topic) == []


def test_a_late_acknowledgement_has_no_effect_after_a_poll(client, broker, topic):
    client.produce(topic, b"x")
    [old] = client.poll(topic, visibility_timeout_ms=100)
    broker.clock.advance(0.3)
    [new] = client.poll(topic, visibility_timeout_ms=100)
    assert (new.offset, new.redeliveries) == (old.offset, 1)
    assert new.lease_id != old.lease_id
    client.ack(topic, [old])
    broker.clock.advance(0.3)
    assert offsets_of(client.poll(topic)) == [0]


def test_an_unacknowledged_message_is_with_one_consumer_at_a_time(dial, client, broker, topic):
    client.produce(topic, b"x")
    client.poll(topic, visibility_timeout_ms=1_000)
    broker.clock.advance(0.9)
    assert dial().poll(topic) == []
    broker.clock.advance(0.2)
    assert offsets_of(dial().poll(topic)) == [0]


def test_settling_an_unknown_lease_is_answered_with_ok(client, topic):
    for place in ({"topic": topic}, {"topic": "none/such"}):
        client.ok(ack={**place, "group": "none", "lease_id": 12_345})
        client.ok(nack={**place, "group": "none", "lease_id": 12_345})


def test_the_first_nack_redelivers_the_message_immediately(client, broker, topic):
    """In HermesMQ every nack does, and a message that always fails is retried in a tight loop."""
    client.produce(topic, b"x")
    for times, pause_s in enumerate([0, 0, 1, 2, 4]):
        if pause_s:
            broker.clock.advance(pause_s - 0.01)
            assert client.poll(topic) == []
            broker.clock.advance(0.01)
        [item] = client.poll(topic)
        assert item.redeliveries == times
        client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})


def test_a_group_can_be_configured_without_back_off(client, topic):
    client.ok(configure_group={"topic": topic, "group": GROUP, "backoff_ms": 0})
    client.produce(topic, b"x")
    for times in range(4):
        [item] = client.poll(topic)
        assert item.redeliveries == times
        client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})


def test_a_lease_belongs_to_its_group(client, topic):
    client.produce(topic, b"x")
    [item] = client.poll(topic)
    client.ok(ack={"topic": topic, "group": "other", "lease_id": item.lease_id})
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})
    assert len(client.poll(topic)) == 1


# ── commit


def test_a_commit_names_the_first_unfinished_offset(client, topic):
    client.produce(topic, *[b"x"] * 5)
    client.poll(topic, maximum=4)
    client.ok(commit={"topic": topic, "group": GROUP, "offset": 3})
    assert client.group(topic).in_flight == 1
    assert client.group(topic).position == 3
    assert offsets_of(client.poll(topic)) == [4]


def test_a_commit_never_moves_back(client, topic):
    client.produce(topic, *[b"x"] * 5)
    for offset in (4, 1):
        client.ok(commit={"topic": topic, "group": GROUP, "offset": offset})
    assert offsets_of(client.poll(topic)) == [4]


def test_a_commit_beyond_the_end_commits_the_end(client, topic):
    """In HermesMQ it would skip messages that do not exist yet."""
    client.produce(topic, b"x")
    client.ok(commit={"topic": topic, "group": GROUP, "offset": 1_000})
    client.produce(topic, b"y")
    assert offsets_of(client.poll(topic)) == [1]


# ── retention


def test_retention_by_number_keeps_the_newest(client, topic):
    client.ok(set_retention={"topic": topic, "max_messages": 3})
    client.produce(topic, b"0")
    old = client.poll(topic)
    client.produce(topic, *[b"%d" % number for number in range(1, 6)])
    client.ack(topic, old)
    assert client.describe(topic).messages == 3
    assert offsets_of(client.poll(topic)) == [3, 4, 5]


def test_a_message_in_flight_that_retention_removed_is_not_redelivered(client, broker, topic):
    client.ok(set_retention={"topic": topic, "max_messages": 1})
    client.produce(topic, b"x")
    client.poll(topic, visibility_timeout_ms=100)
    client.produce(topic, b"y")
    broker.clock.advance(1)
    assert payloads_of(client.poll(topic)) == [b"y"]


def test_old_messages_stay_until_the_next_one_arrives(client, broker, topic):
    client.ok(set_retention={"topic": topic, "max_age_ms": 1_000})
    client.produce(topic, b"old")
    broker.clock.advance(2)
    [item] = client.poll(topic)
    assert item.payload == b"old"
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})
    client.produce(topic, b"new")
    wait_until(lambda: client.describe(topic).messages == 1)  # a thread looks for the time
    assert payloads_of(client.poll(topic, "h")) == [b"new"]


def test_both_limits_at_zero_mean_no_limit(client, topic):
    """In HermesMQ the limit is a million; here, unfinished work stays."""
    client.ok(set_retention={"topic": topic, "max_messages": 1})
    client.ok(set_retention={"topic": topic})
    client.produce(topic, b"a", b"b")
    assert offsets_of(client.poll(topic)) == [0, 1]


# ── rates


def test_a_rate_limit_is_reported_immediately_even_to_a_long_poll(client, broker, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 1, "burst": 1})
    client.produce(topic, b"a", b"b")
    assert offsets_of(client.poll(topic)) == [0]
    response = client.ask(poll={"topic": topic, "group": GROUP, "wait_ms": 5_000})
    assert response.error.code == "rate_limited"
    assert 0 < response.error.retry_after_ms <= 1_001
    broker.clock.advance(response.error.retry_after_ms / 1_000)
    assert offsets_of(client.poll(topic)) == [1]


def test_an_empty_topic_is_not_rate_limited(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 1})
    client.produce(topic, b"a")
    client.ack(topic, client.poll(topic))
    assert client.poll(topic) == []


def test_tokens_accumulate_up_to_the_burst(client, broker, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 2, "burst": 4})
    client.produce(topic, *[b"x"] * 20)
    assert len(client.poll(topic)) == 4
    broker.clock.advance(1)
    assert len(client.poll(topic)) == 2
    broker.clock.advance(60)
    assert len(client.poll(topic)) == 4


def test_tokens_are_used_only_for_delivered_messages(client, topic):
    """A poll of 16 that gets one leaves the others."""
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 4})
    client.produce(topic, b"x")
    assert len(client.poll(topic)) == 1
    client.produce(topic, *[b"x"] * 9)
    assert len(client.poll(topic)) == 3


def test_all_groups_share_one_rate(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 3})
    client.produce(topic, b"x", b"y")
    assert len(client.poll(topic, "g")) == 2
    assert len(client.poll(topic, "h")) == 1
    assert client.refusal(poll={"topic": topic, "group": "h"}) == "rate_limited"


def test_producing_is_never_limited(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 1})
    assert client.produce(topic, *[b"x"] * 500) == list(range(500))


def test_a_rate_can_be_removed(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 1})
    client.produce(topic, *[b"x"] * 5)
    assert len(client.poll(topic)) == 1
    client.ok(set_rate_limit={"topic": topic})
    assert len(client.poll(topic)) == 4
