"""Which topics there are, by filters, and which of them have changed since."""

import threading
from collections import deque
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.queue_door_bench import Bench, delete_topic, produce, stats

from penstock.doors.queue import changes as door_module
from penstock.doors.queue import topic_filters
from penstock.doors.queue.poll import WAIT_MS_MAX
from penstock.doors.queue.topic_filters import TopicFilters
from penstock.net import turns
from penstock.reading import changes as changes_module
from penstock.reading.changes import INCARNATION_BITS, Changes
from penstock.store.batch import Batch
from penstock.wire.queue._generated import queue_pb2 as wire

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def changes(*filters, request_id=0, **fields):
    return wire.Request(changes=wire.Changes(filters=filters, **fields), request_id=request_id)


def names(changed):
    return [topic.name for topic in changed.topics]


async def filled(bench, *topics):
    peer = bench.peer()
    for topic in topics:
        peer.send(produce(topic=topic))
        await bench.rest()
    return peer


async def ask(peer, *filters, **fields):
    return (await peer.ask(changes(*filters, **fields))).changed


# ── the list of all


async def test_the_first_answer_lists_what_filters_match_by_name(bench):
    peer = await filled(bench, "b/2", "a", "b/1", "c/1/x")
    assert names(await ask(peer, "b/+", "c/#")) == ["b/1", "b/2", "c/1/x"]
    assert names(await ask(peer)) == ["a", "b/1", "b/2", "c/1/x"]
    assert names(await ask(peer, "a", "none")) == ["a"]


async def test_a_filter_for_all_below_a_level_lists_the_level_itself(bench):
    peer = await filled(bench, "b", "b/1", "bc")
    assert names(await ask(peer, "b/#")) == ["b", "b/1"]


async def test_a_topic_is_told_with_its_offsets_and_its_size(bench):
    peer = await filled(bench, "t", "t")
    bench.store.trim(b"t", 1)
    (topic,) = (await ask(peer, "t")).topics
    info = bench.store.topic(b"t")
    assert (topic.incarnation, topic.first_offset, topic.end_offset) == (info.id, 1, 2)
    assert (topic.messages, topic.bytes) == (1, info.bytes)


async def test_a_list_comes_in_pages(bench):
    peer = await filled(bench, *[f"t/{number}" for number in range(5)])
    found, after, more = [], "", True
    while more:
        page = await ask(peer, "t/+", max=2, after=after)
        found.append(names(page))
        after, more = found[-1][-1], page.more
    assert found == [["t/0", "t/1"], ["t/2", "t/3"], ["t/4"]]


async def test_plain_names_come_in_pages_too(bench):
    peer = await filled(bench, "a", "b", "c")
    assert names(await ask(peer, "c", "a", "b", max=2)) == ["a", "b"]
    assert names(await ask(peer, "c", "a", "b", max=2, after="b")) == ["c"]


async def test_the_brokers_own_topics_are_told_by_name_and_those_of_stages_never(bench):
    peer = await filled(bench, "a")
    for topic in (b"$dlq/a/g", b"$stage/s/1/p"):
        bench.parts.pipeline.publish(topic, [b"x"], 1, qos=1, retain=False)
        await bench.rest()
    known = await ask(peer)
    assert names(known) == ["a"]
    assert names(await ask(peer, "$dlq/#", "$stage/#", "$stage/s/1/p")) == ["$dlq/a/g"]


async def test_a_topic_that_never_had_a_message_is_not_there(bench):
    peer = bench.peer()
    await peer.ask(wire.Request(create_topic=wire.CreateTopic(topic="made")))
    assert names(await ask(peer, "made")) == []


@pytest.mark.parametrize("topic_filter", ["a/#/b", "a+", ""])
async def test_what_is_no_filter_is_refused(bench, topic_filter):
    peer = bench.peer()
    assert (await peer.ask(changes(topic_filter))).error.code == "bad_request"


async def test_there_may_not_be_too_many_filters(bench):
    peer = bench.peer()
    filters = [f"t/{number}" for number in range(door_module.FILTERS_MAX + 1)]
    assert (await peer.ask(changes(*filters))).error.code == "limit"
    assert not names(await ask(peer, *filters[1:]))


# ── what has changed


async def test_afterwards_only_what_was_written_to_is_told(bench):
    peer = await filled(bench, "a", "b", "c")
    known = await ask(peer, "#")
    peer.send(produce(topic="b"), produce(topic="new"))
    await bench.rest()
    changed = await ask(peer, "#", after_sequence=known.sequence)
    assert names(changed) == ["b", "new"]
    assert changed.topics[0].end_offset == 2
    assert names(await ask(peer, "#", after_sequence=changed.sequence)) == []


async def test_what_no_filter_matches_is_not_told(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "b/#")
    await filled(bench, "a", "b/1")
    assert names(await ask(peer, "b/#", after_sequence=known.sequence)) == ["b/1"]
    assert names(await ask(peer, "a", after_sequence=known.sequence)) == ["a"]


async def test_what_is_written_while_the_list_is_read_comes_with_the_next_answer(bench):
    peer = await filled(bench, "a")
    other = bench.peer()
    reading = bench.store.topics

    def topics(*arguments):
        found = list(reading(*arguments))
        bench.loop.call_soon_threadsafe(other.send, produce(topic="b"))
        return iter(found)

    bench.store.topics = topics
    known = await ask(peer, "#")
    bench.store.topics = reading
    assert names(known) == ["a"]
    await bench.rest()
    assert names(await ask(peer, "#", after_sequence=known.sequence)) == ["b"]


async def test_a_topic_that_was_deleted_is_told_as_such_and_one_made_anew_with_another_incarnation(
    bench,
):
    peer = await filled(bench, "a", "b")
    known = await ask(peer, "#")
    peer.send(delete_topic("a"), delete_topic("b"), produce(topic="b"))
    await bench.rest()
    changed = await ask(peer, "#", after_sequence=known.sequence)
    assert list(changed.deleted) == ["a"]
    assert names(changed) == ["b"]
    assert changed.topics[0].incarnation not in {topic.incarnation for topic in known.topics}


async def test_changes_come_in_pages_too(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "#")
    await filled(bench, "c", "b", "a")
    first = await ask(peer, "#", after_sequence=known.sequence, max=2)
    assert (names(first), first.more) == (["a", "b"], True)
    second = await ask(peer, "#", after_sequence=known.sequence, max=2, after="b")
    assert (names(second), second.more) == (["c"], False)


async def test_a_number_of_another_life_means_to_begin_again(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "#")
    for number in (1, known.sequence - 1, known.sequence + 1):
        assert (await ask(peer, "#", after_sequence=number, wait_ms=1000)).again
    assert not (await ask(peer, "#", after_sequence=known.sequence)).again


async def test_what_nobody_asked_for_is_not_remembered(bench):
    first = await filled(bench, "a")
    known = await ask(first, "#")
    first.connection.connection_lost(None)
    second = await filled(bench, "b")
    await ask(second, "#")
    assert (await ask(second, "#", after_sequence=known.sequence)).again


async def test_only_so_many_topics_are_remembered(bench, monkeypatch):
    monkeypatch.setattr(changes_module, "TOPICS_MAX", 3)
    peer = await filled(bench, "a")
    known = await ask(peer, "#")
    await filled(bench, "b", "c", "d")
    assert names(await ask(peer, "#", after_sequence=known.sequence)) == ["b", "c", "d"]
    await filled(bench, "e")
    assert (await ask(peer, "#", after_sequence=known.sequence)).again


async def test_as_many_topics_are_judged_anew_as_are_remembered(bench, monkeypatch):
    monkeypatch.setattr(topic_filters, "REMEMBERED_MAX", 2)
    peer = await filled(bench, "a", "b", "c")
    assert names(await ask(peer, "+")) == ["a", "b", "c"]
    assert len(peer.connection.filters._matches) <= 2


# ── waiting


async def test_a_request_waits_for_the_first_change_that_it_is_for(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=5000, request_id=9))
    heard = len(peer.heard())
    await filled(bench, "b")
    assert len(peer.heard()) == heard
    assert (await peer.ask(stats())).WhichOneof("kind") == "stats", "others do not wait for it"
    await filled(bench, "a")
    answer = peer.heard()[-1]
    assert (answer.request_id, names(answer.changed)) == (9, ["a"])
    assert answer.changed.sequence > known.sequence


async def test_a_request_waits_no_longer_than_it_said(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=5000))
    heard = len(peer.heard())
    await bench.wait(4.9)
    assert len(peer.heard()) == heard
    await bench.wait(0.2)
    changed = peer.heard()[-1].changed
    assert (names(changed), changed.again) == ([], False)
    assert changed.sequence >= known.sequence


async def test_a_request_waits_no_longer_than_a_poll_may(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=2**40))
    await bench.wait(WAIT_MS_MAX / 1000 + 1)
    assert peer.kinds()[-1] == "changed"


async def test_who_leaves_waits_for_nothing_more(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=5000))
    await bench.rest()
    assert bench.parts.changes._watchers
    peer.connection.connection_lost(None)
    assert not bench.parts.changes._watchers
    assert not bench.parts.changes._last


async def test_who_asks_nothing_more_is_answered_at_once(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=5000))
    assert peer.connection.eof_received()
    await bench.rest()
    assert peer.kinds()[-1] == "changed"
    assert peer.transport.is_closed


async def test_a_request_without_an_id_sees_what_was_produced_before_it(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "#")
    peer.send(produce(topic="b"), changes("#", after_sequence=known.sequence))
    await bench.rest()
    assert names(peer.heard()[-1].changed) == ["b"]


async def test_an_answer_waits_until_the_client_reads(bench):
    peer = await filled(bench, "a")
    peer.stop_reading()
    peer.send(changes("#"))
    await bench.rest()
    peer.read_on()
    await bench.rest()
    assert peer.kinds()[-1] == "changed"


async def test_a_request_with_an_old_number_waits_if_nothing_since_is_for_it(bench):
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    await filled(bench, "b", "c")
    peer.send(changes("a", after_sequence=known.sequence, wait_ms=5000))
    heard = len(peer.heard())
    await bench.rest()
    assert len(peer.heard()) == heard
    await filled(bench, "a")
    assert names(peer.heard()[-1].changed) == ["a"]


async def test_what_changed_long_since_is_not_looked_through_on_the_loop(bench, monkeypatch):
    peer = await filled(bench, "a")
    known = await ask(peer, "none")
    await filled(bench, "b", "c")
    threads, match = set(), TopicFilters.match

    def judged(self, topic):
        threads.add(threading.current_thread())
        return match(self, topic)

    monkeypatch.setattr(TopicFilters, "match", judged)
    assert names(await ask(peer, "+", after_sequence=known.sequence)) == ["b", "c"]
    assert threads
    assert threading.current_thread() not in threads


async def test_a_connection_has_only_so_many_requests_that_wait(bench, monkeypatch):
    monkeypatch.setattr(door_module, "WATCHES_MAX", 2)
    peer = await filled(bench, "a")
    known = await ask(peer, "a")
    for number in (1, 2, 3):
        asked = changes("a", after_sequence=known.sequence, wait_ms=5000, request_id=number)
        peer.send(asked)
    await bench.rest()
    refused = peer.heard()[-1]
    assert (refused.request_id, refused.error.code) == (3, "limit")
    await filled(bench, "a")
    assert [answer.request_id for answer in peer.heard()[-2:]] == [1, 2]
    assert names(await ask(peer, "a", after_sequence=known.sequence)) == ["a"]


async def test_many_who_wait_are_asked_in_turns(bench, monkeypatch):
    taken, real = [], turns.Turns.run

    def run(self, work):
        taken.append(work)
        real(self, work)

    monkeypatch.setattr(turns, "TURN_S", -1)
    peers = [await filled(bench, "a") for _ in range(20)]
    for peer in peers:
        known = await ask(peer, "none", "new/9")
        peer.send(changes("none", "new/9", after_sequence=known.sequence, wait_ms=5000))
    await bench.rest()
    monkeypatch.setattr(turns.Turns, "run", run)
    bench.peer().send(*[produce(topic=f"new/{number}") for number in range(10)])
    await bench.rest()
    while any(not peer.heard() or peer.kinds()[-1] != "changed" for peer in peers):
        await bench.rest()
    assert all(names(peer.heard()[-1].changed) == ["new/9"] for peer in peers)
    assert len(taken) >= len(peers), "all were asked in one turn"


# ── numbers


async def test_a_later_life_knows_no_number_of_an_earlier_one_unless_nothing_was_written():
    def written(life, count):
        for number in range(count):
            batch = Batch()
            batch.append(b"%d" % number, [b"x"], 1, 0, None)
            life.committed(batch)

    first = Changes(1_000, 5, deque)
    first.join("somebody")
    begun = first.number
    written(first, 3)
    assert first.since(begun) == [b"2", b"1", b"0"]
    for started_ms in (1_000, 1_001, 999):
        later = Changes(started_ms, 8, deque)
        later.join("somebody")
        written(later, 2)
        assert later.since(begun) is None
    assert Changes(1_000, 8, deque).since(first.number) == []
    assert begun >> INCARNATION_BITS == 1_000


class _Watcher:
    """Waits for one topic, or for any."""

    def __init__(self, act, topic=None):
        self.grown, self._topic, self.asked = act, topic, []

    def wants(self, topic):
        self.asked.append(topic)
        return self._topic in {None, topic}


async def test_one_watchers_trouble_is_its_own():
    life = Changes(1, 1, deque)
    life.join("somebody")
    told = []
    for act in (lambda: 1 / 0, lambda: told.append(b"t")):
        life.watch(_Watcher(act), life.number)
    batch = Batch()
    batch.append(b"t", [b"x"], 1, 0, None)
    life.committed(batch)
    assert told == [b"t"]


def committed(life, *topics):
    batch = Batch()
    for topic in topics:
        batch.append(topic, [b"x"], 1, 0, None)
    life.committed(batch)


async def test_a_watcher_is_asked_about_each_topic_once_however_long_a_round_takes():
    works = []
    life = Changes(1, 1, works.append)
    life.join("somebody")
    first, late, gone = (_Watcher(lambda: None, topic=b"none") for _ in range(3))
    life.watch(first, life.number)
    life.watch(gone, life.number)
    committed(life, b"a", b"b")
    (work,) = works
    next(work)  # the first is being asked
    life.watch(late, life.number - 1)
    life.unwatch(gone)
    committed(life, b"c")
    deque(work)
    assert len(works) == 1, "two rounds at once"
    assert first.asked == [b"b", b"a", b"c"]
    assert sorted(late.asked) == [b"a", b"b", b"c"]
    assert gone.asked == []
    committed(life, b"d")
    deque(works[1])
    assert first.asked[3:] == late.asked[3:] == [b"d"]
