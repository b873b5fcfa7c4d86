"""What a task does: reads its ranges, and gives them to Spark as Arrow batches.

The broker's answers are small, so that nobody at its other doors waits for one to be made. So that
we do not wait either, several are under way at a time: a range is cut into **pieces** of about as
many rows as an answer holds, and the next pieces, or the first ones of the next ranges, are asked
for while one is worked on. Answers are put together and converted when there are enough rows for a
batch. So memory is bounded by a few answers and a batch, however long the ranges are.

Each answer is checked before it is used: is the topic still the one that was planned, and has
retention not gone past the place where we are?
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.client.errors import BrokerProtocolError, ClientError
from penstock.client.queue.session import QueueCall
from penstock.limits import KIB, MIB
from penstock.spark.broker import client_for, is_transient, with_retries
from penstock.spark.columns import FetchedColumns, batches
from penstock.spark.data_loss import report_losses
from penstock.spark.offsets import OffsetRange
from penstock.spark.options import SourceOptions
from penstock.spark.planning import Loss
from penstock.spark.signatures import Verifier
from penstock.wire.queue._generated.queue_pb2 import Fetched

UNDER_WAY_MAX: Final = 4
"""Answers that are asked for at a time."""

PIECE_ROWS: Final = 2_048
ANSWER_ROWS_MAX: Final = 65_536
"""What is asked for at first, and at most. How many bytes an answer has, the broker decides."""

SMALL_BYTES: Final = 64 * KIB
"""An answer with less could have been larger."""

HELD_ROWS: Final = 32_768
HELD_BYTES: Final = 8 * MIB
"""So much is put together for a batch; whichever is reached first.

A batch costs some calls of numpy and Arrow, whatever its size. With half as many rows a worker took
about a tenth more time for each row.
"""


Instead: TypeAlias = Callable[[Loss], Iterator[pa.RecordBatch]]
"""Reads from elsewhere what the broker does not have any more, and reports what is nowhere."""


def read_ranges(
    options: SourceOptions,
    ranges: Iterable[OffsetRange],
    schema: pa.Schema,
    instead: Instead | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ranges, in their order, as batches of a convenient size.

    What is found to be lost is reported, unless there is somebody to ask instead.
    """
    reading = _FetchPipeline(options, ranges)
    verdicts = Verifier(reading.client).verdicts if options.verifies else FetchedColumns.verdicts
    for parts in _gathered(reading.answers()):
        if not isinstance(parts, Loss):
            yield from batches(FetchedColumns(parts, ANSWER_ROWS_MAX), schema, verdicts)
        elif instead is None:
            report_losses(options, [parts])
        else:
            yield from instead(parts)


def _gathered(
    answers: Iterable[tuple[str, Fetched] | Loss],
) -> Iterator[list[tuple[str, Fetched]] | Loss]:
    """Answers in lots of as many rows as make a batch; a loss stands in its place between them."""
    held: list[tuple[str, Fetched]] = []
    rows = size = 0
    for answer in answers:
        if isinstance(answer, Loss):
            if held:
                yield held
            held, rows, size = [], 0, 0
            yield answer
            continue
        held.append(answer)
        fetched = answer[1]
        rows += sum(part.count for part in fetched.slices)
        size += payload_bytes(fetched)
        if rows >= HELD_ROWS or size >= HELD_BYTES:
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held


class _PendingFetch(NamedTuple):
    """A question that is under way: a piece of a range."""

    piece: OffsetRange
    pending: QueueCall[Fetched]


class _FetchPipeline:
    """One task's questions, and the answers in the order of the ranges."""

    def __init__(self, options: SourceOptions, ranges: Iterable[OffsetRange]) -> None:
        self._options = options
        self._waiting = deque(ranges)
        self._asked: deque[_PendingFetch] = deque()
        self._piece_rows = PIECE_ROWS
        self.client = with_retries(options.patience, lambda: client_for(options.servers))

    def answers(self) -> Iterator[tuple[str, Fetched] | Loss]:
        """Topics and what came of them, and before it what is found to be lost."""
        while self._waiting or self._asked:
            while self._waiting and len(self._asked) < UNDER_WAY_MAX:
                self._asked.append(self._ask(self._next_piece()))
            piece, fetched = self._answer(self._asked.popleft())
            loss = lost(piece, fetched)
            if loss is not None:
                yield loss
            rest = rest_of(piece, fetched)
            self._learn(piece, rest, fetched)
            if rest is not None:
                self._asked.appendleft(self._ask(rest))
            if fetched.incarnation == piece.incarnation and fetched.slices:
                yield piece.topic, fetched

    def _next_piece(self) -> OffsetRange:
        """Cut a piece off what waits."""
        first = self._waiting.popleft()
        end = min(first.begin + self._piece_rows, first.end)
        if end < first.end:
            self._waiting.appendleft(first._replace(begin=end))
        return first._replace(end=end)

    def _learn(self, piece: OffsetRange, rest: OffsetRange | None, fetched: Fetched) -> None:
        """Ask for what an answer held if it could not hold all, and for more if it was small."""
        if rest is not None:
            self._piece_rows = max(1, rest.begin - piece.begin)
        elif payload_bytes(fetched) < SMALL_BYTES:
            self._piece_rows = min(2 * self._piece_rows, ANSWER_ROWS_MAX)

    def _ask(self, piece: OffsetRange) -> _PendingFetch:
        pending = self.client.begin_fetch(
            piece.topic,
            piece.begin,
            piece.end,
            max_messages=ANSWER_ROWS_MAX,
            columns=self._options.mask,
        )
        return _PendingFetch(piece, pending)

    def _answer(self, asked: _PendingFetch) -> tuple[OffsetRange, Fetched]:
        """Wait for an answer; ask again if the broker was away for too long."""
        try:
            return asked.piece, self.client.finish(asked.pending)
        except ClientError as error:
            if not is_transient(error):
                raise
        return asked.piece, with_retries(
            self._options.patience, lambda: self.client.finish(self._ask(asked.piece).pending)
        )


def payload_bytes(fetched: Fetched) -> int:
    """Bytes of payload in an answer, by the bounds: to ask for its size would write it anew."""
    size = 0
    for part in fetched.slices:
        bounds = part.bounds
        size += int.from_bytes(bounds[-4:], "little") - int.from_bytes(bounds[:4], "little")
    return size


def lost(rest: OffsetRange, fetched: Fetched) -> Loss | None:
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


def rest_of(rest: OffsetRange, fetched: Fetched) -> OffsetRange | None:
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
