"""XADD, XDEL, XTRIM: entries come and go.

XADD is answered when its message is on disk; a run of XADDs is one publish. Since the broker
assigns offsets, and only after the commit, a client cannot choose an id. Trimming and XDEL are
exact and journaled, so that every node of a cluster does the same (``commit/erasing``). With ``~``
trimming waits until a hundred entries can go at once, as Redis does: removing costs commits of its
own.
"""

from collections.abc import Iterator
from itertools import groupby, islice

from penstock.access.admission import Refusal
from penstock.core.commands import Erased, Trimmed
from penstock.core.completion import Journaled
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.access import MANAGE, Access, Demand, Keys, Used
from penstock.doors.resp.auditing import submitted_recorded
from penstock.doors.resp.awaiting import off_loop
from penstock.doors.resp.calls import Call, Commands, RespClient, Spec, fail_unstored
from penstock.doors.resp.confirming import confirmed
from penstock.doors.resp.faults import CommandError, publish_fault
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams.fields import Content, column_contents, contents
from penstock.doors.resp.streams.ids import entry_id, entry_ids, id_replies
from penstock.doors.resp.streams.options import AddOptions, TrimOptions, add_options, trim_options
from penstock.doors.resp.tasks import answer, stepwise
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store, TopicInfo
from penstock.trust.rules import Action
from penstock.wire.resp import encode
from penstock.wire.resp.events import RespColumns
from penstock.wire.resp.names import topic_of

NODE_COUNT = 100  # entries that an approximate trim removes at a time; the size of a node in Redis
READ_COUNT_MAX = 1_024
READ_BYTES_MAX = 512 << 10  # what is read at a time to find an offset among deleted ones
_log = get_logger("streams")


def _add(call: Call) -> None:
    try:
        options = add_options(call.args)
    except CommandError as fault:
        call.fail(fault.message)
        return
    if _is_wanted(call, options):
        _submit(call, options, contents(call.args[options.fields :], call.tails))


def _add_columns(client: RespClient, event: RespColumns, now_ms: int, turn_ends_at: float) -> int:
    """XADD entries to any streams; neighbours of one stream with the same names are one publish."""
    keys, *rest = event.columns
    try:
        options = add_options([event.name, keys[0], *[column[0] for column in rest]])
    except CommandError:
        return 0
    fields = options.fields - 2  # where they begin in ``rest``
    names, values = rest[fields::2], rest[fields + 1 :: 2]
    _, count = next(_stretches(rest[:fields], len(keys)))  # those with the same options
    for start, stop in _stretches([keys, *names], count):
        if start and client.door.monotonic() > turn_ends_at:
            return start
        args = [event.name, topic_of(keys[start]), *[column[start] for column in rest]]
        is_all = stop - start == len(keys)
        call = Call(client, args, rest[-1] if is_all else rest[-1][start:stop], now_ms)
        client.replies.open(call)
        if _is_wanted(call, options):
            of_names = tuple([column[start] for column in names])
            found = values if is_all else [column[start:stop] for column in values]
            _submit(call, options, column_contents(of_names, found))
    return count


def _stretches(columns: list[list[bytes]], count: int) -> Iterator[tuple[int, int]]:
    """Where the first ``count`` rows are alike: begin and end of each stretch."""
    if all(column.count(column[0]) == len(column) for column in columns):
        yield 0, count
        return
    stop = 0
    for _, alike in groupby(islice(zip(*columns, strict=True), count)):
        start, stop = stop, stop + sum([1 for _ in alike])
        yield start, stop


def _is_wanted(call: Call, options: AddOptions) -> bool:
    """Whether entries may be added; if not, the client is told."""
    door, topic = call.door, call.args[1]
    try:
        _admit(call, topic)
        if options.trim is not None:
            call.require(Action.MANAGE, topic)
    except CommandError as fault:
        call.fail(fault.message)
        return False
    if options.may_make_stream or door.pipeline.holds(topic) or door.reader.exists(topic):
        return True
    call.reply(encode.null(call.connection.protocol) * len(call.tails))
    return False


def _submit(call: Call, options: AddOptions, content: Content) -> None:
    door, topic = call.connection.door, call.args[1]
    payloads, extras, is_fields = content
    door.counters.messages_in_total[1] += len(payloads)
    door.pipeline.publish(
        topic, payloads, call.now_ms, qos=1, retain=False, extras=extras, is_fields=is_fields
    )
    door.pipeline.tell_offsets(topic, len(payloads), _Added(call, options.trim), call.now_ms)


def _admit(call: Call, topic: bytes) -> None:
    route = call.door.admission.admit_unsigned(call.connection.principal, topic, len(call.tails))
    if isinstance(route, Refusal):
        raise CommandError(publish_fault(route, Used.KEY))


class _Added:
    """Answers XADD, whose entries are on disk or are refused."""

    __slots__ = ("_call", "_trim")

    def __init__(self, call: Call, trim: TrimOptions | None) -> None:
        self._call = call
        self._trim = trim

    def done(self, result: Journaled) -> None:
        call = self._call
        if call.connection.reason is not None:
            return
        ids = id_replies(result.time_ms, result.offset, len(call.tails))
        if self._trim is None:
            call.reply(ids)
        else:
            answer(call, _trimmed(call, self._trim, ids))

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        fail_unstored(self._call, reason, detail)


async def _trimmed(call: Call, trim: TrimOptions, ids: bytes) -> bytes:
    """Trim behind XADD. The entry is stored, and the client must know, even if this fails."""
    try:
        if not trim.is_approximate:  # an exact limit counts this entry, which must be on disk
            await confirmed(call)
        await _trim(call, call.args[1], trim)
    except CommandError as fault:
        _log.warning("trim_failed", error=fault.message)
    return ids


def _admit_removal(door: RespParts, topic: bytes) -> None:
    refusal = door.gate.admit_removal(topic)
    if refusal is not None:
        raise CommandError(f"NOPERM {refusal.text}")


async def _delete(call: Call) -> bytes:
    door, topic = call.door, call.args[1]
    _admit_removal(door, topic)
    info = door.reader.info(topic)
    if info is None:
        return encode.integer(0)
    asked = entry_ids(call.args[2:])
    there = await door.reader.ids_at(topic, [entry.offset for entry in asked])
    # The whole id must fit: what is deleted does not come back.
    offsets = {entry.offset for entry in asked if there[entry.offset] == entry_id(*entry)}
    if not offsets:
        return encode.integer(0)
    erased = Erased(topic, info.id, ranges_of(sorted(offsets)))
    return encode.integer(await _counted(call, "entries deleted", erased))


async def _trim_stream(call: Call) -> bytes:
    options = trim_options(call.args)
    return encode.integer(await _trim(call, call.args[1], options))


async def _trim(call: Call, topic: bytes, options: TrimOptions) -> int:
    door = call.door
    _admit_removal(door, topic)
    info = door.reader.info(topic)
    if info is None:
        return 0
    if options.first_kept is not None:
        offset = await door.reader.offset_of(topic, options.first_kept)
        offset = min(offset, info.next_offset)
        excess = _allowed(offset - info.first_offset, options, info.count)
        first_kept = info.first_offset + excess
    else:
        assert options.length is not None
        excess = _allowed(info.count - options.length, options, info.count)
        first_kept = await _offset_behind(door, info, excess)
    if excess <= 0:
        return 0
    return await _counted(call, "trimmed", Trimmed(topic, info.id, first_kept))


async def _counted(call: Call, what: str, command: Trimmed | Erased) -> int:
    """Delete messages on every node; how many there were. Raises CommandError."""
    count = await submitted_recorded(call, what, command)
    assert isinstance(count, int)
    return count


def _allowed(excess: int, options: TrimOptions, count: int) -> int:
    if not options.is_approximate or count <= excess <= (options.limit or excess):
        return excess
    return min(excess, options.limit or excess) // NODE_COUNT * NODE_COUNT


async def _offset_behind(door: RespParts, info: TopicInfo, count: int) -> int:
    if not info.deleted:
        return info.first_offset + count
    return await off_loop(door.readers, lambda: _walk(door.store, info, count))


def _walk(store: Store, info: TopicInfo, count: int) -> int:
    offset = info.first_offset
    while count > 0:
        found = store.read_topic(info.name, offset, min(count, READ_COUNT_MAX), READ_BYTES_MAX)
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


def _adding(args: list[bytes], _keys: Keys) -> list[Demand]:
    """Trimming removes what others have written, so it takes more than publishing."""
    options, topic = add_options(args), args[1]
    demands = [Demand((Action.PUBLISH,), topic, Used.KEY)]
    return (
        demands if options.trim is None else [*demands, Demand((Action.MANAGE,), topic, Used.KEY)]
    )


_ADDING = Access((Action.PUBLISH,), _adding, is_admitted=True)

COMMANDS: Commands = {
    b"XSETID": Spec(_set_last, -3, MANAGE, flags=("write", "denyoom", "fast"), keys=(1, 1, 1)),
    b"XADD": Spec(
        _add,
        -5,
        _ADDING,
        is_pipelined=True,
        flags=("write", "denyoom", "fast"),
        keys=(1, 1, 1),
        columns=_add_columns,
    ),
    b"XDEL": Spec(stepwise(_delete), -3, MANAGE, flags=("write", "fast"), keys=(1, 1, 1)),
    b"XTRIM": Spec(stepwise(_trim_stream), -4, MANAGE, flags=("write",), keys=(1, 1, 1)),
}
