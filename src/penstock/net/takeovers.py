"""Client ids that change hands: told once a minute, and slowed down if it goes on and on.

Two programs that share an id by mistake throw each other out for ever. The operator should see
that in the log, one line per id and minute with a count, and the broker should not spend its time
on it.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from penstock.obs.log import printable
from penstock.obs.summarized_log import SummarizedLog

PER_SECOND = 4.0
FREE = 8
"""Take-overs of one id that are not delayed, and how fast they may go on after those."""

IDS_MAX = 10_000
"""Ids that are remembered; of more, the one that was first taken over is forgotten."""


class Takeovers:
    """Which ids were taken over lately, and how often."""

    def __init__(self, log: FilteringBoundLogger, monotonic: Callable[[], float]) -> None:
        self._lines = SummarizedLog(log, "session_taken_over", monotonic)
        self._monotonic = monotonic
        self._tokens: dict[bytes, tuple[float, float]] = {}
        """By client id: take-overs that are free yet, and when that was so."""

    def note(self, client_id: bytes, peer: str) -> None:
        """A connection was closed because another presented its client id."""
        self._lines.note(client_id, client_id=printable(client_id), peer=peer)
        left = max(0.0, self._left(client_id) - 1)
        if client_id not in self._tokens and len(self._tokens) >= IDS_MAX:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[client_id] = left, self._monotonic()

    def delay_s(self, client_id: bytes) -> float:
        """How long the next who presents this id has to wait before it is let in."""
        return max(0.0, 1.0 - self._left(client_id)) / PER_SECOND

    def turn(self, now: float) -> None:
        """Tell what has gathered for a minute, and forget ids that are at rest."""
        self._lines.turn(now)
        for client_id in [client_id for client_id in self._tokens if self._left(client_id) >= FREE]:
            del self._tokens[client_id]

    def _left(self, client_id: bytes) -> float:
        left, since = self._tokens.get(client_id, (float(FREE), 0.0))
        return min(float(FREE), left + (self._monotonic() - since) * PER_SECOND)
