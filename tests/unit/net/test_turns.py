"""Long work on the loop: all of it together shares a turn."""

import asyncio
from collections.abc import Iterator

import pytest

from penstock.net.turns import INPUT_S, TURN_S, Turns

pytestmark = pytest.mark.asyncio


class Bench:
    """Turns on a clock that stands still; each step of work takes 1 ms."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = Turns(asyncio.get_running_loop(), lambda: self.now)
        self.steps: list[str] = []

    def work(self, name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.now += 0.001
            self.steps.append(name)
            yield


async def test_work_of_many_takes_one_turn_together_and_each_is_served_in_its_turn():
    bench = Bench()
    names = [str(number) for number in range(100)]
    for name in names:
        bench.turns.share(bench.work(name, 2))
    longest = 0.0
    while len(bench.steps) < 200:
        before = bench.now
        await asyncio.sleep(0)
        longest = max(longest, bench.now - before)
    assert longest <= TURN_S + 0.002
    assert bench.steps == names * 2


async def test_work_that_fails_leaves_the_others_alone():
    bench = Bench()

    def failing() -> Iterator[None]:
        raise RuntimeError("a bug")
        yield

    bench.turns.share(failing())
    bench.turns.share(bench.work("fine", 3))
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.steps == ["fine"] * 3


async def test_input_of_one_turn_is_over_when_all_its_chunks_together_took_long():
    turns = Bench().turns
    assert not turns.is_input_over(INPUT_S * 0.6)
    assert turns.is_input_over(INPUT_S * 0.6)
    assert turns.is_input_over(INPUT_S * 0.1)  # of another client, in the same turn
    await asyncio.sleep(0)
    assert not turns.is_input_over(INPUT_S * 0.6)
