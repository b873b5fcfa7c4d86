"""How many QoS 0 messages were captured: every message must be accounted for.

Penstock delivers a QoS 0 message immediately and captures it in the background, within a bound;
beyond the bound it is delivered and *not* captured, and counted. The delivery rate does not show
this, so each QoS 0 figure comes with the share of dropped captures, and every message received must
be either captured or counted as dropped.
"""

import time
from typing import NamedTuple

from benchmarks.brokers import Broker, Metrics

__all__ = ["Capture", "read_capture", "settled_capture"]

RECEIVED = "penstock_messages_received_total"
CAPTURED = "penstock_captured_total"
DROPPED = "penstock_dropped_total"
DROP_REASONS = ("capture_overflow", "capture_failed")

PATIENCE_S = 10.0
"""How long to wait for progress of the journal before giving up."""

# messages that the broker writes itself: what happened to the clients of the measurement
OWN_MAX = 1_000


class Capture(NamedTuple):
    """Messages received, captured and dropped."""

    received: int
    captured: int
    dropped: int

    @property
    def balanced(self) -> bool:
        return 0 <= self.captured + self.dropped - self.received <= OWN_MAX

    @property
    def dropped_share(self) -> float:
        return self.dropped / self.received if self.received else 0.0


def read_capture(metrics: Metrics) -> Capture | None:
    """Read these counters of a broker; ``None`` if it has none."""
    received = [value for name, value in metrics.items() if _is(name, RECEIVED)]
    captured = [value for name, value in metrics.items() if _is(name, CAPTURED)]
    if not received or not captured:
        return None
    reasons = {f'{DROPPED}{{reason="{reason}"}}' for reason in DROP_REASONS}
    dropped = sum(value for name, value in metrics.items() if name in reasons)
    return Capture(int(sum(received)), int(sum(captured)), int(dropped))


def _is(sample: str, name: str) -> bool:
    return sample.split("{", 1)[0] == name


def settled_capture(broker: Broker) -> Capture | None:
    """Return the counters once they add up, or once they have not changed for a while."""
    books = read_capture(broker.metrics())
    moved = time.monotonic()
    while books and not books.balanced and time.monotonic() - moved < PATIENCE_S:
        time.sleep(0.05)
        later = read_capture(broker.metrics())
        if later != books:
            books, moved = later, time.monotonic()
    return books
