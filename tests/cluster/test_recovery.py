"""A node whose peers are lost for good becomes a cluster of one, with all that it has."""

import asyncio

import pytest

from penstock.cluster.recovery import inspect_stopped_node, recover
from penstock.errors import PenstockError, StorageLocked
from tests.cluster.cluster_bench import Bench, Node, until

pytestmark = pytest.mark.asyncio

NEW_ID = bytes(range(16))


async def lone_survivor(bench: Bench) -> Node:
    """A follower that has everything, after the two others were lost."""
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    for payload in (b"1", b"2", b"3"):
        await leader.write(payload)
    await bench.settled(nodes, [b"1", b"2", b"3"])
    survivor = next(node for node in nodes if node is not leader)
    for node in nodes:
        node.kill()
    return survivor


async def test_all_that_the_node_has_is_kept_and_it_leads_alone(bench: Bench) -> None:
    survivor = await lone_survivor(bench)
    others = {1, 2, 3} - {survivor.id}
    found = recover(survivor.path, NEW_ID)
    assert found.members == (1, 2, 3)
    assert found.cluster_id != NEW_ID.hex()
    survivor.start()
    await until(lambda: survivor.replica.is_leader)
    record = survivor.replica.record
    assert record.cluster_id == NEW_ID
    assert record.is_alone()
    assert record.members.keys() == {survivor.id}
    assert set(record.removed) == others, "their numbers are never given again"
    await survivor.write(b"4")
    assert survivor.stored() == [b"1", b"2", b"3", b"4"]
    survivor.kill()
    survivor.start()
    await survivor.write(b"5")
    assert survivor.stored() == [b"1", b"2", b"3", b"4", b"5"]


async def test_new_nodes_join_and_come_to_the_same_members_from_the_log(bench: Bench) -> None:
    survivor = await lone_survivor(bench)
    recover(survivor.path, NEW_ID)
    survivor.start()
    await until(lambda: survivor.replica.is_leader)
    errors: list[object] = []
    for number in (4, 5):
        survivor.replica.add(bench.node(number).member, errors.append)
        await until(lambda n=number: n in survivor.replica.record.conf.voters)  # type: ignore[misc]
    await survivor.write(b"4")
    new = bench.all[5]
    await until(lambda: new.stored() == [b"1", b"2", b"3", b"4"])
    await until(lambda: new.replica.record.conf == survivor.replica.record.conf)
    assert new.replica.record.members.keys() == {survivor.id, 4, 5}
    assert new.replica.record.cluster_id == NEW_ID
    survivor.kill()
    leader = await bench.leader([bench.all[4], bench.all[5]])
    await leader.write(b"5")


async def test_what_was_not_known_to_be_committed_is_kept_too(bench: Bench) -> None:
    """The lost nodes may have counted it, and acknowledged it."""
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    await leader.write(b"1")
    bench.network.isolate(leader.id)
    waiting = asyncio.ensure_future(leader.write(b"2"))
    await until(lambda: leader.store.last_index > leader.replica.applied_index)
    waiting.cancel()
    for node in nodes:
        node.kill()
    recover(leader.path, NEW_ID)
    leader.start()
    await until(lambda: leader.stored() == [b"1", b"2"])


async def test_node_that_runs_is_left_alone(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    for look in (inspect_stopped_node, lambda path: recover(path, NEW_ID)):
        with pytest.raises(StorageLocked):
            look(nodes[0].path)


async def test_looking_changes_nothing(bench: Bench) -> None:
    survivor = await lone_survivor(bench)
    assert inspect_stopped_node(survivor.path) == inspect_stopped_node(survivor.path)
    bench.all[1].start(), bench.all[2].start(), bench.all[3].start()
    leader = await bench.leader()
    await leader.write(b"4")


async def test_who_needs_no_recovery_is_told(bench: Bench) -> None:
    lone = bench.node(1, peer_listen="")
    await lone.write(b"1")
    lone.kill()
    with pytest.raises(PenstockError, match="cluster of one already"):
        recover(lone.path, NEW_ID)
    waiting = bench.node(2)
    waiting.kill()
    with pytest.raises(PenstockError, match="no cluster yet"):
        recover(waiting.path, NEW_ID)
    with pytest.raises(PenstockError, match="not a data directory"):
        recover(lone.path / "nothing", NEW_ID)
    assert not (lone.path / "nothing").exists()
