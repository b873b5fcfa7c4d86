"""The processor of ``silent`` keeps state and timers as Spark wants them; in memory, without a JVM."""

from random import Random

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from penstock.spark.pipelines.presence import UNNUMBERED, PresenceTimeouts
from penstock.spark.pipelines.silent import PresenceProcessor


def watched(silent_ms=100, forget_ms=1000):
    return TwsTester(
        PresenceProcessor(PresenceTimeouts(silent_ms, forget_ms)),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: row.at_ms,
    )


def row(at_ms, seq=UNNUMBERED, offset=0):
    return Row(at_ms=at_ms, seq=seq, offset=offset)


def told(rows):
    return [(each.device, each.kind, each.at_ms, each.last_ms) for each in rows]


def timers(tester, key):
    return list(tester.handle._timers.listTimers(key))


def test_a_timer_tells_that_a_device_is_silent():
    tester = watched()
    tester.test("pump", [row(1000)])
    assert told(tester.setWatermark(1099)) == []
    assert told(tester.setWatermark(1100)) == [("pump", "silent", 1100, 1000)]
    assert told(tester.setWatermark(1500)) == []


def test_a_device_that_is_heard_has_one_timer_which_follows_it():
    tester = watched()
    for at_ms in range(1000, 1100, 10):
        tester.test("pump", [row(at_ms)])
        assert timers(tester, "pump") == [1100]
    assert told(tester.setWatermark(1100)) == []
    assert timers(tester, "pump") == [1190]
    assert told(tester.setWatermark(1190)) == [("pump", "silent", 1190, 1090)]


def test_a_device_that_came_back_is_watched_as_before():
    tester = watched()
    tester.test("pump", [row(1000)])
    tester.setWatermark(1200)
    assert told(tester.test("pump", [row(1300)])) == [("pump", "back", 1300, 1000)]
    assert timers(tester, "pump") == [1400]
    assert told(tester.setWatermark(1400)) == [("pump", "silent", 1400, 1300)]


def test_a_device_that_is_never_heard_again_leaves_nothing_behind():
    tester = watched()
    tester.test("pump", [row(1000)])
    tester.setWatermark(1100)
    tester.setWatermark(2000)
    assert tester.peekValueState("presence", "pump") is None
    assert timers(tester, "pump") == []


def test_a_row_that_is_older_than_its_batch_is_judged_at_once():
    """Spark judges lateness by the watermark of the batch before, and refuses a timer in the past."""
    tester = watched()
    tester.test("other", [row(5000)])
    tester.setWatermark(1150)
    tester._eventTimeExtractor = lambda row: 5000
    assert told(tester.test("pump", [row(1000)])) == [("pump", "silent", 1100, 1000)]
    assert timers(tester, "pump") == [2000]


def test_readings_are_taken_in_their_order_however_they_come():
    readings = [row(1000 + n // 3, seq=n + 10, offset=n) for n in range(50)]
    Random(7).shuffle(readings)
    tester = watched()
    assert told(tester.test("pump", readings)) == []
    assert tester.peekValueState("presence", "pump")[:2] == (1016, 59)


def test_missing_numbers_are_told():
    [gap] = watched().test("pump", [row(1000, 1), row(1001, 5)])
    assert (gap.kind, gap.first_missing, gap.last_missing) == ("gap", 2, 4)


def test_heartbeats_are_no_device():
    tester = watched()
    assert tester.test(None, [row(1000)]) == []
    assert tester.setWatermark(9000) == []
