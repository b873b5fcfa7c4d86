"""Rows of a table become blocks of messages: what a task of the sink sends.

A **block** is a ``StagedBlock`` of at most 1 MiB. It holds **lots**: messages of one topic that
have everything but payload and time in common. Rows are gathered until they are worth some blocks,
then sorted by topic, all of them at once and stably: messages of one topic keep their order, those
of different topics have none among each other. A lot ends where priority, content type or headers
change, so one column that is different in each row costs a lot per row.

Nothing here loops over rows; lots are made one by one. Whatever is wrong with a row is told with
its number before any block of its piece is made, so a task fails without anything being visible.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.client.queue.columns import CONTENT_TYPES
from penstock.errors import PenstockError
from penstock.limits import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    MIB,
    STAGED_BLOCK_BYTES_MAX,
    STAGED_HEADERS_BYTES_MAX,
    STAGED_LOTS_MAX,
    STAGED_MESSAGES_MAX,
)
from penstock.model.message import PRIORITY_MAX
from penstock.model.topic import topic_fault
from penstock.spark.sink_schema import Layout
from penstock.wire.queue._generated import queue_pb2 as wire

PIECE_BYTES: Final = 4 * MIB
"""So much of a table is gathered before it is cut: few blocks of it are not full, many rows of one
topic come together. Spark's own batches are larger than this only where rows are."""

PAYLOAD_COST: Final = 6
TIME_COST: Final = 10
HEADER_COST: Final = 14
LOT_COST: Final = 48
"""What the wire form adds, at most: to a payload, a time, a header and a lot."""

TIME_HEADER_BYTES: Final = 24
"""A time as the header that it becomes: its name, and a number of 20 digits at most."""

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

TOPICS_CHECKED_MAX: Final = 100_000

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class RowError(PenstockError):
    """A row that cannot become a message; says which, and what to do about it."""


class _Headers(NamedTuple):
    """Headers of all rows: those of row i are from ``ends[i] - counts[i]`` to ``ends[i]``."""

    counts: Numbers
    ends: Numbers
    codes: Numbers
    """The same number for the same name and value."""
    names: pa.Array
    values: pa.Array
    bytes: Numbers
    """Names and values of each row together."""


class _RowColumns(NamedTuple):
    """Columns of some rows, in the order of their topics."""

    topics: list[str]
    topic_codes: Numbers
    payloads: pa.Array
    payload_bytes: Numbers
    priorities: Numbers
    content_types: Numbers
    times_ms: Numbers
    """-1: has none."""
    headers: _Headers | None


class Blocks:
    """The rows of one task on their way to being blocks: ``add`` batches, ``finish``."""

    def __init__(self, layout: Layout, topic: str | None = None, content_type: int = 0) -> None:
        self._layout = layout
        self._topic = topic
        self._content_type = content_type
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._checked: set[str] = set()
        self.rows = 0
        """How many were made into blocks."""

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Take rows, and give the blocks that can be made by now."""
        if batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= PIECE_BYTES:
            yield from self._cut()

    def finish(self) -> Iterator[bytes]:
        """Give what is left."""
        if self._batches:
            yield from self._cut()

    def _cut(self) -> Iterator[bytes]:
        batches, self._batches, self._bytes = self._batches, [], 0
        whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        piece = self._in_order(self._columns(whole))
        self.rows += whole.num_rows
        yield from _blocks(piece)

    # ── Columns ───────────────────────────────────────────────────────────────────────────────

    def _columns(self, rows: pa.RecordBatch) -> _RowColumns:
        """The columns of a message, checked, whatever the table has of them."""
        layout, count = self._layout, rows.num_rows
        topics, codes = self._topics(rows)
        payloads = rows.column(layout.payload).cast(pa.binary())
        if payloads.null_count:
            raise self._fault(
                _first(pc.is_null(payloads)),
                "has no payload",
                "a message always has one: filter such rows out, or coalesce(payload, X'')",
            )
        piece = _RowColumns(
            topics=topics,
            topic_codes=codes,
            payloads=payloads,
            payload_bytes=_numbers(pc.binary_length(payloads)),
            priorities=self._priorities(rows, count),
            content_types=self._content_types(rows, count),
            times_ms=self._times(rows, count),
            headers=self._headers(rows),
        )
        self._check_sizes(piece)
        return piece

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[str], Numbers]:
        """Each topic once, and for each row which it is."""
        if self._layout.topic is None:
            topics, codes = [self._topic or ""], np.zeros(rows.num_rows, np.int64)
        else:
            column = rows.column(self._layout.topic)
            if column.null_count:
                raise self._fault(
                    _first(pc.is_null(column)), "has no topic", "filter such rows out, or coalesce"
                )
            encoded = column.cast(pa.string()).dictionary_encode()
            topics, codes = encoded.dictionary.to_pylist(), _numbers(encoded.indices)
        for code, topic in enumerate(topics):
            if topic not in self._checked:
                self._check_topic(topic, code, codes)
        return topics, codes

    def _check_topic(self, topic: str, code: int, codes: Numbers) -> None:
        fault = topic_fault(topic.encode())
        if fault:
            raise self._fault(
                int(np.argmax(codes == code)), f"is for the topic {topic[:100]!r}: {fault}"
            )
        if len(self._checked) >= TOPICS_CHECKED_MAX:
            self._checked.clear()
        self._checked.add(topic)

    def _priorities(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.priority is None:
            return np.zeros(count, np.int64)
        priorities = _numbers(rows.column(self._layout.priority).fill_null(0))
        bad = (priorities < 0) | (priorities > PRIORITY_MAX)
        if bad.any():
            index = int(np.argmax(bad))
            raise self._fault(
                index, f"has priority {priorities[index]}", f"0 to {PRIORITY_MAX} are possible"
            )
        return priorities

    def _content_types(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.content_type is None:
            return np.full(count, self._content_type, np.int64)
        column = rows.column(self._layout.content_type).cast(pa.string())
        types = pc.index_in(column, pa.array(CONTENT_TYPES, pa.string()))
        bad = pc.and_(pc.is_null(types), pc.is_valid(column))
        if pc.any(bad).as_py():
            index = _first(bad)
            raise self._fault(
                index,
                f"has content type {column[index].as_py()[:100]!r}",
                f"there are {', '.join(CONTENT_TYPES)}",
            )
        return _numbers(types.fill_null(self._content_type))

    def _times(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.timestamp is None:
            return np.full(count, -1, np.int64)
        column = rows.column(self._layout.timestamp)
        times = _numbers(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), -1000)
        bad = (times < 0) & column.is_valid().to_numpy(zero_copy_only=False)
        if bad.any():
            raise self._fault(
                int(np.argmax(bad)), "has a timestamp before 1970", "filter it out, or mend it"
            )
        return times // 1000

    def _headers(self, rows: pa.RecordBatch) -> _Headers | None:
        if self._layout.headers is None:
            return None
        column = rows.column(self._layout.headers).cast(HEADERS_TYPE)
        headers = _flattened(column)
        if headers.names.null_count:
            place = _first(pc.is_null(headers.names))
            raise self._fault(
                int(np.searchsorted(headers.ends, place, side="right")),
                "has a header without a key",
                "filter(headers, h -> h.key IS NOT NULL) leaves those out",
            )
        return headers

    def _check_sizes(self, piece: _RowColumns) -> None:
        """What is too large for the broker, or for a block."""
        headers, has_time = piece.headers, piece.times_ms >= 0
        if headers is not None:  # a time is a header too
            bad = headers.counts + has_time > HEADERS_MAX
            bad |= headers.bytes + TIME_HEADER_BYTES * has_time > HEADERS_BYTES_MAX
            if bad.any():
                raise self._fault(
                    int(np.argmax(bad)),
                    "has too many headers, or too large ones",
                    f"{HEADERS_MAX} are possible, of {HEADERS_BYTES_MAX} bytes together",
                )
        bad = _row_costs(piece) + _lot_costs(piece) > STAGED_BLOCK_BYTES_MAX
        if bad.any():
            index = int(np.argmax(bad))
            raise self._fault(
                index,
                f"has a payload of {piece.payload_bytes[index]} bytes",
                f"topic and headers included {STAGED_BLOCK_BYTES_MAX} are possible; store it"
                " elsewhere, and publish where",
            )

    def _fault(self, index: int, what: str, advice: str = "") -> RowError:
        return RowError(f"row {self.rows + index} of this task {what}", advice)

    @staticmethod
    def _in_order(piece: _RowColumns) -> _RowColumns:
        """Sort by topic. Codes count up as topics appear, so often there is nothing to do."""
        codes = piece.topic_codes
        if not (np.diff(codes) < 0).any():
            return piece
        order = np.argsort(codes, kind="stable")
        return _RowColumns(
            topics=piece.topics,
            topic_codes=codes[order],
            payloads=piece.payloads.take(pa.array(order)),
            payload_bytes=piece.payload_bytes[order],
            priorities=piece.priorities[order],
            content_types=piece.content_types[order],
            times_ms=piece.times_ms[order],
            headers=None if piece.headers is None else _taken(piece.headers, order),
        )


# ── Headers ───────────────────────────────────────────────────────────────────────────────────


def _flattened(column: pa.Array) -> _Headers:
    """All headers of all rows, one after the other; a row without has an empty list."""
    counts = _numbers(pc.list_value_length(column).fill_null(0))
    names, values = pc.list_flatten(column).flatten()
    return _described(counts, names, values.fill_null(b""))


def _taken(headers: _Headers, order: Numbers) -> _Headers:
    """The same with the rows in another order."""
    counts = headers.counts[order]
    ends = np.cumsum(counts)
    begins = headers.ends[order] - counts
    places = pa.array(np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts))
    return _described(counts, headers.names.take(places), headers.values.take(places))


def _described(counts: Numbers, names: pa.Array, values: pa.Array) -> _Headers:
    ends = np.cumsum(counts)
    lengths = _numbers(pc.binary_length(names), 0) + _numbers(pc.binary_length(values))
    total = np.concatenate(([0], np.cumsum(lengths)))
    value_codes = values.dictionary_encode()
    codes = _numbers(names.dictionary_encode().indices, -1) * len(value_codes.dictionary)
    return _Headers(
        counts=counts,
        ends=ends,
        codes=codes + _numbers(value_codes.indices),
        names=names,
        values=values,
        bytes=total[ends] - total[ends - counts],
    )


def _differ(headers: _Headers) -> Flags:
    """Which rows have other headers than the row before them.

    Where two neighbours have equally many, each header is compared with the one so many places
    before it.
    """
    counts = headers.counts
    differ = np.ones(len(counts), np.bool_)
    differ[1:] = counts[1:] != counts[:-1]
    rows = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero(~differ[rows])
    others = headers.codes[places] != headers.codes[places - counts[rows[places]]]
    differ[rows[places[others]]] = True
    return differ


# ── Blocks ────────────────────────────────────────────────────────────────────────────────────


def _blocks(piece: _RowColumns) -> Iterator[bytes]:
    """Cut a piece into blocks, each as full as can be."""
    fresh = _fresh(piece)
    lot_costs = _lot_costs(piece)
    ends = np.cumsum(_row_costs(piece) + np.where(fresh, lot_costs, 0))
    header_ends = np.cumsum(_header_bytes(piece))
    make = _Maker(piece)
    lots = np.flatnonzero(fresh)
    begin, count = 0, len(ends)
    while begin < count:
        room = STAGED_BLOCK_BYTES_MAX + (ends[begin - 1] if begin else 0)
        if not fresh[begin]:  # the lot goes on in this block, and is described again
            room -= lot_costs[begin]
        further = lots[np.searchsorted(lots, begin, side="right") :]
        header_room = STAGED_HEADERS_BYTES_MAX + (header_ends[begin - 1] if begin else 0)
        end = min(
            int(np.searchsorted(ends, room, side="right")),
            int(np.searchsorted(header_ends, header_room, side="right")),
            begin + STAGED_MESSAGES_MAX,
        )
        if len(further) >= STAGED_LOTS_MAX:
            end = min(end, int(further[STAGED_LOTS_MAX - 1]))
        bounds = further[: np.searchsorted(further, end)]
        yield make.block([begin, *bounds.tolist(), end])
        begin = end


def _fresh(piece: _RowColumns) -> Flags:
    """Where lots begin."""
    fresh = np.ones(len(piece.topic_codes), np.bool_)
    fresh[1:] = False
    has_time = piece.times_ms >= 0
    for column in (piece.topic_codes, piece.priorities, piece.content_types, has_time):
        fresh[1:] |= column[1:] != column[:-1]
    return fresh if piece.headers is None else fresh | _differ(piece.headers)


def _row_costs(piece: _RowColumns) -> Numbers:
    return piece.payload_bytes + PAYLOAD_COST + np.where(piece.times_ms >= 0, TIME_COST, 0)


def _header_bytes(piece: _RowColumns) -> Numbers:
    """What the headers of each row take when it is a message: a lot has them once."""
    times: Numbers = np.where(piece.times_ms >= 0, TIME_HEADER_BYTES, 0)
    return times if piece.headers is None else times + piece.headers.bytes


def _lot_costs(piece: _RowColumns) -> Numbers:
    """What each row would cost beyond that if a lot began with it."""
    lengths = np.array([len(topic.encode()) for topic in piece.topics], np.int64)
    costs: Numbers = LOT_COST + lengths[piece.topic_codes]
    if piece.headers is not None:
        costs += piece.headers.bytes + HEADER_COST * piece.headers.counts
    return costs


class _Maker:
    """Makes blocks of a piece. Columns are taken as lists, a block at a time: lots cut those."""

    def __init__(self, piece: _RowColumns) -> None:
        self._piece = piece
        self._has_times = bool((piece.times_ms >= 0).any())

    def block(self, bounds: list[int]) -> bytes:
        """Lots between neighbouring bounds."""
        piece, first, starts = self._piece, bounds[0], np.array(bounds[:-1])
        payloads = piece.payloads.slice(first, bounds[-1] - first).to_pylist()
        block = wire.StagedBlock()
        for begin, end, code, priority, content_type, headers in zip(
            bounds,
            bounds[1:],
            piece.topic_codes[starts].tolist(),
            piece.priorities[starts].tolist(),
            piece.content_types[starts].tolist(),
            self._headers(starts),
            strict=False,  # there is one bound more than lots
        ):
            block.lots.add(
                topic=piece.topics[code],
                priority=priority,
                content_type=content_type,
                payloads=payloads[begin - first : end - first],
                headers=headers,
                times_ms=self._times(begin, end),
            )
        return block.SerializeToString()

    def _times(self, begin: int, end: int) -> list[int]:
        if not self._has_times or self._piece.times_ms[begin] < 0:
            return []
        times: list[int] = self._piece.times_ms[begin:end].tolist()
        return times

    def _headers(self, starts: Numbers) -> Iterator[list[wire.Header]]:
        """Those of the first row of each lot, which are those of all its rows."""
        headers = self._piece.headers
        if headers is None:
            yield from repeat([], len(starts))
            return
        counts = headers.counts[starts]
        ends = headers.ends[starts]
        first, last = int(ends[0] - counts[0]), int(ends[-1])
        names = headers.names.slice(first, last - first).to_pylist()
        values = headers.values.slice(first, last - first).to_pylist()
        for begin, end in zip(
            (ends - counts - first).tolist(), (ends - first).tolist(), strict=True
        ):
            yield [
                wire.Header(name=name, value=value)
                for name, value in zip(names[begin:end], values[begin:end], strict=True)
            ]


def _numbers(column: Any, missing: int = 0) -> Numbers:
    """A column of numbers for arithmetic."""
    filled = column.fill_null(missing).to_numpy(zero_copy_only=False)
    numbers: Numbers = filled.astype(np.int64, copy=False)
    return numbers


def _first(flags: Any) -> int:
    """Where the first true one is."""
    return int(pc.index(flags, True).as_py())
