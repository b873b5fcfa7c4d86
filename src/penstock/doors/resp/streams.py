"""Redis Streams on the broker's topics: adding, deleting, trimming; all stream commands together.

A stream is a topic: whatever a client of any protocol publishes is an entry, and what XADD adds is
a message to all of them. The other commands are in modules of their own:

====================  =============================================================================
``stream_reading``    XLEN, XRANGE, XREVRANGE, XREAD
``stream_groups``     XGROUP, XREADGROUP, XACK
``stream_lines``      how new messages reach the consumers of a group that only streams use
``stream_desk``       the same, of a group that workers of other doors share
``stream_places``     a consumer's place in such lines
``stream_pending``    XPENDING, XCLAIM, XAUTOCLAIM
``stream_info``       XINFO
``stream_options``    the arguments of commands
``stream_ids``        ids and places of entries
``stream_faults``     errors
``stream_steps``      commands that take several steps
``fields``            the fields of an entry as a message
====================  =============================================================================

**XADD** is answered when its message is on disk. A run of XADDs is one publish, and its ids are
worked out from the offset of the first. Since the broker assigns offsets, and only after the
commit, an id cannot be chosen by the client.

**Trimming** by number of entries or by id is exact, as is XDEL; both are journaled, so that every
node of a cluster does the same (``commit/erasing``). With ``~`` it waits until a hundred entries
can go at once, as Redis does: removing costs commits of its own.
"""

from collections import Counter
from weakref import WeakKeyDictionary

from penstock.access.admission import Refusal
from penstock.core.commands import Erased, Trimmed
from penstock.core.completion import Journaled
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp import (
    stream_groups,
    stream_info,
    stream_pending,
    stream_reading,
)
from penstock.doors.resp.calls import Call, Commands, Spec
from penstock.doors.resp.confirming import confirmed
from penstock.doors.resp.faults import publish_fault
from penstock.doors.resp.fields import contents
from penstock.doors.resp.stream_faults import StreamFault, not_stored
from penstock.doors.resp.stream_ids import entry_id, entry_ids
from penstock.doors.resp.stream_options import Trim, add_options, trim_options
from penstock.doors.resp.stream_reading import exists, ids_at, offset_of, topic_info
from penstock.doors.resp.stream_steps import answer, counted, off_loop, stepwise
from penstock.model.principal import ANYONE
from penstock.node.hub import Hub
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store, TopicInfo
from penstock.wire.resp import encode

NODE_COUNT = 100
"""Entries that an approximate trim removes at a time; the size of a node in Redis."""

LOT_COUNT = 1_024
LOT_BYTES = 512 << 10
"""What is read at a time to find an offset among deleted ones."""

_log = get_logger("streams")


_adding: WeakKeyDictionary[Hub, Counter[bytes]] = WeakKeyDictionary()
"""Topics to which XADDs are on their way: streams that exist for whoever comes behind those."""


# ── XADD ──────────────────────────────────────────────────────────────────────────────────────


class _Added:
    """A run of XADDs on its way to the disk."""

    __slots__ = ("_call", "_topics", "_trim")

    def __init__(self, call: Call, trim: Trim | None, topics: Counter[bytes]) -> None:
        self._call = call
        self._trim = trim
        self._topics = topics
        topics[call.args[1]] += 1

    def _arrive(self) -> None:
        """It is not on its way any more."""
        topic = self._call.args[1]
        self._topics[topic] -= 1
        if not self._topics[topic]:
            del self._topics[topic]

    def done(self, result: Journaled) -> None:
        """It is there: answer with the ids, after trimming if that was asked for."""
        self._arrive()
        call = self._call
        if call.closed:
            return
        ids = _ids(result.time_ms, result.offset, len(call.tails))
        if self._trim is None:
            call.reply(ids)
        else:
            answer(call, _trimmed(call, self._trim, ids))

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The commit failed."""
        self._arrive()
        if not self._call.closed:
            self._call.fail(not_stored(reason.value))


def _ids(time_ms: int, first_offset: int, count: int) -> bytes:
    """Answers with the ids of entries in a row, one for each."""
    end = first_offset + count
    head = len(b"%d-" % time_ms)
    answers = []
    while first_offset < end:
        digits = len(b"%d" % first_offset)
        stop = min(end, 10**digits)
        form = b"$%d\r\n%d-%%d\r\n" % (head + digits, time_ms)
        answers += [form % offset for offset in range(first_offset, stop)]
        first_offset = stop
    return b"".join(answers)


async def _trimmed(call: Call, trim: Trim, ids: bytes) -> bytes:
    """Trim behind XADD. The entry is stored, and the client must know, even if this fails.

    An exact limit counts this entry, which must be on disk for that.
    """
    try:
        if not trim.is_approximate:
            await confirmed(call)
        await _trim(call.connection.hub, call.args[1], trim)
    except StreamFault as fault:
        _log.warning("trim_failed", error=fault.message)
    return ids


def _add(call: Call) -> None:
    hub, topic = call.connection.hub, call.args[1]
    try:
        options = add_options(call.args)
        _admit(hub, topic, len(call.tails))
    except StreamFault as fault:
        call.fail(fault.message)
        return
    adding = _adding.setdefault(hub, Counter())
    if not options.may_make_stream and topic not in adding and not exists(hub, topic):
        call.reply(encode.null(call.connection.protocol) * len(call.tails))
        return
    payloads, extras, is_fields = contents(call.args[options.fields :], call.tails)
    hub.counters.messages_in_total[1] += len(payloads)
    hub.pipeline.publish(
        topic, payloads, call.now_ms, qos=1, retain=False, extras=extras, is_fields=is_fields
    )
    added = _Added(call, options.trim, adding)
    hub.pipeline.tell_offsets(topic, len(payloads), added, call.now_ms)


def _admit(hub: Hub, topic: bytes, count: int) -> None:
    """Raise StreamFault if nobody may publish to a topic, or not without a signature."""
    route = hub.admission.admit_unsigned(ANYONE, topic, count)
    if isinstance(route, Refusal):
        raise StreamFault(publish_fault(route))


# ── XDEL, XTRIM ───────────────────────────────────────────────────────────────────────────────


def _admit_removal(hub: Hub, topic: bytes) -> None:
    """Raise StreamFault if clients of this protocol may not remove messages of a topic."""
    refusal = hub.gate.admit_removal(topic)
    if refusal is not None:
        raise StreamFault(f"NOPERM {refusal.text}")


async def _delete(call: Call) -> bytes:
    hub, topic = call.connection.hub, call.args[1]
    _admit_removal(hub, topic)
    info = topic_info(hub, topic)
    if info is None:
        return encode.integer(0)
    asked = entry_ids(call.args[2:])
    there = await ids_at(hub, topic, [entry.offset for entry in asked])
    # The whole id must fit: what is deleted does not come back.
    offsets = {entry.offset for entry in asked if there[entry.offset] == entry_id(*entry)}
    if not offsets:
        return encode.integer(0)
    return encode.integer(await counted(hub, Erased(topic, info.id, ranges_of(sorted(offsets)))))


async def _trim_stream(call: Call) -> bytes:
    options = trim_options(call.args)
    return encode.integer(await _trim(call.connection.hub, call.args[1], options))


async def _trim(hub: Hub, topic: bytes, options: Trim) -> int:
    """Remove the oldest entries of a topic; how many there were."""
    _admit_removal(hub, topic)
    info = topic_info(hub, topic)
    if info is None:
        return 0
    if options.place is not None:
        offset = await offset_of(hub, topic, options.place)
        offset = min(offset, info.next_offset)
        excess = _allowed(offset - info.first_offset, options, info.count)
        first_kept = info.first_offset + excess
    else:
        assert options.length is not None
        excess = _allowed(info.count - options.length, options, info.count)
        first_kept = await _offset_behind(hub, info, excess)
    if excess <= 0:
        return 0
    return await counted(hub, Trimmed(topic, info.id, first_kept))


def _allowed(excess: int, options: Trim, count: int) -> int:
    """How many of the entries that are too many may go now; ``count``: how many there are."""
    if not options.is_approximate or count <= excess <= (options.limit or excess):
        return excess
    return min(excess, options.limit or excess) // NODE_COUNT * NODE_COUNT


async def _offset_behind(hub: Hub, info: TopicInfo, count: int) -> int:
    """The offset behind the first ``count`` entries that are there."""
    if not info.deleted:
        return info.first_offset + count
    return await off_loop(hub, lambda: _walk(hub.store, info, count))


def _walk(store: Store, info: TopicInfo, count: int) -> int:
    offset = info.first_offset
    while count > 0:
        found = store.read_topic(info.name, offset, min(count, LOT_COUNT), LOT_BYTES)
        if not found.count:
            break
        count -= found.count
        offset = found.next_offset
    return offset


def _set_last(call: Call) -> None:
    """Refused: the offset in the id of the next entry is counted by the broker."""
    call.fail(
        "ERR XSETID is not supported: the broker counts the entries of a stream, and their number"
        " is part of every ID"
    )


COMMANDS: Commands = {
    b"XSETID": Spec(_set_last, -3, flags=("write", "denyoom", "fast"), keys=(1, 1, 1)),
    b"XADD": Spec(_add, -5, is_pipelined=True, flags=("write", "denyoom", "fast"), keys=(1, 1, 1)),
    b"XDEL": Spec(stepwise(_delete), -3, flags=("write", "fast"), keys=(1, 1, 1)),
    b"XTRIM": Spec(stepwise(_trim_stream), -4, flags=("write",), keys=(1, 1, 1)),
    **stream_reading.COMMANDS,
    **stream_groups.COMMANDS,
    **stream_pending.COMMANDS,
    **stream_info.COMMANDS,
}
