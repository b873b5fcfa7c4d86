"""Delivery rate of a topic: a token bucket, also for rates below one per second.

Each delivered message costs a token. Tokens arrive at the rate, up to the burst, and are a real
number, so one message in five minutes is a rate like any other. A caller that asks for more than
is available gets fewer, or learns when there will be a token.

The burst is for consumers that come after a pause. A caller that got less than it asked for is
waiting, and tokens that arrive until it returns, shortly after, belong to it whatever the burst.
Otherwise the time that delivery takes would be lost each time, and a high rate with a small burst
would never be reached.

Rates are kept in thousandths, as integers, as they are journaled. Seconds are those of a monotonic
clock, and are passed in.
"""

from math import floor

RATE_MILLI_MAX = 1 << 62  # stands for infinity

_SLACK = 1e-6
"""Clocks and fractions are rounded: a caller that waited as long as it should must not get nothing
for lack of a billionth. What is given too early is missing from the bucket, so the rate is kept.
"""


CATCH_UP_S = 0.25
"""After this time a caller that waited for tokens has made a pause: a commit, a wake-up of the loop
and a round trip take less.
"""


class TokenBucket:
    """The tokens of one topic: full at first, at most ``burst``, at least room for one.

    A new rate or burst leaves the tokens as they are; an excess is cut when some are taken.
    """

    __slots__ = ("_burst", "_filled_at", "_is_short", "_rate", "_tokens")

    def __init__(self, rate_milli: int, burst: int, now: float) -> None:
        self.configure(rate_milli, burst)
        self._tokens = float(self._burst)
        self._filled_at = now
        self._is_short = False  # whether the last caller wanted more

    def configure(self, rate_milli: int, burst: int) -> None:
        """Change the rate, which is not 0: an unlimited topic has no bucket."""
        assert rate_milli > 0
        self._rate = rate_milli / 1000
        self._burst = max(burst, 1)

    def take(self, want: int, now: float) -> int:
        self._tokens = self._tokens_at(now)
        self._filled_at = max(self._filled_at, now)
        taken = max(min(floor(self._tokens + _SLACK), want), 0)
        self._tokens -= taken
        self._is_short = taken < want
        return taken

    def retry_s(self, now: float) -> float:
        return max((1 - self._tokens_at(now)) / self._rate, 0.0)

    def refund(self, count: int) -> None:
        self._tokens = min(self._tokens + count, max(float(self._burst), self._tokens))

    def _tokens_at(self, now: float) -> float:
        elapsed = max(now - self._filled_at, 0.0)
        tokens = self._tokens + elapsed * self._rate
        is_catching_up = self._is_short and elapsed <= CATCH_UP_S
        return tokens if is_catching_up else min(tokens, float(self._burst))


def milli_rate(rate_per_sec: float) -> int:
    """A rate in thousandths, halves rounded up; 0 (no limit) for 0, negative numbers and NaN.

    The slowest rate is 1: a tiny one means "hardly ever" and must not become "no limit".
    """
    if not rate_per_sec > 0:  # so that "not a number" is caught too
        return 0
    thousandths = min(rate_per_sec * 1000, float(RATE_MILLI_MAX))
    whole = floor(thousandths)
    return max(whole + (thousandths - whole >= 0.5), 1)
