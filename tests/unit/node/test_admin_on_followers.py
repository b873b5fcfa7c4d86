"""Administrators change things at the leader: another node says where that is."""

import pytest
from tests.benches.queue_door_bench import Bench
from tests.cluster.fixed_node import LEADER_ADDR, Node

from penstock.core.commands import GroupConfigured, TopicConfigured
from penstock.errors import NoQuorum, NotLeader
from penstock.node.key_admin import NodeKeyAdmin
from penstock.node.queue_admin import NodeQueueAdmin
from penstock.node.workers import WorkerLookout
from penstock.trust.keys import Key

pytestmark = pytest.mark.asyncio

CHANGES = {
    "topic": lambda book, _keys: book.configure_topic(TopicConfigured(b"t", keep=True)),
    "deletion": lambda book, _keys: book.delete_topic(b"t"),
    "group": lambda book, _keys: book.make_group(b"t", b"g", "earliest", 0),
    "settings": lambda book, _keys: book.configure_group(GroupConfigured(b"t", b"g", 1, 1, 1)),
    "letters": lambda book, _keys: book.redrive(b"t", b"g", 1),
    "key": lambda _book, keys: keys.store_keys(Key(1, bytes(32), "d", "#", 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_only_the_leader_is_changed(change):
    bench = Bench()
    bench.parts.cluster = Node(leader=2)
    parts = bench.parts
    books = (
        NodeQueueAdmin(
            parts.broker,
            parts.store,
            parts.dispatchers,
            parts.pipeline,
            parts.cluster,
            parts.clock,
            parts.audit,
            WorkerLookout(parts.dispatchers, parts.connections),
            parts.steady,
        ),
        NodeKeyAdmin(parts.broker.keys, parts.pipeline, parts.cluster, parts.clock, parts.audit),
    )
    with pytest.raises(NotLeader) as caught:
        await change(*books)
    assert caught.value.leader_addr == LEADER_ADDR
    bench.parts.cluster.leader = 0
    with pytest.raises(NoQuorum):
        await change(*books)
    bench.parts.cluster.leader = 1
    await change(*books)
    await bench.close()
