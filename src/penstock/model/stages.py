"""Internal topics of staged rows: ``$stage/<sink>/<epoch>/<part>``; a sink may have many levels."""

from typing import NamedTuple

from penstock.limits import SINK_BYTES_MAX, SINK_EPOCH_MAX, STAGED_PART_BYTES_MAX
from penstock.model.topic import topic_fault

PREFIX = b"$stage/"  # how the names of topics with staged rows begin


class Stage(NamedTuple):
    """What one attempt of one task has written or will write."""

    sink: bytes
    epoch: int
    part: bytes


def stage_topic(stage: Stage) -> bytes:
    return b"%b%b/%d/%b" % (PREFIX, *stage)


def stage_of(topic: bytes) -> Stage | None:
    """The stage whose blocks a topic holds; None if it is not a stage topic."""
    levels = topic.removeprefix(PREFIX).rsplit(b"/", 2)
    if not topic.startswith(PREFIX) or len(levels) < len(Stage._fields) or not levels[1].isdigit():
        return None
    return Stage(levels[0], int(levels[1]), levels[2])


def is_staged(topic: bytes) -> bool:
    """Whether a topic is hidden from clients."""
    return topic.startswith(PREFIX)


def sink_fault(sink: bytes) -> str:
    """What is wrong with the name of a sink; empty if nothing."""
    fault = topic_fault(sink, SINK_BYTES_MAX)
    if not fault and not all(sink.split(b"/")):
        return "a level of it is empty"
    return fault


def part_fault(stage: Stage) -> str:
    """What is wrong with the names of a part and its sink; empty if nothing."""
    fault = sink_fault(stage.sink)
    if fault:
        return f"the name of the sink: {fault}"
    if stage.epoch > SINK_EPOCH_MAX:
        return f"the epoch: greater than {SINK_EPOCH_MAX}"
    return part_name_fault(stage.part)


def part_name_fault(part: bytes) -> str:
    fault = topic_fault(part, STAGED_PART_BYTES_MAX)
    if not fault and b"/" in part:
        fault = "contains '/'"
    return f"the name of the part: {fault}" if fault else ""
