"""What a task does: reads its ranges, and gives them to Spark as Arrow batches.

The next answer is under way while one is converted and taken by Spark; where ranges are short, the
first answers of the next ranges are under way as well. So memory is bounded by a few answers,
however long the ranges are. Each answer is checked before it is used: is the topic still the one
that was planned, and has retention not gone past the place where we are?
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock.client.errors import BrokerProtocolError, ClientError
from penstock.limits import MIB
from penstock.spark.broker import client_of, is_passing, patiently
from penstock.spark.columns import BATCH_ROWS, Answer, batches
from penstock.spark.loss import report
from penstock.spark.offsets import Range
from penstock.spark.options import SourceOptions
from penstock.spark.planning import Loss
from penstock.spark.verdicts import Verifier
from penstock.wire.queue._generated.queue_pb2 import Fetched

__all__ = ["lost", "read_ranges", "rest_of"]

UNDER_WAY_MAX: Final = 4
"""Answers that are asked for at a time."""

ANSWER_ROWS_MAX: Final = 65_536
"""How many rows an answer may have. How many bytes is left to the broker, which gives a mebibyte at
a time: who is at the other doors has to wait while it is copied."""

GATHERED_BYTES_MAX: Final = 16 * MIB
"""Batches are put together up to here; far below the 2 GiB of an Arrow column."""


def read_ranges(
    options: SourceOptions, ranges: Iterable[Range], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of ranges, in their order, as batches of a convenient size."""
    return _gathered(_Reading(options, schema).batches(ranges))


class _Asked(NamedTuple):
    """A question that is under way: what is left of a range."""

    rest: Range
    pending: Any


class _Reading:
    """One task's reading."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._mask = options.mask
        self._client = patiently(options.patience, lambda: client_of(options.servers))
        self._verdicts: Callable[[Answer], pa.Array] = Answer.verdicts
        if options.verifies:
            self._verdicts = Verifier(self._client).verdicts

    def batches(self, ranges: Iterable[Range]) -> Iterator[pa.RecordBatch]:
        waiting = deque(ranges)
        asked: deque[_Asked] = deque()
        while waiting or asked:
            while waiting and len(asked) < UNDER_WAY_MAX:
                asked.append(self._ask(waiting.popleft()))
            rest, fetched = self._answer(asked.popleft())
            after = self._go_on(rest, fetched)
            if after is not None:
                asked.appendleft(self._ask(after))
            if fetched.incarnation == rest.incarnation and fetched.slices:
                answer = Answer(rest.topic, fetched, ANSWER_ROWS_MAX)
                yield from batches(answer, self._schema, self._verdicts)

    def _ask(self, rest: Range) -> _Asked:
        pending = self._client.begin_fetch(
            rest.topic,
            rest.begin,
            rest.end,
            max_messages=ANSWER_ROWS_MAX,
            columns=self._mask,
        )
        return _Asked(rest, pending)

    def _answer(self, asked: _Asked) -> tuple[Range, Fetched]:
        """Wait for an answer; ask again if the broker was away for too long."""
        try:
            return asked.rest, self._client.finish(asked.pending)
        except ClientError as error:
            if not is_passing(error):
                raise
        patience = self._options.patience
        return asked.rest, patiently(
            patience, lambda: self._client.finish(self._ask(asked.rest).pending)
        )

    def _go_on(self, rest: Range, fetched: Fetched) -> Range | None:
        """Report what an answer shows to be lost; tell what is left to ask for."""
        loss = lost(rest, fetched)
        if loss is not None:
            report(self._options, [loss])
        return rest_of(rest, fetched)


def lost(rest: Range, fetched: Fetched) -> Loss | None:
    """What an answer shows to be lost of a range.

    What is missing below the first offset of the topic was removed by retention. What is missing
    above it was deleted by somebody who meant to.
    """
    if fetched.incarnation != rest.incarnation:
        return Loss(*rest, "made anew" if fetched.incarnation else "deleted")
    if fetched.end_offset <= rest.begin:
        return Loss(*rest, "cut back")
    arrived = fetched.slices[0].first_offset if fetched.slices else rest.end
    begin = min(fetched.first_offset, arrived, rest.end)
    if begin > rest.begin:
        return Loss(rest.topic, rest.incarnation, rest.begin, begin, "removed")
    return None


def rest_of(rest: Range, fetched: Fetched) -> Range | None:
    """What is left of a range after an answer; None if nothing is."""
    if fetched.incarnation != rest.incarnation or fetched.end_offset <= rest.begin:
        return None
    if fetched.next_offset >= rest.end:
        return None
    if fetched.next_offset <= rest.begin:
        raise BrokerProtocolError(
            f"the broker does not go on at offset {rest.begin} of {rest.topic!r}",
            "is it of another version than this package?",
        )
    return rest._replace(begin=fetched.next_offset)


def _gathered(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, where they are small: each costs Spark some time."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for part in parts:
        rows, size = rows + part.num_rows, size + part.nbytes
        if held and (rows > BATCH_ROWS or size > GATHERED_BYTES_MAX):
            yield _joined(held)
            held, rows, size = [], part.num_rows, part.nbytes
        held.append(part)
    if held:
        yield _joined(held)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    whole = pa.Table.from_batches(parts).combine_chunks()
    return whole.to_batches()[0]
