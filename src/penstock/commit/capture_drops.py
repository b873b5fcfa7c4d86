"""Messages that were delivered but not captured, because the disk was behind: counted, and told.

The counter is exact. The log says it at most once a minute: whoever reads the journal later, or
with Spark, should not have to find out from a counter that it has gaps.
"""

from collections.abc import Callable, Sequence

from penstock.commit.capture_bound import Capture
from penstock.model.message import Extras
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.reasons import DropReason

INTERVAL_S = 60.0
ADVICE = (
    "The disk is behind: publish with QoS 1 what must be stored, or exclude topics from capture."
)

_log = get_logger("pipeline")


class CaptureDrops:
    """Counts them."""

    def __init__(self, counters: Counters, monotonic: Callable[[], float]) -> None:
        self._counters = counters
        self._drops = counters.drops
        self._monotonic = monotonic
        self._told_at = float("-inf")
        self._told = 0  # how many had been dropped by then

    def drop_instead(self, waiting_bytes: int) -> Capture:
        """What is called in place of a capture while too much waits."""

        def drop(
            topic: bytes,
            payloads: list[bytes],
            _time_ms: int,
            _flags: int,
            _extras: Sequence[Extras | None] | None = None,
        ) -> int:
            self.add(len(payloads), topic, waiting_bytes)
            return 0

        return drop

    def add(self, count: int, topic: bytes, waiting_bytes: int) -> None:
        """``topic``: empty if they are of several; ``waiting_bytes``: what is not on disk yet."""
        if not count:
            return
        detail = f"{waiting_bytes} bytes waited for the disk"
        self._counters.dropped(DropReason.CAPTURE_OVERFLOW, count, topic=topic, detail=detail)
        now = self._monotonic()
        if now - self._told_at >= INTERVAL_S:
            dropped = self._drops[DropReason.CAPTURE_OVERFLOW]
            _log.warning("captures_dropped", messages=dropped - self._told, advice=ADVICE)
            self._told_at, self._told = now, dropped
