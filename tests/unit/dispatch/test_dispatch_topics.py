"""Topics that end while their dispatchers are at work: nothing old is handed out, nothing new missed."""

import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns, until
from tests.benches.dispatch_bench import GROUP, LEASE_MS, TOPIC, Bench, Told, Worker, numbered

from penstock.commit.produce import ProducedMessages
from penstock.dispatch import priorities as priorities_module
from penstock.dispatch.groups import Start, StartAt
from penstock.errors import StorageFull

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture(params=["sync", "interval"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    made = Bench(durability=request.param, durability_interval_ms=1)
    yield made
    await made.close()


class Stored:
    """An outlet that notes where messages lie."""

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []

    def done(self, stretches: list[tuple[int, int]]) -> None:
        self.stretches += stretches

    def refused(self, *_reason: object) -> None:
        raise AssertionError


async def stored(bench: Bench, count: int) -> None:
    """Have messages on disk, of a topic that is rid of what every group has finished."""
    bench.dispatchers.topics.ensure(TOPIC)
    bench.push(*numbered(count))
    await bench.rest()


async def finished(bench: Bench) -> None:
    """Have another group finish all that there is."""
    bench.dispatchers.groups.commit(TOPIC, b"first", 3, Told())
    await bench.rest()


async def held(bench: Bench) -> None:
    """Have a commit under way that does not end before the gate opens."""
    bench.store.gate.clear()
    attempts = bench.store.attempts
    bench.push(b"other", topic=b"other")
    await until(lambda: bench.store.attempts > attempts)


async def released(bench: Bench) -> None:
    bench.store.gate.set()
    await bench.rest()


@pytest.mark.parametrize("start", [Start(), Start(StartAt.LATEST), Start(StartAt.OFFSET, 2)])
async def test_a_group_made_while_its_topic_ends_begins_with_the_next(bench, start):
    await stored(bench, 3)
    await finished(bench)
    await held(bench)
    bench.dispatchers.topics.delete(TOPIC, Told())
    bench.dispatchers.groups.create(TOPIC, GROUP, start, Told())
    await turns()
    await released(bench)
    worker = Worker("w")
    bench.join(worker)
    bench.push(b"new")
    await bench.rest()
    assert worker.payloads == [b"new"]


async def test_a_worker_that_comes_while_the_topic_ends_gets_what_comes_next(bench):
    await stored(bench, 3)
    await finished(bench)
    await held(bench)
    bench.dispatchers.topics.delete(TOPIC, Told())
    worker = Worker("w")
    bench.join(worker)
    await turns()
    bench.push(b"new")
    await turns()
    await released(bench)
    assert worker.payloads == [b"new"]


async def test_workers_who_wait_while_the_topic_ends_get_what_comes_next_and_nothing_old(bench):
    await stored(bench, 3)
    one, two = Worker("one", 1, visibility_ms=LEASE_MS), Worker("two", 0)
    bench.join(one)
    bench.join(two, group=b"others")
    await bench.rest()
    assert one.payloads == [b"0"]
    await finished(bench)
    bench.dispatchers.groups.commit(TOPIC, b"others", 3, Told())
    bench.dispatchers.groups.commit(TOPIC, GROUP, 2, Told())
    await bench.rest()
    bench.store.gate.clear()
    told = Told()
    bench.dispatchers.topics.delete(TOPIC, told)
    one.capacity = two.capacity = 10
    await turns(5)
    await released(bench)
    bench.push(b"new")
    await bench.rest()
    assert told.values
    assert one.payloads == [b"0", b"new"]
    assert two.payloads == [b"new"]


async def test_a_topic_that_ends_twice_at_once_begins_once(bench):
    await stored(bench, 3)
    worker = Worker("w", 0)
    bench.join(worker)
    await bench.rest()
    await held(bench)
    answers = [Told(), Told()]
    for told in answers:
        bench.dispatchers.topics.delete(TOPIC, told)
        await turns()
    worker.capacity = 10
    await released(bench)
    bench.push(b"new")
    await bench.rest()
    assert all(told.values for told in answers)
    assert [(job.message.offset, job.message.payload) for job in worker.jobs] == [(0, b"new")]


async def test_a_number_of_a_topic_that_ended_is_new_to_the_next(bench):
    """Also if the first copy reaches the disk when the end of its topic is decided already."""
    producing = bench.parts.producing
    lot = ProducedMessages(TOPIC, [b"job"], producer=b"p", seqs=[1])
    await stored(bench, 3)
    first, again, later = Stored(), Stored(), Stored()
    bench.store.gate.clear()
    attempts = bench.store.attempts
    producing.produce(lot, 0, first)
    await until(lambda: bench.store.attempts > attempts)
    bench.dispatchers.topics.delete(TOPIC, Told())
    await turns()
    await released(bench)
    producing.produce(lot, 0, again)
    await bench.rest()
    producing.produce(lot, 0, later)
    await bench.rest()
    assert first.stretches == [(3, 1)]
    assert again.stretches == later.stretches == [(0, 1)]
    info = bench.store.topic(TOPIC)
    assert info is not None
    assert info.next_offset == 1


@pytest.mark.parametrize("bench", ["sync"], indirect=True)
async def test_a_topic_that_the_disk_does_not_let_go_is_served_on(bench):
    await stored(bench, 3)
    worker = Worker("w", 0)
    bench.join(worker)
    await bench.rest()
    bench.store.error = StorageFull("no space")

    class Refused(Told):
        def refused(self, *_reason: object) -> None:
            bench.store.error = None

    bench.dispatchers.topics.delete(TOPIC, Refused())
    worker.capacity = 10
    bench.dispatch()
    await until(lambda: bench.store.error is None)
    await bench.rest()
    assert worker.payloads == numbered(3)


async def test_a_group_may_be_moved_on_while_its_topic_is_still_looked_through(bench, monkeypatch):
    """What came before is no longer cached, and is read all the same."""
    monkeypatch.setattr(priorities_module, "MARKS_AT_ONCE", 1)
    for number in range(40):
        bench.push(b"%d" % number)
        await bench.parts.pipeline.drain()
    worker = Worker("w", 0)
    bench.join(worker)
    await turns(3)
    told = Told()
    bench.dispatchers.groups.seek(TOPIC, GROUP, Start(StartAt.LATEST), told)
    await until(lambda: bool(told.values))
    bench.dispatchers.turn()
    worker.capacity = 10
    await bench.rest()
    bench.push(b"new")
    await bench.rest()
    assert worker.payloads == [b"new"]


async def test_a_group_that_begins_further_back_holds_up_no_other(bench, monkeypatch):
    """The topic is looked through once more for it; the others have what they need."""
    bench.push(*numbered(5))
    await bench.rest()
    bench.dispatchers.groups.create(TOPIC, b"new", Start(StartAt.LATEST), Told())
    await bench.rest()
    newest, oldest = Worker("newest"), Worker("oldest")
    bench.join(newest, group=b"new")
    await bench.rest()
    looking, read_flags = threading.Event(), bench.store.read_flags

    def slowly(topic, offset, count_max):
        looking.wait(10)
        return read_flags(topic, offset, count_max)

    monkeypatch.setattr(bench.store, "read_flags", slowly)
    bench.join(oldest, group=b"old")
    await bench.parts.pipeline.drain()
    bench.push(b"5")
    await until(lambda: newest.payloads == [b"5"])
    assert oldest.payloads == []
    looking.set()
    await until(lambda: oldest.payloads == numbered(6))
