"""Where a stream is, as Spark keeps it: the offset that goes into the checkpoint.

::

    {"v": 1, "plan": {"cores": 2, "maxRecordsPerPartition": null, "minPartitions": null},
     "topics": {"pump/7": [incarnation, next_offset, first_offset]}}

Spark tells that nothing is new by comparing the text, so the same position must always be written
the same way: keys are sorted. Everything that decides how a batch is cut into partitions is in
here too, so that a batch which runs again after a crash is cut alike even if options have changed.

``first_offset`` is where the reading of a topic began, and does not change. Spark does *not* keep
what ``initialOffset`` said: it asks again when batch 0 is repeated. So what it says is marked
(``"initial": true``), and the ranges of a batch begin where the *end* says that the topic began.
The end is in the log before the batch runs: thereby "latest" is pinned.

If topics were deleted since the batch before, ``"gone": {"pump/8": end_offset}`` says where they
ended when we last saw them, so that a repetition knows whether they were read to their end.

Pure: nothing here knows a broker or a clock.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import PenstockError

VERSION: Final = 1


class TopicPosition(NamedTuple):
    """A place in a topic."""

    incarnation: int
    next: int
    """The offset that is read next."""
    first: int
    """The offset with which the reading began."""


class Partitioning(msgspec.Struct, frozen=True):
    """What decides into how many partitions a range is cut."""

    cores: int = 1
    min_partitions: int | None = None
    max_rows: int | None = None


class StreamPosition(msgspec.Struct, frozen=True):
    """Where a stream is in all of its topics."""

    topics: Mapping[str, TopicPosition]
    cut: Partitioning = Partitioning()
    is_initial: bool = False
    gone: Mapping[str, int] = {}
    """Where topics ended that have gone since the batch before, as far as we know."""


class OffsetRange(NamedTuple):
    """Offsets ``begin … end - 1`` of one incarnation of a topic."""

    topic: str
    incarnation: int
    begin: int
    end: int


def encode(position: StreamPosition) -> dict[str, Any]:
    """As Spark keeps it."""
    cut = position.cut
    offset: dict[str, Any] = {"initial": True} if position.is_initial else {}
    if position.gone:
        offset["gone"] = {name: position.gone[name] for name in sorted(position.gone)}
    offset["plan"] = {
        "cores": cut.cores,
        "maxRecordsPerPartition": cut.max_rows,
        "minPartitions": cut.min_partitions,
    }
    offset["topics"] = {name: list(position.topics[name]) for name in sorted(position.topics)}
    offset["v"] = VERSION
    return offset


def decode(offset: Mapping[str, Any]) -> StreamPosition:
    """From what Spark has kept."""
    if offset.get("v") != VERSION:
        raise PenstockError(
            f"the checkpoint was written by another version (offsets of version {offset.get('v')})",
            "go on with that version, or begin with a new checkpoint",
        )
    plan = offset["plan"]
    return StreamPosition(
        {name: TopicPosition(*spot) for name, spot in offset["topics"].items()},
        Partitioning(
            plan.get("cores", 1), plan.get("minPartitions"), plan.get("maxRecordsPerPartition")
        ),
        is_initial=bool(offset.get("initial")),
        gone=offset.get("gone", {}),
    )


def ranges_between(start: StreamPosition, end: StreamPosition) -> list[OffsetRange]:
    """What a batch reads, topic by topic in the order of their names."""
    ranges = []
    for name, spot in sorted(end.topics.items()):
        begin = _begin(None if start.is_initial else start.topics.get(name), spot)
        if begin < spot.next:
            ranges.append(OffsetRange(name, spot.incarnation, begin, spot.next))
    return ranges


def _begin(before: TopicPosition | None, end: TopicPosition) -> int:
    """Where the batch before ended; where the reading of the topic began if there was none."""
    if before is None or before.incarnation != end.incarnation:
        return end.first
    return before.next
