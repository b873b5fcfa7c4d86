"""What Penstock adds to the protocol, under field numbers that other clients skip."""

from itertools import pairwise

import pytest

from penstock.wire.queue._generated.queue_pb2 import Start
from tests.conformance_queue.wire_client import (
    GROUP,
    columns,
    offsets_of,
    payloads_of,
    request,
    wait_until,
)


def numbers(first, end):
    return [b"%d" % number for number in range(first, end)]


def place(topic, **fields):
    return {"topic": topic, "group": GROUP, **fields}


# ── many at once


def test_a_batch_is_produced_at_once(client, topic):
    client.produce(topic, b"before")
    many = {"topic": topic, "payloads": numbers(0, 300), "priority": 3, "content_type": 1}
    [stretch] = client.ask(produce_many=many).produced_many.stretches
    assert (stretch.offset, stretch.count) == (1, 300)
    items = client.poll(topic, maximum=2)
    assert [(item.priority, item.content_type) for item in items] == [(3, 1), (3, 1)]


def test_a_batch_answers_known_messages_with_their_first_offsets(client, topic):
    many = {"topic": topic, "producer_id": "p"}
    client.ask(produce_many={**many, "seq": 10, "payloads": numbers(10, 13)})
    client.produce(topic, b"between")
    produced = client.ask(produce_many={**many, "seq": 8, "payloads": numbers(8, 16)}).produced_many
    found = [
        offset
        for stretch in produced.stretches
        for offset in range(stretch.offset, stretch.offset + stretch.count)
    ]
    assert found == [4, 5, 0, 1, 2, 6, 7, 8]
    assert client.describe(topic).end_offset == 9
    assert payloads_of(client.poll(topic)) == [
        *numbers(10, 13), b"between", *numbers(8, 10), *numbers(13, 16),
    ]  # fmt: skip


def test_each_message_of_a_batch_is_checked_by_itself(client, topic):
    payloads = [b"a", bytes((1 << 20) + 1), b"b"]
    produced = client.ask(produce_many={"topic": topic, "payloads": payloads}).produced_many
    assert [(stretch.offset, stretch.count) for stretch in produced.stretches] == [(0, 2)]
    [refusal] = produced.refusals
    assert (refusal.index, refusal.error.code) == (1, "payload_too_large")


def test_an_empty_batch_is_answered_with_nothing(client, topic):
    assert not client.ask(produce_many={"topic": topic}).produced_many.stretches


def test_many_leases_are_settled_by_one_request(client, topic):
    client.produce(topic, *numbers(0, 10))
    leases = [item.lease_id for item in client.poll(topic)]
    client.ok(ack_many=place(topic, lease_ids=[*leases[:7], 123_456, leases[0]]))
    client.ok(nack_many=place(topic, lease_ids=leases[7:]))
    assert offsets_of(client.poll(topic)) == [7, 8, 9]


# ── time


def test_a_nack_may_ask_for_a_pause(client, broker, topic):
    client.produce(topic, b"x")
    [item] = client.poll(topic)
    client.ok(nack=place(topic, lease_id=item.lease_id, delay_ms=5_000))
    assert client.poll(topic) == []
    assert client.group(topic).delayed == 1
    broker.clock.advance(5.1)
    assert offsets_of(client.poll(topic)) == [0]


def test_a_lease_may_be_extended(client, broker, topic):
    client.produce(topic, b"x")
    [item] = client.poll(topic, visibility_timeout_ms=1_000)
    broker.clock.advance(0.9)
    client.ok(extend=place(topic, lease_ids=[item.lease_id], visibility_timeout_ms=2_000))
    broker.clock.advance(1.9)
    assert client.poll(topic) == []
    broker.clock.advance(0.2)
    assert offsets_of(client.poll(topic)) == [0]


def test_a_message_may_be_delayed(client, broker, topic):
    client.produce(topic, b"later", delay_ms=5_000)
    client.produce(topic, b"now")
    assert payloads_of(client.poll(topic)) == [b"now"]
    assert payloads_of(client.poll(topic, "h")) == [b"now"]
    broker.clock.advance(5.1)
    items = client.poll(topic)
    assert (payloads_of(items), items[0].redeliveries) == ([b"later"], 0)


def test_a_waiting_poll_gets_a_delayed_message_in_time(dial, ticking, topic):
    client = dial(at=ticking)
    client.produce(topic, b"soon", delay_ms=100)
    [item] = client.poll(topic, wait_ms=5_000)
    assert item.payload == b"soon"


def test_a_message_may_expire(client, broker, topic):
    client.produce(topic, b"short", ttl_ms=1_000)
    client.produce(topic, b"long")
    broker.clock.advance(1.1)
    assert payloads_of(client.poll(topic)) == [b"long"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_message_given_back_expires_too(dial, own_broker, restarts):
    broker = own_broker()
    client = dial(at=broker)
    client.produce("t", b"short", ttl_ms=1_000)
    [item] = client.poll("t")
    client.ok(nack=place("t", lease_id=item.lease_id))
    if restarts:
        broker.restart(kill=True)
        client = dial(at=broker)
    broker.clock.advance(1.1)
    assert client.poll("t") == []
    client.produce("t", b"other")
    assert payloads_of(client.poll("t")) == [b"other"]


def test_headers_come_as_they_were_sent(client, topic):
    headers = [{"name": "a", "value": b"\0\1"}, {"name": "", "value": b""}, {"name": "a"}]
    client.produce(topic, b"x", headers=headers)
    [item] = client.poll(topic)
    assert [(header.name, header.value) for header in item.headers] == [
        ("a", b"\0\1"),
        ("", b""),
        ("a", b""),
    ]


# ── groups


STARTS = {
    (Start.EARLIEST, 0): [0, 1, 2, 3, 4],
    (Start.LATEST, 0): [],
    (Start.OFFSET, 3): [3, 4],
    (Start.OFFSET, 999): [],
}


@pytest.mark.parametrize(("start", "expected"), STARTS.items())
@pytest.mark.parametrize("is_made", [False, True])
def test_a_new_group_begins_at_the_requested_start(client, topic, start, expected, is_made):
    """Set when it is created by name, or by the first poll."""
    client.produce(topic, *numbers(0, 5))
    fields = {"start": start[0], "start_value": start[1]}
    if is_made:
        client.ok(create_group=place(topic, **fields))
        fields = {}
    assert offsets_of(client.poll(topic, **fields)) == expected
    client.produce(topic, b"5")
    assert offsets_of(client.poll(topic)) == [5]


def test_a_new_group_may_begin_at_a_time(client, broker, topic):
    client.produce(topic, b"0", b"1")
    broker.clock.advance(10)
    between_ms = broker.clock.wall_ms()
    broker.clock.advance(10)
    client.produce(topic, b"2", b"3")
    client.ok(create_group=place(topic, start=Start.TIME, start_value=between_ms))
    assert offsets_of(client.poll(topic)) == [2, 3]
    located = client.ask(locate={"topic": topic, "times_ms": [0, between_ms, 1 << 60]}).located
    assert list(located.offsets) == [0, 2, 4]


def test_raw_columns_are_those_of_the_journal_and_only_those_requested(client, topic):
    headers = [{"name": "n", "value": b"v"}]
    client.ok(create_topic={"topic": topic})
    client.ask(produce={"topic": topic, "payload": b"ab", "headers": headers, "producer_id": "p"})
    client.ask(produce={"topic": topic, "payload": b"cd"})
    whole = client.ask(fetch={"topic": topic, "columns": 31}).fetched
    assert b"".join(part.payloads for part in whole.slices) == b"abcd"
    assert b"".join(part.header_texts for part in whole.slices) == b"nv"
    assert b"".join(part.producer_names for part in whole.slices) == b"p"
    assert not any(part.extras or part.producers for part in whole.slices)
    numbers = client.ask(fetch={"topic": topic, "columns": 32}).fetched
    assert sum(part.count for part in numbers.slices) == 2
    assert not any(part.payloads or part.header_texts for part in numbers.slices)


def test_a_changes_request_waits_for_the_first_change(dial, client, topic):
    known = client.ask(changes={"filters": [topic]}).changed
    assert not known.topics
    asked = {"filters": [topic], "after_sequence": known.sequence, "wait_ms": 60_000}
    client.send(request(changes=asked, request_id=5), request(stats={}))
    assert client.receive().HasField("stats")
    dial().produce(topic, b"there")
    answer = client.receive()
    assert answer.request_id == 5
    assert [(found.name, found.end_offset) for found in answer.changed.topics] == [(topic, 1)]


def test_locate_answers_how_far_bytes_reach_from_an_offset(client, topic):
    client.produce(topic, b"1234", b"5678", b"9")
    measures = [{"offset": 0, "bytes": 8}, {"offset": 1, "bytes": 1}, {"offset": 0, "bytes": 99}]
    located = client.ask(locate={"topic": topic, "measures": measures}).located
    assert list(located.reaches) == [2, 2, 3]


def test_a_reader_has_a_start_and_a_lag_and_finishes_nothing(client, topic):
    client.ok(create_topic={"topic": topic})
    client.produce(topic, *[b"x"] * 4)
    client.ok(create_group=place(topic, reader=True, start=Start.OFFSET, start_value=1))
    client.ok(commit=place(topic, offset=3))
    (reader,) = client.ask(list_groups={"topic": topic}).groups.groups
    assert (reader.reader, reader.start, reader.position, reader.lag) == (True, 1, 3, 1)
    (found,) = client.ask(list_topics={"name": topic}).topics.topics
    assert found.messages == 4


def test_a_subscription_may_begin_at_the_end(dial, client, topic):
    client.produce(topic, b"old")
    other = dial()
    other.subscribe(topic, "h", start=Start.LATEST)
    wait_until(lambda: client.ask(list_groups={"topic": topic}).groups.groups)
    client.produce(topic, b"new")
    assert payloads_of(other.pushed()) == [b"new"]


def test_a_group_may_be_moved_back(client, topic):
    client.produce(topic, *numbers(0, 5))
    items = client.poll(topic)
    client.ack(topic, items[:4])
    client.ok(create_group=place(topic, start=Start.OFFSET, start_value=2))
    assert client.poll(topic) == []  # it exists, and nobody asked to move it
    client.ok(create_group=place(topic, start=Start.OFFSET, start_value=2, seek=True))
    again = client.poll(topic)
    assert offsets_of(again) == [2, 3]  # the last one is still with somebody
    client.ack(topic, again)
    client.ack(topic, items[4:])
    assert client.poll(topic) == []
    assert client.group(topic).in_flight == 0


def test_a_deleted_group_starts_over(client, topic):
    client.ok(configure_topic={"topic": topic, "keep": True})
    client.produce(topic, b"a", b"b")
    items = client.poll(topic)
    client.ok(delete_group=place(topic))
    client.ack(topic, items)
    assert offsets_of(client.poll(topic)) == [0, 1]


def test_a_group_reports_its_state(client, topic):
    client.produce(topic, *numbers(0, 10))
    items = client.poll(topic, maximum=6)
    client.ack(topic, items[:2])
    client.ok(nack=place(topic, lease_id=items[2].lease_id))
    client.ok(nack=place(topic, lease_id=items[3].lease_id, delay_ms=60_000))
    group = client.group(topic)
    assert (group.position, group.lag, group.in_flight) == (2, 8, 2)
    assert (group.returned, group.delayed) == (1, 1)


# ── dead letters


def fail(client, topic, times, **fields):
    """Take a message and give it back ``times`` times."""
    for _ in range(times):
        [item] = client.poll(topic, maximum=1)
        client.ok(nack=place(topic, lease_id=item.lease_id, **fields))


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ({}, {"backoff_ms": 500, "backoff_max_ms": 100}),
        ({"backoff_ms": 500}, {"backoff_max_ms": 100}),
        ({"backoff_ms": 100, "backoff_max_ms": 200}, {"backoff_ms": 500}),
        ({}, {"backoff_max_ms": 999}),  # the first pause is a second unless somebody says otherwise
    ],
)
def test_a_maximum_back_off_below_the_first_is_refused(client, topic, there, asked):
    if there:
        client.ok(configure_group=place(topic, **there))
    error = client.ask(configure_group=place(topic, **asked)).error
    assert error.code == "bad_request"
    assert "a longest pause of 0 is no limit" in error.message


def test_a_first_back_off_above_the_default_maximum_is_accepted(client, topic):
    client.ok(configure_group=place(topic, backoff_ms=120_000))
    group = client.group(topic)
    assert (group.backoff_ms, group.backoff_max_ms) == (120_000, 0)


def test_a_message_is_dead_lettered_after_max_deliveries(client, topic):
    client.ok(configure_group=place(topic, max_deliveries=3, backoff_ms=0))
    client.produce(topic, b"poison", priority=5, content_type=2, headers=[{"name": "k"}])
    fail(client, topic, 3, reason="no such file")
    assert client.poll(topic) == []
    letters = f"$dlq/{topic}/{GROUP}"
    [letter] = client.poll(letters, "reader", wait_ms=5_000)
    assert (letter.payload, letter.priority, letter.content_type) == (b"poison", 5, 2)
    headers = {header.name: header.value for header in letter.headers}
    assert headers.pop("dlq-time").isdigit()
    assert headers == {
        "dlq-topic": topic.encode(),
        "dlq-group": GROUP.encode(),
        "dlq-offset": b"0",
        "dlq-attempts": b"3",
        "dlq-reason": b"no such file",
        "k": b"",
    }
    assert client.group(topic).dead_letters == 1
    assert client.group(topic).lag == 0


def test_expired_leases_count_as_failed_deliveries(client, broker, topic):
    client.ok(configure_group=place(topic, max_deliveries=2))
    client.produce(topic, b"poison")
    for _ in range(2):
        assert len(client.poll(topic, visibility_timeout_ms=100)) == 1
        broker.clock.advance(1)
    assert client.poll(topic) == []
    [letter] = client.poll(f"$dlq/{topic}/{GROUP}", "reader", wait_ms=5_000)
    assert {header.name: header.value for header in letter.headers}["dlq-reason"] == (
        b"lease expired"
    )


def test_dead_letters_are_redriven(client, topic):
    client.ok(configure_group=place(topic, max_deliveries=1))
    client.produce(topic, b"a", b"b", b"c")
    for item in client.poll(topic):
        client.ok(nack=place(topic, lease_id=item.lease_id))
    wait_until(lambda: client.group(topic).dead_letters == 3)
    assert client.ask(redrive=place(topic, max=1)).redriven.count == 1
    assert client.ask(redrive=place(topic)).redriven.count == 2
    assert client.ask(redrive=place(topic)).redriven.count == 0
    items = client.poll(topic)
    assert payloads_of(items) == [b"a", b"b", b"c"]
    assert [item.redeliveries for item in items] == [0, 0, 0]


def test_redeliveries_are_delayed_by_a_growing_back_off(client, broker, topic):
    client.ok(configure_group=place(topic, backoff_ms=1_000, backoff_max_ms=3_000))
    client.produce(topic, b"x")
    for pause_s in (1, 2, 3, 3):
        fail(client, topic, 1)
        broker.clock.advance(pause_s - 0.5)
        assert client.poll(topic) == []
        broker.clock.advance(0.6)


def test_settings_that_are_absent_stay_unchanged(client, topic):
    client.ok(configure_group=place(topic, max_deliveries=3, backoff_ms=7))
    client.ok(configure_group=place(topic, backoff_ms=8))
    group = client.group(topic)
    assert (group.max_deliveries, group.backoff_ms) == (3, 8)
    client.ok(configure_topic={"topic": topic, "max_messages": 5, "rate_per_sec": 2.5})
    client.ok(configure_topic={"topic": topic, "burst": 9})
    described = client.describe(topic)
    assert (described.max_messages, described.rate_per_sec, described.burst) == (5, 2.5, 9)


# ── in bulk


def test_fetched_columns_contain_what_was_produced(client, broker, topic):
    expected = []
    for number in range(120):
        if number % 30 == 0:
            broker.clock.advance(1)
        priority, content_type, payload = number % 8, number % 4, b"p" * (number % 17)
        client.produce(topic, payload, priority=priority, content_type=content_type)
        expected.append((number, payload, priority, content_type, broker.clock.wall_ms()))
    fetched = client.ask(fetch={"topic": topic})
    assert columns(fetched) == expected
    assert (fetched.fetched.first_offset, fetched.fetched.end_offset) == (0, 120)
    some = client.ask(fetch={"topic": topic, "offset": 35, "end_offset": 70})
    assert columns(some) == expected[35:70]


def test_fetching_continues_where_it_stopped(client, topic):
    client.ask(produce_many={"topic": topic, "payloads": numbers(0, 1_000)})
    found, offset = [], 0
    while offset < 1_000:
        response = client.ask(fetch={"topic": topic, "offset": offset, "max_messages": 300})
        found += columns(response)
        assert response.fetched.next_offset > offset
        offset = response.fetched.next_offset
    assert [column.payload for column in found] == numbers(0, 1_000)


def test_fetched_extras_contain_headers_times_and_producers(client, broker, topic):
    client.produce(topic, b"plain")
    headers = [{"name": "k", "value": b"v"}]
    client.produce(topic, b"x", producer_id="p", seq=7, headers=headers, delay_ms=5, ttl_ms=50)
    [piece, *others] = client.ask(fetch={"topic": topic, "offset": 1}).fetched.slices
    assert not others
    [extra] = piece.extras
    assert (extra.number, extra.expires_ms - extra.due_ms) == (0, 45)
    assert abs(extra.due_ms - broker.clock.wall_ms() - 5) <= 1  # milliseconds are rounded
    assert [(header.name, header.value) for header in extra.headers] == [("k", b"v")]
    [run] = piece.producers
    assert (run.number, run.count, run.producer_id, run.seq) == (0, 1, "p", 7)


def test_a_topic_created_again_has_another_incarnation(client, topic):
    assert client.ask(fetch={"topic": topic}).fetched.incarnation == 0
    client.produce(topic, b"x")
    first = client.ask(fetch={"topic": topic}).fetched.incarnation
    client.ok(delete_topic={"topic": topic})
    client.produce(topic, b"y")
    second = client.ask(fetch={"topic": topic}).fetched
    assert 0 != first != second.incarnation != 0
    assert second.end_offset == 1


# ── lists


def test_topics_are_listed_by_pages(client, topic):
    names = [f"{topic}/{number}" for number in range(7)]
    for name in names:
        client.ok(create_topic={"topic": name})
    found, after = [], ""
    while True:
        page = client.ask(list_topics={"prefix": f"{topic}/", "after": after, "max": 3}).topics
        found += [each.name for each in page.topics]
        if not page.more:
            break
        after = found[-1]
    assert found == names


def test_groups_are_listed_by_pages(client, topic):
    client.produce(topic, b"x")
    names = [f"g{number}" for number in range(7)]
    for name in names:
        client.poll(topic, name)
    found, after = [], {}
    while True:
        page = client.ask(list_groups={"topic": topic, "max": 3, **after}).groups
        found += [each.name for each in page.groups]
        if not page.more:
            break
        after = {"after_topic": topic, "after_group": found[-1]}
    assert found == names
    assert client.describe(topic).groups == 7


def test_every_kind_of_request_is_answered_with_its_request_id(client, topic):
    client.produce(topic, *numbers(0, 4))
    kinds = [
        {"produce": {"topic": topic}},
        {"poll": place(topic, max=1)},
        {"ack": place(topic, lease_id=9_999)},
        {"nack": place(topic, lease_id=9_999)},
        {"commit": place(topic, offset=1)},
        {"stats": {}},
        {"fetch": {"topic": topic}},
        {"fetch_many": {"topics": [topic]}},
        {"list_topics": {"name": topic}},
        {"list_groups": {"topic": topic}},
        {"produce_many": {"topic": topic, "payloads": [b"x"]}},
    ]
    client.send(*(request(100 + number, **kind) for number, kind in enumerate(kinds)))
    responses = client.receive_many(len(kinds))
    assert sorted(response.request_id for response in responses) == list(range(100, 111))
    assert not any(response.HasField("error") for response in responses)


def test_leases_are_never_used_twice(client, topic):
    client.produce(topic, *numbers(0, 3))
    leases = []
    for _ in range(3):
        items = client.poll(topic)
        leases += [item.lease_id for item in items]
        client.ok(nack_many=place(topic, lease_ids=[item.lease_id for item in items]))
    assert all(first < second for first, second in pairwise(leases))
