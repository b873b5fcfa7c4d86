"""Dealing jobs: who gets how many, and what happens when the disk refuses."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from line_bench import GatedStore, turns, until

from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.errors import StorageFull
from penstock.model.message import Message
from penstock.net import queues as module
from penstock.net.hub import Hub
from penstock.net.queues import WORKERS, Queues, is_queue
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.testing import VirtualClock

pytestmark = pytest.mark.asyncio

QUEUE = b"q:jobs"


class Worker:
    """Takes as many jobs as it has room for; anonymous ones are done with them at once."""

    def __init__(self, name: str, room: int = 10, *, anonymous: bool = False) -> None:
        self.consumer = name.encode()
        self.capacity = room
        self.anonymous = anonymous
        self.jobs: list[bytes] = []
        self.offsets: list[int] = []
        self.closed: list[DisconnectReason] = []
        self.asked = 0

    def room(self) -> int:
        self.asked += 1
        return self.capacity

    def work(self, jobs: list[Message]) -> bool:
        self.jobs += [job.payload for job in jobs]
        self.offsets += [job.offset for job in jobs]
        self.capacity -= 0 if self.anonymous else len(jobs)
        return self.anonymous

    def idle(self) -> None:
        """Nothing to do: it waits."""
        self.asked += 1

    def close(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.closed.append(reason)


class Bench:
    """Queues on a store that commits when the test lets it."""

    def __init__(self) -> None:
        self.store = GatedStore()
        counters = Counters()
        self.hub = Hub(
            config=msgspec.convert({}, Config),
            broker=Broker(counters),
            store=self.store,
            clock=VirtualClock(),
            counters=counters,
            is_captured=lambda _topic: True,
        )
        self.queues = self.hub.queues = Queues(self.hub)

    def push(self, *jobs: bytes) -> None:
        self.hub.pipeline.publish(QUEUE, list(jobs), 1_000, qos=1, retain=False)

    def join(self, *workers: Worker) -> None:
        for worker in workers:
            self.queues.join(QUEUE, worker)

    async def rest(self) -> None:
        """Wait until nothing moves any more."""
        for _ in range(10):
            await self.hub.pipeline.drain()
            await turns(3)
            await self.hub.loop.run_in_executor(self.hub._readers, lambda: None)

    @property
    def pending(self) -> dict[int, Any]:
        group = self.hub.broker.groups.get(QUEUE, WORKERS)
        return group.pending if group else {}


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.store.gate.set()
    made.store.error = None
    made.hub.close()
    await turns()


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_what_is_a_queue():
    assert is_queue(b"q:x")
    assert is_queue(b"q:")
    assert not is_queue(b"q")
    assert not is_queue(b"x/q:")


@pytest.mark.parametrize(
    ("rooms", "shares"),
    [
        ([10, 10], [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]),
        ([1, 10], [[b"0"], [b"1", b"2", b"3", b"4", b"5"]]),
        ([10, 0], [numbered(6), []]),
        ([1, 1], [[b"0"], [b"1"]]),
    ],
)
async def test_jobs_go_round_among_those_who_have_room(bench, rooms, shares):
    workers = [Worker(f"w{number}", room) for number, room in enumerate(rooms)]
    bench.join(*workers)
    bench.push(*numbered(6))
    await bench.rest()
    assert [worker.jobs for worker in workers] == shares


async def test_a_worker_that_comes_to_an_empty_queue_troubles_no_other(bench):
    workers = [Worker(f"w{number}") for number in range(100)]
    bench.join(*workers)
    assert sum(worker.asked for worker in workers) == 100


async def test_the_turn_goes_on_where_it_was(bench):
    workers = [Worker(f"w{number}") for number in range(3)]
    bench.join(*workers)
    for job in numbered(4):
        bench.push(job)
        await bench.rest()
    assert [worker.jobs for worker in workers] == [[b"0", b"3"], [b"1"], [b"2"]]


async def test_a_job_is_pending_until_it_is_settled_and_a_name_is_what_makes_it_so(bench):
    named, anonymous = Worker("named"), Worker("anonymous", anonymous=True)
    bench.join(named, anonymous)
    bench.push(*numbered(4))
    await bench.rest()
    assert sorted(bench.pending) == named.offsets == [0, 2]
    bench.queues.settle(QUEUE, [2])
    await bench.rest()
    assert sorted(bench.pending) == [0]


async def test_who_settles_can_be_told_when_the_disk_has_it(bench):
    worker, told = Worker("w"), []
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    outlet = type("Outlet", (), {"outcome": lambda _self, value: told.append(value)})()
    bench.queues.settle(QUEUE, [0], outlet)
    assert not told
    await bench.rest()
    assert told == [1]


async def test_jobs_of_one_who_left_while_they_were_on_their_way_go_to_the_next(bench):
    leaving, staying = Worker("leaving"), Worker("staying")
    bench.push(*numbered(3))
    await bench.rest()
    bench.store.gate.clear()
    bench.join(leaving)
    await turns()
    bench.queues.leave(QUEUE, leaving.consumer)
    bench.join(staying)
    bench.store.gate.set()
    await bench.rest()
    assert leaving.jobs == []
    assert staying.jobs == numbered(3)


async def test_who_leaves_and_comes_back_meanwhile_gets_no_job_that_another_gets(bench):
    back, other = Worker("back"), Worker("other")
    bench.push(*numbered(4))
    await bench.rest()
    bench.store.gate.clear()
    attempts = bench.store.attempts
    bench.join(back, other)
    await until(lambda: bench.store.attempts > attempts)
    bench.queues.leave(QUEUE, back.consumer)
    bench.join(back)
    bench.store.gate.set()
    await bench.rest()
    assert sorted(back.jobs + other.jobs) == numbered(4)


async def test_no_more_bytes_are_dealt_at_a_time_than_may_be_in_memory(bench, monkeypatch):
    monkeypatch.setattr(module, "DEAL_BYTES_MAX", 10)
    dealt: list[int] = []
    worker = Worker("w")
    worker.work = lambda jobs: bool(dealt.append(len(jobs)))  # type: ignore[method-assign]
    bench.push(*[b"four"] * 5, b"much more than that", *[b"four"] * 2)
    await bench.rest()
    bench.join(worker)
    await until(lambda: sum(dealt) == 8)
    assert dealt == [3, 3, 2]


async def test_a_worker_without_room_is_given_nothing_whatever_is_read_for_it(bench):
    worker = Worker("w")
    bench.push(*numbered(3))
    await bench.rest()
    bench.join(worker)
    worker.capacity = 0
    await bench.rest()
    assert worker.jobs == []
    worker.capacity = 10
    bench.queues.deal(QUEUE)
    await bench.rest()
    assert worker.jobs == numbered(3)


async def test_what_was_given_back_since_the_jobs_were_read_goes_first(bench):
    dying, living = Worker("dying", 2), Worker("living", 0)
    bench.join(dying, living)
    bench.push(*numbered(2))
    await bench.rest()
    bench.push(b"2", b"3")
    await bench.rest()
    living.capacity = 2
    bench.queues.deal(QUEUE)  # reads those two; meanwhile the first two come back
    bench.queues.leave(QUEUE, dying.consumer)
    await bench.rest()
    assert living.jobs == numbered(2)


async def test_after_a_start_jobs_of_the_last_life_go_to_whoever_is_there_already(bench):
    """A worker may have come before they are back: it is dealt to when they are."""
    bench.join(Worker("of the last life"))
    bench.push(*numbered(3))
    await bench.rest()
    again = Queues(bench.hub)
    bench.queues.rest(QUEUE, b"of the last life")
    bench.queues = bench.hub.queues = again
    early = Worker("early")
    bench.store.gate.clear()
    again.return_all()
    bench.join(early)
    bench.store.gate.set()
    await bench.rest()
    assert early.jobs == numbered(3)


async def test_when_the_disk_refuses_to_deal_the_workers_know_and_no_job_is_lost(bench):
    bench.push(*numbered(3))
    await bench.rest()
    bench.store.error = StorageFull("no room")
    refused = Worker("refused")
    bench.join(refused)
    await until(lambda: refused.closed == [DisconnectReason.STORAGE_FULL])
    assert refused.jobs == []
    bench.store.error = None
    bench.queues.leave(QUEUE, refused.consumer)
    next_one = Worker("next")
    bench.join(next_one)
    await bench.rest()
    assert next_one.jobs == numbered(3)


async def test_jobs_are_given_back_until_the_disk_takes_it(bench, monkeypatch):
    monkeypatch.setattr(module, "RETURN_AGAIN_S", 0.001)
    dying, living = Worker("dying"), Worker("living")
    bench.join(dying)
    bench.push(*numbered(3))
    await bench.rest()
    bench.join(living)
    bench.store.error = StorageFull("no room")
    bench.queues.leave(QUEUE, dying.consumer)
    attempts = bench.store.attempts
    await until(lambda: bench.store.attempts > attempts + 2)
    bench.store.error = None
    await until(lambda: living.jobs == numbered(3))


async def test_jobs_that_retention_took_are_settled_and_the_rest_is_dealt(bench):
    bench.push(*numbered(5))
    await bench.rest()
    bench.store.trim(QUEUE, 2)
    worker = Worker("w")
    bench.join(worker)
    await bench.rest()
    assert worker.jobs == [b"2", b"3", b"4"]
    assert sorted(bench.pending) == [2, 3, 4]


async def test_how_many_jobs_wait_is_known(bench):
    worker = Worker("w", 2)
    bench.join(worker)
    bench.push(*numbered(5))
    await bench.rest()
    assert dict(bench.queues.pending()) == {QUEUE: 5}
    assert bench.queues.workers(QUEUE) == 1
    bench.queues.settle(QUEUE, worker.offsets)
    await bench.rest()
    assert dict(bench.queues.pending()) == {QUEUE: 3}


async def test_a_queue_without_workers_costs_nothing(bench):
    worker = Worker("w")
    bench.join(worker)
    assert bench.hub.feed.is_wanted
    bench.queues.leave(QUEUE, worker.consumer)
    assert not bench.hub.feed.is_wanted
    assert bench.queues.workers(QUEUE) == 0
