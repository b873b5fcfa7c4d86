"""The token bucket: bursts, slow rates, refunds, and rates as they are journaled."""

from math import inf, nan

import pytest

from penstock.core.rate import RATE_MILLI_MAX, TokenBucket, milli_rate


def test_a_bucket_is_full_at_first_and_gives_what_there_is():
    bucket = TokenBucket(1000, 3, now=50.0)
    assert bucket.take(2, 50.0) == 2
    assert bucket.take(5, 50.0) == 1
    assert bucket.take(5, 50.0) == 0


def test_one_a_second_gives_one_then_says_when_the_next_comes():
    bucket = TokenBucket(1000, 1, now=0.0)
    assert bucket.take(10, 0.0) == 1
    assert bucket.take(10, 0.25) == 0
    assert bucket.retry_s(0.25) == pytest.approx(0.75)
    assert bucket.take(10, 1.0) == 1


def test_less_than_one_a_second_adds_up():
    """Two asked in between change nothing: what has come in so far is kept."""
    bucket = TokenBucket(4, 1, now=0.0)
    assert bucket.take(1, 0.0) == 1
    assert bucket.retry_s(0.0) == pytest.approx(250.0)
    assert [bucket.take(1, now) for now in (100.0, 200.0, 249.0, 250.0)] == [0, 0, 0, 1]


def test_no_more_gathers_than_the_burst():
    bucket = TokenBucket(10_000, 5, now=0.0)
    assert bucket.take(5, 0.0) == 5
    assert bucket.take(100, 3600.0) == 5


def test_a_burst_of_none_is_one():
    assert TokenBucket(1000, 0, now=0.0).take(5, 0.0) == 1


def test_there_is_nothing_to_wait_for_while_there_are_tokens():
    bucket = TokenBucket(1000, 2, now=0.0)
    assert bucket.retry_s(0.0) == 0.0
    assert bucket.take(1, 0.0) == 1
    assert bucket.retry_s(0.0) == 0.0


def test_asking_when_to_come_back_takes_nothing():
    bucket = TokenBucket(1000, 1, now=0.0)
    bucket.take(1, 0.0)
    assert [bucket.retry_s(now) for now in (0.5, 0.25, 0.5)] == [0.5, 0.75, 0.5]


def test_one_who_waited_as_told_gets_a_token():
    """Fractions that no float can represent: a third of a token a second, at a late time."""
    bucket = TokenBucket(333, 1, now=86_400.7)
    bucket.take(1, 86_400.7)
    assert bucket.take(1, 86_400.7 + bucket.retry_s(86_400.7)) == 1


def test_a_refund_never_overfills():
    bucket = TokenBucket(1000, 4, now=0.0)
    bucket.take(3, 0.0)
    bucket.refund(2)
    assert bucket.take(9, 0.0) == 3
    bucket.refund(9)
    assert bucket.take(9, 0.0) == 4


def test_a_new_rate_keeps_the_tokens_and_cuts_those_too_many():
    bucket = TokenBucket(1000, 10, now=0.0)
    bucket.take(4, 0.0)
    bucket.configure(2000, 8)
    assert bucket.take(1, 0.0) == 1
    bucket.configure(1, 2)
    assert bucket.take(9, 0.0) == 2


def test_a_new_rate_does_not_fill_an_empty_bucket():
    bucket = TokenBucket(1000, 1, now=0.0)
    bucket.take(1, 0.0)
    bucket.configure(5000, 10)
    assert bucket.take(1, 0.0) == 0
    assert bucket.retry_s(0.0) == pytest.approx(0.2)


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing():
    bucket = TokenBucket(1000, 1, now=100.0)
    bucket.take(1, 100.0)
    assert bucket.take(1, 50.0) == 0
    assert bucket.take(1, 100.5) == 0
    assert bucket.take(1, 101.0) == 1


@pytest.mark.parametrize(
    ("rate", "thousandths"),
    [
        (0.0, 0),
        (-0.0, 0),
        (-3.0, 0),
        (nan, 0),
        (-inf, 0),
        (1.0, 1000),
        (0.5, 500),
        (0.0005, 1),
        (0.0015, 2),
        (0.0025, 3),
        (0.00249, 2),
        (0.0024999999999999996, 2),
        (0.000499, 1),
        (5e-324, 1),
        (1e300, RATE_MILLI_MAX),
        (1.7e308, RATE_MILLI_MAX),
        (inf, RATE_MILLI_MAX),
    ],
)
def test_rates_are_rounded_to_thousandths_and_none_becomes_unlimited(rate, thousandths):
    assert milli_rate(rate) == thousandths


@pytest.mark.parametrize("each_s", [0.0027, 0.013, 0.2])
def test_a_high_rate_with_a_small_burst_is_reached_by_who_is_always_there(each_s):
    """To hand out messages takes time, and what comes in meanwhile is not lost."""
    bucket, now, given = TokenBucket(1_000_000, 1, 0.0), 0.0, 0
    while now < 10:
        given += bucket.take(1_024, now)
        now += each_s
    assert 9_700 < given <= 10_001


def test_after_a_pause_there_is_the_burst_and_no_more():
    bucket = TokenBucket(1_000_000, 1, 0.0)
    assert bucket.take(64, 0.0) == 1, "it wants more, and goes away"
    assert bucket.take(64, 5.0) == 1


def test_who_got_all_it_wanted_has_nothing_to_catch_up():
    bucket = TokenBucket(1_000_000, 1, 0.0)
    assert bucket.take(1, 0.0) == 1
    assert bucket.take(64, 0.1) == 1
