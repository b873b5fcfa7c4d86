"""How often one caller may ask: some requests a second, after a burst.

A page of the console asks for a handful of things at once, and then lives by its stream. What asks
more often is told when to come back, and does not slow down the others.
"""

from collections import OrderedDict
from math import ceil

from penstock.api.problems import Problem
from penstock.core.rate import TokenBucket

PER_S = 20
BURST = 60
CALLERS_MAX = 4_096  # the one that asked longest ago is forgotten


class Throttle:
    """The buckets of all callers."""

    def __init__(self, per_s: int = PER_S, burst: int = BURST) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[object, TokenBucket] = OrderedDict()

    def check(self, caller: object, now: float) -> None:
        """Count a request, or raise a Problem with the time to wait."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = TokenBucket(self._per_s * 1000, self._burst, now)
            if len(self._buckets) > CALLERS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller)
        if bucket.take(1, now):
            return
        raise Problem(
            429,
            "too_many_requests",
            f"more than {self._per_s} requests a second",
            "ask less often; GET stream tells what happens without asking",
            headers={"retry-after": str(ceil(1 / self._per_s))},
        )
