"""A single broker commits by itself, as fast as without a cluster."""

import pytest

from penstock.cluster.frames import Member
from penstock.cluster.log_view import RECENT_ENTRIES_MAX
from penstock.errors import PenstockError, StorageForeign, StorageFull
from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore
from tests.cluster.cluster_bench import Bench, Node, batch_of, until

pytestmark = pytest.mark.asyncio


async def test_it_commits_by_itself(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    commit = await node.write(b"1")
    assert node.replica.is_leader
    assert node.replica.is_lone
    assert not node.replica.is_clustered
    assert node.stored() == [b"1"]
    assert commit.first_offsets == (0,)
    assert node.replica.status().applied == commit.index


async def test_each_batch_is_one_transaction_and_one_entry(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    await node.write(b"0")
    writes = []
    write = node.store._environment.write_directly
    node.store._environment.write_directly = lambda *a: writes.append(a) or write(*a)  # type: ignore[method-assign]
    before = node.store.last_index
    for number in range(5):
        await node.write(b"%d" % number)
    assert len(writes) == 5
    assert node.store.last_index == before + 5


async def test_a_restart_finds_everything_and_goes_on(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    for number in range(3):
        await node.write(b"%d" % number)
    cluster_id, term = node.replica.record.cluster_id, node.replica.term
    node.kill()
    node.start()
    await node.write(b"3")
    assert node.stored() == [b"0", b"1", b"2", b"3"]
    assert node.replica.record.cluster_id == cluster_id
    assert node.replica.term > term
    assert node.listener.foreigners == []


async def test_a_store_from_before_there_were_clusters_becomes_one(bench: Bench) -> None:
    path = bench.path / "1"
    path.mkdir()
    store = LmdbStore(path)
    store.commit(batch_of((b"t", b"old")))
    store.close()
    node = bench.all[1] = Node(bench.network, 1, path, peer_listen="")
    node.start()
    await node.write(b"new")
    assert node.stored() == [b"old", b"new"]
    assert node.listener.applied == [b"new"]


async def test_rows_alone_make_no_entry(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    commit = await node.write(b"1")
    rows = Batch()
    rows.add_row("sessions", b"a", b"b")
    assert (await node.submit(rows)).index == commit.index
    assert (await node.write(b"2")).index == commit.index + 1


async def test_a_full_disk_refuses_and_goes_on(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    await node.write(b"1")
    commit = node.store.commit

    def full(_batch: Batch) -> None:
        raise StorageFull("no room", "Make some.")

    node.store.commit = full  # type: ignore[assignment,method-assign]
    with pytest.raises(StorageFull):
        await node.write(b"2")
    node.store.commit = commit  # type: ignore[method-assign]
    await node.write(b"3")
    assert node.stored() == [b"1", b"3"]
    assert not node.failures


async def test_a_read_is_current_at_once(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    await node.write(b"1")
    answers: list[object] = []
    node.replica.read_barrier(answers.append)
    assert answers == [None]


async def test_another_nodes_directory_is_refused(bench: Bench) -> None:
    node = bench.node(1)
    node.replica.bootstrap([node.member], lambda _error: None)
    await node.write(b"1")
    node.kill()
    other = Node(bench.network, 2, node.path)
    with pytest.raises(StorageForeign, match="node 1"):
        other.start()
    other.store.close()


async def test_a_node_that_listens_waits_to_be_told_its_cluster(bench: Bench) -> None:
    node = bench.node(1)
    assert not node.replica.node.is_initialised
    assert not node.replica.is_writable
    assert node.replica.status().state == "waiting"
    answers: list[object] = []
    node.replica.bootstrap([node.member], answers.append)
    await node.write(b"1")
    assert answers == [None]
    node.replica.bootstrap([node.member], answers.append)
    await until(lambda: len(answers) == 2)
    assert answers == [None, None]


async def test_a_cluster_that_has_just_begun_waits_for_its_first_leader(bench: Bench) -> None:
    """However long the nodes had waited before: no client gets ``no_quorum``."""
    first, second = bench.node(1), bench.node(2)
    assert first.replica._leadership.leaderless_at is not None
    first.replica._leadership.leaderless_at -= 3_600
    begun: list[object] = []
    first.replica.bootstrap(
        [first.member, second.member], lambda _error: begun.append(first.replica.is_writable)
    )
    await until(lambda: begun)
    assert begun == [True]


async def test_a_lone_broker_says_why_it_begins_no_cluster_and_what_to_do(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    answers: list[PenstockError | None] = []
    three = [Member(number, f"10.0.0.{number}:7700") for number in (1, 2, 3)]
    for genesis in (three, three[1:], three[:1]):
        node.replica.bootstrap(genesis, answers.append)
    await until(lambda: len(answers) == 3)
    for refused in answers[:2]:
        assert refused is not None
        assert "stands alone" in refused.message
        assert "--peer-listen" in refused.advice
    assert answers[2] is None


async def test_the_core_is_told_of_all_that_it_was_not_asked_however_many(bench: Bench) -> None:
    node = bench.node(1, peer_listen="")
    await node.write(b"0")
    node.replica._ticker.stop()
    engine = node.replica._engine
    assert engine.raw is not None
    known = engine.raw.last_index
    count = 3 * RECENT_ENTRIES_MAX
    node.store.log_entries = None  # type: ignore[assignment,method-assign]  # nothing is read
    engine.committed_alone(known + count)
    assert engine.raw.last_index == known
    status = node.replica.status()
    assert (status.commit, status.applied, status.last_index) == (known + count,) * 3


async def test_folding_may_be_quicker_than_the_core_is_told(bench: Bench) -> None:
    node = bench.node(1, peer_listen="", tick_ms=10_000)
    for number in range(5):
        events = Batch()
        events.add_event((number, b""))
        await node.submit(events)
    rows = Batch()
    rows.checkpoint = node.store.last_index
    await node.submit(rows)
    node.store.fold()
    assert node.store.first_index == node.store.last_index + 1
    raw = node.replica.node.raw
    assert raw is not None
    assert raw.last_index < node.store.last_index
    node.replica.status()
    assert raw.last_index == node.store.last_index
    await node.write(b"goes on")
