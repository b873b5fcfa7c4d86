"""A node that is far behind gets the store of another, and goes on from there: real LMDB."""

import asyncio

import pytest

from penstock.cluster.install import install
from penstock.store.lmdb_store import LmdbStore
from tests.cluster.courier import pair, reported
from tests.cluster.peer_bench import started, until
from tests.cluster.snapshot_bench import LogMaker, payloads_in, record_of

pytestmark = pytest.mark.asyncio


async def test_a_store_of_20_mb_arrives_whole_while_it_is_written_to_and_is_installed(tmp_path):
    leader, follower = tmp_path / "one", tmp_path / "two"
    maker = LogMaker(leader, record_of(1))
    for _ in range(20):
        maker.append(1, size=10_000)
    LmdbStore(follower).close()
    one, two = pair(tmp_path, maker.store.copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(lambda: one.transport.snapshots.sender.is_busy)
        for _ in range(5):
            await asyncio.to_thread(maker.append, 1)
        await reported(one, True)
        assert two.arrivals == 1
        assert two.file.stat().st_size > 20 * 1000 * 1000
    committed = maker.record.applied
    maker.close()
    assert install(follower, 2)
    received, sent = payloads_in(follower), payloads_in(leader)
    assert len(received) >= 20 * 100
    assert received == sent[: len(received)]
    assert committed == 25
