"""Growing streams: which waiting clients are served, and in which order."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
import pytest_asyncio
import redis.asyncio
from redis.exceptions import ResponseError
from tests.benches.commit_bench import until

from penstock.doors.resp.streams import group_queues, groups
from penstock.doors.resp.streams.reader import EntryReader
from penstock.testing import AsyncBroker

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def broker():
    async with AsyncBroker() as broker:
        yield broker


@pytest_asyncio.fixture
async def client(broker):
    async with connected(broker) as client:
        yield client


@contextlib.asynccontextmanager
async def connected(broker):
    client = redis.asyncio.Redis(port=broker.port, protocol=2, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


def hub_of(broker):
    return broker.server.parts


def waiting(broker, topic=b"s", group=b"g"):
    """The consumers that stand in a line, in order."""
    queue = broker.server.parts.resp_door.group_queues._queues.get((topic, group))
    return [waiting.consumer for waiting in queue.consumers] if queue else []


def fields(answer):
    return [entry[1] for stream in answer for entry in stream[1]]


async def block(broker, client, consumer, **options):
    """Start a blocking XREADGROUP and wait until it is queued."""
    streams = options.pop("streams", {"s": ">"})
    task = asyncio.create_task(
        client.xreadgroup("g", consumer, streams, **{"block": 0, "count": 1, **options})
    )
    await until(lambda: consumer.encode() in waiting(broker))
    return task


# ── XREAD ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_blocked_read_gets_what_comes(broker, client):
    task = asyncio.create_task(client.xread({"s": "$", "t": "$"}, block=0))
    await until(lambda: b"t" in hub_of(broker).feed._watchers)
    async with connected(broker) as other:
        await other.xadd("t", {"a": "1"})
    answer = await task
    assert [stream[0] for stream in answer] == ["t"]
    assert fields(answer) == [{"a": "1"}]
    assert not hub_of(broker).feed._watchers


async def test_a_read_that_waits_for_a_far_id_looks_at_what_has_grown_alone(
    broker, client, monkeypatch
):
    names = [f"s{number}" for number in range(50)]
    for name in names:
        await client.xadd(name, {"payload": "old"})
    looked = []
    look = EntryReader.info
    monkeypatch.setattr(EntryReader, "info", lambda *of: looked.append(of[1]) or look(*of))
    async with connected(broker) as reader:
        far = f"{10**15}-2"  # in the year 33658
        task = asyncio.create_task(reader.xread(dict.fromkeys(names, far), block=0))
        await until(lambda: looked.count(b"s49") == 3)
        del looked[:]
        await client.xadd("s7", {"payload": "1"})
        await client.xadd("s7", {"payload": "2"})
        await until(lambda: b"s7" in looked)
        assert {*looked} == {b"s7"}
        await client.xadd("s7", {"payload": "3"})
        assert not task.done()
        task.cancel()


async def test_a_blocked_read_ends_when_its_time_is_over(broker, client):
    assert await client.xread({"s": "$"}, block=1) == []
    assert not hub_of(broker).feed._watchers


async def test_a_client_that_leaves_does_not_wait_any_longer(broker):
    async with connected(broker) as client:
        task = asyncio.create_task(client.xread({"s": "$"}, block=0))
        await until(lambda: b"s" in hub_of(broker).feed._watchers)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await until(lambda: not hub_of(broker).feed._watchers)


async def test_what_other_protocols_publish_wakes_a_reader(broker, client):
    task = asyncio.create_task(client.xread({"s": "$"}, block=0))
    await until(lambda: b"s" in hub_of(broker).feed._watchers)
    async with connected(broker) as other:
        await other.publish("s", "live")
    assert fields(await task) == [{"payload": "live"}]


# ── XREADGROUP ────────────────────────────────────────────────────────────────────────────────


async def test_those_who_wait_are_served_in_the_order_in_which_they_came(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    clients = [redis.asyncio.Redis(port=broker.port, protocol=2) for _ in range(4)]
    tasks = [await block(broker, c, f"c{number}") for number, c in enumerate(clients)]
    for number in range(4):
        await client.xadd("s", {"n": number})
        answer = await tasks[number]
        assert fields(answer) == [{b"n": b"%d" % number}]
        assert all(not task.done() for task in tasks[number + 1 :])
    for c in clients:
        await c.aclose()


async def test_messages_that_come_together_are_shared_by_one_commit(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    clients = [redis.asyncio.Redis(port=broker.port, protocol=2) for _ in range(4)]
    tasks = [await block(broker, c, f"c{number}") for number, c in enumerate(clients)]
    before = hub_of(broker).store.next_index
    async with client.pipeline(transaction=False) as pipe:
        for number in range(4):
            pipe.xadd("s", {"n": number})
        await pipe.execute()
    answers = [fields(await task) for task in tasks]
    assert answers == [[{b"n": b"%d" % number}] for number in range(4)]
    assert hub_of(broker).store.next_index - before == 2  # the entries, and one Taken for all
    for c in clients:
        await c.aclose()


async def test_a_consumer_without_count_gets_all_there_is(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    async with client.pipeline(transaction=False) as pipe:
        for number in range(3_000):
            pipe.xadd("s", {"n": number})
        await pipe.execute()
    answer = await client.xreadgroup("g", "c", {"s": ">"})
    assert len(fields(answer)) == 3_000


async def test_one_round_is_bounded_and_the_next_goes_on(broker, client, monkeypatch):
    monkeypatch.setattr(group_queues, "ROUND_COUNT_MAX", 2)
    await client.xgroup_create("s", "g", mkstream=True)
    for number in range(5):
        await client.xadd("s", {"n": number})
    sizes = [len(fields(await client.xreadgroup("g", "c", {"s": ">"}))) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_a_group_that_is_destroyed_wakes_those_who_wait_for_it(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    async with connected(broker) as other:
        task = await block(broker, other, "c")
        await client.xgroup_destroy("s", "g")
        with pytest.raises(ResponseError, match="no longer exists"):
            await task
    assert waiting(broker) == []


async def test_a_group_that_is_moved_back_serves_those_who_wait_for_it(broker, client):
    await client.xadd("s", {"a": "1"})
    await client.xgroup_create("s", "g", "$")
    async with connected(broker) as other:
        task = await block(broker, other, "c")
        await client.xgroup_setid("s", "g", "0")
        assert fields(await task) == [{"a": "1"}]


async def test_who_waits_for_several_streams_is_served_by_one_of_them(broker, client):
    for topic in ("s", "t"):
        await client.xgroup_create(topic, "g", mkstream=True)
    async with connected(broker) as other:
        task = await block(broker, other, "c", streams={"s": ">", "t": ">"})
        await until(lambda: waiting(broker, b"t") == [b"c"])
        async with client.pipeline(transaction=False) as pipe:
            pipe.xadd("s", {"from": "s"})
            pipe.xadd("t", {"from": "t"})
            await pipe.execute()
        first = await task
        second = await other.xreadgroup("g", "c", {"s": ">", "t": ">"})
    assert sorted(found["from"] for found in fields(first) + fields(second)) == ["s", "t"]
    assert len(fields(first)) == 1
    assert waiting(broker) == waiting(broker, b"t") == []


async def test_time_that_runs_out_leaves_the_line(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    assert await client.xreadgroup("g", "c", {"s": ">"}, block=1) == []
    assert waiting(broker) == []
    assert not hub_of(broker).feed._watchers


async def test_what_was_taken_is_delivered_though_the_time_is_over(broker, client, monkeypatch):
    """Else it would be pending with a consumer that never saw it."""
    queues = broker.server.parts.resp_door.group_queues
    pipeline, held = queues.pipeline, []
    late = SimpleNamespace(submit=lambda *args, **options: held.append((args, options)))
    monkeypatch.setattr(queues, "pipeline", late)
    await client.xgroup_create("s", "g", mkstream=True)
    async with connected(broker) as other:
        task = await block(broker, other, "c")
        (waiting,) = queues._queues[b"s", b"g"].consumers
        await client.xadd("s", {"a": "1"})
        await until(lambda: not waiting.is_free)
        waiting.expire()
        for args, options in held:
            pipeline.submit(*args, **options)
        assert fields(await task) == [{"a": "1"}]


async def test_who_leaves_the_line_is_not_given_anything(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    async with connected(broker) as other:
        task = await block(broker, other, "gone")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await until(lambda: not waiting(broker))
    await client.xadd("s", {"a": "1"})
    assert await client.xpending("s", "g") == {
        "pending": 0, "min": None, "max": None, "consumers": [],
    }  # fmt: skip
    assert fields(await client.xreadgroup("g", "c", {"s": ">"})) == [{"a": "1"}]


async def test_stretches_that_were_deleted_are_passed_over(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    added = [await client.xadd("s", {"n": number}) for number in range(8)]
    await client.xdel("s", *added[:3], *added[5:7])
    answer = await client.xreadgroup("g", "c", {"s": ">"}, count=3)
    assert [found["n"] for found in fields(answer)] == ["3", "4", "7"]
    assert (await client.xpending("s", "g"))["pending"] == 3
    assert (await client.xinfo_groups("s"))[0]["lag"] == 0


async def test_consumers_that_acknowledge_differently_do_not_share_a_round(broker, client):
    await client.xgroup_create("s", "g", mkstream=True)
    async with connected(broker) as first, connected(broker) as second:
        tasks = [
            await block(broker, first, "keeps"),
            await block(broker, second, "forgets", noack=True),
        ]
        async with client.pipeline(transaction=False) as pipe:
            pipe.xadd("s", {"n": 0})
            pipe.xadd("s", {"n": 1})
            await pipe.execute()
        answers = [fields(await task) for task in tasks]
    assert answers == [[{"n": "0"}], [{"n": "1"}]]
    assert (await client.xpending("s", "g"))["pending"] == 1


# ── bounds ────────────────────────────────────────────────────────────────────────────────────


async def test_too_much_that_is_pending_must_be_acknowledged_first(broker, client, monkeypatch):
    monkeypatch.setattr(groups, "PENDING_MAX", 2)
    await client.xgroup_create("s", "g", mkstream=True)
    added = [await client.xadd("s", {"n": number}) for number in range(4)]
    await client.xreadgroup("g", "c", {"s": ">"}, count=2)
    with pytest.raises(ResponseError, match="acknowledge some with XACK"):
        await client.xreadgroup("g", "c", {"s": ">"})
    await client.xack("s", "g", added[0])
    assert len(fields(await client.xreadgroup("g", "c", {"s": ">"}, count=1))) == 1


async def test_names_groups_and_consumers_have_bounds(broker, client, monkeypatch):
    monkeypatch.setattr(groups, "GROUPS_MAX", 1)
    monkeypatch.setattr(groups, "CONSUMERS_MAX", 1)
    with pytest.raises(ResponseError, match="longer than 256 bytes"):
        await client.xgroup_create("s", "g" * 257, mkstream=True)
    await client.xgroup_create("s", "g" * 256, mkstream=True)
    with pytest.raises(ResponseError, match="not be more than 1 groups"):
        await client.xgroup_create("s", "g", mkstream=True)
    await client.xgroup_createconsumer("s", "g" * 256, "c")
    with pytest.raises(ResponseError, match="more than 1 consumers"):
        await client.xgroup_createconsumer("s", "g" * 256, "d")
    with pytest.raises(ResponseError, match="topic_invalid"):
        await client.xgroup_create("a" * 2_000, "g", mkstream=True)
