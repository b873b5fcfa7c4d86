"""Many workers at one dispatcher, and many dispatchers of one topic.

What a message costs does not grow with those who do not get it, and those who get it leave room for
others.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.dispatch_bench import TOPIC, Bench, Worker, numbered

from penstock.net import turns

pytestmark = pytest.mark.asyncio

CROWD = 500


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def crowd(bench: Bench) -> list[Worker]:
    workers = [Worker(f"w{number}", takes_turns=False) for number in range(CROWD)]
    bench.join(*workers)
    await bench.rest()
    for worker in workers:
        worker.asked = 0
    return workers


async def test_one_message_asks_few_of_those_who_wait(bench, crowd):
    bench.push(b"0")
    await bench.rest()
    assert [worker.payloads for worker in crowd if worker.jobs] == [[b"0"]]
    assert sum(worker.asked for worker in crowd) < 10


async def test_messages_go_to_as_many_as_there_are(bench, crowd):
    bench.push(*numbered(30))
    await bench.rest()
    assert [len(worker.jobs) for worker in crowd] == [1] * 30 + [0] * (CROWD - 30)
    assert sum(worker.asked for worker in crowd) < 30 * 5


async def test_those_who_are_first_in_the_circle_are_full_and_others_are_found(bench, crowd):
    for worker in crowd[:-1]:
        worker.capacity = 0
    bench.push(*numbered(3))
    await bench.rest()
    assert crowd[-1].payloads == numbered(3)


async def test_the_groups_of_one_topic_are_served_in_turns(bench, monkeypatch):
    """A commit wakes them all; between two of them the loop goes round."""
    workers = [Worker(f"w{number}") for number in range(20)]
    for number, worker in enumerate(workers):
        bench.join(worker, group=b"g%d" % number)
    await bench.rest()
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    for worker in workers:
        worker.asked = 0
    bench.dispatchers._dispatch_all(TOPIC)
    assert [worker.asked > 0 for worker in workers] == [True] + [False] * 19
    bench.push(b"0")
    await bench.rest()
    assert [worker.payloads for worker in workers] == [[b"0"]] * 20
