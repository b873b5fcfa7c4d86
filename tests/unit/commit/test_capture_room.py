"""What may be captured without asking the pipeline: never more than it would allow, never lost."""

import pytest
from tests.benches.commit_bench import Bench, until

from penstock.core.commands import SessionOpened
from penstock.errors import StorageFull

pytestmark = pytest.mark.asyncio

ANN = SessionOpened(b"ann", 1, clean=False, will=None)


def capture_without_asking(bench: Bench, payload: bytes) -> bool:
    room = bench.pipeline.capture_room
    if room.batch is None or room.batch.payload_bytes >= room.bytes_max:
        return False
    room.batch.append(b"t", [payload], 5, 0)
    return True


async def test_there_is_none_before_a_commit_is_certain_to_come():
    async with Bench() as bench:
        assert not capture_without_asking(bench, b"x")
        bench.pipeline.end_capture()  # nothing was captured: no timer was set
        assert not capture_without_asking(bench, b"x")


async def test_what_joins_a_batch_without_asking_is_committed_with_it():
    async with Bench(capture_interval_ms=20) as bench:
        bench.pipeline.capture(b"t", [b"1"], 5)
        assert capture_without_asking(bench, b"2")
        await until(lambda: bench.counters.captured_total == 2)
        assert not capture_without_asking(bench, b"3")  # that batch is gone


async def test_it_ends_where_a_batch_is_large_enough_to_be_committed():
    async with Bench(capture_interval_ms=60_000, batch_bytes_target=10) as bench:
        bench.pipeline.capture(b"t", [b"x" * 5], 5)
        assert capture_without_asking(bench, b"x" * 5)
        assert not capture_without_asking(bench, b"x")


async def test_what_is_on_its_way_to_the_disk_takes_from_it():
    async with Bench(capture_pending_bytes_max=30, capture_interval_ms=60_000) as bench:
        bench.store.gate.clear()
        bench.pipeline.capture(b"t", [b"x" * 20], 5)
        bench.pipeline.submit(ANN, "ann", durable=True)
        await until(lambda: bench.store.attempts == 1)
        bench.pipeline.capture(b"t", [b"y" * 5], 5)
        assert capture_without_asking(bench, b"y" * 5)
        assert not capture_without_asking(bench, b"y")
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert bench.counters.captured_total == 3


async def test_a_commit_withdraws_it_since_the_disk_may_be_slower_now():
    async with Bench(capture_interval_ms=60_000) as bench:
        bench.store.gate.clear()
        bench.pipeline.submit(ANN, "ann", durable=True)
        await until(lambda: bench.store.attempts == 1)
        bench.pipeline.capture(b"t", [b"1"], 5)
        bench.store.gate.set()
        await until(lambda: ANN in bench.applied)
        assert not capture_without_asking(bench, b"2")


async def test_a_failed_commit_withdraws_it():
    async with Bench(capture_interval_ms=60_000) as bench:
        bench.store.gate.clear()
        bench.store.error = StorageFull("full")
        bench.pipeline.submit(ANN, "ann", durable=True)
        await until(lambda: bench.store.attempts == 1)
        bench.pipeline.capture(b"t", [b"1"], 5)
        assert bench.pipeline.capture_room.batch is not None
        bench.store.gate.set()
        await until(lambda: bench.pipeline.failure is not None)
        assert not capture_without_asking(bench, b"2")
