"""What the queue protocol tells of topics and groups, and messages in bulk."""

import threading
from array import array
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.queue_door_bench import (
    GROUP,
    TOPIC,
    Bench,
    ack,
    delete_topic,
    poll,
    produce,
    stats,
)

from penstock.doors.queue import fetch as fetch_module
from penstock.doors.queue import listing
from penstock.model import columns
from penstock.store.batch import Batch
from penstock.trust.keys import Key
from penstock.wire.queue._generated import queue_pb2 as wire
from penstock.wire.queue.slices import columns_of

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def payloads_of(fetched):
    found = []
    for part in map(columns_of, fetched.slices):
        bounds = array("I", part.bounds)
        found += [
            part.blob[bounds[n] - bounds[0] : bounds[n + 1] - bounds[0]] for n in range(part.count)
        ]
    return found


async def filled(bench, count, topic=TOPIC):
    peer = bench.peer()
    for number in range(count):
        peer.send(produce(b"%d" % number, topic=topic))
        await bench.rest()
    return peer


def fetch(**fields):
    return wire.Request(fetch=wire.Fetch(topic=TOPIC, **fields))


# ── in bulk


async def test_messages_are_fetched_in_columns_from_an_offset_to_another(bench):
    peer = await filled(bench, 6)
    fetched = (await peer.ask(fetch(offset=2, end_offset=5))).fetched
    assert payloads_of(fetched) == [b"2", b"3", b"4"]
    assert (fetched.first_offset, fetched.end_offset, fetched.next_offset) == (0, 6, 5)
    assert fetched.incarnation == bench.store.topic(TOPIC.encode()).id


@pytest.mark.parametrize("bound", [{"max_messages": 2}, {"max_bytes": 2}])
async def test_a_fetch_says_where_to_go_on(bench, bound):
    peer = await filled(bench, 5)
    found, offset = [], 0
    while offset < 5:
        fetched = (await peer.ask(fetch(offset=offset, **bound))).fetched
        found.append(payloads_of(fetched))
        offset = fetched.next_offset
    assert found == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


async def test_a_fetch_passes_over_what_was_deleted_and_not_over_its_end(bench):
    peer = bench.peer()
    peer.send(*[produce(b"%d" % number) for number in range(8)])
    await bench.rest()
    bench.store.delete(TOPIC.encode(), [1, 2])
    fetched = (await peer.ask(fetch(end_offset=5))).fetched
    assert payloads_of(fetched) == [b"0", b"3", b"4"]
    assert fetched.next_offset == 5


async def test_there_is_nothing_to_fetch_beyond_the_end_or_of_no_topic(bench):
    peer = await filled(bench, 2)
    beyond = (await peer.ask(fetch(offset=9))).fetched
    assert (beyond.next_offset, beyond.end_offset, len(beyond.slices)) == (9, 2, 0)
    nothing = (await peer.ask(wire.Request(fetch=wire.Fetch(topic="none")))).fetched
    assert nothing == wire.Fetched()


async def test_a_topic_made_anew_is_told_by_its_incarnation(bench):
    peer = await filled(bench, 2)
    before = (await peer.ask(fetch())).fetched
    await peer.ask(delete_topic())
    await peer.ask(produce(b"new"))
    after = (await peer.ask(fetch())).fetched
    assert before.incarnation != after.incarnation
    assert payloads_of(after) == [b"new"]


async def test_what_was_read_of_a_topic_that_is_gone_by_then_is_not_sent(bench, monkeypatch):
    peer = await filled(bench, 2)
    infos = iter([bench.store.topic(TOPIC.encode()), None])
    monkeypatch.setattr(bench.store, "topic", lambda _name: next(infos))
    assert (await peer.ask(fetch())).fetched == wire.Fetched()


async def test_a_client_has_one_response_in_bulk_to_read_at_a_time(bench):
    peer = await filled(bench, 3)
    peer.stop_reading()
    peer.send(fetch(), fetch(), stats())
    await bench.rest()
    assert len(peer.connection.disk_reads._waiting) == 2
    peer.read_on()
    await bench.rest()
    assert peer.kinds()[3:] == ["fetched", "fetched", "stats"]


async def test_times_are_found_in_a_topic(bench):
    peer = bench.peer()
    for payload in (b"0", b"1"):
        await peer.ask(produce(payload))
        bench.clock.advance(10)
    start_ms = bench.clock.wall_ms() - 20_000
    times = [0, start_ms, start_ms + 1, start_ms + 99_000]
    located = (
        await peer.ask(wire.Request(locate=wire.Locate(topic=TOPIC, times_ms=times)))
    ).located
    assert list(located.offsets) == [0, 0, 1, 2]
    assert (located.first_offset, located.end_offset) == (0, 2)


async def test_a_locate_that_takes_many_steps_has_all_answers_in_order(bench, monkeypatch):
    monkeypatch.setattr(fetch_module, "TIMES_AT_ONCE", 2)
    peer = await filled(bench, 12)
    now_ms = bench.clock.wall_ms()
    times = [now_ms, 0, now_ms + 1, 0, now_ms + 1]
    measures = [wire.Measure(offset=offset, bytes=1) for offset in (4, 2, 3)]
    asked = wire.Locate(topic=TOPIC, times_ms=times, measures=measures)
    located = (await peer.ask(wire.Request(locate=asked))).located
    assert list(located.offsets) == [0, 0, 12, 0, 12]
    assert list(located.reaches) == [5, 3, 4]


async def test_a_locate_begins_again_if_the_topic_is_made_anew_meanwhile(bench, monkeypatch):
    peer = await filled(bench, 12)
    measure, seen = bench.store.measure, []

    def measured(topic, offset, size):
        seen.append(offset)
        if len(seen) == 2:
            batch = Batch()
            batch.drop(topic)
            batch.append(topic, [b"x", b"y"], 1, 0)
            bench.store.commit(batch)
        return measure(topic, offset, size)

    monkeypatch.setattr(bench.store, "measure", measured)
    measures = [wire.Measure(bytes=99)] * 3
    asked = wire.Locate(topic=TOPIC, measures=measures)
    located = (await peer.ask(wire.Request(locate=asked))).located
    assert list(located.reaches) == [2, 2, 2]
    assert located.incarnation == bench.store.topic(TOPIC.encode()).id


async def test_nobody_who_reads_waits_for_those_who_search(bench, monkeypatch):
    """Not even for as many as there are threads, for each of them takes its time."""
    searching = await filled(bench, 1)
    go_on = threading.Event()
    monkeypatch.setattr(bench.store, "measure", lambda *_arguments: go_on.wait(10) and 1)
    peers = [bench.peer() for _ in range(5)]
    for peer in peers:
        peer.send(wire.Request(locate=wire.Locate(topic=TOPIC, measures=[wire.Measure()])))
    try:
        fetched = await searching.ask(wire.Request(fetch=wire.Fetch(topic=TOPIC)))
        assert fetched.fetched.end_offset == 1
        assert not any(peer.heard() for peer in peers)
    finally:
        go_on.set()
        await bench.rest()


# ── topics


def list_topics(**fields):
    return wire.Request(list_topics=wire.ListTopics(**fields))


def list_groups(**fields):
    return wire.Request(list_groups=wire.ListGroups(**fields))


async def test_topics_are_listed_whether_they_were_made_or_only_have_messages(bench):
    peer = await filled(bench, 2, topic="b")
    await peer.ask(wire.Request(create_topic=wire.CreateTopic(topic="a")))
    bench.push(b"m", topic=b"c")  # through another door
    await bench.rest()
    topics = (await peer.ask(list_topics())).topics.topics
    assert [(t.name, t.messages, t.keep) for t in topics] == [
        ("a", 0, False),
        ("b", 2, False),
        ("c", 1, True),
    ]


async def test_topics_come_in_pages(bench, monkeypatch):
    monkeypatch.setattr(listing, "PAGE_MAX", 2)
    peer = bench.peer()
    for name in ("x", "a3", "a1", "a2", "b"):
        await peer.ask(wire.Request(create_topic=wire.CreateTopic(topic=name)))
    first = (await peer.ask(list_topics(prefix="a", max=9))).topics
    second = (await peer.ask(list_topics(prefix="a", after="a2"))).topics
    assert [t.name for t in first.topics] == ["a1", "a2"]
    assert [t.name for t in second.topics] == ["a3"]
    assert (first.more, second.more) == (True, False)


async def test_one_topic_is_described_with_its_settings(bench):
    peer = await filled(bench, 3)
    settings = {"rate_per_sec": 0.5, "burst": 4, "max_messages": 2, "max_age_ms": 9, "keep": True}
    configure = wire.ConfigureTopic(topic=TOPIC, **settings)
    await peer.ask(wire.Request(configure_topic=configure))
    await peer.ask(poll())
    (topic,) = (await peer.ask(list_topics(name=TOPIC))).topics.topics
    assert {name: getattr(topic, name) for name in settings} == settings
    assert (topic.end_offset, topic.messages, topic.groups, topic.bytes) == (3, 2, 1, 3)
    assert not (await peer.ask(list_topics(name="none"))).topics.topics


async def test_only_settings_that_are_given_change(bench):
    peer = bench.peer()
    limit = wire.SetRateLimit(topic=TOPIC, rate_per_sec=2, burst=3)
    await peer.ask(wire.Request(set_rate_limit=limit))
    retention = wire.SetRetention(topic=TOPIC, max_messages=10, max_bytes=2**64 - 1)
    await peer.ask(wire.Request(set_retention=retention))
    await peer.ask(wire.Request(configure_topic=wire.ConfigureTopic(topic=TOPIC, burst=9)))
    (topic,) = (await peer.ask(list_topics(name=TOPIC))).topics.topics
    assert (topic.rate_per_sec, topic.burst, topic.max_messages) == (2, 9, 10)


# ── as the journal has it


async def test_columns_are_fetched_as_the_journal_has_them(bench):
    peer = await filled(bench, 6)
    plain = (await peer.ask(fetch(offset=2, end_offset=5))).fetched
    raw = (await peer.ask(fetch(offset=2, end_offset=5, columns=columns.ALL))).fetched
    assert payloads_of(raw) == payloads_of(plain) == [b"2", b"3", b"4"]
    for field in ("incarnation", "first_offset", "end_offset", "next_offset"):
        assert getattr(raw, field) == getattr(plain, field)


async def test_a_raw_answer_has_the_bytes_that_the_library_would_write(bench):
    peer = bench.peer()
    header = wire.Header(name="n", value=b"v")
    peer.send(
        produce(b"a", headers=[header], delay_ms=5, producer_id="p", seq=1, priority=3),
        produce(b"", content_type=2),
    )
    await bench.rest()
    peer.heard()
    asked = fetch(columns=columns.ALL)
    asked.request_id = 300
    peer.send(asked)
    await bench.rest()
    body = peer.transport.written[4:]
    answer = wire.Response.FromString(body)
    assert answer.SerializeToString() == body
    part = answer.fetched.slices[0]
    assert (part.header_texts, part.producer_names) == (b"nv", b"p")
    assert part.schedule_due
    assert not part.extras
    assert not part.producers


async def test_an_answer_with_raw_columns_is_small_whatever_was_asked_for(bench, monkeypatch):
    monkeypatch.setattr(fetch_module, "RAW_BYTES_MAX", 3)
    peer = await filled(bench, 6)
    for bound in ({}, {"max_bytes": 100}):
        raw = (await peer.ask(fetch(columns=columns.PAYLOADS, **bound))).fetched
        assert payloads_of(raw) == [b"0", b"1", b"2"]
        assert raw.next_offset == 3


async def test_no_columns_are_fetched_of_no_topic(bench):
    peer = bench.peer()
    raw = (await peer.ask(fetch(columns=columns.ALL))).fetched
    assert raw == wire.Fetched()


async def test_columns_of_a_topic_that_was_made_anew_meanwhile_are_those_of_the_new_one(bench):
    peer = await filled(bench, 3)
    reading, before = bench.store.read_raw, bench.store.topic(TOPIC.encode()).id

    def read_raw(*arguments):
        bench.store.read_raw = reading
        found = reading(*arguments)
        batch = Batch()
        batch.drop(TOPIC.encode())
        batch.append(TOPIC.encode(), [b"new"], 1, 0, None)
        bench.store.commit(batch)
        return found

    bench.store.read_raw = read_raw
    raw = (await peer.ask(fetch(columns=columns.ALL))).fetched
    assert payloads_of(raw) == [b"new"]
    assert raw.incarnation not in {0, before}


async def test_how_far_bytes_reach_is_told_for_each_measure(bench):
    peer = await filled(bench, 12)
    measures = [wire.Measure(offset=o, bytes=b) for o, b in ((0, 3), (9, 3), (5, 0), (0, 99))]
    asked = wire.Locate(topic=TOPIC, measures=measures)
    located = (await peer.ask(wire.Request(locate=asked))).located
    assert list(located.reaches) == [3, 11, 6, 12]
    too_many = wire.Locate(topic=TOPIC, measures=measures * 5)
    assert (await peer.ask(wire.Request(locate=too_many))).error.code == "limit"


async def test_keys_are_told_in_pages_with_what_verifies_and_no_more(bench):
    peer = bench.peer()
    for key_id in (3, 1, 2):
        bench.parts.broker.keys.put(Key(key_id, bytes(32), "device", "secret/#", 5, 6, 7))
    asked = wire.Request(list_keys=wire.ListKeys(max=2))
    page = (await peer.ask(asked)).keys
    assert [key.id for key in page.keys] == [1, 2]
    assert page.more
    asked.list_keys.after = 2
    (key,) = (await peer.ask(asked)).keys.keys
    assert key == wire.Key(id=3, public_key=bytes(32), created_ms=5, expires_ms=6, revoked_ms=7)


# ── readers


def create_reader(topic=TOPIC, **fields):
    made = wire.CreateGroup(topic=topic, group="spark", reader=True, **fields)
    return wire.Request(create_group=made)


async def groups_of(peer):
    return list(
        (await peer.ask(wire.Request(list_groups=wire.ListGroups(topic=TOPIC)))).groups.groups
    )


async def test_a_reader_is_listed_with_its_start_and_its_lag(bench):
    peer = await filled(bench, 5)
    await peer.ask(create_reader(start=wire.OFFSET, start_value=2))
    (group,) = await groups_of(peer)
    assert (group.reader, group.start, group.position, group.lag) == (True, 2, 2, 3)
    commit = wire.Commit(topic=TOPIC, group="spark", offset=4)
    await peer.ask(wire.Request(commit=commit))
    (group,) = await groups_of(peer)
    assert (group.reader, group.start, group.position, group.lag) == (True, 2, 4, 1)
    await peer.ask(create_reader(start=wire.LATEST))
    assert (await groups_of(peer))[0].start == 2, "one that exists stays where it is"
    await peer.ask(create_reader(start=wire.OFFSET, start_value=1, seek=True))
    (group,) = await groups_of(peer)
    assert (group.reader, group.start, group.lag) == (True, 1, 4)


async def test_a_group_that_works_does_not_become_a_reader(bench):
    peer = await filled(bench, 1)
    await peer.ask(wire.Request(create_group=wire.CreateGroup(topic=TOPIC, group="spark")))
    assert (await peer.ask(create_reader())).error.code == "bad_request"
    assert (await peer.ask(create_reader(seek=True))).error.code == "bad_request"
    assert not (await groups_of(peer))[0].reader


async def test_what_readers_have_read_is_not_done_and_what_they_have_not_stays(bench):
    peer = await filled(bench, 4)
    topic, dispatchers = TOPIC.encode(), bench.dispatchers

    def finished():
        return dispatchers.topics.limits.finished(dispatchers.topics.info(topic))

    await peer.ask(create_reader())
    await peer.ask(wire.Request(commit=wire.Commit(topic=TOPIC, group="spark", offset=3)))
    assert finished() == 0
    await peer.ask(wire.Request(commit=wire.Commit(topic=TOPIC, group=GROUP, offset=4)))
    assert finished() == 3, "the reader has not read the last"
    await peer.ask(wire.Request(commit=wire.Commit(topic=TOPIC, group="spark", offset=4)))
    assert finished() == 4
    await peer.ask(wire.Request(delete_group=wire.DeleteGroup(topic=TOPIC, group=GROUP)))
    assert finished() == 4, "what was done stays done"


# ── groups


async def test_groups_are_listed_with_what_they_have_to_do(bench):
    peer = await filled(bench, 4)
    (first, *_) = (await peer.ask(poll(max=3))).polled.items
    await peer.ask(ack(first.lease_id))
    configure = wire.ConfigureGroup(topic=TOPIC, group=GROUP, max_deliveries=5, backoff_ms=7)
    await peer.ask(wire.Request(configure_group=configure))
    (group,) = (await peer.ask(list_groups(topic=TOPIC))).groups.groups
    assert (group.topic, group.name) == (TOPIC, GROUP)
    assert (group.position, group.lag, group.in_flight) == (1, 3, 2)
    assert (group.max_deliveries, group.backoff_ms, group.consumers) == (5, 7, 0)


async def test_groups_of_all_topics_come_in_pages(bench, monkeypatch):
    monkeypatch.setattr(listing, "PAGE_MAX", 2)
    peer = bench.peer()
    made = [("b", "1"), ("a", "2"), ("a", "1"), ("a", "3"), ("c", "1")]
    for topic, group in made:
        create = wire.CreateGroup(topic=topic, group=group)
        await peer.ask(wire.Request(create_group=create))
    found, more, after = [], True, {}
    while more:
        page = (await peer.ask(list_groups(**after))).groups
        found.append([(group.topic, group.name) for group in page.groups])
        after = {"after_topic": found[-1][-1][0], "after_group": found[-1][-1][1]}
        more = page.more
    assert found == [[("a", "1"), ("a", "2")], [("a", "3"), ("b", "1")], [("c", "1")]]


async def test_a_group_is_moved_and_deleted(bench):
    peer = await filled(bench, 3)
    await peer.ask(poll(ack_mode="auto"))
    await bench.rest()
    place = {"topic": TOPIC, "group": GROUP, "start": wire.OFFSET, "start_value": 1}
    await peer.ask(wire.Request(create_group=wire.CreateGroup(**place)))
    assert not (await peer.ask(poll())).polled.items
    await peer.ask(wire.Request(create_group=wire.CreateGroup(**place, seek=True)))
    assert [item.offset for item in (await peer.ask(poll())).polled.items] == [1, 2]
    await peer.ask(wire.Request(delete_group=wire.DeleteGroup(topic=TOPIC, group=GROUP)))
    assert not list(bench.parts.broker.groups)
    gone = wire.DeleteGroup(topic=TOPIC, group=GROUP)
    assert (await peer.ask(wire.Request(delete_group=gone))).HasField("ok")


async def test_dead_letters_are_read_and_sent_back(bench):
    peer = await filled(bench, 1)
    names = {"topic": TOPIC, "group": GROUP}
    configure = wire.ConfigureGroup(**names, max_deliveries=1)
    await peer.ask(wire.Request(configure_group=configure))
    (item,) = (await peer.ask(poll())).polled.items
    nack = wire.Nack(**names, lease_id=item.lease_id, reason="too hot")
    await peer.ask(wire.Request(nack=nack))
    await bench.rest()
    (letter,) = (await peer.ask(poll(topic=f"$dlq/{TOPIC}/{GROUP}", group="reader"))).polled.items
    assert b"too hot" in [header.value for header in letter.headers]
    redriven = (await peer.ask(wire.Request(redrive=wire.Redrive(**names)))).redriven
    assert redriven.count == 1
    assert [item.payload for item in (await peer.ask(poll())).polled.items] == [b"0"]


async def test_what_a_worker_gives_up_is_a_dead_letter_at_once(bench):
    """In a group without a limit of deliveries, and each with its own reason."""
    peer = await filled(bench, 3)
    names = {"topic": TOPIC, "group": GROUP}
    one, two, _ = (await peer.ask(poll(max=3))).polled.items
    nack = wire.Nack(**names, lease_id=one.lease_id, reason="no such pump", dead_letter=True)
    await peer.ask(wire.Request(nack=nack))
    back = wire.NackMany(**names, lease_ids=[two.lease_id], delay_ms=9_000, dead_letter=True)
    await peer.ask(wire.Request(nack_many=back))
    await bench.rest()
    letters = poll(topic=f"$dlq/{TOPIC}/{GROUP}", group="reader", max=9)
    found = [
        (letter.payload, {header.name: header.value for header in letter.headers})
        for letter in (await peer.ask(letters)).polled.items
    ]
    reasons = [(body, head["dlq-reason"], head["dlq-attempts"]) for body, head in found]
    assert reasons == [(b"0", b"no such pump", b"1"), (b"1", b"", b"1")]
    assert bench.parts.broker.groups.get(TOPIC.encode(), GROUP.encode()).in_flight == 1


async def test_what_failed_often_enough_by_a_new_rule_is_a_dead_letter_at_once(bench):
    peer = await filled(bench, 1)
    names = {"topic": TOPIC, "group": GROUP}
    (item,) = (await peer.ask(poll())).polled.items
    await peer.ask(wire.Request(nack=wire.Nack(**names, lease_id=item.lease_id)))
    configure = wire.ConfigureGroup(**names, max_deliveries=1)
    await peer.ask(wire.Request(configure_group=configure))
    await bench.rest()
    assert bench.store.topic(f"$dlq/{TOPIC}/{GROUP}".encode()).next_offset == 1


# ── the whole


async def test_a_single_broker_is_a_cluster_of_one_that_leads(bench):
    peer = await filled(bench, 3)
    nodes = [wire.Node(id=5, peer_addr="somewhere:1")]
    assert (await peer.ask(wire.Request(bootstrap=wire.Bootstrap(nodes=nodes)))).HasField("ok")
    await peer.ask(poll(max=2))
    told = (await peer.ask(stats())).stats
    assert (told.current_leader, told.current_term, told.is_leader) == (1, 1, True)
    assert told.last_applied == told.last_log_index == bench.store.next_index - 1
    assert (told.topics, told.messages, told.in_flight) == (1, 3, 2)


async def test_many_topics_and_groups_are_counted_in_several_turns(bench, monkeypatch):
    monkeypatch.setattr(listing, "COUNTED_AT_ONCE", 2)
    peer = bench.peer()
    for topic in ("a", "b", "c", "d", "e"):
        await peer.ask(produce(topic=topic))
        await peer.ask(poll(topic=topic))
    told = (await peer.ask(stats())).stats
    assert (told.topics, told.messages, told.in_flight) == (5, 5, 5)


async def test_bulk_reads_are_bounded_whatever_is_asked_for(bench, monkeypatch):
    monkeypatch.setattr(fetch_module, "MESSAGES_MAX", 2)
    peer = await filled(bench, 3)
    fetched = (await peer.ask(fetch(max_messages=2**32 - 1))).fetched
    assert len(payloads_of(fetched)) == 2
