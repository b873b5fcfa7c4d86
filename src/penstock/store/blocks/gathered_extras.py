"""Sparse columns of many entries: signatures, headers, schedules, producer runs.

As in an entry, one column has the numbers of messages, here counted over all entries; the others
have the values. What pieces have of them is found by bisection. See ``gathered``.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import Final

from penstock.store import entry as sections
from penstock.store.entry import Entry

_SIGNATURE_BYTES: Final = 88


class SparseColumns(ABC):
    """One property: its columns over all entries."""

    NUMBERS: int  # section of the message numbers

    def __init__(self) -> None:
        self.numbers = array("I")

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def add(self, entry: Entry, messages: int) -> None:
        """Add those of an entry, before which there are ``messages``."""
        if entry.has(self.NUMBERS):
            found = entry.column(self.NUMBERS).tolist()
            self.numbers.extend([number + messages for number in found])
            self._add(entry)

    @abstractmethod
    def _add(self, entry: Entry) -> None: ...

    @abstractmethod
    def bytes_between(self, start: int, end: int) -> int:
        """Size, about, of what the messages ``start … end - 1`` have."""

    def sections(
        self, starts: Sequence[int], ends: Sequence[int], places: Sequence[int]
    ) -> Iterator[tuple[int, bytes]]:
        """Sections for stretches of messages, the first of which become ``places``."""
        numbers, stretches = array("I"), []
        for start, end, place in zip(starts, ends, places, strict=False):
            low, high = self._between(start, end)
            if low < high:
                shift = place - start
                numbers.extend([number + shift for number in self.numbers[low:high]])
                stretches.append((low, high))
        if stretches:
            yield self.NUMBERS, numbers.tobytes()
            yield from self._sections(stretches)

    def _between(self, start: int, end: int) -> tuple[int, int]:
        low = bisect_left(self.numbers, start)
        if low == len(self.numbers) or self.numbers[low] >= end:
            return low, low
        return low, bisect_left(self.numbers, end, low)

    @abstractmethod
    def _sections(self, stretches: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]: ...


class _Signatures(SparseColumns):
    NUMBERS = sections.SIGNATURE_NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self._records = bytearray()

    def _add(self, entry: Entry) -> None:
        self._records += entry.column(sections.SIGNATURES)

    def bytes_between(self, start: int, end: int) -> int:
        low, high = self._between(start, end)
        return (high - low) * (4 + _SIGNATURE_BYTES)

    def _sections(self, stretches: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        size = _SIGNATURE_BYTES
        found = [self._records[low * size : high * size] for low, high in stretches]
        yield sections.SIGNATURES, b"".join(found)


class _Schedules(SparseColumns):
    NUMBERS = sections.SCHEDULE_NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self._due, self._expiry = array("Q"), array("Q")

    def _add(self, entry: Entry) -> None:
        self._due.extend(entry.column(sections.SCHEDULE_DUE))
        self._expiry.extend(entry.column(sections.SCHEDULE_EXPIRY))

    def bytes_between(self, start: int, end: int) -> int:
        low, high = self._between(start, end)
        return (high - low) * 20

    def _sections(self, stretches: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        for section, column in (
            (sections.SCHEDULE_DUE, self._due),
            (sections.SCHEDULE_EXPIRY, self._expiry),
        ):
            yield section, b"".join([column[low:high].tobytes() for low, high in stretches])


class _Texts:
    """Texts, joined, and how long each is."""

    def __init__(self) -> None:
        self.ends = array("Q", [0])
        self._content = bytearray()

    def add(self, bounds: Sequence[int], content: memoryview) -> None:
        """Add texts by their bounds, the first of which is 0."""
        shift = self.ends[-1]
        self.ends.extend([bound + shift for bound in bounds[1:]])
        self._content += content

    def size(self, low: int, high: int) -> int:
        return self.ends[high] - self.ends[low]

    def joined(self, stretches: list[tuple[int, int]]) -> bytes:
        ends = self.ends
        return b"".join([self._content[ends[low] : ends[high]] for low, high in stretches])

    def lengths(self, stretches: list[tuple[int, int]]) -> list[int]:
        found: list[int] = []
        for low, high in stretches:
            found += map(sub, self.ends[low + 1 : high + 1], self.ends[low:high])
        return found


class _Headers(SparseColumns):
    NUMBERS = sections.HEADER_NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self._bounds = array("I", [0])
        self._texts = _Texts()

    def _add(self, entry: Entry) -> None:
        shift = self._bounds[-1]
        bounds = entry.column(sections.HEADER_BOUNDS).tolist()
        self._bounds.extend([bound + shift for bound in bounds[1:]])
        text_bounds = entry.column(sections.HEADER_TEXT_BOUNDS).tolist()
        self._texts.add(text_bounds, entry.column(sections.HEADER_TEXTS))

    def bytes_between(self, start: int, end: int) -> int:
        low, high = self._between(start, end)
        first, last = 2 * self._bounds[low], 2 * self._bounds[high]
        return 8 * (high - low) + 4 * (last - first) + self._texts.size(first, last)

    def _sections(self, stretches: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        bounds = self._bounds
        counts: list[int] = []
        for low, high in stretches:
            counts += map(sub, bounds[low + 1 : high + 1], bounds[low:high])
        texts = [(2 * bounds[low], 2 * bounds[high]) for low, high in stretches]
        lengths = self._texts.lengths(texts)
        yield sections.HEADER_BOUNDS, array("I", accumulate(counts, initial=0)).tobytes()
        yield sections.HEADER_TEXT_BOUNDS, array("I", accumulate(lengths, initial=0)).tobytes()
        yield sections.HEADER_TEXTS, self._texts.joined(texts)


class _ProducerRuns(SparseColumns):
    NUMBERS = sections.PRODUCER_NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self._counts, self._seqs, self._names = array("I"), array("Q"), _Texts()

    def _add(self, entry: Entry) -> None:
        self._counts.extend(entry.column(sections.PRODUCER_COUNTS))
        self._seqs.extend(entry.column(sections.PRODUCER_SEQS))
        ends = entry.column(sections.PRODUCER_NAME_ENDS).tolist()
        self._names.add([0, *ends], entry.column(sections.PRODUCER_NAMES))

    def bytes_between(self, start: int, end: int) -> int:
        low, high = self._between(start, end)
        return (high - low) * 20 + self._names.size(low, high)

    def _between(self, start: int, end: int) -> tuple[int, int]:
        """As for other properties, but a producer run may begin before a stretch."""
        low = max(bisect_right(self.numbers, start) - 1, 0)
        if low < len(self.numbers) and self.numbers[low] + self._counts[low] <= start:
            low += 1
        return low, max(low, bisect_left(self.numbers, end))

    def sections(
        self, starts: Sequence[int], ends: Sequence[int], places: Sequence[int]
    ) -> Iterator[tuple[int, bytes]]:
        numbers, counts, seqs = array("I"), array("I"), array("Q")
        stretches = []
        for start, end, place in zip(starts, ends, places, strict=False):
            low, high = self._between(start, end)
            for number in range(low, high):
                first = max(self.numbers[number], start)
                last = min(self.numbers[number] + self._counts[number], end)
                numbers.append(first - start + place)
                counts.append(last - first)
                seqs.append(self._seqs[number] + first - self.numbers[number])
            if low < high:
                stretches.append((low, high))
        if stretches:
            yield sections.PRODUCER_NUMBERS, numbers.tobytes()
            yield sections.PRODUCER_COUNTS, counts.tobytes()
            yield sections.PRODUCER_SEQS, seqs.tobytes()
            yield from self._sections(stretches)

    def _sections(self, stretches: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        lengths = self._names.lengths(stretches)
        yield sections.PRODUCER_NAME_ENDS, array("I", accumulate(lengths)).tobytes()
        yield sections.PRODUCER_NAMES, self._names.joined(stretches)


EXTRAS: Final[tuple[type[SparseColumns], ...]] = (
    _Signatures, _Headers, _Schedules, _ProducerRuns,
)  # fmt: skip
