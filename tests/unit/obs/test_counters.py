"""Histograms put each value into its bucket."""

import pytest

from penstock.obs.counters import Counters, Histogram


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.1, 1), (2.0, 1), (2.1, 2)])
def test_a_bound_is_the_largest_value_of_its_bucket(value, bucket):
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert histogram.counts[bucket] == sum(histogram.counts) == 1


def test_one_measurement_can_count_for_many():
    histogram = Histogram((1.0,))
    histogram.observe(0.5, times=4)
    assert (histogram.counts, histogram.total) == ([4, 0], 2.0)


def test_everything_starts_at_zero():
    counters = Counters()
    assert not any(counters.drops.values())
    assert not any(counters.disconnects.values())
    assert counters.messages_in_total == counters.messages_out_total == [0, 0, 0]
