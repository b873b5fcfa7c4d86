"""Entries that are at hand: handed out without a read, and never once they are gone."""

import asyncio
import contextlib

import pytest
import pytest_asyncio
import redis.asyncio
from tests.benches.commit_bench import until

from penstock.doors.resp.streams import ahead
from penstock.testing import AsyncBroker

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def broker():
    async with AsyncBroker() as broker:
        yield broker


@contextlib.asynccontextmanager
async def connected(broker):
    client = redis.asyncio.Redis(port=broker.port, protocol=2, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


@pytest_asyncio.fixture
async def client(broker):
    async with connected(broker) as client:
        yield client


def reads_of(broker, monkeypatch):
    """The offsets at which the journal is read for groups, from now on."""
    begun, read = [], ahead._read

    def noted(store, topic, start):
        begun.append(start)
        return read(store, topic, start)

    monkeypatch.setattr(ahead, "_read", noted)
    return begun


async def numbers(client, count, **options):
    answer = await client.xreadgroup("g", "c", {"s": ">"}, count=count, **options)
    return [int(entry[1]["n"]) for stream in answer for entry in stream[1]]


async def filled(client, count):
    await client.xgroup_create("s", "g", mkstream=True)
    return [await client.xadd("s", {"n": number}) for number in range(count)]


async def test_what_was_read_ahead_is_handed_out_without_a_read(broker, client, monkeypatch):
    await filled(client, 20)
    reads = reads_of(broker, monkeypatch)
    assert [await numbers(client, 1) for _ in range(5)] == [[n] for n in range(5)]
    assert await numbers(client, 10) == list(range(5, 15))
    assert reads == [0]
    assert await numbers(client, 10) == list(range(15, 20))
    assert await numbers(client, 10) == []


async def test_reading_goes_on_before_all_is_handed_out(broker, client, monkeypatch):
    monkeypatch.setattr(ahead, "AHEAD_COUNT_MAX", 8)
    await filled(client, 40)
    reads = reads_of(broker, monkeypatch)
    found = []
    while some := await numbers(client, 3):
        found += some
    assert found == list(range(40))
    assert len(set(reads)) > 1


async def test_an_entry_that_was_deleted_is_not_handed_out_though_it_was_at_hand(broker, client):
    added = await filled(client, 6)
    assert await numbers(client, 1) == [0]
    await client.xdel("s", added[2])
    assert await numbers(client, 3) == [1, 3, 4]
    assert (await client.xpending("s", "g"))["pending"] == 4


async def test_entries_of_a_deleted_stream_are_not_those_of_the_next(broker, client):
    await filled(client, 6)
    assert await numbers(client, 1) == [0]
    await client.delete("s")
    await client.xgroup_create("s", "g", mkstream=True)
    for number in range(10, 14):
        await client.xadd("s", {"n": number})
    assert await numbers(client, 2) == [10, 11]


async def test_a_group_that_was_moved_is_handed_out_what_is_there(broker, client):
    await filled(client, 6)
    assert await numbers(client, 3) == [0, 1, 2]
    await client.xgroup_setid("s", "g", "0")
    assert await numbers(client, 2) == [0, 1]
    await client.xgroup_setid("s", "g", "$")
    assert await numbers(client, 2) == []


async def test_a_consumer_that_waits_gets_what_is_committed_without_a_read(
    broker, client, monkeypatch
):
    await filled(client, 0)
    reads = reads_of(broker, monkeypatch)
    queues = broker.server.parts.resp_door.group_queues
    async with connected(broker) as other:
        for number in range(3):
            task = other.xreadgroup("g", "c", {"s": ">"}, count=1, block=0)
            waiting = asyncio.create_task(task)
            await until(lambda: bool(queues._queues))
            await client.xadd("s", {"n": number})
            ((_, entries),) = await waiting
            assert [fields["n"] for _, fields in entries] == [str(number)]
            await until(lambda: not queues._queues)
    assert reads == []


async def test_entries_are_kept_for_a_bounded_number_of_groups(broker, client, monkeypatch):
    monkeypatch.setattr(ahead, "AHEAD_GROUPS_MAX", 3)
    await filled(client, 4)
    for number in range(6):
        await client.xgroup_create("s", f"g{number}", "0")
        await client.xreadgroup(f"g{number}", "c", {"s": ">"}, count=1)
    kept = broker.server.parts.resp_door.group_queues.ahead._groups
    assert [group for _, group in kept] == [b"g3", b"g4", b"g5"]
    answer = await client.xreadgroup("g0", "c", {"s": ">"}, count=2)
    assert [fields["n"] for _, fields in answer[0][1]] == ["1", "2"]


async def test_small_answers_are_bounded_though_more_is_at_hand(broker, client, monkeypatch):
    await filled(client, 8)
    reader = broker.server.parts.resp_door.reader
    assert await numbers(client, 1) == [0]
    monkeypatch.setattr(reader, "_bytes_max", 100)
    assert await numbers(client, 7) == [1, 2]
