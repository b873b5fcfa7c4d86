"""Slow hashes, off the event loop: few threads, a bounded queue, in turns by address.

Checking a password takes tens of milliseconds and megabytes by design. A thousand clients that come
back at once therefore wait in a queue, and must neither slow down the loop nor each other:

* **Threads** run at a lower priority; libsodium releases the interpreter's lock.
* **Turns** go by address: whoever sends a flood from one address waits behind itself. If the queue
  is full, the address with the most in it gives way to one with less.
* **Wanted** is asked when the turn has come: of an address that has guessed meanwhile, nothing is
  hashed any more.
* **Busy** is the answer to who does not fit, or has waited too long. It is never "wrong".
* **Equal** checks at the same time are one.

All state is the event loop's; threads only hash.
"""

import asyncio
import contextlib
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from penstock.access.new_secrets import PasswordHashes
from penstock.config.schema import Config
from penstock.trust.passwords import Cost, is_weak, verify

T = TypeVar("T")

WAITING_MAX = 1_024
WAIT_S = 15.0
NICENESS = 10


def thread_count(configured: int, cores: int) -> int:
    """How many threads hash: as configured, else one on two cores, four at most."""
    return configured or max(1, min(4, cores - 1))


class _Job(Generic[T]):
    """Work that waits, and who wants its result; None stands for "busy"."""

    __slots__ = ("address", "done", "is_wanted", "mark", "timer", "work")

    def __init__(
        self, mark: bytes, address: str, work: Callable[[], T], is_wanted: Callable[[], bool]
    ) -> None:
        self.mark = mark
        self.address = address
        self.work = work
        self.is_wanted = is_wanted
        self.done: list[Callable[[T | None], None]] = []
        self.timer: asyncio.TimerHandle | None = None


class PasswordPool(Generic[T]):
    """Runs jobs in threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: int,
        *,
        waiting_max: int = WAITING_MAX,
        wait_s: float = WAIT_S,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._executor = ThreadPoolExecutor(threads, "penstock-password", _be_nice)
        self._queues: OrderedDict[str, deque[_Job[T]]] = OrderedDict()  # the next turn first
        self._jobs: dict[bytes, _Job[T]] = {}  # waiting or running
        self._running = 0
        self.waiting = 0

    def run(
        self,
        mark: bytes,
        address: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Call ``done`` with the result of ``work``, or None if it could not be done in time.

        Work with the same ``mark`` is done once. It is not done at all if it is not wanted any
        more when its turn has come.
        """
        job = self._jobs.get(mark)
        if job is not None:
            job.done.append(done)
            return
        if self.waiting >= self._waiting_max and not self._make_room(address):
            done(None)
            return
        job = _Job(mark, address, work, is_wanted)
        job.done.append(done)
        job.timer = self._loop.call_later(self._wait_s, self._give_up, job)
        self._jobs[mark] = job
        self._queues.setdefault(address, deque()).append(job)
        self.waiting += 1
        self._start()

    def _make_room(self, address: str) -> bool:
        """Whether another address, with more in the queue, has given way."""
        if len(self._queues) == self.waiting:
            return False  # each has one
        longest = max(self._queues.values(), key=len)
        if len(longest) <= len(self._queues.get(address, ())) + 1:
            return False
        self._give_up(longest[-1])
        return True

    def _give_up(self, job: _Job[T]) -> None:
        queue = self._queues[job.address]
        queue.remove(job)
        if not queue:
            del self._queues[job.address]
        self.waiting -= 1
        self._end(job, None)

    def _start(self) -> None:
        while self._queues and self._running < self._threads:
            address, queue = next(iter(self._queues.items()))
            job = queue.popleft()
            self._queues.move_to_end(address)
            if not queue:
                del self._queues[address]
            self.waiting -= 1
            if job.timer is not None:
                job.timer.cancel()
            if not job.is_wanted():
                self._end(job, None)
                continue
            self._running += 1
            future = self._executor.submit(job.work)
            future.add_done_callback(partial(self._returned, job))

    def _returned(self, job: _Job[T], future: Future[T]) -> None:
        """In the thread, or at the end of the process, when the loop may be closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finished, job, future)

    def _finished(self, job: _Job[T], future: Future[T]) -> None:
        self._running -= 1
        self._start()
        is_done = not future.cancelled() and future.exception() is None
        self._end(job, future.result() if is_done else None)

    def _end(self, job: _Job[T], result: T | None) -> None:
        del self._jobs[job.mark]
        if job.timer is not None:
            job.timer.cancel()
        for done in job.done:
            done(result)

    def close(self) -> None:
        for job in self._jobs.values():
            if job.timer is not None:
                job.timer.cancel()
        self._queues.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)


def _be_nice() -> None:
    """Lower the priority of this thread alone. Hashing must go on if that is not allowed."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def check_password(text: str, secret: bytes, dummy: str, cost: Cost) -> bool:
    """In a thread. A wrong password takes as long with a weak hash as with a new one."""
    is_right = verify(text, secret)
    if not is_right and is_weak(text, cost):
        verify(dummy, secret)
    return is_right


def pool_of(config: Config, loop: asyncio.AbstractEventLoop) -> PasswordPool[bool | PasswordHashes]:
    cores = len(os.sched_getaffinity(0))
    return PasswordPool(loop, thread_count(config.auth.threads, cores))
