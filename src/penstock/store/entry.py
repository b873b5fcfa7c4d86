"""The codec of a journal entry: a batch as columns under one checksum.

An entry is a fixed header, a directory of *sections* and the sections, each one column that starts
on a multiple of eight bytes. Numbers are little-endian, so columns are read in place. Readers skip
unknown sections. docs/reference/journal-format.md has the layout byte by byte.

Messages and runs are in *group order*: all of the first topic, then all of the second. Message *m*
is ``payloads[bounds[m]:bounds[m + 1]]``. Sorting the runs by position gives the order of arrival.
Decoding is lazy: at first only the header and directory are read.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import sub
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from penstock import kernel
from penstock.errors import StorageDamaged, StorageForeign
from penstock.model.message import Extras, Message
from penstock.store.batch import Batch, NodeSegment
from penstock.store.checksum import crc32 as long_crc32
from penstock.store.extras import (
    Schedule,
    headers_between,
    pack_headers,
    pack_schedule,
    pack_signatures,
    schedule_between,
    signatures_between,
)
from penstock.store.message_columns import MessageColumns
from penstock.store.producers import ProducerRun, pack_producer_runs, producer_runs_between
from penstock.store.runs import RunsByTopic

assert sys.byteorder == "little", "columns are read in place, which needs a little-endian machine"

MAGIC = b"PSTK"
VERSION = 1

_PREFIX = struct.Struct("<4sBBH")  # magic, version, flags, number of sections
_CHECKSUM = struct.Struct("<I")
_BODY = struct.Struct("<IQQIIQ")  # zero, index, base sequence, messages, groups, time base
_SECTION = struct.Struct("<HHI")  # id, zero, length
_U32 = struct.Struct("<I")
_U32_PAIR = struct.Struct("<II")
_U64 = struct.Struct("<Q")
_HEADER_BYTES = _PREFIX.size + _CHECKSUM.size + _BODY.size
_CHECKED_FROM = _PREFIX.size + _CHECKSUM.size

# Section ids. A number is never given a second meaning.
TOPIC_IDS = 1
FIRST_OFFSETS = 2
GROUP_MESSAGES = 3
GROUP_RUNS = 4
NAME_ENDS = 5
NAMES = 6
RUN_POSITIONS = 7
RUN_BOUNDS = 8
RUN_TIMES = 9
RUN_FLAGS = 10
BOUNDS = 11
PAYLOADS = 12
EVENTS = 13
SIGNATURE_NUMBERS = 14
SIGNATURES = 15
HEADER_NUMBERS = 16
HEADER_BOUNDS = 17
HEADER_TEXT_BOUNDS = 18
HEADER_TEXTS = 19
RUN_TYPES = 20
SCHEDULE_NUMBERS = 21
SCHEDULE_DUE = 22
SCHEDULE_EXPIRY = 23
PRODUCER_NUMBERS = 24
PRODUCER_COUNTS = 25
PRODUCER_SEQS = 26
PRODUCER_NAME_ENDS = 27
PRODUCER_NAMES = 28
DROPPED_IDS = 29
DROPPED_NAME_ENDS = 30
DROPPED_NAMES = 31
SEGMENTS = 32
CONFIGURATION = 33

_SIGNATURE_SECTIONS = (SIGNATURE_NUMBERS, SIGNATURES)
_HEADER_SECTIONS = (HEADER_NUMBERS, HEADER_BOUNDS, HEADER_TEXT_BOUNDS, HEADER_TEXTS)
_SCHEDULE_SECTIONS = (SCHEDULE_NUMBERS, SCHEDULE_DUE, SCHEDULE_EXPIRY)
_EXTRAS_SECTIONS = (SIGNATURES, HEADER_TEXTS, SCHEDULE_NUMBERS)
_PRODUCER_SECTIONS = (
    PRODUCER_NUMBERS,
    PRODUCER_COUNTS,
    PRODUCER_SEQS,
    PRODUCER_NAME_ENDS,
    PRODUCER_NAMES,
)

_WIDTHS: dict[int, Literal["I", "Q"]] = {
    TOPIC_IDS: "I", FIRST_OFFSETS: "Q", GROUP_MESSAGES: "I", GROUP_RUNS: "I", NAME_ENDS: "I",
    RUN_POSITIONS: "I", RUN_BOUNDS: "I", RUN_TIMES: "I", BOUNDS: "I",
    SIGNATURE_NUMBERS: "I", HEADER_NUMBERS: "I", HEADER_BOUNDS: "I", HEADER_TEXT_BOUNDS: "I",
    SCHEDULE_NUMBERS: "I", SCHEDULE_DUE: "Q", SCHEDULE_EXPIRY: "Q",
    PRODUCER_NUMBERS: "I", PRODUCER_COUNTS: "I", PRODUCER_SEQS: "Q", PRODUCER_NAME_ENDS: "I",
    DROPPED_IDS: "I", DROPPED_NAME_ENDS: "I",
}  # fmt: skip

_EMPTY = memoryview(b"")
TIME_SPAN_MS_MAX = 0xFFFF_FFFF  # times of an entry are u32, counted from its earliest
_PADDING = tuple(bytes(n) for n in (0, 7, 6, 5, 4, 3, 2, 1))

BYTE_MAX = 0xFF
COPIED_BYTES_MAX = 16_384  # up to here a copy costs less than a checksum of each part

# An entry that is one message: header and columns up to the topic's name, then those up to the
# payload. Only the lengths of name and payload differ in the directory.
_SINGLE_SECTIONS = tuple(
    b"".join(_SECTION.pack(number, 0, size) for number, size in sizes)[:-4]
    for sizes in (
        (
            (TOPIC_IDS, 4),
            (FIRST_OFFSETS, 8),
            (GROUP_MESSAGES, 4),
            (GROUP_RUNS, 4),
            (NAME_ENDS, 4),
            (NAMES, 0),
        ),
        (
            (RUN_POSITIONS, 4),
            (RUN_BOUNDS, 8),
            (RUN_TIMES, 4),
            (RUN_FLAGS, 1),
            (BOUNDS, 8),
            (PAYLOADS, 0),
        ),
    )
)
_SINGLE_HEAD = struct.Struct("<IQQIIQ 44sI 44sI I4x Q I4x I4x I4x")
_SINGLE_TAIL = struct.Struct("<I4x II I4x B7x II")
_SINGLE_PREFIX = _PREFIX.pack(MAGIC, VERSION, 0, 12)
_SINGLE_PREFIX_CRC = crc32(_SINGLE_PREFIX)

_encode_events = _encode_segments = msgspec.msgpack.Encoder().encode
_decode_segments = msgspec.msgpack.Decoder(list[tuple[int, int, int, int, int]]).decode
_decode_events = msgspec.msgpack.Decoder(list[tuple[int, tuple[object, ...]]]).decode


Sections: TypeAlias = Mapping[int, bytes | memoryview]  # by number


class Placement(NamedTuple):
    """Where a group of a batch goes: topic id, and offset of its first message."""

    topic_id: int
    first_offset: int


class EncodedEntry(NamedTuple):
    """An entry as bytes, its earliest time, and the bytes of payload of each group.

    ``sections`` are those of messages, perhaps views; none for an entry that is one message.
    """

    data: bytes
    time_ms: int
    group_bytes: Sequence[int]
    sections: Sections


def encode(
    batch: Batch,
    index: int,
    base_sequence: int,
    placements: Sequence[Placement],
    dropped: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    topic_ids = [place.topic_id for place in placements]
    first_offsets = [place.first_offset for place in placements]
    return encode_entry(batch, index, base_sequence, topic_ids, first_offsets, dropped).data


def encode_entry(
    batch: Batch,
    index: int,
    base_sequence: int,
    topic_ids: Sequence[int],
    first_offsets: Sequence[int],
    dropped: Sequence[tuple[int, bytes]] = (),
) -> EncodedEntry:
    """Encode a batch; ``dropped`` are id and name of those of ``batch.drops`` that exist."""
    others = _other_sections(batch, dropped)
    return EncodedEntry(*_encode(batch, index, base_sequence, topic_ids, first_offsets, others))


def _other_sections(batch: Batch, dropped: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The sections that follow those of messages."""
    sections: list[tuple[int, bytes]] = []
    if batch.events:
        sections.append((EVENTS, _encode_events(batch.events)))
    if batch.extras:
        sections += _extras_sections(batch)
    if batch.producers:
        sections += _producer_sections(batch)
    if dropped:
        sections += _dropped_sections(dropped)
    if batch.segments:
        sections.append((SEGMENTS, _encode_segments(batch.segments)))
    if batch.configuration is not None:
        kind, content = batch.configuration
        sections.append((CONFIGURATION, bytes((kind,)) + content))
    return sections


def _encode(
    columns: MessageColumns,
    index: int,
    base_sequence: int,
    topic_ids: Sequence[int],
    first_offsets: Sequence[int],
    others: list[tuple[int, bytes]],
) -> tuple[bytes, int, Sequence[int], Sections]:
    """The fields of an ``EncodedEntry`` of messages and of ``others``, which follow them."""
    if columns.count == 1 and not others and columns.runs[3] <= BYTE_MAX:
        return _encode_single(columns, index, base_sequence, topic_ids[0], first_offsets[0])
    time_ms, group_bytes, sections = _message_sections(columns, topic_ids, first_offsets)
    body = _BODY.pack(0, index, base_sequence, columns.count, len(columns.topics), time_ms)
    return _joined(body, sections + others), time_ms, group_bytes, dict(sections)


def _encode_single(
    columns: MessageColumns, index: int, base_sequence: int, topic_id: int, first_offset: int
) -> tuple[bytes, int, list[int], Sections]:
    """Encode one message and nothing else, as most commits of waiting clients are.

    All but a few numbers is known, so the columns need not be made one by one.
    """
    (name,), (payload,) = columns.topics, columns.payloads
    _, _, time_ms, flags = columns.runs
    name_bytes, payload_bytes = len(name), len(payload)
    rest = b"".join((
        _SINGLE_HEAD.pack(
            0, index, base_sequence, 1, 1, time_ms,
            _SINGLE_SECTIONS[0], name_bytes, _SINGLE_SECTIONS[1], payload_bytes,
            topic_id, first_offset, 1, 1, name_bytes,
        ),
        name,
        _PADDING[name_bytes % 8],
        _SINGLE_TAIL.pack(0, 0, 1, 0, flags, 0, payload_bytes),
        payload,
        _PADDING[payload_bytes % 8],
    ))  # fmt: skip
    checksum = crc32(rest, _SINGLE_PREFIX_CRC)
    data = b"".join((_SINGLE_PREFIX, _CHECKSUM.pack(checksum), rest))
    return data, time_ms, [payload_bytes], {}


def join_sections(
    header: tuple[int, int, int, int, int], sections: list[tuple[int, bytes]]
) -> bytes:
    """An entry of sections: index, base sequence, messages, groups, time base; then these."""
    return _joined(_BODY.pack(0, *header), sections)


def _joined(body: bytes, sections: list[tuple[int, bytes]]) -> bytes:
    parts = [body]
    pack = _SECTION.pack
    parts += [pack(number, 0, len(content)) for number, content in sections]
    size = 0
    for _, content in sections:
        size += len(content)
        parts += (content, _PADDING[len(content) % 8])
    prefix = _PREFIX.pack(MAGIC, VERSION, 0, len(sections))
    if size <= COPIED_BYTES_MAX:
        parts = [b"".join(parts)]
    checksum = crc32(prefix)
    for part in parts:
        checksum = crc32(part, checksum)
    return b"".join((prefix, _CHECKSUM.pack(checksum), *parts))


def _message_sections(
    columns: MessageColumns, topic_ids: Sequence[int], first_offsets: Sequence[int]
) -> tuple[int, list[int], list[tuple[int, bytes]]]:
    if not columns.count:
        return 0, [], []
    message_ends = list(accumulate(columns.group_messages))
    runs = RunsByTopic(columns, message_ends)
    time_ms = min(runs.times)
    bounds = array("I", accumulate(map(len, runs.payloads), initial=0))
    ends = [bounds[end] for end in message_ends]
    sections = [
        (TOPIC_IDS, _u32(topic_ids)),
        (FIRST_OFFSETS, array("Q", first_offsets).tobytes()),
        (GROUP_MESSAGES, _u32(message_ends)),
        (GROUP_RUNS, _u32(runs.group_ends)),
        (NAME_ENDS, _u32(accumulate(map(len, columns.topics)))),
        (NAMES, b"".join(columns.topics)),
        (RUN_POSITIONS, _u32(runs.positions)),
        (RUN_BOUNDS, _u32(runs.bounds)),
        (RUN_TIMES, _time_deltas(runs.times, time_ms)),
        *_flag_sections(runs.flags),
        (BOUNDS, bounds.tobytes()),
        (PAYLOADS, b"".join(runs.payloads)),
    ]
    return time_ms, list(map(sub, ends, chain((0,), ends))), sections


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.columns import encode as _encode


def _flag_sections(flags: Sequence[int]) -> list[tuple[int, bytes]]:
    try:
        return [(RUN_FLAGS, bytes(flags))]  # as most are: with nothing in the high byte
    except ValueError:
        both = array("H", flags).tobytes()  # low byte, high byte, low byte …
        return [(RUN_FLAGS, both[0::2]), (RUN_TYPES, both[1::2])]


def _extras_sections(batch: Batch) -> Iterator[tuple[int, bytes]]:
    found: list[tuple[int, Extras]] = []
    for topic, start in _group_starts(batch):
        of_group = batch.extras.get(topic, {})
        found += [(start + number, extras) for number, extras in of_group.items()]
    signatures = [(n, extras.signature) for n, extras in found if extras.signature is not None]
    if signatures:
        yield from zip(_SIGNATURE_SECTIONS, pack_signatures(signatures), strict=True)
    headers = [(n, extras.headers) for n, extras in found if extras.headers]
    if headers:
        yield from zip(_HEADER_SECTIONS, pack_headers(headers), strict=True)
    schedule = [
        (n, (extras.due_ms, extras.expires_ms))
        for n, extras in found
        if extras.due_ms or extras.expires_ms
    ]
    if schedule:
        yield from zip(_SCHEDULE_SECTIONS, pack_schedule(schedule), strict=True)


def _producer_sections(batch: Batch) -> Iterator[tuple[int, bytes]]:
    producer_runs = [
        (start + place, count, producer, seq)
        for topic, start in _group_starts(batch)
        for place, count, producer, seq in batch.producers.get(topic, ())
    ]
    yield from zip(_PRODUCER_SECTIONS, pack_producer_runs(producer_runs), strict=True)


def _dropped_sections(dropped: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    ids, names = zip(*dropped, strict=True)
    yield DROPPED_IDS, _u32(ids)
    yield DROPPED_NAME_ENDS, _u32(accumulate(map(len, names)))
    yield DROPPED_NAMES, b"".join(names)


def _group_starts(batch: Batch) -> Iterator[tuple[bytes, int]]:
    return zip(batch.topics, accumulate(batch.group_messages, initial=0), strict=False)


def _time_deltas(times: Sequence[int], time_ms: int) -> bytes:
    span = max(times) - time_ms
    if not span:
        return bytes(4 * len(times))
    if span <= TIME_SPAN_MS_MAX:
        return _u32([time - time_ms for time in times])
    # A clock set back and forth by weeks within one batch is clipped, not refused.
    return _u32([min(time - time_ms, TIME_SPAN_MS_MAX) for time in times])


def _u32(values: Iterable[int]) -> bytes:
    known = values if isinstance(values, (list, tuple)) else list(values)  # far faster than others
    return array("I", known).tobytes()


class GroupView(NamedTuple):
    """One topic's part of an entry, as ranges into its columns."""

    number: int
    topic_id: int
    name: bytes
    first_offset: int
    message_start: int
    message_end: int
    run_start: int
    run_end: int


class Entry:
    """A decoded entry. Its columns are views of the buffer and valid only as long as that is."""

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        _, self.index, self.base_sequence, self.count, self.group_count, self.time_ms = (
            _BODY.unpack_from(buffer, _CHECKED_FROM)
        )
        self._sections = _sections(buffer)
        self._columns: dict[int, memoryview] = {}

    def column(self, section: int) -> memoryview:
        """A section with its element type; empty if the entry has none."""
        found = self._columns.get(section)
        if found is None:
            span = self._sections.get(section)
            if span is None:
                return _EMPTY
            found = self.buffer[span[0] : span[1]].cast(_WIDTHS.get(section, "B"))
            self._columns[section] = found
        return found

    @cached_property
    def has_extras(self) -> bool:
        return not self._sections.keys().isdisjoint((*_EXTRAS_SECTIONS, PRODUCER_NUMBERS))

    def has(self, section: int) -> bool:
        return section in self._sections

    def numbers(self, section: int) -> list[int]:
        """A section of u32: cheaper than ``column`` for those who read it once."""
        start, end = self._sections[section]
        return self.buffer[start:end].cast("I").tolist()

    def u32(self, section: int, first: int, end: int) -> memoryview:
        start = self._sections[section][0]
        return self.buffer[start + 4 * first : start + 4 * end]

    def bytes_of(self, section: int, first: int, end: int) -> memoryview:
        start = self._sections[section][0]
        return self.buffer[start + first : start + end]

    def u64(self, section: int, first: int, end: int) -> memoryview:
        start = self._sections[section][0]
        return self.buffer[start + 8 * first : start + 8 * end]

    @cached_property
    def run_positions(self) -> memoryview:
        """Position in the batch of each run's first message."""
        return self.column(RUN_POSITIONS)

    @cached_property
    def run_bounds(self) -> memoryview:
        """Number of each run's first message, then the number of messages."""
        return self.column(RUN_BOUNDS)

    @cached_property
    def run_times(self) -> memoryview:
        """Milliseconds after ``time_ms``, per run."""
        return self.column(RUN_TIMES)

    @cached_property
    def run_flags(self) -> memoryview:
        """The low byte of the flags, per run."""
        return self.column(RUN_FLAGS)

    @property
    def run_types(self) -> memoryview:
        """The high byte of the flags, per run; empty if all are zero."""
        return self.column(RUN_TYPES)

    def flags(self, run: int) -> int:
        types = self.run_types
        return self.run_flags[run] | types[run] << 8 if types else self.run_flags[run]

    @cached_property
    def arrival(self) -> Sequence[int]:
        positions = self.run_positions
        numbers = range(len(positions))
        if self.group_count == 1:
            return numbers
        return sorted(numbers, key=positions.tolist().__getitem__)

    @cached_property
    def bounds(self) -> memoryview:
        """Where each payload begins, then where the last ends."""
        return self.column(BOUNDS)

    @cached_property
    def payloads(self) -> memoryview:
        return self.column(PAYLOADS)

    @cached_property
    def group_runs(self) -> memoryview:
        """Cumulative number of runs, per group."""
        return self.column(GROUP_RUNS)

    @cached_property
    def groups(self) -> list[GroupView]:
        return [self.group(number) for number in range(self.group_count)]

    def group(self, number: int) -> GroupView:
        """One group, without decoding the others."""
        messages, runs = self.column(GROUP_MESSAGES), self.group_runs
        names = self.column(NAME_ENDS)
        before = number - 1
        name_start = names[before] if number else 0
        return GroupView(
            number=number,
            topic_id=self.column(TOPIC_IDS)[number],
            name=bytes(self.column(NAMES)[name_start : names[number]]),
            first_offset=self.column(FIRST_OFFSETS)[number],
            message_start=messages[before] if number else 0,
            message_end=messages[number],
            run_start=runs[before] if number else 0,
            run_end=runs[number],
        )

    def extents(self, first: int, end: int) -> Iterator[tuple[int, int, bytes, int, int, int]]:
        """Number, topic id, name, first offset, messages, payload bytes of ``first … end - 1``."""
        names, bounds = bytes(self.column(NAMES)), self.bounds
        name_ends, message_ends = self.column(NAME_ENDS), self.column(GROUP_MESSAGES)
        ids, first_offsets = self.column(TOPIC_IDS), self.column(FIRST_OFFSETS)
        name_start, message_start = 0, 0
        if first:
            name_start, message_start = name_ends[first - 1], message_ends[first - 1]
        for number in range(first, end):
            name_end, message_end = name_ends[number], message_ends[number]
            yield (
                number,
                ids[number],
                names[name_start:name_end],
                first_offsets[number],
                message_end - message_start,
                bounds[message_end] - bounds[message_start],
            )
            name_start, message_start = name_end, message_end

    def span(self, number: int) -> tuple[int, int, int]:
        """Message number minus offset, and start and end of the runs: a cheap form of ``group``."""
        buffer, spans = self.buffer, self._sections
        (first_offset,) = _U64.unpack_from(buffer, spans[FIRST_OFFSETS][0] + 8 * number)
        runs, messages = spans[GROUP_RUNS][0] + 4 * number, spans[GROUP_MESSAGES][0] + 4 * number
        if not number:
            return -first_offset, 0, _U32.unpack_from(buffer, runs)[0]
        (message_start,) = _U32.unpack_from(buffer, messages - 4)
        return message_start - first_offset, *_U32_PAIR.unpack_from(buffer, runs - 4)

    def u32_at(self, section: int, number: int) -> int:
        found: int = _U32.unpack_from(self.buffer, self._sections[section][0] + 4 * number)[0]
        return found

    @cached_property
    def events(self) -> list[tuple[int, tuple[object, ...]]]:
        """Events with their position among the messages; arrays inside an event are lists."""
        content = self.column(EVENTS)
        return _decode_events(content) if content.nbytes else []

    @cached_property
    def dropped(self) -> list[tuple[int, bytes]]:
        """Id and name of the topics dropped before this entry's messages."""
        ends = [0, *self.column(DROPPED_NAME_ENDS)]
        names = [bytes(self.column(DROPPED_NAMES)[a:b]) for a, b in pairwise(ends)]
        return list(zip(self.column(DROPPED_IDS), names, strict=True))

    @property
    def segments(self) -> list[NodeSegment]:
        """Which nodes' batches the entry holds, in order; empty without a cluster."""
        content = self.column(SEGMENTS)
        return (
            [NodeSegment(*found) for found in _decode_segments(content)] if content.nbytes else []
        )

    @property
    def configuration(self) -> tuple[int, bytes] | None:
        """Kind and content of a membership change."""
        content = bytes(self.column(CONFIGURATION))
        return (content[0], content[1:]) if content else None

    @property
    def end_sequence(self) -> int:
        return int(self.base_sequence + self.count)

    def messages(self, is_wanted: Callable[[int], bool] = lambda _flags: True) -> Iterator[Message]:
        for run in self.arrival:
            if not is_wanted(self.flags(run)):
                continue
            group = self.groups[bisect_right(self.group_runs, run)]
            start, end = self.run_bounds[run], self.run_bounds[run + 1]
            extras = self.extras(start, end)
            for number in range(start, end):
                yield self._message(group, run, number, extras.get(number - start))

    def message(self, sequence: int) -> Message:
        return self.located(sequence)[1]

    def located(self, sequence: int) -> tuple[int, Message]:
        """The topic id and message of one sequence."""
        position = sequence - self.base_sequence
        place = bisect_right(self.arrival, position, key=self.run_positions.__getitem__) - 1
        return self.in_run(self.arrival[place], position)

    def in_run(self, run: int, position: int) -> tuple[int, Message]:
        """The topic id and message of a position that is known to lie in a run."""
        group = self.group(bisect_right(self.group_runs, run))
        number = self.run_bounds[run] + position - self.run_positions[run]
        extras = self.extras(number, number + 1).get(0)
        return group.topic_id, self._message(group, run, number, extras)

    def extras(self, start: int, end: int) -> dict[int, Extras]:
        """Extras of the messages ``start … end - 1``, by number counted from ``start``."""
        if self._sections.keys().isdisjoint(_EXTRAS_SECTIONS):
            return {}
        signatures, headers, schedule = {}, {}, self.schedule(start, end)
        if SIGNATURES in self._sections:
            numbers, records = map(self.column, _SIGNATURE_SECTIONS)
            signatures = dict(signatures_between(numbers, records, start, end))
        if HEADER_TEXTS in self._sections:
            numbers, bounds, text_bounds, texts = map(self.column, _HEADER_SECTIONS)
            headers = dict(headers_between((numbers, bounds, text_bounds, texts), start, end))
        return {
            number - start: Extras(
                headers.get(number, ()), signatures.get(number), *schedule.get(number, (0, 0))
            )
            for number in signatures.keys() | headers.keys() | schedule.keys()
        }

    def schedule(self, start: int, end: int) -> dict[int, Schedule]:
        if SCHEDULE_NUMBERS not in self._sections:
            return {}
        numbers, due, expiry = map(self.column, _SCHEDULE_SECTIONS)
        return dict(schedule_between((numbers, due, expiry), start, end))

    def producers(self) -> Iterator[tuple[bytes, int, int, bytes, int]]:
        """Topic, first offset, count, producer and first seq of each producer run."""
        if PRODUCER_NUMBERS not in self._sections:
            return
        for group in self.groups:
            producer_runs = self.producer_runs(group.message_start, group.message_end)
            for number, count, producer, seq in producer_runs:
                yield group.name, group.first_offset + number, count, producer, seq

    def producer_runs(self, start: int, end: int) -> Iterator[ProducerRun]:
        """Producer runs of the messages ``start … end - 1``, counted from ``start``."""
        if PRODUCER_NUMBERS not in self._sections:
            return iter(())
        numbers, counts, seqs, name_ends, names = map(self.column, _PRODUCER_SECTIONS)
        return producer_runs_between((numbers, counts, seqs, name_ends, names), start, end)

    def _message(self, group: GroupView, run: int, number: int, extras: Extras | None) -> Message:
        position = self.run_positions[run] + number - self.run_bounds[run]
        return Message(
            topic=group.name,
            payload=bytes(self.payloads[self.bounds[number] : self.bounds[number + 1]]),
            sequence=self.base_sequence + position,
            offset=group.first_offset + number - group.message_start,
            time_ms=self.time_ms + self.run_times[run],
            flags=self.flags(run),
            extras=extras,
        )


def decode(buffer: bytes | memoryview, *, verify: bool = True) -> Entry:
    """Open an entry, comparing its checksum; raises StorageDamaged or StorageForeign."""
    view = memoryview(buffer)
    if len(view) < _HEADER_BYTES:
        raise _damaged(f"an entry of {len(view)} bytes is shorter than its header")
    magic, version, flags, _ = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise _damaged("an entry does not begin with its magic number")
    if verify:
        _verify_checksum(view)
    if version != VERSION or flags:
        raise StorageForeign(
            f"an entry has version {version}, flags {flags}; this program knows version {VERSION}",
            "Start the version of Penstock that wrote it, or a later one.",
        )
    return Entry(view)


def _verify_checksum(view: memoryview) -> None:
    (expected,) = _CHECKSUM.unpack_from(view, _PREFIX.size)
    actual = long_crc32(view[_CHECKED_FROM:], crc32(view[: _PREFIX.size]))
    if actual != expected:
        raise _damaged(f"checksum {actual:08x} where {expected:08x} was written")


def _sections(view: memoryview) -> dict[int, tuple[int, int]]:
    (_, _, _, number) = _PREFIX.unpack_from(view)
    start = _HEADER_BYTES + number * _SECTION.size
    if start > len(view):
        raise _damaged("an entry is shorter than its directory")
    sections = {}
    for section, _, length in _SECTION.iter_unpack(view[_HEADER_BYTES:start]):
        sections[section] = (start, start + length)
        start += length + -length % 8
    if start != len(view):
        raise _damaged(f"an entry has {len(view)} bytes where its sections need {start}")
    return sections


def _damaged(what: str) -> StorageDamaged:
    return StorageDamaged(
        what,
        "Restore the data directory from a backup; docs/operating/storage.md explains how to "
        "assess the damage.",
    )
