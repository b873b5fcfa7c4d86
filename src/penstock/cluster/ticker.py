"""The timer behind Raft's ticks."""

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls ``tick`` at an interval; after a pause of the loop once more, not once per miss."""

    def __init__(
        self, monotonic: Callable[[], float], interval_s: float, tick: Callable[[], None]
    ) -> None:
        self._monotonic = monotonic
        self._interval_s = interval_s
        self._tick = tick
        self._ticked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._ticked_at = self._monotonic()
        self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval_s, self._fired)

    def _fired(self) -> None:
        self._set_timer()
        now = self._monotonic()
        is_late = now - self._ticked_at > 2 * self._interval_s
        self._ticked_at = now
        for _ in range(2 if is_late else 1):
            self._tick()
