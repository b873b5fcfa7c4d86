"""Columns of who produced which messages, for those that are to be recognised when sent again.

A *note* says that some messages of a group, one after another, came from one producer, numbered by
it in a row: ``number … number + count - 1`` have the seqs ``seq … seq + count - 1``. A producer
numbers what it sends in a row, so a note covers many messages, and a batch whose messages nobody
numbered writes none of these columns.

Notes of an entry ascend and do not overlap: those of a stretch of messages are found by bisection,
and cut to it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
NOTE_BYTES = 20
"""Message number, count, seq, and where the producer's name ends."""

ProducerRun: TypeAlias = tuple[int, int, bytes, int]
"""Number of the first message, count, producer, seq of the first message."""

ProducerRunColumns: TypeAlias = tuple[memoryview, memoryview, memoryview, memoryview, memoryview]
"""Numbers, counts (u32), seqs (u64), name ends (u32, cumulative), and the names themselves."""


def note_bytes(note: ProducerRun) -> int:
    """About how many bytes a note adds to an entry; asserts that it fits its columns."""
    number, count, producer, seq = note
    assert number >= 0
    assert count > 0
    assert 0 <= seq <= U64_MAX
    return NOTE_BYTES + len(producer)


def join(earlier: ProducerRun, later: ProducerRun) -> ProducerRun | None:
    """One note in the place of two, if the second goes on where the first ends."""
    number, count, producer, seq = earlier
    if later[0] == number + count and later[2] == producer and later[3] == seq + count:
        return (number, count + later[1], producer, seq)
    return None


def pack_notes(notes: list[ProducerRun]) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """The columns of some notes, ascending."""
    numbers, counts, producers, seqs = zip(*notes, strict=True)
    return (
        array("I", numbers).tobytes(),
        array("I", counts).tobytes(),
        array("Q", seqs).tobytes(),
        array("I", accumulate(map(len, producers))).tobytes(),
        b"".join(producers),
    )


def notes_between(columns: ProducerRunColumns, start: int, end: int) -> Iterator[ProducerRun]:
    """What the notes say of the messages ``start … end - 1``, numbers counted from ``start``."""
    numbers, counts, seqs, name_ends, names = columns
    for place in range(max(bisect_right(numbers, start) - 1, 0), len(numbers)):
        number = numbers[place]
        first, last = max(number, start), min(number + counts[place], end)
        if number >= end:
            return
        if first < last:
            name_start = name_ends[place - 1] if place else 0
            producer = bytes(names[name_start : name_ends[place]])
            yield first - start, last - first, producer, seqs[place] + first - number
