"""The work of a read task: scans its ranges, and yields them as Arrow batches.

The ranges are read in **scans** of many topics each, with few requests (``scanning``). To hide
round trips, the next replies are requested while one is decoded. Replies are joined until there are
enough rows for a batch, so memory is bounded by a few replies and one batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from penstock.limits import MIB
from penstock.spark.columns import FetchedColumns, ScannedRows, batches
from penstock.spark.data_loss import report_losses
from penstock.spark.offsets import OffsetRange
from penstock.spark.options import SourceOptions
from penstock.spark.planning import Loss
from penstock.spark.scanning import ANSWER_ROWS_MAX, ScanPipeline
from penstock.spark.signatures import Verifier
from penstock.wire.queue._generated.queue_pb2 import Slice

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
    """Yield the rows of ranges; ``instead`` handles losses, which are else reported."""
    reading = ScanPipeline(options, ranges)
    verdicts = Verifier(reading.client).verdicts if options.verifies else FetchedColumns.verdicts
    for parts in _gathered(reading.answers()):
        if not isinstance(parts, Loss):
            yield from batches(FetchedColumns(parts, ANSWER_ROWS_MAX), schema, verdicts)
        elif instead is None:
            report_losses(options, [parts])
        else:
            yield from instead(parts)


def _gathered(answers: Iterable[ScannedRows | Loss]) -> Iterator[list[ScannedRows] | Loss]:
    held: list[ScannedRows] = []
    rows = size = 0
    for answer in answers:
        if isinstance(answer, Loss):
            if held:
                yield held
            held, rows, size = [], 0, 0
            yield answer
            continue
        held.append(answer)
        rows += sum(part.count for part in answer.slices)
        size += payload_bytes(answer.slices)
        if rows >= HELD_ROWS or size >= HELD_BYTES:
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held


def payload_bytes(slices: Sequence[Slice]) -> int:
    """Return the payload bytes of a reply, from its bounds; ``ByteSize`` would serialize it."""
    size = 0
    for part in slices:
        bounds = part.bounds
        size += int.from_bytes(bounds[-4:], "little") - int.from_bytes(bounds[:4], "little")
    return size
