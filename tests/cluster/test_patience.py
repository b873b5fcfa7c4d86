"""How long nodes wait for each other, and how much they keep for each other."""

import pytest

from penstock.cluster.frames import Forward, Frame
from penstock.cluster.kept_log import SPARED_TIMES
from penstock.errors import NoQuorum
from penstock.raft.types import NodeId
from tests.cluster.cluster_bench import SOON_S, Bench, until

pytestmark = pytest.mark.asyncio


async def test_a_batch_that_never_gets_to_a_leader_that_is_heard_of_is_given_up(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(
        3, election_ticks=50, no_leader_timeout_s=SOON_S
    )  # no other node becomes leader meanwhile
    leader = await bench.leader()
    follower = next(node for node in nodes if node is not leader)

    def is_lost(sender: NodeId, _to: NodeId, frame: Frame) -> bool:
        return sender == follower.id and isinstance(frame, Forward)

    bench.network.drops = is_lost
    with pytest.raises(NoQuorum, match=f"node {leader.id} leads, but does not take") as caught:
        await follower.write(b"lost")
    assert "network" in caught.value.advice
    assert follower.replica.leader == leader.id
    bench.network.drops = lambda _sender, _to, _frame: False
    await follower.write(b"kept")
    await until(lambda: leader.stored() == [b"kept"])


async def test_entries_are_kept_for_who_is_up_and_slow_but_not_without_end(bench: Bench) -> None:
    kept = 5
    nodes = await bench.cluster(3, log_kept_entries=kept)
    leader = await bench.leader()
    slow, other = (node for node in nodes if node is not leader)

    def is_lost(_sender: NodeId, to: NodeId, frame: Frame) -> bool:
        # It is active, and gets no entries.
        return to == slow.id and bool(getattr(getattr(frame, "message", None), "entries", ()))

    def folded() -> int:
        return leader.replica.applied_index

    async def write(count: int) -> None:
        for _ in range(count):
            await leader.write(b"x")

    await until(lambda: other.replica.applied_index == slow.replica.applied_index == folded())
    had = folded()
    bench.network.drops = is_lost
    await write(2 * kept)
    await until(lambda: leader.store.log_floor == had + 1, "to be spared")
    await until(lambda: other.store.log_floor == other.replica.applied_index - kept + 1)
    await write(SPARED_TIMES * kept)
    await until(lambda: leader.store.log_floor == folded() - SPARED_TIMES * kept + 1, "to give up")


async def test_nothing_is_kept_for_who_is_down(bench: Bench) -> None:
    kept = 5
    nodes = await bench.cluster(3, log_kept_entries=kept)
    leader = await bench.leader()
    down = next(node for node in nodes if node is not leader)
    down.kill()
    for _ in range(2 * kept):
        await leader.write(b"x")
    await until(lambda: leader.store.log_floor == leader.replica.applied_index - kept + 1)


async def test_a_node_that_starts_goes_on_keeping_what_others_may_need(bench: Bench) -> None:
    """From the start on, before any tick: a fold may follow its first write."""
    kept = 5
    nodes = await bench.cluster(3, log_kept_entries=kept)
    leader = await bench.leader()
    for _ in range(2 * kept):
        await leader.write(b"x")
    leader.kill()
    leader.start()
    assert leader.replica.applied_index > kept
    assert leader.store.log_floor == leader.replica.applied_index - kept + 1
    assert leader.store.start_floor == leader.replica.applied_index + 1
    await bench.leader(nodes)
