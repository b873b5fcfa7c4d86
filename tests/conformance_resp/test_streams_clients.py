"""redis-py, unmodified, on streams: every call of its stream API, blocking and not, RESP 2 and 3."""

import asyncio
import json

import aiomqtt
import pytest
import redis
import redis.asyncio

from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture(params=[2, 3])
def client(broker, request):
    with redis.Redis(port=broker.port, protocol=request.param, decode_responses=True) as client:
        yield client


@pytest.fixture
def topic(request):
    return request.node.name


def entries(answer):
    """Extract ids and fields from XREAD-like answers, whose shape depends on the protocol."""
    if isinstance(answer, dict):
        return [entry for lots in answer.values() for entry in _flat(lots)]
    return [entry for _, lots in answer for entry in _flat(lots)]


def _flat(lots):
    return [e for lot in lots for e in lot] if lots and isinstance(lots[0], list) else lots


def test_a_group_works_through_a_stream(client, topic):
    """The usual tutorial: create a group, read, acknowledge, claim the rest."""
    client.xgroup_create(topic, "workers", id="0", mkstream=True)
    added = [client.xadd(topic, {"job": number, "kind": "x"}) for number in range(4)]
    assert client.xlen(topic) == 4
    first = entries(client.xreadgroup("workers", "ann", {topic: ">"}, count=2))
    second = entries(client.xreadgroup("workers", "bob", {topic: ">"}, count=5, block=1_000))
    assert [entry for entry, _ in first + second] == added
    assert [tuple(e)[1] for e in first] == [{"job": str(n), "kind": "x"} for n in range(2)]
    assert client.xack(topic, "workers", added[0], added[2]) == 2
    assert client.xpending(topic, "workers") == {
        "pending": 2,
        "min": added[1],
        "max": added[3],
        "consumers": [{"name": "ann", "pending": 1}, {"name": "bob", "pending": 1}],
    }
    (listed,) = client.xpending_range(topic, "workers", "-", "+", 10, consumername="ann")
    assert (listed["message_id"], listed["consumer"], listed["times_delivered"]) == (
        added[1], "ann", 1,
    )  # fmt: skip
    claimed = client.xclaim(topic, "workers", "carl", 0, [added[1]], retrycount=5)
    assert [entry for entry, _ in claimed] == [added[1]]
    assert client.xclaim(topic, "workers", "carl", 0, [added[3]], justid=True) == [added[3]]
    cursor, taken, gone = client.xautoclaim(topic, "workers", "dora", 0, "0-0")
    assert (cursor, [entry for entry, _ in taken], gone) == ("0-0", [added[1], added[3]], [])
    own = entries(client.xreadgroup("workers", "dora", {topic: "0"}))
    assert [entry for entry, _ in own] == [added[1], added[3]]


def test_ranges_trims_and_deletes(client, topic):
    added = [client.xadd(topic, {"n": number}) for number in range(6)]
    assert [entry for entry, _ in client.xrange(topic, added[1], added[3])] == added[1:4]
    assert [entry for entry, _ in client.xrange(topic, f"({added[1]}", count=1)] == [added[2]]
    assert [entry for entry, _ in client.xrevrange(topic, count=2)] == added[:3:-1]
    assert [entry for entry, _ in entries(client.xread({topic: added[3]}))] == added[4:]
    assert client.xdel(topic, added[2]) == 1
    assert client.xtrim(topic, maxlen=3, approximate=False) == 2
    assert [entry for entry, _ in client.xrange(topic)] == added[3:]
    assert client.xadd(topic, {"n": 6}, maxlen=2, approximate=False)
    assert client.xlen(topic) == 2
    assert client.xadd(f"{topic}-none", {"n": 0}, nomkstream=True) is None


def test_information(client, topic):
    added = [client.xadd(topic, {"n": number}) for number in range(3)]
    client.xgroup_create(topic, "g", id="0")
    client.xgroup_createconsumer(topic, "g", "idle")
    client.xreadgroup("g", "ann", {topic: ">"}, count=1)
    info = client.xinfo_stream(topic)
    assert (info["length"], info["groups"], info["entries-added"]) == (3, 1, 3)
    assert (info["first-entry"][0], info["last-entry"][0]) == (added[0], added[2])
    assert info["last-generated-id"] == added[2]
    (group,) = client.xinfo_groups(topic)
    assert (group["consumers"], group["pending"], group["lag"]) == (2, 1, 2)
    assert group["last-delivered-id"] == added[0]
    consumers = {found["name"]: found["pending"] for found in client.xinfo_consumers(topic, "g")}
    assert consumers == {"ann": 1, "idle": 0}
    full = client.xinfo_stream(topic, full=True)
    assert full["length"] == 3
    assert client.xgroup_delconsumer(topic, "g", "ann") == 1
    assert client.xgroup_setid(topic, "g", "0")
    assert client.xgroup_destroy(topic, "g") == 1


@pytest.mark.asyncio
async def test_the_asynchronous_client_waits_for_what_comes(broker, topic):
    reader = redis.asyncio.Redis(port=broker.port, decode_responses=True)
    writer = redis.asyncio.Redis(port=broker.port, decode_responses=True)
    async with reader, writer:
        await writer.xadd(topic, {"n": "before"})
        waiting = asyncio.create_task(reader.xread({topic: "$"}, block=0))
        seen = None
        while not waiting.done():  # entries added before the reader waits would be too early
            seen = await writer.xadd(topic, {"n": "after"})
            await asyncio.wait([waiting], timeout=0.02)
        assert entries(await waiting)[0][1] == {"n": "after"}
        assert seen is not None


# ── one message, all protocols ─────────────────────────────────────────────────────────────────


@pytest.mark.asyncio
async def test_an_entry_reaches_mqtt_subscribers_as_json(broker, topic):
    async with aiomqtt.Client("127.0.0.1", broker.port) as listener:
        await listener.subscribe(topic, qos=1)
        async with redis.asyncio.Redis(port=broker.port) as client:
            await client.xadd(topic, {"unit": "C", "value": "21.5"})
            await client.xadd(topic, {"payload": "plain", "unit": "C"})
        received = []
        async for message in listener.messages:
            received.append(message.payload)
            if len(received) == 2:
                break
    assert json.loads(received[0]) == {"unit": "C", "value": "21.5"}
    assert received[1] == b"plain"


@pytest.mark.asyncio
async def test_what_mqtt_publishes_reaches_a_group(broker, topic):
    async with redis.asyncio.Redis(port=broker.port, decode_responses=True) as client:
        await client.xgroup_create(topic, "g", mkstream=True)
        async with aiomqtt.Client("127.0.0.1", broker.port) as publisher:
            await publisher.publish(topic, b"21.5", qos=1)
            await publisher.publish(topic, b"live", qos=0)
        found = []
        while len(found) < 2:
            found += entries(await client.xreadgroup("g", "c", {topic: ">"}, block=0))
    assert [fields for _, fields in found] == [{"payload": "21.5"}, {"payload": "live"}]


def test_an_entry_reaches_redis_subscribers_as_json(broker, client, topic):
    with redis.Redis(port=broker.port, decode_responses=True) as other, other.pubsub() as pubsub:
        pubsub.subscribe(topic)
        assert pubsub.get_message(timeout=5)["type"] == "subscribe"
        client.xadd(topic, {"a": "1"})
        assert pubsub.get_message(timeout=5)["data"] == '{"a":"1"}'
