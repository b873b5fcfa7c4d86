"""The token bucket against exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.rate import CATCH_UP_S, TokenBucket

rates = st.integers(1, 1_000_000)
bursts = st.integers(0, 50)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 5_000), st.integers(0, 20)),
        st.tuples(st.just("refund"), st.just(0), st.integers(0, 20)),
        st.tuples(st.just("configure"), rates, bursts),
    ),
    max_size=30,
)


@given(rates, bursts, steps)
def test_a_bucket_gives_what_exact_arithmetic_gives(rate_milli, burst, chosen):
    """Times are whole 1024ths of a second, so that they are exact; 1e-6 of a token is allowed for."""
    bucket = TokenBucket(rate_milli, burst, now=0.0)
    size, rate = max(burst, 1), Fraction(rate_milli, 1000)
    tokens, ticks, is_short = Fraction(size), 0, False
    for verb, number, count in chosen:
        if verb == "configure":
            bucket.configure(number, count)
            size, rate = max(count, 1), Fraction(number, 1000)
        elif verb == "refund":
            bucket.refund(count)
            tokens = min(tokens + count, max(Fraction(size), tokens))
        else:
            ticks += number
            grown = tokens + rate * Fraction(number, 1024)
            is_catching_up = is_short and number <= CATCH_UP_S * 1024
            tokens = grown if is_catching_up else min(grown, Fraction(size))
            taken = bucket.take(count, ticks / 1024)
            assert 0 <= taken <= count
            assert taken <= tokens + Fraction(2, 1_000_000)
            assert taken == count or taken + 1 > tokens
            tokens -= taken
            is_short = taken < count


@given(rates, st.integers(0, 1_000_000_000))
def test_waiting_as_long_as_told_is_enough(rate_milli, start_ms):
    now = start_ms / 1000
    bucket = TokenBucket(rate_milli, 1, now)
    assert bucket.take(1, now) == 1
    wait = bucket.retry_s(now)
    assert bucket.take(1, now + wait * 0.9) == 0
    assert bucket.take(1, now + wait + 1e-6) == 1
