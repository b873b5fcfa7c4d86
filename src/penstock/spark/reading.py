"""The work of a read task: fetches its ranges, and yields them as Arrow batches.

To hide round trips, a range is cut into **pieces** of about one reply each, and the next pieces are
requested while one is decoded. Replies are joined until there are enough rows for a batch, so
memory is bounded by a few replies and one batch.
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

FETCHES_IN_FLIGHT: Final = 4  # requests in flight
PIECE_ROWS: Final = 2_048
# PIECE_ROWS at first, ANSWER_ROWS_MAX at most; the broker limits the bytes of a reply
ANSWER_ROWS_MAX: Final = 65_536
SMALL_BYTES: Final = 64 * KIB  # a smaller reply had room for more rows
HELD_ROWS: Final = 32_768
# Replies are joined until either limit is reached. A batch costs some calls of numpy and Arrow
# whatever its size: with half as many rows, a worker took a tenth more time per row.
HELD_BYTES: Final = 8 * MIB

# reads lost rows from elsewhere, and reports the rest
LossReader: TypeAlias = Callable[[Loss], Iterator[pa.RecordBatch]]


def read_ranges(
    options: SourceOptions,
    ranges: Iterable[OffsetRange],
    schema: pa.Schema,
    instead: LossReader | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges in order; ``instead`` handles losses, which are else reported."""
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
    """A request in flight, for a piece of a range."""

    piece: OffsetRange
    pending: QueueCall[Fetched]


class _FetchPipeline:
    """The requests of one task, answered in the order of the ranges."""

    def __init__(self, options: SourceOptions, ranges: Iterable[OffsetRange]) -> None:
        self._options = options
        self._waiting = deque(ranges)
        self._asked: deque[_PendingFetch] = deque()
        self._piece_rows = PIECE_ROWS
        self.client = with_retries(
            options.retry, lambda: client_for(options.servers, options.login)
        )

    def answers(self) -> Iterator[tuple[str, Fetched] | Loss]:
        """Yield topics with their replies, and losses before the reply that shows them."""
        while self._waiting or self._asked:
            while self._waiting and len(self._asked) < FETCHES_IN_FLIGHT:
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
        first = self._waiting.popleft()
        end = min(first.begin + self._piece_rows, first.end)
        if end < first.end:
            self._waiting.appendleft(first._replace(begin=end))
        return first._replace(end=end)

    def _learn(self, piece: OffsetRange, rest: OffsetRange | None, fetched: Fetched) -> None:
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
        try:
            return asked.piece, self.client.finish(asked.pending)
        except ClientError as error:
            if not is_transient(error):
                raise
        return asked.piece, with_retries(
            self._options.retry, lambda: self.client.finish(self._ask(asked.piece).pending)
        )


def payload_bytes(fetched: Fetched) -> int:
    """Return the payload bytes of a reply, from its bounds; ``ByteSize`` would serialize it."""
    size = 0
    for part in fetched.slices:
        bounds = part.bounds
        size += int.from_bytes(bounds[-4:], "little") - int.from_bytes(bounds[:4], "little")
    return size


def lost(rest: OffsetRange, fetched: Fetched) -> Loss | None:
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
    if fetched.incarnation != rest.incarnation or fetched.end_offset <= rest.begin:
        return None
    if fetched.next_offset >= rest.end:
        return None
    if fetched.next_offset <= rest.begin:
        raise BrokerProtocolError(
            f"the broker made no progress at offset {rest.begin} of {rest.topic!r}",
            "check that the broker and this package have the same version",
        )
    return rest._replace(begin=fetched.next_offset)
