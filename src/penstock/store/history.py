"""Messages of all topics that match a filter, in the order of their sequences: what a replay reads.

The tail is in that order anyway. A block is sorted by topic, so it is read in **windows** of
sequences: every part with something wanted is decoded once for a window, and the messages found are
sorted. How wide a window is follows from the directory, which tells how much of the block is
wanted; should it hold more than expected, its end moves down (``HistoryGathering.end``). So a step
takes the memory of two answers at most, whatever is stored.

Which topics match is listed once, as ids: four bytes each, twelve if each has its own start. Topics
that are created later have higher ids than all of them, and are judged by name when they are met.

``last`` counts from the end of each topic at its **horizon**, a sequence: a reader that has to list
the topics again, after a restart or at another node, must find the same first messages, though the
topics have grown.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple, Protocol, TypeVar

from penstock.model.history_start import HistoryStart
from penstock.model.message import Message
from penstock.model.topic import has_wildcard
from penstock.store import entry as sections
from penstock.store.blocks.block import Block
from penstock.store.deletions import Ranges
from penstock.store.entry import Entry

UNWANTED: Final = -1  # as the first offset of a topic
UNKNOWN: Final = -2

JUDGED_MAX: Final = 65_536  # topics created since the listing whose match is remembered
BLOCKS_MAX: Final = 256  # blocks that a step may pass over because nothing in them is wanted
WINDOWS_MAX: Final = 4  # windows without a find in one step
SPARSE: Final = 16  # groups per wanted topic beyond which topics are looked up one by one

_by_sequence = itemgetter(0)


class HistoryStep(NamedTuple):
    """Messages in order, and the sequence with which to go on."""

    messages: list[Message]
    next_sequence: int


class Wanted(NamedTuple):
    """The wanted groups of a block; for each message of them, sequences of it and payload bytes."""

    groups: "array[int]"
    sequences: float
    message_bytes: float


class ListedTopic(Protocol):
    """The part of ``TopicInfo`` that a history needs."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> bytes: ...
    @property
    def first_offset(self) -> int: ...


ListedTopicT = TypeVar("ListedTopicT", bound=ListedTopic)


class History:
    """What is wanted, and what a store remembers between two steps. One step at a time."""

    def __init__(
        self,
        topic_filter: bytes,
        matches: Callable[[bytes], bool],
        start: HistoryStart,
        horizon: int = 0,
    ) -> None:
        """``horizon`` 0: the end of each topic when it is listed."""
        self.topic_filter = topic_filter
        self.start = start
        self.horizon = horizon
        self.is_listed = False
        self.matches = matches
        self._listed_id = 0  # topics with higher ids were created after the listing
        self._ids = array("I")
        self._starts = array("Q")
        self._judged: dict[int, int] = {}
        self._block: tuple[int, int] | None = None
        self._wanted = Wanted(array("I"), 1.0, 1.0)

    @property
    def held_bytes(self) -> int:
        """Memory that is held between two steps, roughly."""
        arrays = (self._ids, self._starts, self._wanted.groups)
        return sum(found.itemsize * len(found) for found in arrays) + 128 * len(self._judged)

    # ── topics ────────────────────────────────────────────────────────────────────────────────

    def topics(
        self,
        one: Callable[[bytes], ListedTopicT | None],
        some: Callable[[bytes], Iterable[ListedTopicT]],
    ) -> Iterator[ListedTopicT]:
        """Topics that match; ``one`` looks up a name, ``some`` those with a prefix."""
        topic_filter = self.topic_filter
        if has_wildcard(topic_filter):
            found = some(_prefix(topic_filter))
        else:
            info = one(topic_filter)
            found = () if info is None else (info,)
        return (info for info in found if self.matches(info.name))

    def list(self, found: Iterable[tuple[ListedTopic, int]], listed_id: int) -> None:
        """Take the topics that match, each with the offset with which its history begins."""
        if self.start.last:
            pairs = sorted((info.id, start) for info, start in found)
            self._ids = array("I", [topic_id for topic_id, _ in pairs])
            self._starts = array("Q", [start for _, start in pairs])
        else:
            self._ids = array("I", sorted(info.id for info, _ in found))
        self._listed_id = listed_id
        self.is_listed = True

    def begins_at(self, topic_id: int) -> int:
        """The first wanted offset of a topic; ``UNWANTED``, or ``UNKNOWN``: ``judge`` it."""
        if topic_id > self._listed_id:
            known = self._judged.get(topic_id)
            return UNKNOWN if known is None else known
        place = bisect_left(self._ids, topic_id)
        if place == len(self._ids) or self._ids[place] != topic_id:
            return UNWANTED
        return self._starts[place] if self._starts else self.start.offset

    def judge(self, topic_id: int, name: bytes) -> int:
        """``begins_at`` of a topic that was created after the listing."""
        if len(self._judged) >= JUDGED_MAX:
            self._judged.clear()
        start = self.start.offset if self.matches(name) else UNWANTED
        self._judged[topic_id] = start
        return start

    # ── groups of a block ─────────────────────────────────────────────────────────────────────

    def look_at(self, block: Block) -> Wanted:
        key = block.summary.number, block.summary.checksum
        if self._block != key:
            self._wanted, self._block = self._wanted_of(block), key
        return self._wanted

    def _wanted_of(self, block: Block) -> Wanted:
        groups, count, size = array("I"), 0, 0
        for number in self._candidates(block):
            group = block.group(number)
            start = self.begins_at(group.topic_id)
            if start == UNKNOWN:
                start = self.judge(group.topic_id, _name(block, number))
            if 0 <= start < group.next_offset and group.newest_ms >= self.start.since_ms:
                groups.append(number)
                count += group.message_count
                size += group.bytes
        sequences = block.summary.end_sequence - block.summary.base_sequence
        return Wanted(groups, sequences / max(count, 1), max(size / max(count, 1), 1.0))

    def _candidates(self, block: Block) -> Iterable[int]:
        ids, count = block.topic_ids, block.summary.group_count
        if len(self._ids) * SPARSE > count:
            return range(count)
        numbers: list[int] = []
        place = 0
        for topic_id in self._ids:
            place = bisect_left(ids, topic_id, place)
            end = bisect_right(ids, topic_id, place)
            numbers.extend(range(place, end))
            place = end
        return [*numbers, *range(bisect_right(ids, self._listed_id, place), count)]


class HistoryGathering:
    """One step: collects messages from ``low`` on, below ``end``."""

    def __init__(
        self, history: History, low: int, end: int, count_max: int, bytes_max: int
    ) -> None:
        self._history = history
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._upcoming = 0  # the first wanted sequence behind a window
        self._blocks_left, self._windows_left = BLOCKS_MAX, WINDOWS_MAX
        self.low = low
        self.end = end
        self.found: list[tuple[int, int, Message]] = []  # sequence, id of the topic, message

    @property
    def wants_more(self) -> bool:
        has_room = len(self.found) < self._count_max and self._bytes < self._bytes_max
        return self.low < self.end and has_room and self._blocks_left > 0 and self._windows_left > 0

    def take_entry(self, entry: Entry) -> None:
        """Take what is wanted of an entry of the tail."""
        history, ceiling = self._history, self.end
        ids = entry.column(sections.TOPIC_IDS)
        before = len(self.found)
        for number in range(entry.group_count):
            start = history.begins_at(ids[number])
            if start == UNKNOWN:
                start = history.judge(ids[number], entry.group(number).name)
            if start >= 0:
                self._take_group(entry, number, start)
        self._order(before)
        self.low = entry.end_sequence if self.end == ceiling else self.end

    def take_block(self, block: Block) -> None:
        """Take what is wanted of a block in the next window, or pass over the block."""
        wanted = self._history.look_at(block)
        if not wanted.groups:
            self._blocks_left -= 1
            self.low = block.summary.end_sequence
            return
        window = self._window(block, wanted)
        step_end, self.end = self.end, min(self.end, window)
        ceiling, before = self.end, len(self.found)
        self._upcoming = block.summary.end_sequence
        for number in wanted.groups:
            entry, in_part = block.opened(number)
            start = self._history.begins_at(block.topic_ids[number])
            if start == UNKNOWN:  # it was forgotten since
                start = self._history.judge(block.topic_ids[number], entry.group(in_part).name)
            self._take_group(entry, in_part, start)
        self._order(before)
        self.low = self.end
        if self.end == ceiling:  # nothing was cut off: go on with the next message there is
            self.low, self.end = max(self.low, self._upcoming), step_end
        if len(self.found) > before:
            self._blocks_left = 0  # one window of a block is an answer
        self._windows_left -= 1

    def _window(self, block: Block, wanted: Wanted) -> int:
        """The end of a window that probably fills the answer."""
        count = min(
            self._count_max - len(self.found),
            int((self._bytes_max - self._bytes) / wanted.message_bytes) + 1,
        )
        low = max(self.low, block.summary.base_sequence)
        return min(block.summary.end_sequence, low + int(count * wanted.sequences) + 1)

    def _take_group(self, entry: Entry, number: int, start: int) -> None:
        """Take what is wanted of a group below ``end``; note what comes next of it."""
        group, base = entry.group(number), entry.base_sequence
        positions, bounds = entry.run_positions, entry.run_bounds
        # the number that a message of the first wanted offset has in the entry
        least = group.message_start + max(start - group.first_offset, 0)
        since_ms = self._history.start.since_ms - entry.time_ms
        run_range = group.run_start, group.run_end
        first_run = max(
            bisect_right(positions, self.low - base, *run_range) - 1,
            bisect_right(bounds, least, *run_range) - 1,
            group.run_start,
        )
        for run in range(first_run, group.run_end):
            shift = base + positions[run] - bounds[run]
            first, stop = max(bounds[run], least, self.low - shift), bounds[run + 1]
            if first >= stop or entry.run_times[run] < since_ms:
                continue
            last = min(stop, self.end - shift)
            if first < last:
                self._take_run(entry, number, run, (first, last), shift)
            if last < stop:
                self._upcoming = min(self._upcoming, max(first, last) + shift)
                return

    def _take_run(
        self, entry: Entry, number: int, run: int, numbers: tuple[int, int], shift: int
    ) -> None:
        first, last = numbers
        group = entry.group(number)
        topic, topic_id = group.name, group.topic_id
        time_ms, flags = entry.time_ms + entry.run_times[run], entry.flags(run)
        bounds, payloads = entry.bounds, entry.payloads
        offset = group.first_offset - group.message_start
        extras = entry.extras(first, last)
        for place in range(first, last):
            payload = bytes(payloads[bounds[place] : bounds[place + 1]])
            message = Message(
                topic, payload, place + shift, place + offset, time_ms, flags,
                extras.get(place - first),
            )  # fmt: skip
            self.found.append((place + shift, topic_id, message))
        self._bytes += bounds[last] - bounds[first]
        if self._bytes > 2 * self._bytes_max or len(self.found) > 2 * self._count_max:
            self._cut()

    def _order(self, before: int) -> None:
        if len(self.found) - before > 1:
            self.found.sort(key=_by_sequence)

    def _cut(self) -> None:
        """Keep the oldest messages that fill the answer, at least one; forget the others."""
        self.found.sort(key=_by_sequence)
        size = 0
        for place, (sequence, _, message) in enumerate(self.found):
            if place and (size >= self._bytes_max or place >= self._count_max):
                self.end = min(self.end, sequence)
                self._bytes = size
                del self.found[place:]
                return
            size += len(message.payload)


def first_of_last(info: ListedTopic, deleted: Ranges, end: int, count: int) -> int:
    """The offset of the first of the last ``count`` living messages of a topic before ``end``."""
    start = max(end - count, info.first_offset)
    if not deleted.count:
        return start
    while start > info.first_offset:
        gone = sum(last - first for first, last in deleted.within(start, end))
        missing = count - (end - start - gone)
        if missing <= 0:
            break
        start = max(start - missing, info.first_offset)
    return start


def _prefix(topic_filter: bytes) -> bytes:
    """The prefix of all topics that a filter matches; ``a/#`` matches ``a``, too."""
    plain = topic_filter.partition(b"+")[0].partition(b"#")[0]
    return plain.removesuffix(b"/") if plain + b"#" == topic_filter else plain


def _name(block: Block, number: int) -> bytes:
    entry, in_part = block.opened(number)
    return entry.group(in_part).name
