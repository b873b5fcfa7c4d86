"""A client that publishes with QoS 2, or with numbers, goes to another node: each of its messages counts once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.commands import Received, Released, SessionOpened
from penstock.model.message import OWN_PRODUCERS
from penstock.obs.reasons import DisconnectReason
from tests.cluster.broker_bench import BrokerBench, BrokerNode, Outlet
from tests.cluster.cluster_bench import until

pytestmark = pytest.mark.asyncio


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[BrokerBench]:
    """An empty cluster of brokers; whatever was started in it is ended."""
    bench = BrokerBench(tmp_path)
    yield bench
    bench.close()


async def opened(node: BrokerNode, number: int) -> Outlet:
    outlet = Outlet()
    outlet.number = number << 16 | node.id
    node.submit_command(SessionOpened(b"ann", outlet.number, clean=False, will=None), outlet)
    await until(lambda: outlet.session is not None)
    return outlet


def publish(node: BrokerNode, outlet: Outlet, packet_id: int, payload: bytes) -> None:
    session = outlet.session
    assert session is not None
    received = Received(b"ann", [packet_id], session.origin, outlet.number)
    node.pipeline.receive(received, outlet, record=True)
    node.pipeline.publish(
        b"t", [payload], 1_000, qos=2, retain=False, packet_ids=[packet_id], client=outlet
    )


async def followers(brokers: BrokerBench) -> tuple[BrokerNode, BrokerNode]:
    await brokers.cluster(3)
    leader = await brokers.leader()
    old, new = [node for node in brokers.brokers() if node is not leader]
    return old, new


async def moved(brokers: BrokerBench) -> tuple[BrokerNode, Outlet, BrokerNode, Outlet]:
    """A client published at a node that was cut off, and has repeated it at another by now."""
    old, new = await followers(brokers)
    first = await opened(old, 1)
    brokers.network.cuts |= {(old.id, old.replica.leader)}
    publish(old, first, 7, b"once")
    await until(lambda: old.is_sealed)
    second = await opened(new, 2)
    assert second.session is not None and not second.session.has_received(7)  # noqa: PT018
    publish(new, second, 7, b"once")
    await until(lambda: second.acked == [7])
    return old, first, new, second


async def once(brokers: BrokerBench, old: BrokerNode) -> None:
    """The node is there again and has nothing on its way: the message is in all journals, once."""
    brokers.network.heal()
    await until(lambda: old.pipeline.is_idle)
    await brokers.at_rest()
    assert [node.stored() for node in brokers.brokers()] == [[b"once"]] * 3


async def test_a_message_that_is_on_its_way_from_the_last_node_is_not_taken_once_more(
    brokers: BrokerBench,
) -> None:
    old, first, _, _ = await moved(brokers)
    await once(brokers, old)
    assert first.refusals


async def test_nor_is_it_when_its_packet_id_is_free_again(brokers: BrokerBench) -> None:
    old, _, new, second = await moved(brokers)
    assert second.session is not None
    new.submit_command(Released(b"ann", [7], second.number))
    await until(lambda: not second.session.has_received(7))
    await once(brokers, old)


async def test_a_client_that_comes_back_to_its_node_is_not_late(brokers: BrokerBench) -> None:
    """Its first copy precedes the new connection in the pipeline, and is known when it is accepted."""
    await brokers.cluster(3)
    leader = await brokers.leader()
    node = next(node for node in brokers.brokers() if node is not leader)
    first = await opened(node, 1)
    publish(node, first, 7, b"once")
    second = await opened(node, 2)
    assert second.session is not None
    assert second.session.has_received(7)
    await once(brokers, node)
    assert not first.refusals


async def test_a_release_from_the_last_node_does_not_free_an_id_that_is_used_again(
    brokers: BrokerBench,
) -> None:
    """Else its message could be repeated, and would be taken for another one."""
    old, new = await followers(brokers)
    first = await opened(old, 1)
    publish(old, first, 7, b"first")
    await until(lambda: first.acked == [7])
    brokers.network.cuts |= {(old.id, old.replica.leader)}
    old.submit_command(Released(b"ann", [7], first.number))
    await until(lambda: old.is_sealed)
    second = await opened(new, 2)
    new.submit_command(Released(b"ann", [7], second.number))
    publish(new, second, 7, b"second")
    await until(lambda: second.acked == [7])
    brokers.network.heal()
    await until(lambda: old.pipeline.is_idle)
    assert [state["sessions"][b"ann"][-1] for state in await brokers.at_rest()] == [[7]] * 3


# ── numbered publishes of the binary protocol

PRODUCER = OWN_PRODUCERS + b"ann"


def numbered(node: BrokerNode, payload: bytes, number: int = 1) -> Outlet:
    """Publish as the door does to which no first copy is known."""
    outlet = Outlet()
    node.pipeline.publish(
        b"t", [payload], 1_000, qos=1, retain=False, packet_ids=[number], client=outlet
    )
    node.pipeline.add_producer_run(b"t", 1, PRODUCER, number)
    return outlet


async def test_a_numbered_message_that_was_repeated_at_another_node_is_stored_once(
    brokers: BrokerBench,
) -> None:
    old, new = await followers(brokers)
    brokers.network.cuts |= {(old.id, old.replica.leader)}
    first = numbered(old, b"once")
    await until(lambda: old.is_sealed)
    second = numbered(new, b"once")
    await until(lambda: second.acked == [1])
    await once(brokers, old)
    assert first.refusals == [DisconnectReason.LEADERSHIP_LOST]


async def test_both_copies_may_reach_the_leader_at_once(brokers: BrokerBench) -> None:
    """Neither node knows of the other's; of the two copies one is refused, whichever it is."""
    nodes = await followers(brokers)
    outlets = [numbered(node, b"once") for node in nodes]
    await until(lambda: all(outlet.acked or outlet.refusals for outlet in outlets))
    assert sorted(bool(outlet.acked) for outlet in outlets) == [False, True]
    for node in nodes:
        await once(brokers, node)


async def test_other_numbers_of_the_same_client_are_taken_at_any_node(brokers: BrokerBench) -> None:
    old, new = await followers(brokers)
    outlets = [numbered(node, b"%d" % n, n) for n, node in enumerate([old, new, old, new])]
    await until(lambda: all(outlet.acked for outlet in outlets))
    await until(lambda: all(node.pipeline.is_idle for node in brokers.brokers()))
    await brokers.at_rest()
    assert [sorted(node.stored()) for node in brokers.brokers()] == [[b"0", b"1", b"2", b"3"]] * 3
