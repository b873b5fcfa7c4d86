"""The order of a publisher's messages across changes of the leader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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


def publish(node: BrokerNode, outlet: Outlet, number: int) -> None:
    node.pipeline.publish(
        b"t", [b"%d" % number], 1_000, qos=1, retain=False, packet_ids=[number], client=outlet
    )


def produce(node: BrokerNode, outlet: Outlet) -> None:
    """Number a message, which only a leader can do."""
    with node.pipeline.as_leader():
        node.pipeline.publish(b"jobs", [b"job"], 1_000, qos=1, retain=False)
        node.pipeline.add_producer_run(b"jobs", 1, b"p", 1)
    node.pipeline.tell_offsets(b"jobs", 1, outlet, 1_000)


async def test_a_publisher_keeps_its_order_when_the_lead_moves_past_a_numbered_message(
    brokers: BrokerBench,
) -> None:
    """Its first messages share a batch with what only the former leader could decide."""
    await brokers.cluster(3)
    former = await brokers.leader()
    assert isinstance(former, BrokerNode)
    publisher, producer = Outlet(), Outlet()
    brokers.network.isolate(former.id)
    publish(former, publisher, 1)
    produce(former, producer)
    publish(former, publisher, 2)
    await until(lambda: former.store.last_index >= former.store.next_index, "for the batch")
    publish(former, publisher, 3)
    others = [node for node in brokers.brokers() if node is not former]
    await until(lambda: any(node.replica.is_leader for node in others), "for another leader")
    brokers.network.heal()
    await until(lambda: publisher.acked == [1, 2, 3], "for all acknowledgements")
    await brokers.at_rest()
    assert [node.stored() for node in brokers.brokers()] == [[b"1", b"2", b"3"]] * 3
    assert [node.stored(b"jobs") for node in brokers.brokers()] == [[]] * 3
    assert producer.refusals == [DisconnectReason.LEADERSHIP_LOST]
    assert not producer.stored_at
    assert not publisher.refusals
