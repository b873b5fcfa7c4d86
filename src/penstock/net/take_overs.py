"""Client ids that change hands: told once a minute, and slowed down if it goes on and on.

Two programs that share an id by mistake throw each other out for ever. The operator should see
that in the log, one line per id and minute with a count, and the broker should not spend its time
on it.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from penstock.obs.log import printable

__all__ = ["TakeOvers"]

PER_SECOND = 4.0
FREE = 8
"""Take-overs of one id that are not delayed, and how fast they may go on after those."""

TELL_S = 60.0
"""Time between two lines about one id."""

IDS_MAX = 10_000
"""Ids that are remembered; of more, the one that was first taken over is forgotten."""


class _Contested:
    """One id: tokens left for free take-overs, and those not told yet."""

    __slots__ = ("tokens", "told_at", "untold", "updated_at")

    def __init__(self, now: float) -> None:
        self.tokens = float(FREE)
        self.updated_at = now
        self.untold = 0
        self.told_at = float("-inf")


class TakeOvers:
    """Which ids were taken over lately, and how often."""

    def __init__(self, log: FilteringBoundLogger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._ids: dict[bytes, _Contested] = {}

    def note(self, client_id: bytes, peer: str) -> None:
        """A connection was closed because another presented its client id."""
        now = self._monotonic()
        contested = self._ids.get(client_id)
        if contested is None:
            if len(self._ids) >= IDS_MAX:
                self._forget(next(iter(self._ids)))
            contested = self._ids[client_id] = _Contested(now)
        self._refill(contested, now)
        contested.tokens = max(0.0, contested.tokens - 1)
        contested.untold += 1
        if now - contested.told_at >= TELL_S:
            self._tell(client_id, contested, now, peer)

    def delay_s(self, client_id: bytes) -> float:
        """How long the next who presents this id has to wait before it is let in."""
        contested = self._ids.get(client_id)
        if contested is None:
            return 0.0
        self._refill(contested, self._monotonic())
        return max(0.0, 1.0 - contested.tokens) / PER_SECOND

    def turn(self, now: float) -> None:
        """Tell what has gathered for a minute, and forget ids that are at rest."""
        for client_id, contested in list(self._ids.items()):
            if now - contested.told_at >= TELL_S:
                if contested.untold:
                    self._tell(client_id, contested, now)
                else:
                    del self._ids[client_id]

    def _refill(self, contested: _Contested, now: float) -> None:
        tokens = contested.tokens + (now - contested.updated_at) * PER_SECOND
        contested.tokens, contested.updated_at = min(float(FREE), tokens), now

    def _tell(
        self, client_id: bytes, contested: _Contested, now: float, peer: str | None = None
    ) -> None:
        values = {"peer": peer} if peer else {}
        shown = printable(client_id)
        self._log.warning("session_taken_over", client_id=shown, count=contested.untold, **values)
        contested.untold, contested.told_at = 0, now

    def _forget(self, client_id: bytes) -> None:
        contested = self._ids.pop(client_id)
        if contested.untold:
            self._tell(client_id, contested, self._monotonic())
