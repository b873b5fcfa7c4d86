"""How fast a topic may be delivered: a token bucket, for rates below one a second too.

Each message that leaves costs a token. Tokens come in at the rate, up to the burst, and are a real
number, so that one message in five minutes is a rate like any other. Who asks for more than there
is gets what there is; who gets nothing is told when there will be one.

The burst is for those who come after a pause. Whoever was given less than it asked for is waiting,
and what comes in until it is back, a little later, is due to it whatever the burst. Otherwise the
time that it takes to hand out messages would be lost each time, and a high rate with a small burst
never be reached.

Rates are kept in thousandths, as whole numbers: that is how they are journaled. Seconds are those
of a clock that never goes back, and are passed in.
"""

from math import floor

RATE_MILLI_MAX = 1 << 62  # a rate beyond everything; infinity is taken for this

_SLACK = 1e-6
"""Clocks and fractions are rounded: one who waited as long as he was told must not get nothing for
want of a billionth. What is given too early is missing from the bucket, so the rate is kept."""


CATCH_UP_S = 0.25
"""Time after which somebody who waited for tokens has made a pause, and not just been handed some:
a commit, a wake-up of the loop and a round trip take less."""


class TokenBucket:
    """The tokens of one topic: full at first, ``burst`` at most, and never less than room for one.

    A new rate or burst leaves the tokens as they are; too many are cut when some are next taken.
    """

    __slots__ = ("_burst", "_filled_at", "_is_short", "_rate", "_tokens")

    def __init__(self, rate_milli: int, burst: int, now: float) -> None:
        self.configure(rate_milli, burst)
        self._tokens = float(self._burst)
        self._filled_at = now
        self._is_short = False  # whether somebody wanted more the last time

    def configure(self, rate_milli: int, burst: int) -> None:
        """Change the rate, which is not 0: a topic without a limit has no bucket."""
        assert rate_milli > 0
        self._rate = rate_milli / 1000
        self._burst = max(burst, 1)

    def take(self, want: int, now: float) -> int:
        """Take up to ``want`` tokens; return how many there were, 0 if not one."""
        self._tokens = self._tokens_at(now)
        self._filled_at = max(self._filled_at, now)
        taken = max(min(floor(self._tokens + _SLACK), want), 0)
        self._tokens -= taken
        self._is_short = taken < want
        return taken

    def retry_s(self, now: float) -> float:
        """Seconds until there is one token; 0 if there is."""
        return max((1 - self._tokens_at(now)) / self._rate, 0.0)

    def refund(self, count: int) -> None:
        """Put back tokens that were taken and not used."""
        self._tokens = min(self._tokens + count, max(float(self._burst), self._tokens))

    def _tokens_at(self, now: float) -> float:
        elapsed = max(now - self._filled_at, 0.0)
        tokens = self._tokens + elapsed * self._rate
        is_catching_up = self._is_short and elapsed <= CATCH_UP_S
        return tokens if is_catching_up else min(tokens, float(self._burst))


def milli_rate(rate_per_sec: float) -> int:
    """A rate in thousandths, halves rounded up; 0 (no limit) for 0, negative and no numbers.

    The slowest rate is 1: a tiny one means "hardly ever" and must not become "no limit".
    """
    if not rate_per_sec > 0:  # so that "not a number" is caught too
        return 0
    thousandths = min(rate_per_sec * 1000, float(RATE_MILLI_MAX))
    whole = floor(thousandths)
    return max(whole + (thousandths - whole >= 0.5), 1)
