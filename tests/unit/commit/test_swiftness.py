"""Small commits on the event loop, as long as the disk is known to be swift."""

import asyncio
import threading
from typing import Self

import pytest
from msgspec import structs
from tests.conformance.wire_client import wait_until

from penstock.cluster.disk import Disk
from penstock.cluster.swiftness import (
    BYTES_MAX,
    LONG_S,
    MESSAGES_MAX,
    ROWS_MAX,
    SERIES_MIN,
    SHORT_S,
    Swiftness,
)
from penstock.errors import StorageError, StorageFull
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import Commit


def commit(commit_s: float, fsync_s: float | None = None) -> Commit:
    return Commit(1, 1, 1, 100, commit_s, commit_s / 2 if fsync_s is None else fsync_s, (0,))


SHORT, LONG = commit(SHORT_S / 2), commit(LONG_S)


def batch_of(count: int = 1, size: int = 10) -> Batch:
    batch = Batch()
    batch.append(b"t", [bytes(size)] * count, 1, 1)
    return batch


def noted(*outcomes, is_here: bool = False) -> Swiftness:
    swiftness = Swiftness()
    for outcome in outcomes:
        swiftness.note(outcome, is_here=is_here)
    return swiftness


def test_a_disk_is_swift_after_a_series_of_short_commits():
    assert not noted(*[SHORT] * (SERIES_MIN - 1)).allows(batch_of())
    assert noted(*[SHORT] * SERIES_MIN).allows(batch_of())


def test_a_disk_is_swift_as_long_as_commits_are_short_on_average():
    hiccup = commit(0.9 * LONG_S)
    assert noted(*[SHORT] * 100, hiccup).allows(batch_of())
    assert not noted(*[SHORT] * 100, hiccup, hiccup, hiccup).allows(batch_of())
    assert noted(*[SHORT] * 100, hiccup, hiccup, hiccup, *[SHORT] * SERIES_MIN).allows(batch_of())
    assert not noted(*[commit(1.1 * SHORT_S)] * 100).allows(batch_of())


@pytest.mark.parametrize("surprise", [LONG, StorageFull("no room"), commit(SHORT_S / 2, 0.0)])
def test_one_surprise_and_the_series_begins_again(surprise):
    assert not noted(*[SHORT] * 100, surprise, *[SHORT] * (SERIES_MIN - 1)).allows(batch_of())
    assert noted(*[SHORT] * 100, surprise, *[SHORT] * SERIES_MIN).allows(batch_of())


def test_if_the_loop_had_to_wait_the_next_series_is_twice_as_long_until_all_is_well_again():
    swiftness = noted(*[SHORT] * SERIES_MIN)
    swiftness.note(LONG, is_here=True)
    for _ in range(2 * SERIES_MIN - 1):
        swiftness.note(SHORT)
    assert not swiftness.allows(batch_of())
    for _ in range(2 * SERIES_MIN + 2):
        swiftness.note(SHORT)
    swiftness.note(LONG)
    for _ in range(SERIES_MIN):
        swiftness.note(SHORT)
    assert swiftness.allows(batch_of())


def test_large_batches_go_to_the_writer_thread():
    swiftness = noted(*[SHORT] * SERIES_MIN)
    assert swiftness.allows(batch_of(MESSAGES_MAX))
    assert not swiftness.allows(batch_of(MESSAGES_MAX + 1))
    assert not swiftness.allows(batch_of(1, BYTES_MAX + 1))
    dropping, checkpoint = batch_of(), batch_of()
    dropping.drop(b"t")
    for number in range(ROWS_MAX + 1):
        checkpoint.add_row("table", b"%d" % number, b"row")
    assert not swiftness.allows(dropping)
    assert not swiftness.allows(checkpoint)


class SwiftStore(MemoryStore):
    """Commits at once, like a good disk; notes on which thread. ``error``: what they come to."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.error: StorageError | None = None

    def commit(self, batch: Batch) -> Commit:
        self.threads.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        return structs.replace(super().commit(batch), commit_s=2e-4, fsync_s=1e-4)


class Bench:
    """A disk on the loop of the test."""

    def __init__(self) -> None:
        self.store = SwiftStore()
        loop = asyncio.get_running_loop()
        self.outcomes: asyncio.Queue[Commit | StorageError] = asyncio.Queue()
        self.disk = Disk(self.store, loop, self._committed, self._committed_not)
        self.disk.start()

    def _committed(self, _batch: Batch, outcome: Commit | StorageError) -> None:
        self.outcomes.put_nowait(outcome)

    def _committed_not(self, error: BaseException) -> None:
        raise error

    async def commit(self) -> Commit | StorageError:
        self.disk.commit(batch_of())
        assert self.outcomes.empty()  # never answered before the caller has gone on
        return await self.outcomes.get()

    async def become_swift(self) -> None:
        """The writer may still be busy with the file when the series is complete."""
        own = threading.current_thread().name
        for _ in range(10 * SERIES_MIN):
            await asyncio.to_thread(wait_until, lambda: self.disk._writer.is_idle)
            await self.commit()
            if self.store.threads[-1] == own:
                return
        pytest.fail("no commit was made on the loop")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.disk.close()


@pytest.mark.asyncio
async def test_a_lone_client_on_a_swift_disk_is_answered_without_another_thread():
    async with Bench() as bench:
        await bench.become_swift()
        assert bench.store.threads[:SERIES_MIN] == ["penstock-writer"] * SERIES_MIN
        assert bench.store.next_index == len(bench.store.threads) + 1


@pytest.mark.asyncio
async def test_who_is_ready_for_it_is_answered_at_once_but_not_within_an_answer():
    async with Bench() as bench:
        await bench.become_swift()
        committed, sizes = bench.disk._committed, []

        def go_on(batch: Batch, outcome: Commit | StorageError) -> None:
            committed(batch, outcome)
            sizes.append(bench.outcomes.qsize())
            if len(sizes) == 1:
                bench.disk.commit(batch_of(), at_once=True)
                sizes.append(bench.outcomes.qsize())

        bench.disk._committed = go_on
        bench.disk.commit(batch_of(), at_once=True)
        assert sizes == [1, 1]
        assert [await bench.outcomes.get() for _ in range(2)]
        assert bench.store.threads[-2:] == [threading.current_thread().name] * 2


@pytest.mark.asyncio
async def test_a_commit_that_fails_on_the_loop_is_answered_and_the_next_goes_to_the_thread():
    async with Bench() as bench:
        await bench.become_swift()
        bench.store.error = StorageFull("no room")
        assert await bench.commit() is bench.store.error
        bench.store.error = None
        assert isinstance(await bench.commit(), Commit)
        assert bench.store.threads[-1] == "penstock-writer"
