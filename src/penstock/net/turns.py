"""Long work on the event loop, a few milliseconds per turn, so that other clients are served.

Work is an iterator that yields wherever it may be interrupted.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from penstock.obs.log import get_logger

_log = get_logger("turns")
TURN_S = 0.005  # how long one client's input is worked on before others are served
INPUT_S = 0.002  # how long input of all clients is worked on before other work of the loop
CHUNK_S = 0.0005  # input that takes less is not counted: a turn has few such chunks
STEPS_MAX = 16  # steps of shared work in one turn, should the clock stand still, as in a test


class Turns:
    """Schedules long work. ``run``: each work a slice per turn; ``share``: one slice for all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._read_s = 0.0  # spent on input in this turn of the loop
        self._shared: deque[Iterator[None]] = deque()
        self._is_sharing = False

    def run(self, work: Iterator[None]) -> None:
        turn_ends_at = self._monotonic() + TURN_S
        for _ in work:
            if self._monotonic() > turn_ends_at:
                self._loop.call_soon(self.run, work)
                return

    def is_input_over(self, spent_s: float) -> bool:
        """Whether the input of this turn of the loop took long enough, after another chunk.

        The loop reads up to 32 chunks of one client in a row, and then those of the next.
        """
        if not self._read_s:
            self._loop.call_soon(self._next_turn)
        self._read_s += spent_s
        return self._read_s > INPUT_S

    def _next_turn(self) -> None:
        self._read_s = 0.0

    def share(self, work: Iterator[None]) -> None:
        """Do the work a step at a time, in rotation with all other shared work."""
        self._shared.append(work)
        if not self._is_sharing:
            self._is_sharing = True
            self._loop.call_soon(self._run_shared)

    def _run_shared(self) -> None:
        turn_ends_at = self._monotonic() + TURN_S
        for _ in range(STEPS_MAX):
            if not self._shared:
                break
            work = self._shared.popleft()
            try:
                next(work)
            except StopIteration:
                pass
            except Exception:  # noqa: BLE001 - must not affect other clients
                _log.exception("work_failed")
            else:
                self._shared.append(work)
            if self._monotonic() > turn_ends_at:
                break
        self._is_sharing = bool(self._shared)
        if self._is_sharing:
            self._loop.call_soon(self._run_shared)
