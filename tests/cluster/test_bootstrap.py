"""A node that knows of nothing is let in if it is new, and told so if it has lost its disk."""

import asyncio

import pytest

from penstock.cluster.frames import Blank, Emptied
from penstock.cluster.status import diagnosis, unreadiness
from penstock.errors import PenstockError, Refused
from tests.cluster.cluster_bench import Bench, Node, until

pytestmark = pytest.mark.asyncio


def emptied(node: Node) -> None:
    """Start a node on an empty disk under its old id."""
    node.kill()
    for file in node.path.iterdir():
        file.unlink()
    node.start()


async def bootstrapped(node: Node, among: list[Node]) -> PenstockError | None:
    answer: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
    node.replica.bootstrap([other.member for other in among], answer.set_result)
    return await answer


async def test_a_node_that_lost_its_disk_is_told_and_so_is_who_looks(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    lost = next(node for node in nodes if node is not leader)
    emptied(lost)
    await until(lambda: lost.replica.bootstrapping.lost_cluster_id)
    await until(lambda: leader.replica.bootstrapping.is_blank(lost.id))
    for said in (diagnosis(lost.replica.status()), unreadiness(lost.replica.status())):
        assert f"node {lost.id} has lost its data" in said
        assert "a node_id that was never used" in said
    await until(lambda: f"node {lost.id} lost its data" in diagnosis(leader.replica.status()))
    assert (leader.replica.node.activity.heard_s(lost.id) or 0) > 0
    await until(
        lambda: (leader.replica.node.activity.heard_s(lost.id) or 0) > 0.5,
        "it does not count as there",
    )
    await leader.write(b"1")
    assert not lost.replica.node.is_initialised


async def test_a_node_that_lost_its_disk_cannot_begin_the_cluster_again(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    lost = nodes[0]
    emptied(lost)
    for _ in range(2):  # before it is notified, and after
        error = await bootstrapped(lost, nodes)
        assert isinstance(error, Refused)
        assert "lost its data" in error.message
        assert "never used" in error.advice
    assert not lost.replica.node.is_initialised
    sent = {type(frame) for _, _, frame in bench.network.sent}
    assert {Blank, Emptied} <= sent


async def test_a_new_node_takes_the_place_of_one_that_lost_its_disk(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    await leader.write(b"1")
    lost = next(node for node in nodes if node is not leader)
    emptied(lost)
    await until(lambda: lost.replica.bootstrapping.lost_cluster_id)
    new = bench.node(4)
    errors: list[object] = []
    leader.replica.add(new.member, errors.append)
    await until(lambda: 4 in leader.replica.record.conf.voters)
    leader.replica.remove(lost.id, errors.append)
    await until(lambda: lost.id not in leader.replica.record.conf.voters)
    await until(lambda: new.stored() == [b"1"])
    await until(lambda: errors == [None, None])
    assert "healthy" in diagnosis(leader.replica.status())
    await until(lambda: "was removed from cluster" in unreadiness(lost.replica.status()))


async def test_a_new_node_is_not_taken_for_one_that_lost_its_disk(bench: Bench) -> None:
    await bench.cluster(3)
    leader = await bench.leader()
    new = bench.node(4)
    leader.replica.add(new.member, lambda _error: None)
    await until(lambda: 4 in leader.replica.record.conf.voters)
    assert not new.replica.bootstrapping.lost_cluster_id
    assert not leader.replica.bootstrapping.is_blank(4)
