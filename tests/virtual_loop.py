"""Timers with a virtual clock: nothing fires until a test advances the time."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["VirtualLoop"]


class Timer:
    """What ``call_later`` returns."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualLoop:
    """An event loop, save that its timers go by ``monotonic``."""

    def __init__(self, loop: Any, monotonic: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(lambda: callback(*arguments))
        self._count += 1
        heappush(self._timers, (self._monotonic() + delay, self._count, timer))
        return timer

    def due(self, until: float) -> tuple[float, Callable[[], None]] | None:
        """Return the next timer due by that time, and when."""
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heappop(self._timers)
            if timer.callback is not None:
                return when, timer.callback
        return None
