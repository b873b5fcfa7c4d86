"""Log lines that clients can cause again and again: one for each of them and minute, with a count.

The first is written at once, so that the operator sees it; what comes within a minute after it is
counted, and told when the minute is over.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

TELL_S = 60.0
"""Time between two lines about the same."""

KEYS_MAX = 10_000
"""Whom lines are remembered for; of more, the first is forgotten."""


class _Told:
    """What was noted about one of them and not told yet."""

    __slots__ = ("at", "count", "values")

    def __init__(self) -> None:
        self.at = float("-inf")
        self.count = 0
        self.values: dict[str, object] = {}


class SummarizedLog:
    """Lines of one kind, by whom they are about."""

    def __init__(
        self, log: FilteringBoundLogger, event: str, monotonic: Callable[[], float]
    ) -> None:
        self._log = log
        self._event = event
        self._monotonic = monotonic
        self._told: dict[object, _Told] = {}

    def note(self, key: object, **values: object) -> None:
        """It happened once more; ``values`` are those of the line."""
        told = self._told.get(key)
        if told is None:
            if len(self._told) >= KEYS_MAX:
                first = self._told.pop(next(iter(self._told)))
                self._tell(first)
            told = self._told[key] = _Told()
        told.count += 1
        told.values = values
        if self._monotonic() - told.at >= TELL_S:
            self._tell(told)

    def turn(self, now: float) -> None:
        """Tell what has gathered for a minute; forget what is at rest."""
        for key, told in list(self._told.items()):
            if now - told.at >= TELL_S:
                if not told.count:
                    del self._told[key]
                self._tell(told)

    def _tell(self, told: _Told) -> None:
        if told.count:
            self._log.warning(self._event, count=told.count, **told.values)
            told.at, told.count = self._monotonic(), 0
