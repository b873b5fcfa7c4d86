"""The table says what was measured, and no more digits than it carries."""

import pytest
from benchmarks.comparison import compare
from benchmarks.curve import Point as CurvePoint
from benchmarks.curve import render_curve
from benchmarks.generator import Load
from benchmarks.growth import FIRST_LENGTH, Point, journal_lengths, render_growth
from benchmarks.rounds import Measurement
from benchmarks.table import columns, compact, render
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0.00"),
        (1.234, "1.23"),
        (53.24, "53.2"),
        (737, "737"),
        (999.6, "1.00k"),
        (155_400, "155k"),
        (9_999, "10.0k"),
        (1_760_000, "1.76M"),
        (22_200_000, "22.2M"),
    ],
)
def test_numbers_are_told_in_three_digits(value, text):
    assert compact(value) == text


def test_columns_are_as_wide_as_their_contents():
    text = columns([("a", "bb", "c"), ("long", "1", "note")], left=(0, 2))
    assert text.splitlines() == ["a     bb  c", "----  --  ----", "long   1  note"]


def test_a_comparison_is_one_line():
    workload = WORKLOADS["A"]
    measurements = [
        Measurement("A", side, side, 1, Load({"delivered_per_s": rate}))
        for side, rate in (("ours", 1_000_000), ("theirs", 200_000))
    ]
    line = render([compare(workload, measurements)], "ours", "theirs").splitlines()[-1]
    assert line.split("  ")[0] == "A"
    assert line.endswith("msg/s  1.00M (1.00M)  200k (200k)      5.00x         5.00x   >= 4x  yes")


def test_an_upper_bound_is_shown_as_one():
    text = render([compare(WORKLOADS["G2k"], []), compare(WORKLOADS["H0"], [])], "o", "t")
    assert "<= 3,072" in text
    assert "<= 1.5x" in text


def test_a_journal_grows_by_tens_to_the_length_asked_for():
    assert journal_lengths(10_000_000) == [0, 100_000, 1_000_000, 10_000_000]
    assert journal_lengths(FIRST_LENGTH) == [0, FIRST_LENGTH]
    assert journal_lengths(300_000) == [0, 100_000, 300_000]


def test_growth_is_told_relative_to_the_empty_journal():
    points = [
        Point(0, [100.0, 200.0], [5.0, 4.0], None, 1024.0),
        Point(1000, [90.0, 150.0], [6.0, 5.0], 10.0, 2048.0),
    ]
    last = render_growth(points).splitlines()[-1]
    assert last.split() == ["1,000", "150", "(120)", "5.00", "2.00", "10.0", "0.75x"]


def test_two_targets_stand_side_by_side():
    assert ">= 0.5x, >= 20,000" in render([compare(WORKLOADS["Q32"], [])], "us", "them")


def test_a_curve_compares_with_the_shortest_queue_and_tells_flaws():
    points = [
        CurvePoint(1_000, 0, [200.0, 100.0], [9.0], [1.0], [50.0], 1024.0, []),
        CurvePoint(1_000_000, 100_000, [150.0], [9.0], [1.0], [50.0], 2048.0, ["lost 1"]),
    ]
    _, _, first, last = render_curve(points).splitlines()
    assert first.split() == ["1,000", "0", "100", "9.00", "1.00", "50.0", "1.00", "1.00x"]
    assert last.split()[:3] == ["1,000,000", "100,000", "150"]
    assert last.endswith("1.50x  lost 1")
