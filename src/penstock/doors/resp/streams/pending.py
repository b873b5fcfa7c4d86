"""Entries that were delivered and not acknowledged: XPENDING, XCLAIM, XAUTOCLAIM.

Only the journal knows whether an entry still exists, and the time in its id. An entry that is gone
cannot be claimed: it is settled instead. If clients of other protocols use the group, entries may
be pending without a named consumer: leased, or returned. They are shown under the empty name, and
can be claimed. Delayed entries cannot; what was never delivered is not shown.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from penstock.core.commands import Claimed, GroupMoved, Settled
from penstock.core.groups import Group
from penstock.core.groups import Pending as PendingEntry
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.access import SEEN, WORK
from penstock.doors.resp.awaiting import encoded_off_loop, submitted
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.faults import no_group
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams.groups import check_consumer, check_group, check_pending
from penstock.doors.resp.streams.ids import entry_id, id_of
from penstock.doors.resp.streams.options import (
    ClaimOptions,
    PendingOptions,
    autoclaim_options,
    claim_options,
    pending_options,
)
from penstock.doors.resp.tasks import stepwise
from penstock.wire.resp import encode

NAMELESS = b""  # the consumer of entries that no named consumer has
ATTEMPTS = 10  # pending entries that XAUTOCLAIM looks at for each that it may claim; as in Redis


def _group(call: Call) -> Group:
    topic, name = call.args[1:3]
    group = call.door.broker.groups.get(topic, name)
    if group is None:
        raise no_group(topic, name)
    check_group(call.door, topic, name)
    return group


def delivered(group: Group) -> Iterator[int]:
    """The entries of a group that are pending as Redis means it, in no order."""
    return (
        offset
        for offset, found in group.pending.items()
        if found.deliveries or found.consumer is not None
    )


async def _pending(call: Call) -> bytes:
    group, options = _group(call), pending_options(call.args)
    if options is None:
        return encode.value(await _summary(call, group), call.connection.protocol)
    door, now_ms = call.door, call.now_ms
    start = await door.reader.offset_of(group.topic, options.start)
    end = await door.reader.offset_of(group.topic, options.end)
    listed = dict(islice(_listed(group, options, start, end, now_ms), options.count_max))
    names = await door.reader.ids_at(group.topic, listed)
    rows: list[encode.Value] = [
        [names[offset], found.consumer or NAMELESS, _idle_ms(found, now_ms), found.deliveries]
        for offset, found in listed.items()
    ]
    return await encoded_off_loop(door.readers, rows, call.connection.protocol)


async def _summary(call: Call, group: Group) -> encode.Value:
    pending = list(delivered(group))
    if not pending:
        return [0, None, None, None]
    first, last = min(pending), max(pending)
    held = {name: len(consumer.pending) for name, consumer in group.consumers.items()}
    held[NAMELESS] = len(pending) - sum(held.values())
    counts: list[encode.Value] = [
        [name, b"%d" % count] for name, count in sorted(held.items()) if count
    ]
    names = await call.door.reader.ids_at(group.topic, (first, last))
    return [len(pending), names[first], names[last], counts]


def _listed(
    group: Group, options: PendingOptions, start: int, end: int, now_ms: int
) -> Iterator[tuple[int, PendingEntry]]:
    offsets: Iterable[int] = delivered(group)
    if options.consumer == NAMELESS:
        offsets = (offset for offset in offsets if not group.pending[offset].consumer)
    elif options.consumer is not None:
        consumer = group.consumers.get(options.consumer)
        offsets = consumer.pending if consumer else ()
    for offset in sorted(offset for offset in offsets if start <= offset < end):
        found = group.pending[offset]
        if _idle_ms(found, now_ms) >= options.min_idle_ms:
            yield offset, found


def _idle_ms(pending: PendingEntry, now_ms: int) -> int:
    return max(now_ms - pending.taken_ms, 0)


async def _claim(call: Call) -> bytes:
    group, options = _group(call), claim_options(call.args, call.now_ms)
    door = call.door
    check_consumer(group, call.args[3])
    if options.forces:
        check_pending(group)
    wanted = {entry.offset: entry_id(*entry) for entry in options.ids}
    found = await door.reader.entries_at(group.topic, wanted)
    if not found.is_whole:
        raise door.reader.too_large()
    entries = dict(found.entries)
    await _settle_gone(door, group, [offset for offset in wanted if offset not in entries])
    if options.last is not None:
        following = await door.reader.offset_of(group.topic, options.last)
        if following > group.next:
            await submitted(door.pipeline, GroupMoved(group.topic, group.name, following))
    present = [
        offset
        for offset, name in wanted.items()
        if offset in entries and id_of(entries[offset]) == name and offset not in group.delayed
    ]
    claimed = await _claim_present(call, group, options, present)
    return await _claimed_reply(call, group, claimed, entries, ids_only=options.ids_only)


async def _settle_gone(door: RespParts, group: Group, offsets: list[int]) -> None:
    gone = sorted({offset for offset in offsets if offset in group.pending})
    if gone:
        await submitted(door.pipeline, Settled(group.topic, group.name, ranges_of(gone)))


async def _claim_present(
    call: Call, group: Group, options: ClaimOptions, offsets: list[int]
) -> list[int]:
    if not offsets:
        return []
    command = Claimed(
        group.topic,
        group.name,
        consumer=call.args[3],
        offsets=offsets,
        min_idle_ms=options.min_idle_ms,
        now_ms=call.now_ms,
        taken_ms=options.taken_ms,
        deliveries=options.deliveries,
        counts=not options.ids_only,
        forces=options.forces,
    )
    claimed = await submitted(call.door.pipeline, command)
    if claimed is None:
        raise no_group(group.topic, group.name)
    assert isinstance(claimed, list)
    return claimed


async def _claimed_reply(
    call: Call, group: Group, claimed: list[int], entries: dict[int, bytes], *, ids_only: bool
) -> bytes:
    if not ids_only:
        return encode.array([entries[offset] for offset in claimed])
    names = await call.door.reader.ids_at(group.topic, claimed)
    protocol = call.connection.protocol
    return encode.array([encode.bulk(names[offset], protocol) for offset in claimed])


async def _autoclaim(call: Call) -> bytes:
    options, group = autoclaim_options(call.args), _group(call)
    door, now_ms, protocol = call.door, call.now_ms, call.connection.protocol
    check_consumer(group, call.args[3])
    start = await door.reader.offset_of(group.topic, options.start)
    offsets = sorted(o for o in delivered(group) if o >= start and o not in group.delayed)
    window = offsets[: options.count_max * ATTEMPTS]
    idle = [o for o in window if _idle_ms(group.pending[o], now_ms) >= options.min_idle_ms]
    wanted = idle[: options.count_max]
    found = await door.reader.entries_at(group.topic, wanted)
    entries = dict(found.entries)
    # Where the scan stopped: at the bound on the reply, with enough, or at the end of the window.
    if not found.is_whole:
        wanted = [offset for offset in wanted if offset < found.end]
    is_cut = not found.is_whole or len(wanted) < len(idle)
    last = wanted[-1] if is_cut else next(reversed(window), start)
    following = next((offset for offset in offsets if offset > last), None)
    gone = [offset for offset in wanted if offset not in entries]
    await _settle_gone(door, group, gone)
    claim = ClaimOptions([], options.min_idle_ms, now_ms, ids_only=options.ids_only)
    claimed = await _claim_present(call, group, claim, list(entries))
    reply = await _claimed_reply(call, group, claimed, entries, ids_only=options.ids_only)
    cursor = await _cursor(door, group, last, following)
    lost: encode.Value = [entry_id(0, offset) for offset in gone]
    return encode.array([encode.bulk(cursor, protocol), reply, encode.value(lost, protocol)])


async def _cursor(door: RespParts, group: Group, last: int, following: int | None) -> bytes:
    """The id to go on from; if its entry is gone, the time of an earlier one serves as well."""
    if following is None:
        return b"0-0"
    found = await door.reader.ids_at(group.topic, (last, following))
    time_ms = max(int(name.partition(b"-")[0]) for name in found.values())
    return entry_id(time_ms, following)


COMMANDS = {
    b"XPENDING": Spec(stepwise(_pending), -3, SEEN, flags=("readonly",), keys=(1, 1, 1)),
    b"XCLAIM": Spec(stepwise(_claim), -6, WORK, flags=("write", "fast"), keys=(1, 1, 1)),
    b"XAUTOCLAIM": Spec(stepwise(_autoclaim), -6, WORK, flags=("write", "fast"), keys=(1, 1, 1)),
}
