"""Log events that a client can cause repeatedly: at most one line per client and minute.

The first line is written at once, so that the operator sees it. What follows within a minute is
counted and logged as one line when the minute is over.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

INTERVAL_S = 60.0
KEYS_MAX = 10_000  # clients remembered; beyond it the oldest is forgotten


class _Pending:
    """Events of one client that were not logged yet."""

    __slots__ = ("count", "logged_at", "values")

    def __init__(self) -> None:
        self.logged_at = float("-inf")
        self.count = 0
        self.values: dict[str, object] = {}


class SummarizedLog:
    """Lines of one event, by the client (or other key) that they are about."""

    def __init__(
        self, log: FilteringBoundLogger, event: str, monotonic: Callable[[], float]
    ) -> None:
        self._log = log
        self._event = event
        self._monotonic = monotonic
        self._pending: dict[object, _Pending] = {}

    def note(self, key: object, **values: object) -> None:
        pending = self._pending.get(key)
        if pending is None:
            if len(self._pending) >= KEYS_MAX:
                self._write(self._pending.pop(next(iter(self._pending))))
            pending = self._pending[key] = _Pending()
        pending.count += 1
        pending.values = values
        if self._monotonic() - pending.logged_at >= INTERVAL_S:
            self._write(pending)

    def turn(self, now: float) -> None:
        """Log what has accumulated for a minute; forget clients without new events."""
        for key, pending in list(self._pending.items()):
            if now - pending.logged_at >= INTERVAL_S:
                if not pending.count:
                    del self._pending[key]
                self._write(pending)

    def _write(self, pending: _Pending) -> None:
        if pending.count:
            self._log.warning(self._event, count=pending.count, **pending.values)
            pending.logged_at, pending.count = self._monotonic(), 0
