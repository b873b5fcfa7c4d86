"""Dispatchers when something is wrong: clocks that are set, a disk that refuses, a broker that died."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import until
from tests.benches.dispatch_bench import GROUP, LEASE_MS, TOPIC, Bench, Told, Worker, numbered

from penstock.dispatch import leases as leases_module
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.groups import Start
from penstock.errors import StorageFull

pytestmark = pytest.mark.asyncio

HOURS_MS = 5 * 3_600_000

RETURNED = 26
"""The tag of ``LeasesReturned`` in the journal."""


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def set_clock(bench: Bench, by_ms: int) -> None:
    """Set the wall clock, as an administrator does or the network; no time passes."""
    wall_ms = bench.parts.clock.wall_ms
    bench.parts.wall_ms = lambda: wall_ms() + by_ms


# ── clocks


@pytest.mark.parametrize("by_ms", [-HOURS_MS, HOURS_MS])
async def test_a_lease_lasts_as_long_as_it_should_wherever_the_clock_is_set(bench, by_ms):
    worker = Worker("w", visibility_ms=1_000)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    set_clock(bench, by_ms)
    await bench.later(0.9)
    assert worker.offsets == [0]
    await bench.later(0.2)
    assert worker.offsets == [0, 0]


@pytest.mark.parametrize("by_ms", [-HOURS_MS, HOURS_MS])
async def test_a_message_given_back_for_a_while_waits_that_long_wherever_the_clock_is_set(
    bench, by_ms
):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases, Told(), delay_ms=1_000)
    await bench.rest()
    set_clock(bench, by_ms)
    await bench.later(0.9)
    assert worker.offsets == [0]
    await bench.later(0.2)
    assert worker.offsets == [0, 0]


async def test_a_lease_from_the_future_is_over_after_a_start(bench):
    """The clock was set back by hours while the broker was down."""
    last, worker = Worker("last", 2, visibility_ms=LEASE_MS), Worker("w")
    bench.join(last)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.rest(TOPIC, GROUP, last.consumer)
    bench.parts.steady._offset_ms -= HOURS_MS
    bench.parts.steady._last_ms = 0
    bench.close_desks()
    bench.dispatchers = bench.parts.dispatchers = Dispatchers(bench.dispatchers._parts)
    bench.dispatchers.return_workers(lambda _node: True)
    bench.dispatchers.led(is_leader=True)
    bench.join(worker)
    await bench.rest()
    assert sorted(worker.payloads) == numbered(3)


# ── the disk


async def test_what_a_poll_left_behind_goes_back_once_the_disk_takes_it(bench, monkeypatch):
    """Its lease may last for years, and no client knows it."""
    monkeypatch.setattr(leases_module, "RETRY_S", 0)
    gone, worker = Worker("gone", visibility_ms=1 << 40), Worker("w", visibility_ms=LEASE_MS)
    bench.push(b"0")
    bench.dispatchers.groups.create(TOPIC, GROUP, Start(), Told())
    await bench.rest()
    commit, refused = bench.store.commit, []

    def refuse_returns(batch):
        if any(event[0] == RETURNED for _, event in batch.events) and not refused:
            refused.append(batch)
            raise StorageFull("no space")
        return commit(batch)

    monkeypatch.setattr(bench.store, "commit", refuse_returns)
    bench.store.gate.clear()
    attempts = bench.store.attempts
    bench.join(gone)
    await until(lambda: bench.store.attempts > attempts)
    bench.dispatchers.rest(TOPIC, GROUP, gone.consumer)
    bench.store.gate.set()
    await until(lambda: bool(refused))
    bench.join(worker)
    await until(lambda: worker.offsets == [0])
    assert gone.jobs == []
    assert [job.deliveries for job in worker.jobs] == [1]


# ── crashes


async def test_where_a_crash_can_take_leases_back_each_life_has_numbers_of_its_own():
    """A client that outlived the crash would settle what another has been given since."""
    first = Bench(durability="interval")
    leases = {first.dispatchers.leases.reserve(1_000) + number for number in range(1_000)}
    await first.close()
    second = Bench(durability="interval")
    second.clock.advance(1)
    second.dispatchers = Dispatchers(second.dispatchers._parts, are_leases_volatile=True)
    assert second.dispatchers.leases.reserve(1) not in leases
    await second.close()
