"""Client ids that move from one connection to another: logged, and slowed down if it goes on.

Two programs that share an id by mistake throw each other out for ever.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from penstock.obs.printable import printable
from penstock.obs.summarized_log import SummarizedLog

FREE = 8  # take-overs of one id that are not delayed
PER_SECOND = 4.0  # rate of those after them
IDS_MAX = 10_000  # ids that are remembered; of more, the oldest is forgotten


class Takeovers:
    """A token bucket for each id that was taken over lately."""

    def __init__(self, log: FilteringBoundLogger, monotonic: Callable[[], float]) -> None:
        self._lines = SummarizedLog(log, "session_taken_over", monotonic)
        self._monotonic = monotonic
        self._tokens: dict[bytes, tuple[float, float]] = {}  # by client id: tokens left, and when

    def note(self, client_id: bytes, peer: str) -> None:
        self._lines.note(client_id, client_id=printable(client_id), peer=peer)
        left = max(0.0, self._left(client_id) - 1)
        if client_id not in self._tokens and len(self._tokens) >= IDS_MAX:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[client_id] = left, self._monotonic()

    def delay_s(self, client_id: bytes) -> float:
        return max(0.0, 1.0 - self._left(client_id)) / PER_SECOND

    def turn(self, now: float) -> None:
        self._lines.turn(now)
        for client_id in [client_id for client_id in self._tokens if self._left(client_id) >= FREE]:
            del self._tokens[client_id]

    def _left(self, client_id: bytes) -> float:
        left, since = self._tokens.get(client_id, (float(FREE), 0.0))
        return min(float(FREE), left + (self._monotonic() - since) * PER_SECOND)
