"""Answers of the broker as Arrow columns, without a loop over their rows.

The broker answers a fetch with **slices**: columns of a stretch of one topic, as its journal has
them (``docs/reference/journal-format.md``). Devices that publish one message at a time make slices
of one message, so that nothing may cost much per slice either. Therefore the same column of *all*
slices is joined first, by one ``b"".join``, and everything after that is vector arithmetic over all
of them: what is touched per slice is its attributes, and nothing is touched per row. Answers are
small, so several are taken together, also such of different topics.

* **Numbers.** Rows of a run have one time, flags and type, and sequences in a row: a value per run
  is repeated as often as the run is long.
* **Payloads.** Their bytes are the buffer of an Arrow array as they came; only where one ends and
  the next begins is computed. What is taken together is far below the 2 GiB that such an array can
  have.
* **What few rows have** (headers, signatures, producers) comes with the numbers of those rows. It
  is scattered to its places; the others are null.

The broker is a stranger. Whatever is used as an index or a size is checked first, for Arrow does
not: ``BrokerProtocolError`` if it does not fit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client.errors import BrokerProtocolError
from penstock.client.queue.columns import CONTENT_TYPES
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT
from penstock.wire.queue._generated.queue_pb2 import Fetched

Numbers: TypeAlias = npt.NDArray[Any]

BATCH_ROWS_MAX: Final = 65_536
"""Rows of a batch. From 1,000 to 100,000 Spark reads at about the same speed."""

VERIFIED: Final = "verified"
"""By the broker, when it took the message: it takes no other."""

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
)
"""As in the journal. Times are read as signed numbers, the only ones that Spark has."""

_INT32_MAX: Final = 2**31 - 1
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)


class FetchedColumns:
    """What the broker sent, of one topic or of several; methods make columns of it."""

    def __init__(self, parts: Sequence[tuple[str, Fetched]], rows_max: int) -> None:
        self._parts = parts
        self._slices = [sent for _, fetched in parts for sent in fetched.slices]
        self._counts = self._each("count", np.int64)
        self.rows = int(self._counts.sum())
        if self.rows > rows_max * len(parts):
            raise _unfit(f"{self.rows} rows in {len(parts)} answers of up to {rows_max}")
        self._starts = np.cumsum(self._counts) - self._counts

    @cached_property
    def part_rows(self) -> Numbers:
        """How many rows are of each part."""
        slices = np.fromiter((len(part.slices) for _, part in self._parts), np.int64)
        ends = np.concatenate([[0], np.cumsum(self._counts)])[np.cumsum(slices)]
        return np.diff(ends, prepend=0)

    # ── Slices ────────────────────────────────────────────────────────────────────────────────

    def _each(self, name: str, kind: Any) -> Numbers:
        """A number of each slice."""
        return np.fromiter(map(attrgetter(name), self._slices), kind, len(self._slices))

    def _joined(self, name: str) -> bytes:
        """A column of all slices, joined."""
        if len(self._slices) == 1:
            column: bytes = getattr(self._slices[0], name)
            return column
        return b"".join(map(attrgetter(name), self._slices))

    def _column(self, name: str, kind: str) -> tuple[Numbers, Numbers]:
        """A column of all slices as numbers, and how many of them each slice has."""
        parts = list(map(attrgetter(name), self._slices))
        numbers = np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), kind)
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        return numbers, sizes // numbers.itemsize

    def _placed(self, name: str) -> Numbers:
        """Numbers of rows, counted from the beginning of a slice, as numbers of rows of ours."""
        numbers, per_slice = self._column(name, "<u4")
        rows: Numbers = numbers + np.repeat(self._starts, per_slice)
        if len(rows) and (rows[-1] >= self.rows or (np.diff(rows) <= 0).any()):
            raise _unfit(f"{name} do not ascend, or go too far")
        return rows

    def _lengths(self, name: str) -> Numbers:
        """How long each is, from a column that has where they begin, and where the last ends."""
        bounds, per_slice = self._column(name, "<u4")
        lengths = np.diff(bounds.astype(np.int64))
        seams = np.cumsum(per_slice[per_slice > 0])[:-1] - 1
        if len(seams):
            lengths = np.delete(lengths, seams)
        if len(lengths) and int(lengths.min()) < 0:
            raise _unfit(f"{name} descend")
        return lengths

    # ── Numbers ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _numbers(self) -> Numbers:
        return np.arange(self.rows, dtype=np.int64)

    @cached_property
    def _runs(self) -> tuple[Numbers, Numbers, Numbers]:
        """The first row of each run, how many it has, and how many runs each slice has."""
        starts, per_slice = self._column("run_starts", "<u4")
        firsts = starts + np.repeat(self._starts, per_slice)
        lengths = np.diff(firsts, append=self.rows)
        if int(lengths.sum()) != self.rows or (len(lengths) and int(lengths.min()) < 0):
            raise _unfit("runs do not cover the slice")
        return firsts, lengths, per_slice

    def _of_runs(self, values: Numbers) -> Numbers:
        """A value for each row, from one for each run."""
        lengths = self._runs[1]
        if len(values) != len(lengths):
            raise _unfit("columns of runs differ in length")
        if len(values) == 1:
            return np.full(self.rows, values[0], values.dtype)
        return np.repeat(values, lengths)

    def _run_numbers(self, name: str, base: str) -> Numbers:
        """A number of each run, which is counted from one of its slice."""
        numbers, _ = self._column(name, "<u4")
        bases: Numbers = np.repeat(self._each(base, np.int64), self._runs[2])
        if len(bases) != len(numbers):
            raise _unfit("columns of runs differ in length")
        return np.add(numbers, bases)

    def topics(self) -> pa.Array:
        """Each topic as often as it has rows."""
        names = [topic for topic, _ in self._parts]
        if len(set(names)) == 1:
            return _repeated(names[0], self.rows)
        places = np.repeat(np.arange(len(names)), self.part_rows)
        return strings(names).take(fixed(pa.int64(), places))

    def incarnations(self) -> pa.Array:
        """That of the topic."""
        numbers = np.fromiter((fetched.incarnation for _, fetched in self._parts), np.int64)
        return fixed(pa.int64(), np.repeat(numbers, self.part_rows))

    def offsets(self) -> pa.Array:
        """Offsets of a slice are in a row."""
        firsts = self._each("first_offset", np.int64) - self._starts
        return fixed(pa.int64(), np.repeat(firsts, self._counts) + self._numbers)

    def sequences(self) -> pa.Array:
        """Sequences of a run are in a row."""
        firsts = self._run_numbers("run_positions", "base_sequence") - self._runs[0]
        return fixed(pa.int64(), self._of_runs(firsts) + self._numbers)

    def timestamps(self) -> pa.Array:
        """When the broker took it; milliseconds there, microseconds in Spark."""
        return fixed(_TIMESTAMP, self._of_runs(self._run_numbers("run_times", "time_ms") * 1000))

    def priorities(self) -> pa.Array:
        """From 0 to 7."""
        flags = np.frombuffer(self._joined("run_flags"), np.uint8)
        priorities = ((flags & FLAG_PRIORITY) >> PRIORITY_SHIFT).astype(np.int32)
        return fixed(pa.int32(), self._of_runs(priorities))

    def content_types(self) -> pa.Array:
        """By name. A slice that says nothing is raw."""
        parts = list(map(attrgetter("run_types"), self._slices))
        if not any(map(any, parts)):
            return _repeated(CONTENT_TYPES[0], self.rows)
        runs = self._runs[2]
        full = [part or bytes(count) for part, count in zip(parts, runs.tolist(), strict=True)]
        types = np.frombuffer(b"".join(full), np.uint8) & 0b11
        return strings(CONTENT_TYPES).take(fixed(pa.uint8(), self._of_runs(types)))

    # ── Payloads ──────────────────────────────────────────────────────────────────────────────

    def payloads(self) -> pa.Array:
        """As they came: one buffer."""
        lengths = self._lengths("bounds")
        if len(lengths) != self.rows:
            raise _unfit("not a payload for each row")
        return _binary(lengths, self._joined("payloads"))

    # ── Headers ───────────────────────────────────────────────────────────────────────────────

    def headers(self) -> pa.Array:
        """Lists of name and value; null where there are none."""
        rows = self._placed("header_numbers")
        if not len(rows):
            return pa.nulls(self.rows, HEADERS_TYPE)
        counts = self._lengths("header_bounds")
        if len(rows) != len(counts):
            raise _unfit("headers for other rows than were named")
        per_row = np.zeros(self.rows, np.int64)
        per_row[rows] = counts
        texts = _binary(self._lengths("header_text_bounds"), self._joined("header_texts"))
        if len(texts) != 2 * int(counts.sum()):
            raise _unfit("not a name and a value for each header")
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

    # ── Signatures ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def signed(self) -> tuple[Numbers, Numbers]:
        """Which rows are signed, and the records of their signatures."""
        rows = self._placed("signature_numbers")
        joined = self._joined("signatures") if len(rows) else b""
        if len(joined) != len(rows) * SIGNATURE_RECORD.itemsize:
            raise _unfit("not a signature for each row that was named")
        return rows, np.frombuffer(joined, SIGNATURE_RECORD)

    def signers(self) -> pa.Array:
        """The key that signed; null without."""
        rows, records = self.signed
        return self._scattered(pa.int64(), rows, records["key_id"].astype(np.int64))

    def verdicts(self) -> pa.Array:
        """What is signed was verified by the broker, or it would not be there."""
        return self.verdicts_from((VERIFIED,), np.zeros(len(self.signed[0]), np.int8))

    def verdicts_from(self, words: Sequence[str], of_signed: Numbers) -> pa.Array:
        """Verdicts by words, and which of them each signed row has; null without a signature.

        A word for each unsigned row, as every other column of strings, would cost Spark a tenth of
        all that it does with a row.
        """
        if not len(of_signed):
            return pa.nulls(self.rows, pa.string())
        places = np.full(self.rows, -1, np.int8)
        places[self.signed[0]] = of_signed
        return strings(words).take(pa.array(places, mask=places < 0))

    def signatures(self) -> pa.Array:
        """Everything that it takes to verify one; null without."""
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

    # ── Producers ─────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _notes(self) -> tuple[Numbers, Numbers, Numbers]:
        """Rows that a producer has numbered, which note each belongs to, and their seqs."""
        firsts = self._placed("producer_numbers")
        if not len(firsts):
            return firsts, firsts, firsts
        counts, _ = self._column("producer_counts", "<u4")
        seqs, _ = self._column("producer_seqs", "<i8")
        if not len(firsts) == len(counts) == len(seqs):
            raise _unfit("columns of producers differ in length")
        lengths = np.minimum(counts.astype(np.int64), np.diff(firsts, append=self.rows))
        notes = np.repeat(np.arange(len(firsts)), lengths)
        within = np.arange(len(notes)) - (np.cumsum(lengths) - lengths)[notes]
        return firsts[notes] + within, notes, seqs[notes] + within

    def producers(self) -> pa.Array:
        """Who numbered it; null where nobody did."""
        rows, notes, _ = self._notes
        if not len(rows):
            return pa.nulls(self.rows, pa.string())
        ends, per_slice = self._column("producer_name_ends", "<u4")
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
        starts[(np.cumsum(per_slice) - per_slice)[per_slice > 0]] = 0
        lengths = ends - starts
        if len(lengths) and int(lengths.min()) < 0:
            raise _unfit("names of producers descend")
        if int(notes[-1]) >= len(lengths):
            raise _unfit("not a name for each producer")
        joined = self._joined("producer_names")
        first = joined[: int(lengths[0])]
        if len(rows) == self.rows and _is_repetition(first, lengths, joined):
            return _repeated(first.decode(errors="replace"), self.rows)
        names = _texts(_binary(lengths, joined))
        return names.take(self._scattered(pa.int64(), rows, notes))

    def producer_seqs(self) -> pa.Array:
        """The producer's own number; null where it gave none."""
        rows, _, seqs = self._notes
        return self._scattered(pa.int64(), rows, seqs)

    # ── Scattering ────────────────────────────────────────────────────────────────────────────

    def _scattered(self, kind: pa.DataType, rows: Numbers, values: Numbers) -> pa.Array:
        """Values at their rows, null elsewhere."""
        if not len(rows):
            return pa.nulls(self.rows, kind)
        if len(rows) == self.rows:
            return fixed(kind, values)
        full = np.zeros(self.rows, values.dtype)
        full[rows] = values
        buffers = [self._validity(rows), pa.py_buffer(full)]
        return pa.Array.from_buffers(kind, self.rows, buffers)

    def _validity(self, rows: Numbers) -> pa.Buffer:
        """Bits: these rows have a value."""
        has = np.zeros(self.rows, bool)
        has[rows] = True
        return pa.py_buffer(np.packbits(has, bitorder="little"))

    def _scattered_binary(self, rows: Numbers, lengths: Numbers, content: bytes) -> pa.Array:
        """Bytes at their rows; empty elsewhere, where the signature as a whole is null."""
        full = np.zeros(self.rows, np.int64)
        full[rows] = lengths
        return _binary(full, content)


def fixed(kind: pa.DataType, values: Numbers) -> pa.Array:
    """An Arrow array that is a numpy array: the same memory."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _bounds(lengths: Numbers) -> Numbers:
    """Where each begins, and where the last ends, as Arrow counts."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if int(bounds[-1]) > _INT32_MAX:
        raise _unfit("more than 2 GiB at once")
    return bounds.astype(np.int32)


def _binary(lengths: Numbers, content: bytes) -> pa.Array:
    """Strings of bytes that lie one behind the other, where they lie."""
    bounds = _bounds(lengths)
    if int(bounds[-1]) != len(content):
        raise _unfit("a column has other bytes than its bounds say")
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def strings(texts: Sequence[str]) -> pa.Array:
    """Some texts as an array, made by hand: ``pa.array`` would load pandas, for half a second."""
    encoded = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return _texts(_binary(lengths, b"".join(encoded)))


def _repeated(text: str, rows: int) -> pa.Array:
    """One text, over and over."""
    encoded = text.encode()
    bounds = np.arange(rows + 1, dtype=np.int64) * len(encoded)
    if int(bounds[-1]) > _INT32_MAX:
        raise _unfit("more than 2 GiB at once")
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _is_repetition(first: bytes, lengths: Numbers, joined: bytes) -> bool:
    """Whether texts of these lengths, joined, are all the same as the first."""
    if len(joined) != len(first) * len(lengths) or (lengths != len(first)).any():
        return False
    return joined == first * len(lengths)


def _texts(binary: pa.Array) -> pa.Array:
    """The same as text. What is no UTF-8 must not fail a job: it is replaced, as on the wire."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [value.decode(errors="replace") for value in binary.to_pylist()]
        return strings(texts)


def _unfit(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the broker sent columns that do not fit together: {detail}",
        "is it of another version than this package?",
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
    "signature": FetchedColumns.signatures,
    "incarnation": FetchedColumns.incarnations,
}
"""How each column is made; the names are those of ``schema``."""


def batches(
    answers: FetchedColumns,
    schema: pa.Schema,
    verdicts: Callable[[FetchedColumns], pa.Array] = FetchedColumns.verdicts,
) -> Iterator[pa.RecordBatch]:
    """The rows of answers, the columns of a schema; ``verdicts`` judges signatures."""
    if not answers.rows:
        return
    makers = {**MAKERS, "signature_verdict": verdicts}
    arrays = [makers[name](answers) for name in schema.names]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for first in range(0, answers.rows, BATCH_ROWS_MAX):
        yield whole.slice(first, BATCH_ROWS_MAX)
