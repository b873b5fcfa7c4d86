"""Reads of RESP clients at a node of a cluster: they wait for the quorum's word, or do without."""

import asyncio

import pytest
import pytest_asyncio
from tests.benches.resp_bench import Client, settle
from tests.cluster.fixed_node import Node

from penstock.errors import NoQuorum
from penstock.obs.reasons import DisconnectReason
from penstock.testing import AsyncBroker

pytestmark = pytest.mark.asyncio

READS = [
    b"XLEN s",
    b"XRANGE s - +",
    b"XREVRANGE s + -",
    b"XREAD STREAMS s 0",
    b"XINFO STREAM s",
    b"XINFO GROUPS s",
    b"XINFO CONSUMERS s g",
    b"XPENDING s g",
]


@pytest_asyncio.fixture
async def broker():
    async with AsyncBroker(sys={"interval_s": 0}) as own:
        client = Client(own)
        client.send_all(b"XADD s * f 1", b"XGROUP CREATE s g 0")
        await heard(client, 2)
        door = own.server.parts.resp_door
        lone, door.cluster = door.cluster, Node(leader=2)
        yield own
        door.cluster = lone


async def heard(client, count):
    """All that the client was sent, once there is so much of it."""
    async with asyncio.timeout(20):
        while len(client.replies) < count:
            await asyncio.sleep(0)
            client.connection.outbox.flush()
    return client.replies


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("read", READS)
async def test_read_waits_for_the_word_of_a_quorum(broker, read):
    node = broker.server.parts.resp_door.cluster
    node.error = "wait"
    client = Client(broker)
    client.send_all(read)
    await turns()
    assert client.replies == []
    [(_read, then)] = node.asked
    then(None)
    [reply] = await heard(client, 1)
    assert not isinstance(reply, tuple), "no error"


@pytest.mark.parametrize("read", READS)
async def test_read_without_a_quorum_is_refused_as_in_a_redis_cluster(broker, read):
    broker.server.parts.resp_door.cluster.error = NoQuorum("cut off")
    client = Client(broker)
    client.send_all(read)
    [(kind, text)] = await heard(client, 1)
    assert kind == "error"
    assert text.startswith("CLUSTERDOWN cut off")
    assert "READONLY" in text


async def test_pipelined_reads_share_one_question_and_later_ones_ask_anew(broker):
    node = broker.server.parts.resp_door.cluster
    node.error = "wait"
    client = Client(broker)
    client.send_all(*[b"XLEN s"] * 200, b"XADD s * f 2", *[b"XLEN s"] * 3)
    await turns()
    client.send_all(b"XLEN s")
    assert len(node.asked) == 1
    node.asked[0][1](None)
    replies = await heard(client, 204)
    assert replies[:200] == [1] * 200
    assert replies[201:] == [2] * 3
    await turns()
    assert len(node.asked) == 2, "the last read came after the first question was put"
    node.asked[1][1](None)
    assert (await heard(client, 205))[-1] == 2


async def test_refusal_is_for_the_reads_that_were_asked_about_and_writes_go_on(broker):
    node = broker.server.parts.resp_door.cluster
    node.error = NoQuorum("cut off")
    client = Client(broker)
    client.send_all(b"XLEN s", b"XADD s * f 2", b"PING", b"XLEN s")
    replies = await heard(client, 4)
    assert [reply[0] == "error" for reply in replies if isinstance(reply, tuple)] == [True, True]
    assert replies[2] == b"PONG"
    node.error = None
    client.send_all(b"XLEN s")
    assert (await heard(client, 5))[-1] == 2


async def test_readonly_client_gets_what_the_node_has_until_it_says_otherwise(broker):
    node = broker.server.parts.resp_door.cluster
    node.error = NoQuorum("cut off")
    client = Client(broker)
    client.send_all(b"READONLY", b"XLEN s", b"READWRITE", b"XLEN s")
    replies = await heard(client, 4)
    assert replies[:3] == [b"OK", 1, b"OK"]
    assert replies[3][1].startswith("CLUSTERDOWN")
    client.send_all(b"READONLY", b"RESET", b"XLEN s")
    assert (await heard(client, 7))[-1][1].startswith("CLUSTERDOWN")


@pytest.mark.parametrize(
    "asked",
    [
        b"XREAD BLOCK 1 STREAMS s $",
        b"XREADGROUP GROUP g c BLOCK 1 STREAMS other >",
        b"XREADGROUP GROUP g c STREAMS s 0",
        b"PULL jobs",
        b"PULL jobs BLOCK 1",
    ],
)
async def test_nothing_is_said_to_be_there_only_if_a_quorum_agrees(broker, asked):
    node = broker.server.parts.resp_door.cluster
    client = Client(broker)
    client.send_all(b"XGROUP CREATE other g 0 MKSTREAM", asked)
    found = (await heard(client, 2))[1]
    assert found in (None, [[b"s", []]])
    count = len(node.asked)
    assert count >= 1
    node.error = NoQuorum("cut off")
    client.send_all(b"READWRITE", asked)
    assert (await heard(client, 4))[3][1].startswith("CLUSTERDOWN")


async def test_word_that_comes_after_the_client_has_left_harms_nobody(broker):
    node = broker.server.parts.resp_door.cluster
    node.error = "wait"
    client = Client(broker)
    client.send_all(b"XLEN s")
    client.connection.close(DisconnectReason.CONNECTION_LOST)
    node.asked[0][1](None)
    await turns()
    assert client.replies == []


async def test_lone_broker_answers_in_the_same_turn():
    async with AsyncBroker(sys={"interval_s": 0}) as own:
        client = Client(own)
        client.send_all(b"XADD s * f 1")
        await settle(own, client)
        client.send_all(b"XLEN s")
        client.connection.outbox.flush()
        assert client.replies[-1] == 1
