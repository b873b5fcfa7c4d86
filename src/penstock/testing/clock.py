"""A clock that stands still until the test moves it."""

from collections.abc import Callable

__all__ = ["VirtualClock"]

START_MS = 1_700_000_000_000  # in November 2023


class VirtualClock:
    """Implements ``penstock.clock.Clock``. ``advance`` moves time and lets time-outs fire."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._settle: Callable[[], None] = lambda: None
        self._turn: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed_s

    def wall_ms(self) -> int:
        return START_MS + int(self._elapsed_s * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass; the broker finishes its work before, and starts what is due after."""
        self._settle()
        self._elapsed_s += seconds
        self._turn()

    def drive(self, settle: Callable[[], None], turn: Callable[[], None]) -> None:
        """Set what ``advance`` calls before (``settle``) and after (``turn``) time has passed."""
        self._settle = settle
        self._turn = turn
