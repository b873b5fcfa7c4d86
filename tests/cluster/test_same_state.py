"""All nodes have the same state, and have it again after a crash: whatever was acknowledged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster import flight
from penstock.cluster.frames import Frame, RaftFrame
from penstock.commit import checkpoint
from penstock.core.commands import SessionOpened, Subscribed
from penstock.raft.types import MessageKind, NodeId
from penstock.store.entry import decode
from tests.cluster.broker_bench import BrokerBench, BrokerNode, Outlet
from tests.cluster.cluster_bench import until

pytestmark = pytest.mark.asyncio


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[BrokerBench]:
    """An empty cluster of brokers; whatever was started in it is ended."""
    bench = BrokerBench(tmp_path)
    yield bench
    bench.close()


def publish(node: BrokerNode, topic: bytes, payload: bytes, outlet: Outlet | None = None) -> None:
    node.pipeline.publish(
        topic, [payload], 1_000, qos=1, retain=False, packet_ids=[1], client=outlet
    )


def _answers_an_append(_sender: NodeId, _to: NodeId, frame: Frame) -> bool:
    is_raft = isinstance(frame, RaftFrame)
    return is_raft and frame.message.kind is MessageKind.APPEND_RESPONSE


def _nothing(_sender: NodeId, _to: NodeId, _frame: Frame) -> bool:
    return False


def _entry_of_two(node: BrokerNode) -> bool:
    """Whether an entry has a batch of this node first, and one of another behind it."""
    store = node.store
    entries = store.log_entries(store.first_index, store.last_index + 1, 1 << 30)
    found = [decode(entry.data).segments for entry in entries if entry.data and not entry.kind]
    return any([s.node for s in segments][:1] == [node.id] for segments in found if segments[1:])


async def test_a_row_contains_all_of_an_entry_that_it_says_it_contains(
    brokers: BrokerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is taken when the next batch is sealed: not between two batches of one entry."""
    monkeypatch.setattr(checkpoint, "ROUND_INTERVAL_S", 0.0)
    monkeypatch.setattr(flight, "COUNT_MAX", 1)  # what waits shares an entry
    await brokers.cluster(3)
    leader = await brokers.leader()
    assert isinstance(leader, BrokerNode)
    one, two = [node for node in brokers.brokers() if node is not leader]
    leader.submit_command(
        SessionOpened(b"ann", 1 << 16 | leader.id, clean=False, will=None), Outlet()
    )
    leader.submit_command(Subscribed(b"ann", 1, [(b"a", 1)]))
    await brokers.at_rest()
    brokers.network.drops = _answers_an_append
    publish(two, b"x", b"keeps the leader busy")
    await until(lambda: leader.store.last_index >= leader.store.next_index, "for the first entry")
    publish(leader, b"a", b"first in the entry")
    await until(lambda: leader.is_sealed)  # what comes now waits for the next entry
    publish(leader, b"x", b"has rows with it")
    publish(one, b"a", b"second in the entry")
    await until(lambda: len(leader.replica.proposals.queue) == 2, "for both batches to wait")
    brokers.network.drops = _nothing
    expected = await brokers.at_rest()
    assert _entry_of_two(leader)
    leader.kill()
    leader.start()
    await brokers.leader()
    assert [state["sessions"] for state in await brokers.at_rest()] == [
        state["sessions"] for state in expected
    ]
