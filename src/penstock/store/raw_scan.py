"""One answer of a scan under construction: columns of many topics.

Messages come in two ways. Single groups are cut like those of any bulk read, and small ones are
joined (``Gathering``). Successive groups of an entry, or of a part of a block, that are all wanted
from end to end leave together as they are: one cut, whatever the number of topics in it.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.model import columns as wanted
from penstock.store import entry as sections
from penstock.store.deletions import Ranges
from penstock.store.entry import Entry
from penstock.store.joined_slice import SMALL, JoinedPart
from penstock.store.raw import (
    Gathering,
    cut_raw,
    fitting_numbers,
    header_bytes,
    lessened,
    run_range,
)
from penstock.store.raw_slice import Column
from penstock.store.scan import Extent, ScanStep, ScanTopic
from penstock.store.slices import GroupRange

GROUPS_OPENED_MAX: Final = 4_096  # single groups of one answer; tiny ones take an entry each
_ZERO: Final = bytes(4)


class OpenTopic(NamedTuple):
    """A topic of a scan with the ranges that it has now, within a snapshot."""

    topic: ScanTopic
    info: Extent
    deleted: Ranges
    parts: Iterator[GroupRange]


class ScanGathering(Gathering):
    """Slices of many topics, within the bounds of one answer; at least one message, if any."""

    def __init__(self, columns: int, count_max: int, bytes_max: int) -> None:
        super().__init__(columns)
        self.removed: list[tuple[int, int, int]] = []
        self.weighs_payloads = bool(columns & wanted.PAYLOADS)
        self.count_left = count_max
        self.bytes_left = bytes_max
        self._groups_left = GROUPS_OPENED_MAX
        self.is_empty = True

    @property
    def is_full(self) -> bool:
        return self.count_left <= 0 or self.bytes_left < 0 or self._groups_left <= 0

    def step(self) -> ScanStep:
        self.end()
        return ScanStep(self.slices, self.removed)

    def read(self, opened: OpenTopic) -> bool:
        """Read what fits of a topic; False if the answer is full, or the topic has a hole."""
        topic, info, deleted, parts = opened
        start, end = topic.span(info, deleted)
        if info.first_offset > topic.next:
            self.note_removed(topic, topic.next, info.first_offset)
        reached = start
        for part in parts:
            if part.first > reached:  # removed since we looked, or unreadable
                self.note_removed(topic, reached, part.first)
            last, is_whole = self.take(part, topic.number)
            if last:
                reached = max(reached, deleted.skip(last))
            if not is_whole:
                break
        else:
            self._note_stall(topic, reached, end)
        topic.reached(deleted.skip(reached), info)
        return topic.is_done or reached >= end

    def _note_stall(self, topic: ScanTopic, reached: int, end: int) -> None:
        """Nothing is left of a topic that should have more.

        It was removed since we looked, which the next look shows; or it cannot be read at all.
        """
        if reached > topic.next or reached >= end:
            topic.stalls = 0
            return
        topic.stalls += 1
        if topic.stalls > 1:
            self.note_removed(topic, reached, end)
            topic.next = end

    def note_removed(self, topic: ScanTopic, begin: int, end: int) -> None:
        self.removed.append((topic.number, begin, min(end, topic.end)))

    def take(self, part: GroupRange, topic: int) -> tuple[int, bool]:
        """Add what fits of a range; returns where it ends, and whether that was all of it."""
        if self.is_full:
            return 0, False
        bytes_left = self.bytes_left
        entry = part.entry
        shift, run_start, run_end = entry.span(part.group)
        first = part.first + shift
        if part.end - part.first == 1 == run_end - run_start and not entry.has_extras:
            size = entry.bounds[first + 1] - entry.bounds[first] if self.weighs_payloads else 0
            if size <= bytes_left:
                joined = JoinedPart(part.first, entry, first, first + 1, run_start, run_end)
                self.add_single(joined, topic)
                self._groups_left -= 1
                self._note(1, size)
                return part.end, True
        bounds = self.count_left, bytes_left, self.columns
        end, size = fitting_numbers(part, first, part.end + shift, bounds)
        if size > bytes_left and not self.is_empty:
            return 0, False
        runs = run_range(part.entry, (run_start, run_end), first, end)
        self.add(JoinedPart(part.first, part.entry, first, end, *runs), topic)
        self._groups_left -= 1
        self._note(end - first, size)
        return end - shift, end == part.end + shift

    def _note(self, count: int, size: int) -> None:
        self.is_empty = False
        self.count_left -= count
        self.bytes_left -= size

    def take_groups(self, entry: Entry, first: int, topics: Sequence[int]) -> None:
        """Add successive groups from one on, from end to end, which must fit."""
        last = first + len(topics)
        messages, runs = entry.column(sections.GROUP_MESSAGES), entry.group_runs
        start, end = (messages[first - 1] if first else 0), messages[last - 1]
        run_start, run_end = (runs[first - 1] if first else 0), runs[last - 1]
        offset = entry.column(sections.FIRST_OFFSETS)[first]
        part = JoinedPart(offset, entry, start, end, run_start, run_end)
        if len(topics) == 1 and end - start <= SMALL:
            self.add(part, topics[0])
        else:
            self.end()
            groups = _groups(entry, first, last, topics)
            self.slices.append(cut_raw(part, self.columns)._replace(groups=groups))
        self._groups_left -= 1
        size = entry.bounds[end] - entry.bounds[start] if self.weighs_payloads else 0
        if self.columns & wanted.HEADERS and entry.has(sections.HEADER_TEXTS):
            size = max(size, header_bytes(entry, start, end))  # at most those of one part too many
        self._note(end - start, size)


def _groups(entry: Entry, first: int, last: int, topics: Sequence[int]) -> tuple[Column, ...]:
    starts: Column = _ZERO
    if first:
        before = entry.column(sections.GROUP_MESSAGES)[first - 1]
        starts = lessened(entry.u32(sections.GROUP_MESSAGES, first - 1, last - 1), before)
    elif last > 1:
        starts = _ZERO + entry.u32(sections.GROUP_MESSAGES, 0, last - 1)
    numbers = array("I", topics).tobytes()
    return numbers, starts, entry.u64(sections.FIRST_OFFSETS, first, last)
