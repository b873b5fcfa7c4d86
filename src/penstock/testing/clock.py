"""A clock that stands still until the test moves it."""

from collections.abc import Callable

__all__ = ["VirtualClock"]

START_MS = 1_700_000_000_000
"""Some day in November 2023."""


class VirtualClock:
    """Implements ``penstock.net.clock.Clock``. ``advance`` moves time and lets time-outs fire."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._on_advance: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return 1000.0 + self._elapsed_s

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this clock has it."""
        return START_MS + int(self._elapsed_s * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass; returns when everything that was due has been started."""
        self._elapsed_s += seconds
        self._on_advance()

    def when_advanced(self, callback: Callable[[], None]) -> None:
        """Have the broker look at its deadlines after each ``advance``."""
        self._on_advance = callback
