"""What retention asks about topics: all of them, some at a time, and nothing of those deleted."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.benches.dispatch_bench import TOPIC, Bench, Told, Worker, numbered

from penstock.retention import scan as module
from penstock.retention.scan import RetentionScan

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(module, "EXAMINED_AT_ONCE", 3)
    made = Bench()
    yield made
    await made.close()


async def worked_through(bench: Bench) -> None:
    bench.dispatchers.topics.ensure(TOPIC)
    bench.push(*numbered(10))
    bench.join(Worker("w", settles=True, visibility_ms=1_000))
    await bench.rest()


async def test_topics_are_looked_at_in_several_turns(bench):
    for number in range(7):
        bench.dispatchers.topics.ensure(b"%d" % number)
    await bench.rest()
    over = []
    examination = RetentionScan(bench.parts.broker, bench.dispatchers.topics, over.append)
    examination.run()
    assert (len(examination.floors), over, examination.is_over) == (3, [], False)
    await turns(5)
    assert (len(examination.floors), over, examination.is_over) == (7, [examination], True)


async def test_what_every_group_has_done_need_not_stay(bench):
    await worked_through(bench)
    examination = RetentionScan(bench.parts.broker, bench.dispatchers.topics, lambda _over: None)
    examination.run()
    assert examination.floors == {TOPIC: 10}
    assert examination.lows() == {TOPIC: 10}


async def test_a_topic_that_was_deleted_meanwhile_has_no_low(bench):
    await worked_through(bench)
    examination = RetentionScan(bench.parts.broker, bench.dispatchers.topics, lambda _over: None)
    examination.run()
    bench.dispatchers.topics.delete(TOPIC, Told())
    assert examination.lows() == {}
    await bench.rest()
    bench.push(b"new")
    await bench.rest()
    assert examination.lows() == {}


async def test_one_that_fails_is_over(bench, monkeypatch):
    await worked_through(bench)
    examination = RetentionScan(bench.parts.broker, bench.dispatchers.topics, lambda _over: None)
    monkeypatch.setattr(bench.dispatchers.topics.limits, "low", lambda _info: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        examination.run()
    assert examination.is_over
