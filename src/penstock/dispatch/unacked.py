"""Messages sent to a subscriber that it may acknowledge: from a sequence to its place in a topic.

An acknowledgement names the global sequence of a message; what is kept of it is an offset in a
topic. Messages leave in stretches whose sequences and offsets both lie in a row, so one entry per
stretch is enough, and an acknowledgement is found by bisection. What is acknowledged is cut out.

The number of stretches is bounded. Beyond it the oldest are forgotten: an acknowledgement for one
of those is still good, but the journal has to be asked where the message lies.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

STRETCHES_MAX = 65_536
"""Stretches remembered per connection, some 100 bytes each."""


class Place(NamedTuple):
    """A stretch of a topic: offsets ``start … end - 1``."""

    topic: bytes
    start: int
    end: int


class _Stretch(NamedTuple):
    """Sequences ``first … end - 1`` are the messages of ``topic`` from ``offset`` on."""

    first: int
    end: int
    topic: bytes
    offset: int


class Unacked:
    """Stretches sent and not acknowledged, by sequence."""

    __slots__ = ("_stretches",)

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []

    def __len__(self) -> int:
        return len(self._stretches)

    def add(self, topic: bytes, sequence: int, offset: int, count: int) -> None:
        """Messages were sent, perhaps not for the first time: stretches never overlap."""
        stretches = self._stretches
        stretch = _Stretch(sequence, sequence + count, topic, offset)
        if not stretches or sequence >= stretches[-1].end:
            stretches.append(stretch)
        else:  # history, sent behind newer messages or once more
            self.settle(sequence, sequence + count)
            insort(stretches, stretch)
        self._keep_bound()

    def _keep_bound(self) -> None:
        """Forget the oldest, some more than needed: it is done less often then."""
        excess = len(self._stretches) - STRETCHES_MAX
        if excess > 0:
            del self._stretches[: excess + STRETCHES_MAX // 64]

    def forget(self, topic: bytes) -> None:
        """The topic was deleted: acknowledgements of its messages mean nothing any more."""
        self._stretches = [stretch for stretch in self._stretches if stretch.topic != topic]

    def settle(self, first: int, end: int) -> tuple[list[Place], list[tuple[int, int]]]:
        """Sequences ``first … end - 1`` are acknowledged: where they lie, and those not known."""
        stretches = self._stretches
        low = bisect_right(stretches, first, key=lambda stretch: stretch.end)
        high = low
        places: list[Place] = []
        unknown: list[tuple[int, int]] = []
        left: list[_Stretch] = []
        while high < len(stretches) and stretches[high].first < end:
            stretch = stretches[high]
            start, stop = max(first, stretch.first), min(end, stretch.end)
            if first < start:
                unknown.append((first, start))
            offset = stretch.offset + start - stretch.first
            places.append(Place(stretch.topic, offset, offset + stop - start))
            left += _rest(stretch, start, stop)
            first = max(first, stop)
            high += 1
        stretches[low:high] = left  # one more, if its middle was acknowledged
        self._keep_bound()
        if first < end:
            unknown.append((first, end))
        return places, unknown


def _rest(stretch: _Stretch, start: int, stop: int) -> Iterator[_Stretch]:
    """What is left of a stretch when ``start … stop - 1`` is cut out."""
    if stretch.first < start:
        yield stretch._replace(end=start)
    if stop < stretch.end:
        yield stretch._replace(first=stop, offset=stretch.offset + stop - stretch.first)


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers as ranges, ascending, each once; cheap where they are in a row, as is usual."""
    low, high = numbers[0], numbers[-1] + 1
    if high - low == len(numbers) and numbers == list(range(low, high)):
        return [(low, high)]
    distinct = sorted(set(numbers))
    ranges: list[tuple[int, int]] = []
    start = end = distinct[0]
    for number in distinct:
        if number > end:
            ranges.append((start, end))
            start = number
        end = number + 1
    return [*ranges, (start, end)]
