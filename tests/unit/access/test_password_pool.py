"""The threads that hash: bounded, fair, and out of everybody's way."""

import asyncio
import os
import threading
from itertools import pairwise

import pytest

from penstock.access.password_pool import NICENESS, PasswordPool, thread_count
from penstock.trust.passwords import Cost, dummy_hash, verify

pytestmark = pytest.mark.asyncio


class Gate:
    """Work that waits until a test lets it go on."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._open = threading.Event()

    def work(self, name: str):
        def run() -> str:
            assert self._open.wait(60)
            self.done.append(name)
            return name

        return run

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate():
    found = Gate()
    yield found
    found.open()


def pool_of(threads: int = 1, **options) -> PasswordPool:
    return PasswordPool(asyncio.get_running_loop(), threads, **options)


def ask(pool: PasswordPool, gate: Gate, address: str, name: str) -> asyncio.Future:
    answer = asyncio.get_running_loop().create_future()
    pool.run(name.encode(), address, gate.work(name), answer.set_result)
    return answer


@pytest.mark.parametrize(
    ("configured", "cores", "threads"), [(0, 1, 1), (0, 2, 1), (0, 4, 3), (0, 64, 4), (9, 2, 9)]
)
async def test_there_are_few_threads(configured, cores, threads):
    assert thread_count(configured, cores) == threads


async def test_threads_have_a_lower_priority_than_the_loop():
    pool = pool_of()
    answer = asyncio.get_running_loop().create_future()
    before = os.getpriority(os.PRIO_PROCESS, 0)
    pool.run(
        b"",
        "",
        lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()),
        answer.set_result,
    )
    assert await answer == max(before, NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    pool.close()


async def test_a_flood_of_one_address_waits_behind_itself(gate):
    pool = pool_of()
    flood = [ask(pool, gate, "flood", f"flood {number}") for number in range(50)]
    others = [ask(pool, gate, f"address {number}", f"other {number}") for number in range(5)]
    gate.open()
    await asyncio.gather(*flood, *others)
    places = [gate.done.index(f"other {number}") for number in range(5)]
    assert max(places) <= 7
    assert all(a < b for a, b in pairwise(map(gate.done.index, (f"flood {n}" for n in range(50)))))
    pool.close()


async def test_a_full_queue_answers_busy_and_makes_room_for_other_addresses(gate):
    pool = pool_of(waiting_max=10)
    running = ask(pool, gate, "flood", "running")
    flood = [ask(pool, gate, "flood", f"flood {number}") for number in range(10)]
    assert pool.waiting == 10
    assert await ask(pool, gate, "flood", "too many") is None
    other = ask(pool, gate, "other", "other")
    assert await flood[-1] is None
    assert pool.waiting == 10
    gate.open()
    assert await running == "running"
    assert await other == "other"
    assert [await one for one in flood[:-1]] == [f"flood {number}" for number in range(9)]
    assert not pool.waiting
    pool.close()


async def test_who_waits_too_long_is_told_busy(gate):
    pool = pool_of(wait_s=0.01)
    running = ask(pool, gate, "a", "running")
    assert await ask(pool, gate, "a", "waiting") is None
    gate.open()
    assert await running == "running"
    assert gate.done == ["running"]
    pool.close()


async def test_work_that_is_not_wanted_any_more_is_not_done(gate):
    pool = pool_of()
    running = ask(pool, gate, "a", "running")
    answer = asyncio.get_running_loop().create_future()
    pool.run(b"void", "a", gate.work("void"), answer.set_result, lambda: False)
    last = ask(pool, gate, "a", "last")
    gate.open()
    assert await answer is None
    await asyncio.gather(running, last)
    assert gate.done == ["running", "last"]
    pool.close()


async def test_equal_work_at_the_same_time_is_done_once(gate):
    pool = pool_of()
    answers = [ask(pool, gate, f"address {number}", "same") for number in range(20)]
    gate.open()
    assert await asyncio.gather(*answers) == ["same"] * 20
    assert gate.done == ["same"]
    again = ask(pool, gate, "a", "same")
    await again
    assert gate.done == ["same", "same"]
    pool.close()


async def test_work_that_fails_is_busy_and_harms_nothing(gate):
    pool = pool_of()
    answer = asyncio.get_running_loop().create_future()
    pool.run(b"bad", "a", lambda: 1 // 0, answer.set_result)
    assert await answer is None
    gate.open()
    assert await ask(pool, gate, "a", "next") == "next"
    pool.close()


async def test_the_loop_goes_on_while_passwords_are_hashed():
    """libsodium releases the interpreter's lock, so the loop turns many times during one hash."""
    pool = pool_of()
    answer = asyncio.get_running_loop().create_future()
    text = dummy_hash(Cost(64 * 1024 * 1024, 3))
    pool.run(b"", "", lambda: verify(text, b"x"), answer.set_result)
    turns = 0
    while not answer.done():
        turns += 1
        await asyncio.sleep(0)
    assert answer.result() is False
    assert turns > 20
    pool.close()
