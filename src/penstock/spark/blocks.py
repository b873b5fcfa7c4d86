"""Encodes rows of a table as blocks of messages, which a sink task sends.

A **block** is a ``StagedBlock`` of at most 1 MiB. It holds **lots**: messages of one topic that
share everything but payload and time. Rows are collected until they fill some blocks, then sorted
by topic, stably. There are no loops over rows, only over lots. A bad row is reported with its
number before any of its blocks is made, so a task fails before anything is visible.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock import limits
from penstock.client.queue.columns import CONTENT_TYPES
from penstock.errors import PenstockError
from penstock.model.message import PRIORITY_MAX
from penstock.model.topic import topic_fault
from penstock.spark.sink_schema import Layout
from penstock.wire.queue._generated import queue_pb2 as wire

# Collect this much before cutting: few blocks stay partial, and rows of one topic meet.
PIECE_BYTES: Final = 4 * limits.MIB
PAYLOAD_COST: Final = 6
TIME_COST: Final = 10
HEADER_COST: Final = 14
# upper bounds for what the wire format adds to a payload, a time, a header and a lot
LOT_COST: Final = 48
TIME_HEADER_BYTES: Final = 24  # a time becomes a header: its name and up to 20 digits
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOPICS_CHECKED_MAX: Final = 100_000
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class RowError(PenstockError):
    """A row that cannot become a message."""


class _Headers(NamedTuple):
    """Headers of all rows; those of row i are at ``ends[i] - counts[i]`` to ``ends[i]``."""

    counts: Numbers
    ends: Numbers
    codes: Numbers  # equal for equal name and value
    names: pa.Array
    values: pa.Array
    bytes: Numbers  # names and values of each row


class _RowColumns(NamedTuple):
    """Columns of some rows, sorted by topic."""

    topics: list[str]
    topic_codes: Numbers
    payloads: pa.Array
    payload_bytes: Numbers
    priorities: Numbers
    content_types: Numbers
    times_ms: Numbers  # -1: none
    expires_ms: Numbers  # 0: never
    headers: _Headers | None


class Blocks:
    """Collects the rows of one task and encodes them: call ``add``, then ``finish``."""

    def __init__(self, layout: Layout, topic: str | None = None, content_type: int = 0) -> None:
        self._layout = layout
        self._topic = topic
        self._content_type = content_type
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._checked: set[str] = set()
        self.rows = 0  # encoded so far

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        if batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= PIECE_BYTES:
            yield from self._cut()

    def finish(self) -> Iterator[bytes]:
        if self._batches:
            yield from self._cut()

    def _cut(self) -> Iterator[bytes]:
        batches, self._batches, self._bytes = self._batches, [], 0
        whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        columns = self._in_order(self._columns(whole))
        self.rows += whole.num_rows
        yield from _blocks(columns)

    def _columns(self, rows: pa.RecordBatch) -> _RowColumns:
        layout, count = self._layout, rows.num_rows
        topics, codes = self._topics(rows)
        payloads = rows.column(layout.payload).cast(pa.binary())
        self._check_nulls(payloads, "payload", "coalesce(payload, X'')")
        columns = _RowColumns(
            topics=topics,
            topic_codes=codes,
            payloads=payloads,
            payload_bytes=_numbers(pc.binary_length(payloads)),
            priorities=self._priorities(rows, count),
            content_types=self._content_types(rows, count),
            times_ms=self._times(rows, count),
            expires_ms=self._expiries(rows, count),
            headers=self._headers(rows),
        )
        self._check_sizes(columns)
        return columns

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[str], Numbers]:
        if self._layout.topic is None:
            topics, codes = [self._topic or ""], np.zeros(rows.num_rows, np.int64)
        else:
            column = rows.column(self._layout.topic)
            self._check_nulls(column, "topic", "coalesce")
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
                int(np.argmax(codes == code)), f"has an invalid topic {topic[:100]!r}: {fault}"
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
            advice = f"use 0 to {PRIORITY_MAX}"
            raise self._fault(index, f"has priority {priorities[index]}", advice)
        return priorities

    def _content_types(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.content_type is None:
            return np.full(count, self._content_type, np.int64)
        column = rows.column(self._layout.content_type).cast(pa.string())
        types = pc.index_in(column, pa.array(CONTENT_TYPES, pa.string()))
        bad = pc.and_(pc.is_null(types), pc.is_valid(column))
        if pc.any(bad).as_py():
            index = _first(bad)
            advice = f"use one of {', '.join(CONTENT_TYPES)}"
            raise self._fault(index, f"has content type {column[index].as_py()[:100]!r}", advice)
        return _numbers(types.fill_null(self._content_type))

    def _times(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.timestamp is None:
            return np.full(count, -1, np.int64)
        return self._milliseconds(rows.column(self._layout.timestamp), -1, "timestamp")

    def _expiries(self, rows: pa.RecordBatch, count: int) -> Numbers:
        if self._layout.expires is None:
            return np.zeros(count, np.int64)
        return self._milliseconds(rows.column(self._layout.expires), 0, "time of expiry")

    def _milliseconds(self, column: pa.Array, missing: int, name: str) -> Numbers:
        times = _numbers(
            column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), missing * 1000
        )
        bad = (times < 0) & column.is_valid().to_numpy(zero_copy_only=False)
        if bad.any():
            advice = "filter such rows out, or correct it"
            raise self._fault(int(np.argmax(bad)), f"has a {name} before 1970", advice)
        return times // 1000

    def _headers(self, rows: pa.RecordBatch) -> _Headers | None:
        if self._layout.headers is None:
            return None
        column = rows.column(self._layout.headers).cast(HEADERS_TYPE)
        counts = _numbers(pc.list_value_length(column))  # 0 for null
        names, values = pc.list_flatten(column).flatten()
        headers = _described(counts, names, values.fill_null(b""))
        if headers.names.null_count:
            header = _first(pc.is_null(headers.names))
            row = int(np.searchsorted(headers.ends, header, side="right"))
            advice = "remove it with filter(headers, h -> h.key IS NOT NULL)"
            raise self._fault(row, "has a header without a key", advice)
        return headers

    def _check_sizes(self, columns: _RowColumns) -> None:
        headers, has_time = columns.headers, columns.times_ms >= 0
        if headers is not None:  # a time becomes a header
            bad = headers.counts + has_time > limits.HEADERS_MAX
            bad |= headers.bytes + TIME_HEADER_BYTES * has_time > limits.HEADERS_BYTES_MAX
            if bad.any():
                fault = "has too many headers, or too large ones"
                most = f"{limits.HEADERS_MAX} of {limits.HEADERS_BYTES_MAX} bytes in all"
                raise self._fault(int(np.argmax(bad)), fault, f"use at most {most}")
        bad = _row_costs(columns) + _lot_costs(columns) > limits.STAGED_BLOCK_BYTES_MAX
        if bad.any():
            index = int(np.argmax(bad))
            raise self._fault(
                index,
                f"has a payload of {columns.payload_bytes[index]} bytes",
                f"the limit is {limits.STAGED_BLOCK_BYTES_MAX} with topic and headers; publish a"
                " reference instead",
            )

    def _check_nulls(self, column: pa.Array, name: str, instead: str) -> None:
        if column.null_count:
            advice = f"filter such rows out, or use {instead}"
            raise self._fault(_first(pc.is_null(column)), f"has no {name}", advice)

    def _fault(self, index: int, what: str, advice: str = "") -> RowError:
        return RowError(f"row {self.rows + index} of this task {what}", advice)

    @staticmethod
    def _in_order(columns: _RowColumns) -> _RowColumns:
        codes = columns.topic_codes
        if not (np.diff(codes) < 0).any():
            return columns
        order = np.argsort(codes, kind="stable")
        return columns._replace(
            topic_codes=codes[order],
            payloads=columns.payloads.take(pa.array(order)),
            payload_bytes=columns.payload_bytes[order],
            priorities=columns.priorities[order],
            content_types=columns.content_types[order],
            times_ms=columns.times_ms[order],
            expires_ms=columns.expires_ms[order],
            headers=None if columns.headers is None else _taken(columns.headers, order),
        )


def _taken(headers: _Headers, order: Numbers) -> _Headers:
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
    codes = codes + _numbers(value_codes.indices)
    return _Headers(counts, ends, codes, names, values, bytes=total[ends] - total[ends - counts])


def _differ(headers: _Headers) -> Flags:
    counts = headers.counts
    differ = np.ones(len(counts), np.bool_)
    differ[1:] = counts[1:] != counts[:-1]
    # Of neighbours with equally many, compare each header with its counterpart in the row before.
    rows = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero(~differ[rows])
    others = headers.codes[places] != headers.codes[places - counts[rows[places]]]
    differ[rows[places[others]]] = True
    return differ


def _blocks(columns: _RowColumns) -> Iterator[bytes]:
    fresh = _fresh(columns)
    lot_costs = _lot_costs(columns)
    ends = np.cumsum(_row_costs(columns) + np.where(fresh, lot_costs, 0))
    header_ends = np.cumsum(_header_bytes(columns))
    make = _Maker(columns)
    lots = np.flatnonzero(fresh)
    begin, count = 0, len(ends)
    while begin < count:
        room = limits.STAGED_BLOCK_BYTES_MAX + (ends[begin - 1] if begin else 0)
        if not fresh[begin]:  # the lot continues in this block, with its own description
            room -= lot_costs[begin]
        further = lots[np.searchsorted(lots, begin, side="right") :]
        header_room = limits.STAGED_HEADERS_BYTES_MAX + (header_ends[begin - 1] if begin else 0)
        end = min(
            int(np.searchsorted(ends, room, side="right")),
            int(np.searchsorted(header_ends, header_room, side="right")),
            begin + limits.STAGED_MESSAGES_MAX,
        )
        if len(further) >= limits.STAGED_LOTS_MAX:
            end = min(end, int(further[limits.STAGED_LOTS_MAX - 1]))
        bounds = further[: np.searchsorted(further, end)]
        yield make.block([begin, *bounds.tolist(), end])
        begin = end


def _fresh(columns: _RowColumns) -> Flags:
    fresh = np.ones(len(columns.topic_codes), np.bool_)
    fresh[1:] = False
    has_time, expires = columns.times_ms >= 0, columns.expires_ms > 0
    same = (columns.topic_codes, columns.priorities, columns.content_types, has_time, expires)
    for column in same:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh if columns.headers is None else fresh | _differ(columns.headers)


def _row_costs(columns: _RowColumns) -> Numbers:
    times = (columns.times_ms >= 0).astype(np.int64) + (columns.expires_ms > 0)
    return columns.payload_bytes + PAYLOAD_COST + TIME_COST * times


def _header_bytes(columns: _RowColumns) -> Numbers:
    times: Numbers = np.where(columns.times_ms >= 0, TIME_HEADER_BYTES, 0)
    return times if columns.headers is None else times + columns.headers.bytes


def _lot_costs(columns: _RowColumns) -> Numbers:
    lengths = np.array([len(topic.encode()) for topic in columns.topics], np.int64)
    costs: Numbers = LOT_COST + lengths[columns.topic_codes]
    if columns.headers is not None:
        costs += columns.headers.bytes + HEADER_COST * columns.headers.counts
    return costs


class _Maker:
    """Encodes blocks. Columns become lists one block at a time, and lots slice those."""

    def __init__(self, columns: _RowColumns) -> None:
        self._piece = columns
        self._has_times = bool((columns.times_ms >= 0).any())
        self._has_expiries = bool(columns.expires_ms.any())

    def block(self, bounds: list[int]) -> bytes:
        columns, first, starts = self._piece, bounds[0], np.array(bounds[:-1])
        payloads = columns.payloads.slice(first, bounds[-1] - first).to_pylist()
        block = wire.StagedBlock()
        for begin, end, code, priority, content_type, headers in zip(
            bounds,
            bounds[1:],
            columns.topic_codes[starts].tolist(),
            columns.priorities[starts].tolist(),
            columns.content_types[starts].tolist(),
            self._headers(starts),
            strict=False,  # there is one bound more than lots
        ):
            block.lots.add(
                topic=columns.topics[code],
                priority=priority,
                content_type=content_type,
                payloads=payloads[begin - first : end - first],
                headers=headers,
                times_ms=self._times(begin, end),
                expires_ms=self._expiries(begin, end),
            )
        return block.SerializeToString()

    def _times(self, begin: int, end: int) -> list[int]:
        if not self._has_times or self._piece.times_ms[begin] < 0:
            return []
        times: list[int] = self._piece.times_ms[begin:end].tolist()
        return times

    def _expiries(self, begin: int, end: int) -> list[int]:
        if not self._has_expiries or not self._piece.expires_ms[begin]:
            return []
        times: list[int] = self._piece.expires_ms[begin:end].tolist()
        return times

    def _headers(self, starts: Numbers) -> Iterator[list[wire.Header]]:
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


def _numbers(column: pa.Array, missing: int = 0) -> Numbers:
    filled = column.fill_null(missing).to_numpy(zero_copy_only=False)
    numbers: Numbers = filled.astype(np.int64, copy=False)
    return numbers


def _first(flags: pa.Array) -> int:
    return int(pc.index(flags, True).as_py())
