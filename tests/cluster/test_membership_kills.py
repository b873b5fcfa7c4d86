"""Membership changes survive the death of any node, at the latest after its restart."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest

from penstock.cluster.frames import RaftFrame
from penstock.raft.types import MessageKind
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import Write, Written
from tests.cluster.cluster_bench import Bench, Node, until

SEEDS = range(6)


async def asked(node: Node, kind: str, *arguments: object) -> None:
    """Ask for a change and do not wait for what becomes of it."""
    if node.id in node.network.nodes:
        getattr(node.replica, kind)(*arguments, lambda _error: None)


async def killed_and_started(node: Node, pause_s: float) -> None:
    node.kill()
    await asyncio.sleep(pause_s)
    node.start()


async def shrunk(bench: Bench, members: list[Node], gone: Node, chance: random.Random) -> None:
    """Remove a node; kill one of those that are there at some moment of it, and start it again."""
    leader = await bench.leader(members)
    await asked(leader, "remove", gone.id)
    await asyncio.sleep(chance.choice((0, 0.002, 0.005, 0.01, 0.03)))
    await killed_and_started(chance.choice(members), chance.choice((0, 0.01, 0.5)))
    await insisted(bench, "remove", gone.id, lambda node: not knows(gone.id, node))


def knows(node_id: int, node: Node) -> bool:
    return node_id in node.replica.record.members


def asked_for_votes(bench: Bench, node: Node) -> int:
    """How often a node asked for votes."""
    frames = [frame for sender, _, frame in bench.network.sent if sender == node.id]
    votes = {MessageKind.PRE_VOTE, MessageKind.VOTE}
    return sum(isinstance(f, RaftFrame) and f.message.kind in votes for f in frames)


def has_vote(bench: Bench, node_id: int) -> bool:
    return any(node_id in node.replica.record.conf.voters for node in bench.running)


async def insisted(
    bench: Bench, kind: str, argument: object, is_done: Callable[[Node], bool]
) -> None:
    """Ask the leader repeatedly until the condition holds there."""

    def done() -> bool:
        leaders = [node for node in bench.running if node.replica.is_leader]
        for leader in leaders:
            if not is_done(leader):
                getattr(leader.replica, kind)(argument, lambda _error: None)
        return any(map(is_done, leaders))

    await until(done, f"{kind} {argument}")


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", SEEDS)
async def test_three_become_two_become_one_whoever_is_killed_meanwhile(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    nodes = await bench.cluster(3)
    order = chance.sample(nodes, 3)
    for place, gone in enumerate(order[:2]):
        await shrunk(bench, order[place:], gone, chance)
    last = order[2]
    await until(lambda: last.replica.is_lone and last.replica.is_leader, "for the last one to lead")
    await last.write(b"alone")
    assert last.stored() == [b"alone"]


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", SEEDS)
async def test_one_becomes_two_becomes_three_whoever_is_killed_meanwhile(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    first = bench.node(1)
    first.replica.bootstrap([first.member], lambda _error: None)
    await until(lambda: first.replica.is_leader)
    for node_id in (2, 3):
        new = bench.node(node_id)
        await insisted(bench, "add", new.member, partial(knows, node_id))
        await until(partial(has_vote, bench, node_id), "for a vote")
        await asyncio.sleep(chance.choice((0, 0.002, 0.005)))
        await killed_and_started(chance.choice(bench.running), chance.choice((0, 0.5)))
        await bench.leader()
    leader = await bench.leader()
    await until(lambda: set(leader.replica.record.conf.voters) == {1, 2, 3})
    await leader.write(b"all")
    await until(lambda: all(node.stored() == [b"all"] for node in bench.running))


class ForgetfulStore(LmdbStore):
    """After the next change of the members is in the log, nothing more gets to the disk."""

    is_last = False
    is_over = False

    def write(self, write: Write) -> Written:
        if self.is_over:
            return Written(0.0, 0.0)
        self.is_over = self.is_last and any(entry.kind for entry in write.entries)
        return super().write(write)


class ForgetfulNode(Node):
    def open_store(self) -> ForgetfulStore:
        return ForgetfulStore(self.path)


@pytest.mark.asyncio
async def test_the_last_one_gets_the_vote_of_the_one_that_was_removed(bench: Bench) -> None:
    bench.node_type = ForgetfulNode
    nodes = await bench.cluster(2)
    last = await bench.leader()
    (gone,) = (node for node in nodes if node is not last)
    last.store.is_last = True
    await asked(last, "remove", gone.id)
    await until(lambda: gone.replica.node.is_removed and last.replica.is_lone)
    last.kill()
    last.start()
    assert last.replica.record.conf.voters == (1, 2)
    await until(lambda: last.replica.is_lone and last.replica.is_leader, "for the vote")
    gone.kill()
    await last.write(b"alone")


@pytest.mark.asyncio
async def test_it_can_be_mended_by_starting_the_removed_node_again(bench: Bench) -> None:
    bench.node_type = ForgetfulNode
    nodes = await bench.cluster(2)
    last = await bench.leader()
    (gone,) = (node for node in nodes if node is not last)
    last.store.is_last = True
    await asked(last, "remove", gone.id)
    await until(lambda: gone.replica.node.is_removed and gone.id in gone.durable().removed)
    for node in (last, gone):
        node.kill()
    bench.network.sent.clear()
    last.start()
    await until(lambda: asked_for_votes(bench, last) >= 2, "for elections that nobody wins")
    assert not last.replica.is_leader
    gone.start()
    await until(lambda: last.replica.is_lone and last.replica.is_leader, "for the vote")


@pytest.mark.asyncio
async def test_who_asked_is_told_when_it_is_written(bench: Bench) -> None:
    bench.node_type = ForgetfulNode
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    gone = next(node for node in nodes if node is not leader)
    written: list[bool] = []
    leader.replica.remove(
        gone.id, lambda _error: written.append(gone.id in leader.durable().removed)
    )
    await until(lambda: written)
    assert written == [True]


@pytest.mark.asyncio
async def test_one_that_is_removed_says_so_when_the_others_have_it_written(bench: Bench) -> None:
    bench.node_type = ForgetfulNode
    nodes = await bench.cluster(2)
    last = await bench.leader()
    (gone,) = (node for node in nodes if node is not last)
    written: list[bool] = []
    gone.replica.remove(gone.id, lambda _error: written.append(gone.id in last.durable().removed))
    await until(lambda: written)
    assert written == [True]
