"""A clock that stands still until the test moves it."""

from collections.abc import Callable

__all__ = ["VirtualClock"]

START_MS = 1_700_000_000_000
"""Some day in November 2023."""


class VirtualClock:
    """Implements ``penstock.clock.Clock``. ``advance`` moves time and lets time-outs fire."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._settle: Callable[[], None] = lambda: None
        self._turn: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return 1000.0 + self._elapsed_s

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this clock has it."""
        return START_MS + int(self._elapsed_s * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass: what the broker was doing is done before, what became due is begun."""
        self._settle()
        self._elapsed_s += seconds
        self._turn()

    def drive(self, settle: Callable[[], None], turn: Callable[[], None]) -> None:
        """Have each ``advance`` wait for the broker first, and make it look at its deadlines."""
        self._settle = settle
        self._turn = turn
