"""Several entries on their way through the quorum: in order, each once, none without the last."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.cluster import flight, proposals
from penstock.cluster.frames import Forward, Frame, Member, RaftFrame
from penstock.core.commands import Received, SessionOpened, TopicGone
from penstock.obs.reasons import DisconnectReason
from penstock.raft.types import MessageKind, NodeId
from tests.cluster.broker_bench import BrokerBench, BrokerNode, Outlet
from tests.cluster.cluster_bench import until

pytestmark = pytest.mark.asyncio

DELAY_S = 0.01


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerBench]:
    """An empty cluster of brokers, between which everything takes a while."""
    monkeypatch.setattr(flight, "SPACING_S", 1e-6)
    monkeypatch.setattr(proposals, "SPACING_S", 0.0)
    bench = BrokerBench(tmp_path)
    yield bench
    bench.close()


async def distant(brokers: BrokerBench) -> tuple[BrokerNode, list[BrokerNode]]:
    """The leader and the followers of a cluster whose windows are open."""
    await brokers.cluster(3)
    brokers.network.delay_s = DELAY_S
    leader = await brokers.leader()
    assert isinstance(leader, BrokerNode)
    for node in brokers.brokers():
        first = Outlet()
        publish(node, first, 0, topic=b"first")
        await until(lambda first=first: first.acked)
    return leader, [node for node in brokers.brokers() if node is not leader]


def publish(node: BrokerNode, outlet: Outlet, number: int, topic: bytes = b"t") -> None:
    payload = b"%d" % number
    node.pipeline.publish(
        topic, [payload], 1_000, qos=1, retain=False, packet_ids=[number + 1], client=outlet
    )


def _answers_an_append(_sender: NodeId, _to: NodeId, frame: Frame) -> bool:
    is_raft = isinstance(frame, RaftFrame)
    return is_raft and frame.message.kind is MessageKind.APPEND_RESPONSE


def _has_entries(_sender: NodeId, _to: NodeId, frame: Frame) -> bool:
    return isinstance(frame, RaftFrame) and bool(frame.message.entries)


def _nothing(_sender: NodeId, _to: NodeId, _frame: Frame) -> bool:
    return False


async def publish_one_by_one(node: BrokerNode, outlet: Outlet, count: int) -> int:
    """Publish messages, each in a batch of its own; return how many were in flight at most."""
    most = 0
    for number in range(count):
        publish(node, outlet, number)
        await until(lambda: node.is_sealed or node.is_idle)
        most = max(most, len(node.replica.proposals.own))
    return most


def stored(node: BrokerNode, topic: bytes = b"t") -> list[int]:
    return [int(payload) for payload in node.stored(topic)]


@pytest.mark.parametrize("where", ["leader", "follower"])
async def test_batches_follow_each_other_and_are_acknowledged_in_order(
    brokers: BrokerBench, where: str
) -> None:
    leader, followers = await distant(brokers)
    node = leader if where == "leader" else followers[0]
    outlet = Outlet()
    brokers.network.drops = _answers_an_append  # so that nothing is committed
    assert await publish_one_by_one(node, outlet, 12) == 12
    brokers.network.drops = _nothing
    await until(lambda: len(outlet.acked) == 12)
    assert outlet.acked == list(range(1, 13))
    await brokers.at_rest()
    assert [stored(one) for one in brokers.brokers()] == [list(range(12))] * 3


@pytest.mark.parametrize("do_others_have_them", [True, False])
async def test_a_leader_that_loses_the_lead_with_eight_entries_in_flight_loses_and_doubles_nothing(
    brokers: BrokerBench, do_others_have_them: bool
) -> None:
    leader, followers = await distant(brokers)
    outlet, other = Outlet(), Outlet()
    brokers.network.drops = _answers_an_append if do_others_have_them else _has_entries
    applied = leader.store.next_index
    assert await publish_one_by_one(leader, outlet, 8) == 8
    await until(lambda: leader.store.last_index == applied + 7, "for eight entries")
    nodes = followers if do_others_have_them else []
    await until(lambda: all(node.store.last_index == applied + 7 for node in nodes))
    assert not outlet.acked
    brokers.network.isolate(leader.id)
    brokers.network.drops = _nothing
    await brokers.leader(followers)
    publish(followers[0], other, 100)
    await until(lambda: other.acked)
    brokers.network.heal()
    await until(lambda: len(outlet.acked) == 8)
    assert outlet.acked == list(range(1, 9))
    await brokers.at_rest()
    expected = [*range(8), 100] if do_others_have_them else [100, *range(8)]
    assert [stored(one) for one in brokers.brokers()] == [expected] * 3


async def test_a_batch_that_got_lost_is_waited_for(brokers: BrokerBench) -> None:
    _, (follower, _) = await distant(brokers)
    outlet = Outlet()
    lost: list[int] = []

    def drops(_sender: NodeId, _to: NodeId, frame: Frame) -> bool:
        is_third = isinstance(frame, Forward) and frame.number == first + 2
        if is_third and not lost:
            lost.append(frame.number)
            return True
        return False

    first = follower.replica.proposals._number + 1
    brokers.network.drops = drops
    assert await publish_one_by_one(follower, outlet, 6) == 6
    await until(lambda: len(outlet.acked) == 6)
    assert lost
    assert outlet.acked == list(range(1, 7))
    assert stored(follower) == list(range(6))


async def test_a_leader_of_a_former_version_gets_one_batch_at_a_time(
    brokers: BrokerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (follower, _) = await distant(brokers)
    send, own = brokers.network.send, follower.replica.proposals.own
    forwarded: list[bool] = []

    def sent_as_before(sender: NodeId, to: NodeId, frame: Frame) -> None:
        if isinstance(frame, RaftFrame):
            frame = msgspec.structs.replace(frame, forwards=0)
        if isinstance(frame, Forward):
            forwarded.append(frame.number == own[0].number)
        send(sender, to, frame)

    monkeypatch.setattr(brokers.network, "send", sent_as_before)
    await until(lambda: follower.replica.proposals._leader_takes == 1)
    outlet = Outlet()
    for number in range(5):
        publish(follower, outlet, number)
        await asyncio.sleep(0)
    await until(lambda: len(outlet.acked) == 5)
    assert forwarded
    assert all(forwarded), "the oldest goes first, and alone"
    assert stored(follower) == list(range(5))


async def test_a_topic_that_is_dropped_with_entries_in_flight_ends_where_it_should(
    brokers: BrokerBench,
) -> None:
    leader, (one, _) = await distant(brokers)
    outlets = [Outlet(), Outlet()]
    brokers.network.drops = _answers_an_append
    for number in range(4):
        publish(one, outlets[1], 10 + number)
        publish(leader, outlets[0], number)
        await until(lambda: leader.is_sealed)  # a drop precedes everything in its batch
    leader.pipeline.drop_topic(b"t", TopicGone(b"t"), None)
    publish(leader, outlets[0], 4)
    await until(lambda: leader.is_sealed)
    brokers.network.drops = _nothing
    await until(lambda: len(outlets[0].acked) == 5 and len(outlets[1].acked) == 4)
    await brokers.at_rest()
    left = stored(leader)
    assert 4 in left
    assert not {0, 1, 2, 3} & set(left), "they came before the drop"
    assert [stored(node) for node in brokers.brokers()] == [stored(leader)] * 3


async def test_several_entries_are_sent_before_the_first_is_answered(brokers: BrokerBench) -> None:
    leader, (one, _) = await distant(brokers)
    outlet, first = Outlet(), len(brokers.network.sent)
    brokers.network.drops = _answers_an_append
    await publish_one_by_one(leader, outlet, 6)

    def sent() -> set[int]:
        return {
            entry.index
            for sender, to, frame in brokers.network.sent[first:]
            if isinstance(frame, RaftFrame) and (sender, to) == (leader.id, one.id)
            for entry in frame.message.entries
        }

    next_index = leader.store.next_index
    await until(lambda: sent() == set(range(next_index, next_index + 6)))
    assert not outlet.acked
    brokers.network.drops = _nothing
    await until(lambda: len(outlet.acked) == 6)


def produce(node: BrokerNode, outlet: Outlet, seq: int) -> None:
    """Number a message, which only a leader can do."""
    with node.pipeline.as_leader():
        node.pipeline.publish(b"jobs", [b"job"], 1_000, qos=1, retain=False)
        node.pipeline.add_producer_run(b"jobs", 1, b"p", seq)
    node.pipeline.tell_offsets(b"jobs", 1, outlet, 1_000)


async def test_what_a_leader_decided_in_several_batches_is_void_once_another_leads(
    brokers: BrokerBench,
) -> None:
    former, others = await distant(brokers)
    publisher, producer = Outlet(), Outlet()
    brokers.network.drops = _has_entries
    for number in range(6):
        publish(former, publisher, number)
        if number % 2:
            produce(former, producer, number)
        await until(lambda: former.is_sealed)
    assert len(former.replica.proposals.own) == 6
    brokers.network.isolate(former.id)
    brokers.network.drops = _nothing
    await brokers.leader(others)
    brokers.network.heal()
    await until(lambda: len(publisher.acked) == 6)
    assert publisher.acked == list(range(1, 7))
    await brokers.at_rest()
    assert [stored(node) for node in brokers.brokers()] == [list(range(6))] * 3
    assert [node.stored(b"jobs") for node in brokers.brokers()] == [[]] * 3
    assert producer.refusals == [DisconnectReason.LEADERSHIP_LOST] * 3
    assert not publisher.refusals


async def test_a_qos_2_message_is_not_taken_twice_while_its_client_is_on_its_way_to_another_node(
    brokers: BrokerBench,
) -> None:
    """The entry that opens the session is in flight when the copy of the last node arrives."""
    leader, (old, new) = await distant(brokers)
    first, second = Outlet(), Outlet()
    await opened(old, first, 1)
    brokers.network.cuts |= {(old.id, leader.id)}
    publish_exactly_once(old, first)
    await until(lambda: old.is_sealed)
    brokers.network.drops = _answers_an_append
    before = leader.store.last_index
    open_session(new, second, 2)
    await until(lambda: leader.store.last_index > before, "for the session in flight")
    brokers.network.cuts.clear()
    await until(lambda: len(leader.replica.proposals.queue), "for the first copy")
    brokers.network.drops = _nothing
    await until(lambda: second.session is not None)
    publish_exactly_once(new, second)
    await until(lambda: second.acked == [7] and old.pipeline.is_idle)
    await brokers.at_rest()
    assert [node.stored() for node in brokers.brokers()] == [[b"once"]] * 3
    assert first.refusals


def open_session(node: BrokerNode, outlet: Outlet, number: int) -> None:
    outlet.number = number << 16 | node.id
    node.submit_command(SessionOpened(b"ann", outlet.number, clean=False, will=None), outlet)


async def opened(node: BrokerNode, outlet: Outlet, number: int) -> None:
    open_session(node, outlet, number)
    await until(lambda: outlet.session is not None)


def publish_exactly_once(node: BrokerNode, outlet: Outlet) -> None:
    assert outlet.session is not None
    received = Received(b"ann", [7], outlet.session.origin, outlet.number)
    node.pipeline.receive(received, outlet, record=True)
    node.pipeline.publish(
        b"t", [b"once"], 1_000, qos=2, retain=False, packet_ids=[7], client=outlet
    )


async def test_a_batch_that_arrives_during_a_membership_change_need_not_be_sent_again(
    brokers: BrokerBench,
) -> None:
    leader, (follower, _) = await distant(brokers)
    brokers.network.drops = _answers_an_append
    before, outlet = leader.store.last_index, Outlet()
    leader.replica.add(Member(4, "127.0.0.1:7004", "127.0.0.1:8004"), lambda _error: None)
    await until(lambda: leader.store.last_index > before, "for the change in flight")
    publish(follower, outlet, 0)
    await until(lambda: len(leader.replica.proposals.queue), "for the batch to wait")
    repeats = follower.replica.counts.forward_repeats
    follower.replica.proposals.own[0].repeat_in = 1_000_000
    brokers.network.drops = _nothing
    await until(lambda: outlet.acked)
    assert follower.replica.counts.forward_repeats == repeats
