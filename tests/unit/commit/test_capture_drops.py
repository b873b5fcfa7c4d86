"""Messages that were delivered only: counted one by one, told once a minute."""

from structlog.testing import capture_logs

from penstock.commit.capture_drops import INTERVAL_S, CaptureDrops
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason


def test_all_are_counted_and_the_log_says_once_a_minute_how_many():
    counters, now = Counters(), [100.0]
    drops = CaptureDrops(counters, lambda: now[0])
    with capture_logs() as lines:
        drops.add(0, b"", 0)
        drops.add(3, b"", 0)
        drops.add(4, b"", 0)
        now[0] += INTERVAL_S
        drops.add(5, b"", 0)
    assert counters.drops[DropReason.CAPTURE_OVERFLOW] == 12
    told = [(line["event"], line["log_level"], line["messages"]) for line in lines]
    assert told == [("captures_dropped", "warning", 3), ("captures_dropped", "warning", 9)]
