"""Decodes fetch replies into Arrow columns, without a loop over rows.

A reply consists of **slices**: columns of messages, as in the journal
(``docs/reference/journal-format.md``). A slice has **groups**: consecutive messages of one topic.
It may have a single message, so a column of *all* slices is joined first, with one ``b"".join``,
and the rest is vector arithmetic. Values that a run or a group shares are repeated. Payload bytes
become the buffer of an Arrow array. Sparse columns (headers, signatures, producers) come with row
numbers, and are scattered to those rows.

Replies are untrusted input, and Arrow does not check indexes and sizes, so we do:
``BrokerProtocolError`` if they are inconsistent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client.errors import BrokerProtocolError
from penstock.client.queue.columns import CONTENT_TYPES
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT
from penstock.wire.queue._generated.queue_pb2 import Slice

Numbers: TypeAlias = npt.NDArray[Any]
BATCH_ROWS_MAX: Final = 65_536  # Spark reads equally fast from 1,000 to 100,000 rows
VERIFIED: Final = "verified"  # by the broker, on arrival

SIGNATURE_RECORD: Final = np.dtype(
    [
        ("signature", "u1", 64),
        ("signed_ms", "<i8"),
        ("nonce", "u1", 8),
        ("key_id", "<u4"),
        ("version", "u1"),
        ("nonce_bytes", "u1"),
        ("zero", "<u2"),
    ]
)  # As in the journal. Times are signed, because Spark has no unsigned integers.

_INT32_MAX: Final = 2**31 - 1
LAST_MS: Final = 253_402_300_799_999  # the last millisecond of 9999, after which Spark has no time
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)


class ScannedTopics(NamedTuple):
    """The topics of a scan, as it numbers them."""

    names: pa.Array
    incarnations: Numbers


class ScannedRows(NamedTuple):
    """The rows of one reply."""

    topics: ScannedTopics
    slices: Sequence[Slice]


class FetchedColumns:
    """Replies for many topics; methods return columns."""

    def __init__(self, parts: Sequence[ScannedRows], rows_max: int) -> None:
        self._parts = parts
        self._slices = [sent for part in parts for sent in part.slices]
        self._counts = self._each("count", np.int64)
        self.rows = int(self._counts.sum())
        if self.rows > rows_max * len(parts):
            raise _inconsistent(f"{self.rows} rows in {len(parts)} answers of up to {rows_max}")
        self._starts = np.cumsum(self._counts) - self._counts

    @cached_property
    def _groups(self) -> tuple[Numbers, Numbers, Numbers]:
        """Place of the topic in ``_topics``, first row and number of rows, by group."""
        starts, per_slice = self._column("group_starts", "<u4")
        topics, _ = self._column("group_topics", "<u4")
        firsts = starts + np.repeat(self._starts, per_slice)
        lengths = np.diff(firsts, append=self.rows)
        if len(topics) != len(firsts):
            raise _inconsistent("columns of groups differ in length")
        if int(lengths.sum()) != self.rows or (len(lengths) and int(lengths.min()) < 0):
            raise _inconsistent("groups do not cover the slice")
        places, sizes = self._topics[1:]
        slices = np.fromiter((len(part.slices) for part in self._parts), np.int64)
        of_part = np.repeat(np.arange(len(self._parts)), slices)
        of_group = np.repeat(of_part, per_slice)
        if (topics >= sizes[of_group]).any():
            raise _inconsistent("a group is of no topic")
        return topics + places[of_group], firsts, lengths

    @cached_property
    def _topics(self) -> tuple[ScannedTopics, Numbers, Numbers]:
        """Topics of all scans; by reply, the place of its first topic there, and their number."""
        scans = {id(part.topics): part.topics for part in self._parts}
        sizes = np.fromiter((len(topics.names) for topics in scans.values()), np.int64)
        starts = dict(zip(scans, np.cumsum(sizes) - sizes, strict=True))
        names = pa.concat_arrays([topics.names for topics in scans.values()])
        incarnations = np.concatenate([topics.incarnations for topics in scans.values()])
        places = np.fromiter((starts[id(part.topics)] for part in self._parts), np.int64)
        counts = np.fromiter((len(part.topics.names) for part in self._parts), np.int64)
        return ScannedTopics(names, incarnations), places, counts

    def _each(self, name: str, kind: npt.DTypeLike) -> Numbers:
        return np.fromiter(map(attrgetter(name), self._slices), kind, len(self._slices))

    def _joined(self, name: str) -> bytes:
        if len(self._slices) == 1:
            column: bytes = getattr(self._slices[0], name)
            return column
        return b"".join(map(attrgetter(name), self._slices))

    def _column(self, name: str, kind: str) -> tuple[Numbers, Numbers]:
        parts = list(map(attrgetter(name), self._slices))
        numbers = np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), kind)
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        return numbers, sizes // numbers.itemsize

    def _placed(self, name: str) -> Numbers:
        numbers, per_slice = self._column(name, "<u4")
        rows: Numbers = numbers + np.repeat(self._starts, per_slice)
        if len(rows) and (rows[-1] >= self.rows or (np.diff(rows) <= 0).any()):
            raise _inconsistent(f"{name} are not ascending, or out of range")
        return rows

    def _lengths(self, name: str) -> Numbers:
        bounds, per_slice = self._column(name, "<u4")
        lengths = np.diff(bounds.astype(np.int64))
        seams = np.cumsum(per_slice[per_slice > 0])[:-1] - 1
        if len(seams):
            lengths = np.delete(lengths, seams)
        if len(lengths) and int(lengths.min()) < 0:
            raise _inconsistent(f"{name} are descending")
        return lengths

    @cached_property
    def _numbers(self) -> Numbers:
        return np.arange(self.rows, dtype=np.int64)

    @cached_property
    def _runs(self) -> tuple[Numbers, Numbers, Numbers]:
        starts, per_slice = self._column("run_starts", "<u4")
        firsts = starts + np.repeat(self._starts, per_slice)
        lengths = np.diff(firsts, append=self.rows)
        if int(lengths.sum()) != self.rows or (len(lengths) and int(lengths.min()) < 0):
            raise _inconsistent("runs do not cover the slice")
        return firsts, lengths, per_slice

    def _of_runs(self, values: Numbers) -> Numbers:
        lengths = self._runs[1]
        if len(values) != len(lengths):
            raise _inconsistent("columns of runs differ in length")
        if len(values) == 1:
            return np.full(self.rows, values[0], values.dtype)
        return np.repeat(values, lengths)

    def _run_numbers(self, name: str, base: str) -> Numbers:
        numbers, _ = self._column(name, "<u4")
        bases: Numbers = np.repeat(self._each(base, np.int64), self._runs[2])
        if len(bases) != len(numbers):
            raise _inconsistent("columns of runs differ in length")
        return np.add(numbers, bases)

    def topics(self) -> pa.Array:
        names = self._topics[0].names
        places, _, lengths = self._groups
        if len(places) and (places == places[0]).all():
            return _repeated(names[int(places[0])].as_py(), self.rows)
        return names.take(fixed(pa.int64(), np.repeat(places, lengths)))

    def incarnations(self) -> pa.Array:
        places, _, lengths = self._groups
        return fixed(pa.int64(), np.repeat(self._topics[0].incarnations[places], lengths))

    def offsets(self) -> pa.Array:
        _, firsts, lengths = self._groups
        offsets, _ = self._column("group_offsets", "<i8")
        if len(offsets) != len(firsts):
            raise _inconsistent("columns of groups differ in length")
        return fixed(pa.int64(), np.repeat(offsets - firsts, lengths) + self._numbers)

    def sequences(self) -> pa.Array:
        firsts = self._run_numbers("run_positions", "base_sequence") - self._runs[0]
        return fixed(pa.int64(), self._of_runs(firsts) + self._numbers)

    def timestamps(self) -> pa.Array:
        return fixed(_TIMESTAMP, self._of_runs(self._run_numbers("run_times", "time_ms") * 1000))

    def priorities(self) -> pa.Array:
        flags = np.frombuffer(self._joined("run_flags"), np.uint8)
        priorities = ((flags & FLAG_PRIORITY) >> PRIORITY_SHIFT).astype(np.int32)
        return fixed(pa.int32(), self._of_runs(priorities))

    def content_types(self) -> pa.Array:
        parts = list(map(attrgetter("run_types"), self._slices))
        if not any(map(any, parts)):
            return _repeated(CONTENT_TYPES[0], self.rows)
        runs = self._runs[2]
        full = [part or bytes(count) for part, count in zip(parts, runs.tolist(), strict=True)]
        types = np.frombuffer(b"".join(full), np.uint8) & 0b11
        return strings(CONTENT_TYPES).take(fixed(pa.uint8(), self._of_runs(types)))

    def payloads(self) -> pa.Array:
        lengths = self._lengths("bounds")
        if len(lengths) != self.rows:
            raise _inconsistent("payloads and rows differ in number")
        return _binary(lengths, self._joined("payloads"))

    def headers(self) -> pa.Array:
        rows = self._placed("header_numbers")
        if not len(rows):
            return pa.nulls(self.rows, HEADERS_TYPE)
        counts = self._lengths("header_bounds")
        if len(rows) != len(counts):
            raise _inconsistent("headers and their row numbers differ in number")
        per_row = np.zeros(self.rows, np.int64)
        per_row[rows] = counts
        texts = _binary(self._lengths("header_text_bounds"), self._joined("header_texts"))
        if len(texts) != 2 * int(counts.sum()):
            raise _inconsistent("header names and values differ in number")
        evens = np.arange(0, len(texts), 2)
        keys = _texts(texts.take(fixed(pa.int64(), evens)))
        values = texts.take(fixed(pa.int64(), evens + 1))
        pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
        return pa.Array.from_buffers(
            HEADERS_TYPE,
            self.rows,
            [self._validity(rows), pa.py_buffer(_bounds(per_row))],
            children=[pairs],
        )

    def expiries(self) -> pa.Array:
        rows = self._placed("schedule_numbers")
        sent = np.frombuffer(self._joined("schedule_expiry"), np.uint64)
        if len(rows) != len(sent):
            raise _inconsistent("times of expiry and their row numbers differ in number")
        expires = sent > 0  # others are only scheduled
        times: Numbers = np.minimum(sent[expires], LAST_MS).astype(np.int64)
        return self._scattered(_TIMESTAMP, rows[expires], times * 1000)

    @cached_property
    def signed(self) -> tuple[Numbers, Numbers]:
        rows = self._placed("signature_numbers")
        joined = self._joined("signatures") if len(rows) else b""
        if len(joined) != len(rows) * SIGNATURE_RECORD.itemsize:
            raise _inconsistent("signatures and their row numbers differ in number")
        return rows, np.frombuffer(joined, SIGNATURE_RECORD)

    def signers(self) -> pa.Array:
        rows, records = self.signed
        return self._scattered(pa.int64(), rows, records["key_id"].astype(np.int64))

    def verdicts(self) -> pa.Array:
        return self.verdicts_from((VERIFIED,), np.zeros(len(self.signed[0]), np.int8))

    def verdicts_from(self, words: Sequence[str], of_signed: Numbers) -> pa.Array:
        if not len(of_signed):
            return pa.nulls(self.rows, pa.string())
        places = np.full(self.rows, -1, np.int8)
        places[self.signed[0]] = of_signed
        return strings(words).take(pa.array(places, mask=places < 0))

    def signatures(self) -> pa.Array:
        rows, records = self.signed
        lengths = records["nonce_bytes"].astype(np.int64)
        nonces = records["nonce"][np.arange(8) < lengths[:, None]]
        fields = [
            self._scattered(pa.int32(), rows, records["version"].astype(np.int32)),
            self._scattered(pa.int64(), rows, records["key_id"].astype(np.int64)),
            self._scattered_binary(rows, np.full(len(rows), 64), records["signature"].tobytes()),
            self._scattered(pa.int64(), rows, records["signed_ms"].astype(np.int64)),
            self._scattered_binary(rows, np.minimum(lengths, 8), nonces.tobytes()),
        ]
        kinds = zip(("version", "key_id", "signature", "signed_ms", "nonce"), fields, strict=True)
        kind = pa.struct([(name, field.type) for name, field in kinds])
        return pa.Array.from_buffers(kind, self.rows, [self._validity(rows)], children=fields)

    @cached_property
    def _notes(self) -> tuple[Numbers, Numbers, Numbers]:
        firsts = self._placed("producer_numbers")
        if not len(firsts):
            return firsts, firsts, firsts
        counts, _ = self._column("producer_counts", "<u4")
        seqs, _ = self._column("producer_seqs", "<i8")
        if not len(firsts) == len(counts) == len(seqs):
            raise _inconsistent("columns of producers differ in length")
        lengths = np.minimum(counts.astype(np.int64), np.diff(firsts, append=self.rows))
        notes = np.repeat(np.arange(len(firsts)), lengths)
        within = np.arange(len(notes)) - (np.cumsum(lengths) - lengths)[notes]
        return firsts[notes] + within, notes, seqs[notes] + within

    def producers(self) -> pa.Array:
        rows, notes, _ = self._notes
        if not len(rows):
            return pa.nulls(self.rows, pa.string())
        ends, per_slice = self._column("producer_name_ends", "<u4")
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
        starts[(np.cumsum(per_slice) - per_slice)[per_slice > 0]] = 0
        lengths = ends - starts
        if len(lengths) and int(lengths.min()) < 0:
            raise _inconsistent("producer names are descending")
        if int(notes[-1]) >= len(lengths):
            raise _inconsistent("producers and their names differ in number")
        joined = self._joined("producer_names")
        first = joined[: int(lengths[0])]
        is_same = bool((lengths == len(first)).all()) and joined == first * len(lengths)
        if len(rows) == self.rows and is_same:
            return _repeated(first.decode(errors="replace"), self.rows)
        names = _texts(_binary(lengths, joined))
        return names.take(self._scattered(pa.int64(), rows, notes))

    def producer_seqs(self) -> pa.Array:
        rows, _, seqs = self._notes
        return self._scattered(pa.int64(), rows, seqs)

    def _scattered(self, kind: pa.DataType, rows: Numbers, values: Numbers) -> pa.Array:
        if not len(rows):
            return pa.nulls(self.rows, kind)
        if len(rows) == self.rows:
            return fixed(kind, values)
        full = np.zeros(self.rows, values.dtype)
        full[rows] = values
        buffers = [self._validity(rows), pa.py_buffer(full)]
        return pa.Array.from_buffers(kind, self.rows, buffers)

    def _validity(self, rows: Numbers) -> pa.Buffer:
        has = np.zeros(self.rows, bool)
        has[rows] = True
        return pa.py_buffer(np.packbits(has, bitorder="little"))

    def _scattered_binary(self, rows: Numbers, lengths: Numbers, content: bytes) -> pa.Array:
        """Place bytes at their rows; others are empty, where the signature struct is null."""
        full = np.zeros(self.rows, np.int64)
        full[rows] = lengths
        return _binary(full, content)


def fixed(kind: pa.DataType, values: Numbers) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _bounds(lengths: Numbers) -> Numbers:
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if int(bounds[-1]) > _INT32_MAX:
        raise _inconsistent("more than 2 GiB at once")
    return bounds.astype(np.int32)


def _binary(lengths: Numbers, content: bytes) -> pa.Array:
    bounds = _bounds(lengths)
    if int(bounds[-1]) != len(content):
        raise _inconsistent("a column's length contradicts its bounds")
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def strings(texts: Sequence[str]) -> pa.Array:
    """Return a string array; ``pa.array`` would import pandas, which takes half a second."""
    encoded = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return _texts(_binary(lengths, b"".join(encoded)))


def _repeated(text: str, rows: int) -> pa.Array:
    encoded = text.encode()
    bounds = np.arange(rows + 1, dtype=np.int64) * len(encoded)
    if int(bounds[-1]) > _INT32_MAX:
        raise _inconsistent("more than 2 GiB at once")
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _texts(binary: pa.Array) -> pa.Array:
    """Decode as UTF-8; invalid bytes are replaced, because they must not fail a job."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [value.decode(errors="replace") for value in binary.to_pylist()]
        return strings(texts)


def _inconsistent(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the broker sent inconsistent columns: {detail}",
        "check that the broker and this package have the same version",
    )


MAKERS: Final[Mapping[str, Callable[[FetchedColumns], pa.Array]]] = {
    "topic": FetchedColumns.topics,
    "offset": FetchedColumns.offsets,
    "sequence": FetchedColumns.sequences,
    "timestamp": FetchedColumns.timestamps,
    "payload": FetchedColumns.payloads,
    "content_type": FetchedColumns.content_types,
    "priority": FetchedColumns.priorities,
    "producer": FetchedColumns.producers,
    "producer_seq": FetchedColumns.producer_seqs,
    "signer": FetchedColumns.signers,
    "signature_verdict": FetchedColumns.verdicts,
    "headers": FetchedColumns.headers,
    "expires": FetchedColumns.expiries,
    "signature": FetchedColumns.signatures,
    "incarnation": FetchedColumns.incarnations,
}  # by column name


def batches(
    answers: FetchedColumns,
    schema: pa.Schema,
    verdicts: Callable[[FetchedColumns], pa.Array] = FetchedColumns.verdicts,
) -> Iterator[pa.RecordBatch]:
    if not answers.rows:
        return
    makers = {**MAKERS, "signature_verdict": verdicts}
    arrays = [makers[name](answers) for name in schema.names]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for first in range(0, answers.rows, BATCH_ROWS_MAX):
        yield whole.slice(first, BATCH_ROWS_MAX)
