"""What is measured each second: values, rings, size."""

import math
import tracemalloc

import pytest

from penstock.api.beat import Beat
from penstock.api.measurements import Measurements
from penstock.api.series import MINUTES_KEPT, NAMES, SECONDS_KEPT, Ring, known, mean, quantile
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.testing import VirtualClock


class View:
    def __init__(self):
        self.counters = Counters()

    def connections(self):
        return 7

    def sessions(self):
        return 3, 4

    def queued(self):
        return 5

    def retained(self):
        return 6

    def outgoing(self):
        return 17, 1_000, 2

    def pending_capture_bytes(self):
        return 8


class Bench:
    def __init__(self):
        self.clock = VirtualClock()
        self.view = View()
        self.counters = self.view.counters
        self.strikes = 0
        beat = Beat(self.clock)
        beat.strike = self.struck
        self.measurements = Measurements(self.view, beat)
        self.measurements._ask_for_journal = lambda _now: None

    def struck(self):
        self.strikes += 1

    def pass_s(self, seconds):
        self.clock.advance(seconds)
        self.measurements.turn()

    def last(self, name):
        return self.measurements.seconds.column(NAMES.index(name))[-1]


@pytest.fixture
def bench():
    return Bench()


def test_growth_of_a_counter_is_a_rate(bench):
    bench.counters.messages_in_total[1] += 30
    bench.counters.messages_in_total[0] += 10
    bench.counters.drops[DropReason.EXPIRED] += 2
    bench.pass_s(2)
    assert bench.last("messages_in") == 20
    assert bench.last("messages_in_qos1") == 15
    assert bench.last("drops") == 1
    bench.pass_s(1)
    assert bench.last("messages_in") == 0


def test_what_was_counted_before_the_start_is_no_rate():
    view = View()
    view.counters.messages_in_total[1] = 1_000_000
    clock = VirtualClock()
    measurements = Measurements(view, Beat(clock))
    measurements._ask_for_journal = lambda _now: None
    clock.advance(1)
    measurements.turn()
    assert measurements.seconds.column(0) == [0]


def test_gauge_is_as_it_is(bench):
    bench.pass_s(1)
    assert (bench.last("clients"), bench.last("away"), bench.last("capture_bytes")) == (7, 4, 8)


def test_quantile_is_of_what_was_added(bench):
    bench.counters.publish_seconds.observe(2.0, times=1_000)
    bench.pass_s(1)
    bench.counters.publish_seconds.observe(0.0008, times=100)
    bench.pass_s(1)
    assert 500 * 0.001 < bench.last("acknowledge_p50") <= 1
    assert bench.last("acknowledge_p99") <= 1
    bench.pass_s(1)
    assert bench.last("acknowledge_p99") is None


def test_quantile_lies_within_its_bucket():
    assert quantile((1, 2, 4), [0, 10, 0, 0], 0.5) == 1.5
    assert quantile((1, 2, 4), [10, 10, 0, 0], 0.99) == pytest.approx(1.98)
    assert quantile((1, 2, 4), [0, 0, 0, 3], 0.5) == 4
    assert math.isnan(quantile((1, 2, 4), [0, 0, 0, 0], 0.5))


def test_looking_more_often_changes_nothing(bench):
    bench.pass_s(1)
    bench.pass_s(0.25)
    bench.pass_s(0.25)
    assert len(bench.measurements.seconds) == 1
    assert bench.strikes == 1
    bench.pass_s(0.5)
    assert len(bench.measurements.seconds) == 2


def test_seconds_that_nobody_looked_at_are_missing(bench):
    bench.pass_s(1)
    bench.pass_s(3)
    assert bench.measurements.seconds.column(NAMES.index("clients")) == [7, None, None, 7]


def test_long_pause_is_bounded(bench):
    bench.pass_s(10 * 24 * 3600)
    assert len(bench.measurements.seconds) == SECONDS_KEPT
    assert len(bench.measurements.minutes) == MINUTES_KEPT
    assert len(bench.measurements.recent) == 1


def test_minute_is_the_mean_of_its_seconds(bench):
    for _ in range(59):
        bench.pass_s(1)
    assert len(bench.measurements.minutes) == 0
    bench.counters.bytes_in_total += 6_000
    bench.pass_s(1)
    assert bench.measurements.minutes.column(NAMES.index("bytes_in")) == [100]


def test_event_is_encoded_once_for_all(bench):
    bench.pass_s(1)
    (sample,) = bench.measurements.recent
    assert bench.measurements.event(sample) is bench.measurements.event(sample)


def test_numbers_for_people_have_few_digits():
    assert known(math.nan) is None
    assert known(1234567.891) == 1234570
    assert mean([1.0, math.nan, 2.0]) == 1.5
    assert mean([math.nan]) is None


def test_rings_take_less_than_a_megabyte():
    tracemalloc.start()
    try:
        bench = Bench()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(SECONDS_KEPT):
            bench.pass_s(1)
        for _ in range(MINUTES_KEPT):
            bench.pass_s(60)
        assert len(bench.measurements.minutes) == MINUTES_KEPT
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used < 1_000_000


def test_ring_tells_its_last_rows():
    ring = Ring(3, 1)
    for value in range(5):
        ring.add([float(value)])
    assert ring.column(0) == [2, 3, 4]
    assert ring.last(2) == [[3], [4]]
