"""Staged commits as the client asks for them: requests, and what is asked in turn.

As in ``requests`` and ``plans``, nothing here talks to anybody.
"""

from collections.abc import Iterable, Sequence

from penstock.client.queue.checks import U32_MAX, count, name, wrong_type
from penstock.client.queue.plans import Plan
from penstock.client.queue.session import QueueCall
from penstock.client.queue.values import SinkStatus, StageCommitted
from penstock.limits import SINK_EPOCH_MAX
from penstock.wire.queue._generated import queue_pb2 as wire

COMMIT_WAIT_S = 10.0
"""How long the broker may take to say that a commit is still under way, at the most."""


def stage(sink: str, epoch: int, part: str, number: int, block: bytes) -> QueueCall[None]:
    """A block of rows; sent again, it is stored once."""
    if not isinstance(block, bytes):
        raise wrong_type("block", "the bytes of a StagedBlock", block)
    asked = wire.Stage(
        sink=name("sink", sink),
        epoch=_epoch(epoch),
        part=name("part", part),
        number=count("number", number),
        block=block,
    )
    return QueueCall(wire.Request(stage=asked), "ok", _nothing)


def commit_stage(
    sink: str, epoch: int, parts: Iterable[tuple[str, int]], note: bytes
) -> Plan[StageCommitted]:
    """Commit, and ask again for as long as it is under way: what has begun is finished."""
    asked = wire.CommitStage(sink=name("sink", sink), epoch=_epoch(epoch), note=note)
    for part, blocks in parts:
        asked.parts.add(part=name("part", part), blocks=count("blocks", blocks, most=U32_MAX))
    is_first = True
    while True:
        request = wire.Request(commit_stage=asked)
        answer: wire.StageCommitted = yield QueueCall(
            request, "stage_committed", _itself, grace_s=COMMIT_WAIT_S
        )
        if not answer.is_under_way:
            is_repetition = answer.is_repetition and is_first
            return StageCommitted(answer.epoch, is_repetition, answer.messages)
        is_first = False


def abort_stage(sink: str, epoch: int, parts: Sequence[str]) -> QueueCall[None]:
    """Let go of parts; without any, of all of the epoch."""
    asked = wire.AbortStage(sink=name("sink", sink), epoch=_epoch(epoch))
    asked.parts.extend([name("part", part) for part in parts])
    return QueueCall(wire.Request(abort_stage=asked), "ok", _nothing)


def forget_sink(sink: str) -> QueueCall[None]:
    """Let the sink be as if it had never been."""
    return QueueCall(
        wire.Request(forget_sink=wire.ForgetSink(name=name("name", sink))), "ok", _nothing
    )


def sinks(sink: str | None) -> Plan[list[SinkStatus]]:
    """All pages of a list of sinks."""
    asked = wire.ListSinks(name="" if sink is None else name("name", sink))
    found: list[SinkStatus] = []
    more = True
    while more:
        asked.after = found[-1].name if found else ""
        page: wire.Sinks = yield QueueCall(wire.Request(list_sinks=asked), "sinks", _all_itself)
        found += map(_sink, page.sinks)
        more = page.more
    return found


def _sink(answer: wire.Sink) -> SinkStatus:
    return SinkStatus(
        answer.name,
        answer.epoch if answer.committed_ms else None,
        answer.note,
        answer.messages,
        answer.committed_ms,
        answer.is_committing,
        answer.staged_bytes,
        answer.staged_parts,
    )


def _epoch(epoch: int) -> int:
    return count("epoch", epoch, most=SINK_EPOCH_MAX)


def _nothing(_answer: wire.Ok) -> None:
    pass


def _itself(answer: wire.StageCommitted) -> wire.StageCommitted:
    return answer


def _all_itself(answer: wire.Sinks) -> wire.Sinks:
    return answer
