"""Rates of things that are looked at: how far they went since somebody looked last.

Nothing is gathered ahead for a hundred thousand groups. Whoever looks at one again after a second
learns its rate; the first look has none. Pure.
"""

from collections.abc import Hashable
from typing import NamedTuple

SINCE_S_MIN = 1.0  # a shorter time says little
SINCE_S_MAX = 120.0  # what was seen before says nothing about now
KEPT_MAX = 10_000  # things that are looked at


class _Look(NamedTuple):
    at: float
    done: int


class Rates:
    """How much was done a second, by what was looked at."""

    def __init__(self) -> None:
        # an older look and a newer one, so that two people who look in turn see rates as well
        self._looks: dict[Hashable, tuple[_Look, _Look]] = {}  # the least recently seen first

    def look(self, key: Hashable, done: int, now: float) -> float | None:
        """``done`` only grows; the rate since an earlier look, None if there was none lately."""
        look = _Look(now, done)
        before = self._looks.pop(key, None)
        while len(self._looks) >= KEPT_MAX:
            del self._looks[next(iter(self._looks))]
        if before is None or now - before[1].at > SINCE_S_MAX or done < before[1].done:
            self._looks[key] = look, look
            return None
        older, newer = before
        if now - newer.at >= SINCE_S_MIN:
            older = newer
            self._looks[key] = newer, look
        else:
            self._looks[key] = before
        since_s = now - older.at
        return (done - older.done) / since_s if since_s >= SINCE_S_MIN else None
