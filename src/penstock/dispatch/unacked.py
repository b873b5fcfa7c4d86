"""Messages sent to a subscriber and not acknowledged: from global sequences to topics and offsets.

An acknowledgement names the global sequence of a message; progress is kept by topic and offset.
Messages are sent in ranges of contiguous sequences and offsets, so one entry per range is enough,
and bisection finds an acknowledged message. What is acknowledged is cut out.

The number of ranges is bounded. Beyond it the oldest are forgotten: they can still be acknowledged,
but the journal must be read to find the offset.
"""

from bisect import bisect_right, insort
from collections.abc import Container, Iterator
from typing import NamedTuple

RANGES_MAX = 65_536  # per connection; some 100 bytes each


class AckedRange(NamedTuple):
    """Offsets ``start … end - 1`` of a topic."""

    topic: bytes
    start: int
    end: int


class _SentRange(NamedTuple):
    """Sequences ``first … end - 1`` are the messages of ``topic`` from ``offset`` on."""

    first: int
    end: int
    topic: bytes
    offset: int


class Unacked:
    """Ranges sent and not acknowledged, by sequence."""

    __slots__ = ("_ranges", "cuts")

    def __init__(self) -> None:
        self._ranges: list[_SentRange] = []
        self.cuts = 0  # how often the oldest were forgotten

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, topic: bytes, sequence: int, offset: int, count: int) -> None:
        """Record sent messages, perhaps not for the first time: ranges never overlap."""
        ranges = self._ranges
        sent = _SentRange(sequence, sequence + count, topic, offset)
        if not ranges or sequence >= ranges[-1].end:
            ranges.append(sent)
        else:  # history, sent behind newer messages or once more
            self.settle(sequence, sequence + count)
            insort(ranges, sent)
        self._keep_bound()

    def _keep_bound(self) -> None:
        """Forget the oldest, and some more, so that this is rarely needed."""
        excess = len(self._ranges) - RANGES_MAX
        if excess > 0:
            del self._ranges[: excess + RANGES_MAX // 64]
            self.cuts += 1

    def count(self, topics: Container[bytes]) -> int:
        """How many messages of these topics there are. Not for every message: it looks at all."""
        return sum([sent.end - sent.first for sent in self._ranges if sent.topic in topics])

    def forget(self, topic: bytes) -> None:
        """Forget a topic that was deleted."""
        self._ranges = [sent for sent in self._ranges if sent.topic != topic]

    def settle(self, first: int, end: int) -> tuple[list[AckedRange], list[tuple[int, int]]]:
        """Acknowledge sequences ``first … end - 1``: their offsets, and the sequences not known."""
        ranges = self._ranges
        low = bisect_right(ranges, first, key=lambda sent: sent.end)
        high = low
        acked: list[AckedRange] = []
        unknown: list[tuple[int, int]] = []
        left: list[_SentRange] = []
        while high < len(ranges) and ranges[high].first < end:
            sent = ranges[high]
            start, stop = max(first, sent.first), min(end, sent.end)
            if first < start:
                unknown.append((first, start))
            offset = sent.offset + start - sent.first
            acked.append(AckedRange(sent.topic, offset, offset + stop - start))
            left += _rest(sent, start, stop)
            first = max(first, stop)
            high += 1
        ranges[low:high] = left  # one more, if its middle was acknowledged
        self._keep_bound()
        if first < end:
            unknown.append((first, end))
        return acked, unknown


def _rest(sent: _SentRange, start: int, stop: int) -> Iterator[_SentRange]:
    """What is left of a range when ``start … stop - 1`` is cut out."""
    if sent.first < start:
        yield sent._replace(end=start)
    if stop < sent.end:
        yield sent._replace(first=stop, offset=sent.offset + stop - sent.first)


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers as ascending ranges without duplicates; cheap if they are contiguous, as is usual."""
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
