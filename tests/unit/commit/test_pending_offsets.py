"""Under ``interval`` offsets are returned when messages are acknowledged, before the flush."""

import random

import pytest
from tests.benches.commit_bench import Bench, turns, until

from penstock.core.commands import TopicGone
from penstock.core.completion import Journaled
from penstock.errors import StorageFull

pytestmark = pytest.mark.asyncio


class Outlet:
    """Receives an offset."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.offset: int | None = None

    def done(self, result: Journaled) -> None:
        assert self.offset is None
        self.offset = result.offset


def add(bench: Bench, topic: bytes, payload: bytes) -> Outlet:
    """Publish a message and ask where it lies."""
    bench.pipeline.publish(topic, [payload], 5, qos=1, retain=False)
    outlet = Outlet(payload)
    bench.pipeline.tell_offsets(topic, 1, outlet, 5)
    return outlet


async def dropped(bench: Bench, topic: bytes) -> None:
    """Delete a topic, and wait until that is answered."""
    gone = TopicGone(topic)
    before = bench.applied.count(gone)
    bench.pipeline.drop_topic(topic, gone, None)
    await until(lambda: bench.applied.count(gone) > before)


def interval(interval_ms: int = 60_000) -> Bench:
    return Bench(durability="interval", durability_interval_ms=interval_ms)


def payload_at(bench: Bench, topic: bytes, offset: int) -> bytes | None:
    found = next(bench.store.read_topic(topic, offset, 1, 1 << 20).messages(), None)
    return found.payload if found and found.offset == offset else None


async def test_an_offset_is_told_before_the_disk_has_the_message():
    async with interval() as bench:
        bench.pipeline.capture(b"t", [b"x", b"y"], 5)
        outlets = [add(bench, b"t", b"%d" % number) for number in range(3)]
        await turns(2)
        assert [outlet.offset for outlet in outlets] == [2, 3, 4]
        assert not bench.store.attempts
        await bench.pipeline.drain()
        assert [payload_at(bench, b"t", number) for number in (2, 3, 4)] == [b"0", b"1", b"2"]


async def test_offsets_go_on_behind_a_batch_that_is_on_its_way():
    async with interval() as bench:
        first = add(bench, b"t", b"a")
        bench.store.gate.clear()
        bench.pipeline.when_committed(lambda: None)
        await until(lambda: bench.store.attempts == 1)
        second, other = add(bench, b"t", b"b"), add(bench, b"other", b"c")
        await turns(2)
        assert (first.offset, second.offset, other.offset) == (0, 1, 0)
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert [payload_at(bench, b"t", number) for number in (0, 1)] == [b"a", b"b"]


async def test_what_is_on_its_way_and_was_not_asked_for_delays_the_answer_to_the_commit():
    """It is unknown whether the journal counts it already."""
    async with interval(1) as bench:
        bench.store.gate.clear()
        bench.pipeline.publish(b"t", [b"a"], 5, qos=1, retain=False)
        await until(lambda: bench.store.attempts == 1)
        outlet = add(bench, b"t", b"b")
        await turns(3)
        assert outlet.offset is None
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert outlet.offset == 1


async def test_who_needs_the_disk_is_told_with_the_commit():
    async with interval() as bench:
        bench.pipeline.publish(b"t", [b"a"], 5, qos=1, retain=False)
        outlet = Outlet(b"a")
        bench.pipeline.tell_offsets(b"t", 1, outlet, 5, on_disk=True)
        await turns(3)
        assert outlet.offset is None
        await bench.pipeline.drain()
        assert outlet.offset == 0


@pytest.mark.parametrize("durability", ["sync", "interval"])
async def test_the_wait_for_a_message_is_counted_once(durability):
    """Also if another client waits until it is on disk."""
    async with Bench(durability=durability) as bench:
        add(bench, b"t", b"a")
        bench.pipeline.tell_offsets(b"t", 1, Outlet(b"a"), 5, on_disk=True)
        await bench.pipeline.drain()
        assert sum(bench.counters.publish_seconds.counts) == 1


async def test_a_batch_that_fails_keeps_the_offsets_that_were_told():
    async with interval(1) as bench:
        bench.store.error = StorageFull("full", "Make room.")
        first = add(bench, b"t", b"a")
        await until(lambda: bench.pipeline.failure is not None)
        second = add(bench, b"t", b"b")
        await turns(2)
        assert (first.offset, second.offset) == (0, 1)
        bench.store.error = None
        await until(lambda: bench.pipeline.is_idle)
        assert [payload_at(bench, b"t", number) for number in (0, 1)] == [b"a", b"b"]


async def test_messages_that_were_acknowledged_are_readable_when_asked_for():
    """A read triggers the commit, not the end of the interval."""
    async with interval() as bench:
        add(bench, b"t", b"a")
        await turns(2)
        assert bench.pipeline.is_unsettled
        readable = []
        bench.pipeline.when_readable(lambda: readable.append(payload_at(bench, b"t", 0)))
        await until(lambda: readable)
        assert readable == [b"a"]
        assert not bench.pipeline.is_unsettled


@pytest.mark.parametrize("seed", range(5))
async def test_every_offset_that_was_told_is_that_of_the_message(seed):
    """Whatever is published, deleted, recreated and committed in between."""
    chance = random.Random(seed)
    told: dict[bytes, list[Outlet]] = {b"a": [], b"b": []}
    async with interval() as bench:
        for number in range(300):
            topic = chance.choice([b"a", b"b"])
            action = chance.random()
            if action < 0.6:
                told[topic].append(add(bench, topic, b"%d" % number))
            elif action < 0.8:
                bench.pipeline.capture(topic, [b"x"], 5)
            elif action < 0.85:
                await dropped(bench, topic)
                told[topic] = []
            elif action < 0.95:
                bench.pipeline.when_committed(lambda: None)
            await turns(chance.randrange(3))
        await bench.pipeline.drain()
        for topic, outlets in told.items():
            for outlet in outlets:
                assert payload_at(bench, topic, outlet.offset) == outlet.payload
