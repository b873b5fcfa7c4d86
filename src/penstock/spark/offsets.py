"""The position of a stream, as Spark keeps it in the checkpoint.

::

    {"v": 1, "plan": {"cores": 2, "maxRecordsPerPartition": null, "minPartitions": null,
                      "order": "incarnation"},
     "topics": {"pump/7": [incarnation, next_offset, first_offset]}}

Spark compares offsets as text, so keys are sorted. ``plan`` keeps the partitioning of a batch that
runs again; one of an earlier version has no ``order``, which is by name. ``first_offset`` is where
reading of a topic began: Spark does *not* keep the result of ``initialOffset``, so that is marked
(``"initial": true``), and the batch after it begins where its *end* says that the topic began. This
pins "latest". ``"gone": {"pump/8": end_offset}`` is where deleted topics ended, so that a repeated
batch knows whether they were read to their end.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from penstock.errors import PenstockError

VERSION: Final = 1
BY_INCARNATION: Final = "incarnation"  # as the journal has topics: neighbours are read together
BY_NAME: Final = "name"
StreamOffset: TypeAlias = dict[str, Any]  # JSON, as Spark stores it


class TopicPosition(NamedTuple):
    """The position in one topic: the offset to read next, and the first one that was read."""

    incarnation: int
    next: int
    first: int


class Partitioning(msgspec.Struct, frozen=True):
    """What decides into how many partitions a batch is split."""

    cores: int = 1
    min_partitions: int | None = None
    max_rows: int | None = None
    order: str = BY_INCARNATION


class StreamPosition(msgspec.Struct, frozen=True):
    """The position of a stream in all of its topics."""

    topics: Mapping[str, TopicPosition]
    cut: Partitioning = Partitioning()
    is_initial: bool = False
    gone: Mapping[str, int] = {}  # last known end of topics deleted since the batch before


class OffsetRange(NamedTuple):
    """Offsets ``begin … end - 1`` of one incarnation of a topic."""

    topic: str
    incarnation: int
    begin: int
    end: int


def encode(position: StreamPosition) -> StreamOffset:
    cut = position.cut
    offset: StreamOffset = {"initial": True} if position.is_initial else {}
    if position.gone:
        offset["gone"] = {name: position.gone[name] for name in sorted(position.gone)}
    offset["plan"] = {
        "cores": cut.cores,
        "maxRecordsPerPartition": cut.max_rows,
        "minPartitions": cut.min_partitions,
        "order": cut.order,
    }
    offset["topics"] = {name: list(position.topics[name]) for name in sorted(position.topics)}
    offset["v"] = VERSION
    return offset


def decode(offset: StreamOffset) -> StreamPosition:
    if offset.get("v") != VERSION:
        raise PenstockError(
            f"the checkpoint has offsets of version {offset.get('v')}, not {VERSION}",
            "use the Penstock version that wrote it, or start with a new checkpoint",
        )
    plan = offset["plan"]
    return StreamPosition(
        {name: TopicPosition(*topic) for name, topic in offset["topics"].items()},
        Partitioning(
            plan.get("cores", 1),
            plan.get("minPartitions"),
            plan.get("maxRecordsPerPartition"),
            plan.get("order", BY_NAME),
        ),
        is_initial=bool(offset.get("initial")),
        gone=offset.get("gone", {}),
    )


def ranges_between(start: StreamPosition, end: StreamPosition) -> list[OffsetRange]:
    ranges = []
    for name, topic in sorted(end.topics.items()):
        before = None if start.is_initial else start.topics.get(name)
        is_known = before is not None and before.incarnation == topic.incarnation
        begin = before.next if before is not None and is_known else topic.first
        if begin < topic.next:
            ranges.append(OffsetRange(name, topic.incarnation, begin, topic.next))
    return ranges
