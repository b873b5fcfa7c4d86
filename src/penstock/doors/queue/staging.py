"""Stage, CommitStage, AbortStage, ListSinks, ForgetSink: rows on their way to topics.

Names and numbers are checked here; ``staging/sink_commits`` does the rest.
"""

from penstock.doors.queue.faults import too_many
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.replies import Slot
from penstock.limits import KIB, SINK_NOTE_BYTES_MAX, STAGED_PARTS_MAX
from penstock.model.stages import Stage, part_fault, part_name_fault, sink_fault
from penstock.obs.reasons import DisconnectReason
from penstock.staging.sink_commits import CommitRequest, Committed, SinkView
from penstock.trust.principal import STRANGER, Principal
from penstock.trust.rules import Action
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import (
    AbortStage,
    CommitStage,
    ForgetSink,
    ListSinks,
    Response,
    StageCommitted,
)
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, Fault

PAGE_MAX = 500
NOTES_BYTES_MAX = 256 * KIB  # of one response; the sink that exceeds this is the last
_ANY_PART = b"part"  # stands for those that are named


def stage(client: Requester, message: queue_pb2.Stage, slot: Slot) -> None:
    sinks = client.door.sinks
    place = Stage(message.sink.encode(), message.epoch, message.part.encode())
    if _is_refused(slot, part_fault(place)):
        return

    def begin() -> None:
        slot.is_stored_later()
        sinks.stage(client.principal, place, message.number, message.block, slot)

    if sinks.stages.is_full:
        client.when_stored(begin)
    else:
        begin()


def commit_stage(client: Requester, message: CommitStage, slot: Slot) -> None:
    sink, epoch = message.sink.encode(), message.epoch
    fault = too_many(message.parts, STAGED_PARTS_MAX, "parts")
    if fault is None and len(message.note) > SINK_NOTE_BYTES_MAX:
        fault = Fault(LIMIT, f"a note may have {SINK_NOTE_BYTES_MAX} bytes at most")
    if slot.is_refused(fault):
        return
    parts = [(part.part.encode(), part.blocks) for part in message.parts]
    if not _is_refused(slot, _names_fault(sink, epoch, [part for part, _ in parts])):
        request = CommitRequest(
            client.principal,
            sink,
            epoch,
            parts,
            message.note,
            _CommitResponse(slot),
            renew=lambda: _still(client),
        )
        client.door.sinks.commit(request)


def _still(client: Requester) -> Principal:
    """Who asks, if they are still there: users who are gone may have been cut off."""
    is_gone = client.reason is not None and bool(client.principal.user)
    return STRANGER if is_gone else client.principal


class _CommitResponse:
    """Answers a CommitStage."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def done(self, committed: Committed) -> None:
        answer = StageCommitted(
            epoch=committed.epoch,
            is_repetition=committed.is_repetition,
            messages=committed.messages,
            is_under_way=committed.is_under_way,
        )
        self._slot.respond(Response(stage_committed=answer))

    def fail(self, fault: Fault) -> None:
        self._slot.fail(fault)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._slot.refused(reason, detail)


def abort_stage(client: Requester, message: AbortStage, slot: Slot) -> None:
    sink, parts = message.sink.encode(), [part.encode() for part in message.parts]
    if slot.is_refused(too_many(parts, STAGED_PARTS_MAX, "parts")):
        return
    is_wrong = _is_refused(slot, _names_fault(sink, message.epoch, parts))
    if not (is_wrong or _is_foreign(client, sink, slot)):
        client.door.sinks.abort(sink, message.epoch, parts)
        slot.ok()


def forget_sink(client: Requester, message: ForgetSink, slot: Slot) -> None:
    sink = message.name.encode()
    if not (_is_refused(slot, sink_fault(sink)) or _is_foreign(client, sink, slot)):
        client.door.sinks.forget(sink, slot)


def _is_foreign(client: Requester, sink: bytes, slot: Slot) -> bool:
    return slot.is_refused(client.door.sinks.owner_fault(client.principal, sink))


def _names_fault(sink: bytes, epoch: int, parts: list[bytes]) -> str:
    fault = part_fault(Stage(sink, epoch, _ANY_PART))
    return fault or next(filter(None, map(part_name_fault, parts)), "")


def _is_refused(slot: Slot, fault: str) -> bool:
    if fault:
        slot.fail(Fault(BAD_REQUEST, fault))
    return bool(fault)


def list_sinks(client: Requester, message: ListSinks, slot: Slot) -> None:
    """Sinks by name. There may be many: a reader thread sorts them."""
    sinks, count = client.door.sinks, min(message.max, PAGE_MAX) or PAGE_MAX
    known = {message.name.encode()} if message.name else sinks.names()
    names = {name for name in known if sinks.is_seen(client.principal, name, Action.MONITOR)}
    after, request_id = message.after.encode(), slot.request_id

    def job() -> list[bytes]:
        return sorted(name for name in names if name > after)[: count + 1]

    def frames(found: list[bytes]) -> bytes:
        page = queue_pb2.Sinks()
        left = NOTES_BYTES_MAX
        for name in found[:count]:
            view = sinks.view(name)
            if view is not None:
                page.sinks.append(_described(view))
                left -= len(view.state.note)
            if left < 0:
                break
        page.more = bool(page.sinks) and page.sinks[-1].name.encode() < found[-1]
        return encode.response(Response(sinks=page, request_id=request_id))

    client.disk_reads.run(slot, job, frames)


def _described(view: SinkView) -> queue_pb2.Sink:
    state = view.state
    return queue_pb2.Sink(
        name=view.name.decode(),
        epoch=max(state.epoch, 0),
        note=state.note,
        messages=state.messages,
        committed_ms=state.committed_ms,
        is_committing=state.committing is not None,
        staged_bytes=view.staged_bytes,
        staged_parts=view.staged_parts,
    )
