"""Columns of producer runs, for deduplication of messages that are sent again.

A *producer run* says that consecutive messages of a group came from one producer, numbered without
gaps: ``number … number + count - 1`` have the seqs ``seq … seq + count - 1``. Runs of an entry
ascend and do not overlap.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
PRODUCER_RUN_BYTES = 20  # message number, count, seq, end of the producer's name

# number of the first message, count, producer, seq of the first message
ProducerRun: TypeAlias = tuple[int, int, bytes, int]

# numbers, counts (u32), seqs (u64), name ends (u32, cumulative), names
ProducerRunColumns: TypeAlias = tuple[memoryview, memoryview, memoryview, memoryview, memoryview]


def producer_run_bytes(producer_run: ProducerRun) -> int:
    number, count, producer, seq = producer_run
    assert number >= 0
    assert count > 0
    assert 0 <= seq <= U64_MAX
    return PRODUCER_RUN_BYTES + len(producer)


def join(earlier: ProducerRun, later: ProducerRun) -> ProducerRun | None:
    number, count, producer, seq = earlier
    if later[0] == number + count and later[2] == producer and later[3] == seq + count:
        return (number, count + later[1], producer, seq)
    return None


def pack_producer_runs(
    producer_runs: list[ProducerRun],
) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    numbers, counts, producers, seqs = zip(*producer_runs, strict=True)
    return (
        array("I", numbers).tobytes(),
        array("I", counts).tobytes(),
        array("Q", seqs).tobytes(),
        array("I", accumulate(map(len, producers))).tobytes(),
        b"".join(producers),
    )


def producer_runs_between(
    columns: ProducerRunColumns, start: int, end: int
) -> Iterator[ProducerRun]:
    """Runs of the messages ``start … end - 1``, with numbers counted from ``start``."""
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
