"""The results of ``fetch``: slices of a topic as the journal has them, in columns.

A ``Slice`` costs nothing per message: its numbers are views of the bytes that came over the wire,
little-endian as the journal writes them. Iterate over it for single messages. Offsets in a slice
are consecutive; a gap between two slices is messages that were deleted.

Messages lie in **runs** that have time and flags in common: run *r* covers the messages from
``run_starts[r]`` up to the start of the next one, counted from the beginning of the slice.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from penstock.client.queue.values import ContentType, Headers
from penstock.model.columns import MessageColumns
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT, Signature

# By their numbers on the wire and in the journal.
CONTENT_TYPES: Final[tuple[ContentType, ...]] = ("raw", "text", "json", "msgpack")


class Record(msgspec.Struct, frozen=True, gc=False):
    """A message as the journal has it; ``sequence`` is its position in the journal.

    ``due_ms`` and ``expires_ms`` are the times between which groups get it, 0 for no limit.
    """

    topic: str
    offset: int
    payload: bytes
    sequence: int
    ts_ms: int
    priority: int
    content_type: ContentType
    headers: Headers = ()
    signature: Signature | None = None
    due_ms: int = 0
    expires_ms: int = 0


class Slice:
    """Consecutive messages of a topic; iterate over it for ``Record``."""

    def __init__(self, topic: str, columns: MessageColumns) -> None:
        self.topic = topic
        self.first_offset = columns.first_offset
        self.count = columns.count
        self.base_sequence = columns.base_sequence
        self.time_ms = columns.time_ms
        self.payloads = columns.blob  # one after the other
        # ``count + 1`` numbers: where payloads begin and end; only differences have a meaning.
        self.bounds = _numbers(columns.bounds)
        self.run_starts = _numbers(columns.run_starts)
        self.run_positions = _numbers(columns.run_positions)  # first sequence - ``base_sequence``
        self.run_times = _numbers(columns.run_times)  # time of publication - ``time_ms``
        self.run_flags = columns.run_flags
        self.run_types = columns.run_types or bytes(len(columns.run_flags))
        self.extras = columns.extras  # of few messages, by number counted from the beginning
        # Number, count, producer id and first seq of messages that producers have numbered.
        self.producers = columns.producers

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Record]:
        bounds = list(self.bounds)
        shift = bounds[0]
        for run, (start, end) in enumerate(pairwise([*self.run_starts, self.count])):
            sequence = self.base_sequence + self.run_positions[run] - start
            ts_ms = self.time_ms + self.run_times[run]
            priority = (self.run_flags[run] & FLAG_PRIORITY) >> PRIORITY_SHIFT
            content_type = CONTENT_TYPES[self.run_types[run] & 0b11]
            for number in range(start, end):
                record = Record(
                    self.topic,
                    self.first_offset + number,
                    self.payloads[bounds[number] - shift : bounds[number + 1] - shift],
                    sequence + number,
                    ts_ms,
                    priority,
                    content_type,
                )
                yield self._complete(record, number) if number in self.extras else record

    def _complete(self, record: Record, number: int) -> Record:
        extras = self.extras[number]
        return msgspec.structs.replace(
            record,
            headers=tuple((name.decode(), value) for name, value in extras.headers),
            signature=extras.signature,
            due_ms=extras.due_ms,
            expires_ms=extras.expires_ms,
        )


def _numbers(column: bytes) -> Sequence[int]:
    """Convert a column of u32, little-endian."""
    if sys.byteorder == "little":
        return memoryview(column).cast("I")
    numbers = array("I", column)
    numbers.byteswap()
    return numbers
