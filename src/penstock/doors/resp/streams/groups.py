"""Consumer groups: XGROUP, XREADGROUP, XACK. A group of a stream is a group of its topic."""

import asyncio
from contextlib import nullcontext
from functools import partial

from penstock.access.admission import topic_refusal
from penstock.commit.completion import Callback
from penstock.core.commands import Claimed, ConsumerGone, ConsumerMade, Settled
from penstock.core.groups import Group
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.access import MAKE, MANAGE, OPEN, WORK, on_parsed
from penstock.doors.resp.auditing import submitted_recorded
from penstock.doors.resp.awaiting import submitted
from penstock.doors.resp.calls import OK, Call, Spec
from penstock.doors.resp.confirming import confirm, confirmed
from penstock.doors.resp.faults import NO_KEY, CommandError, no_group, no_group_of_key, not_stored
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams import ids
from penstock.doors.resp.streams.options import (
    ReadOptions,
    ReadSource,
    makes_stream,
    read_options,
    read_topics,
)
from penstock.doors.resp.streams.reader import is_meant, read_ids
from penstock.doors.resp.streams.reading import streams_reply
from penstock.doors.resp.streams.waiting_consumer import Found, NewEntries, WaitingConsumer
from penstock.doors.resp.tasks import answer, fail, stepwise
from penstock.errors import StorageError
from penstock.limits import GROUP_BYTES_MAX, GROUPS_MAX
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rules import Action
from penstock.wire.resp import encode

NAME_BYTES_MAX = GROUP_BYTES_MAX  # of groups and consumers: each entry keeps its consumer
CONSUMERS_MAX = 10_000  # consumers of one group
PENDING_MAX = 100_000
"""Entries that consumers of one group may leave unacknowledged. No lease ends for them, and all are
in memory; beyond this number new ones are refused until some are acknowledged."""

HELP = (
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [MKSTREAM]",
    "    Create a new consumer group; with MKSTREAM for a topic without messages, too.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$|-|+>",
    "    Set which entries the group hands out next.",
    "HELP",
    "    Print this help.",
)


def _check_name(name: bytes, of: str) -> None:
    if len(name) > NAME_BYTES_MAX:
        raise CommandError(f"ERR The name of a {of} may not be longer than {NAME_BYTES_MAX} bytes")


def check_group(door: RespParts, topic: bytes, name: bytes) -> None:
    refusal = door.gate.admit_group(topic, name)
    if refusal is not None:
        raise CommandError(f"NOPERM {refusal.text}")


def check_consumer(group: Group, consumer: bytes) -> None:
    _check_name(consumer, "consumer")
    if len(group.consumers) >= CONSUMERS_MAX and consumer not in group.consumers:
        raise CommandError(f"ERR A group may not have more than {CONSUMERS_MAX} consumers")


def check_pending(group: Group) -> None:
    if len(group.pending) >= PENDING_MAX:
        raise CommandError(
            f"ERR The group has {len(group.pending)} pending entries, acknowledge some with XACK"
        )


# ── XGROUP ────────────────────────────────────────────────────────────────────────────────────


async def _create(call: Call) -> bytes:
    door, (topic, name, start) = call.door, call.args[2:5]
    may_make = makes_stream(call.args, "CREATE")
    if not may_make and not door.reader.exists(topic):
        raise CommandError(NO_KEY)
    refusal = topic_refusal(topic, door.limits)
    if refusal is not None:
        raise CommandError(f"ERR {refusal[0].value}: {refusal[1]}")
    _check_name(name, "group")
    if door.broker.groups.count >= GROUPS_MAX:
        raise CommandError(f"ERR There may not be more than {GROUPS_MAX} groups")
    offset = await _start(door, topic, start)
    made = door.dispatchers.groups.create_command(
        topic, name, offset, is_first=start in {b"0", b"0-0", b"-"}
    )
    if not await submitted(door.pipeline, made):
        raise CommandError("BUSYGROUP Consumer Group name already exists")
    return OK


async def _start(door: RespParts, topic: bytes, text: bytes) -> int:
    if text != b"$":
        return await door.reader.offset_of(topic, ids.after(text))
    info = door.reader.info(topic)
    return info.next_offset if info else 0


async def _set_id(call: Call) -> bytes:
    door, (topic, name, start) = call.door, call.args[2:5]
    makes_stream(call.args, "SETID")
    _group_of_key(door, topic, name)
    offset = await _start(door, topic, {b"-": b"0", b"+": b"$"}.get(start, start))
    command = door.dispatchers.groups.seek_command(topic, name, offset)
    if await submitted_recorded(call, "moved", command, name, offset=offset) is None:
        raise no_group_of_key(topic, name)
    door.group_queues.serve(topic, name)
    return OK


async def _destroy(call: Call) -> bytes:
    door, (topic, name) = call.door, call.args[2:4]
    if not door.reader.exists(topic):
        raise CommandError(NO_KEY)
    if door.broker.groups.get(topic, name) is None:
        return encode.integer(0)
    check_group(door, topic, name)
    command = door.dispatchers.groups.delete_command(topic, name)
    is_gone = await submitted_recorded(call, "deleted", command, name)
    fault = "NOGROUP the consumer group this client was blocked on no longer exists"
    door.group_queues.fail(topic, name, CommandError(fault))
    return encode.integer(1 if is_gone else 0)


async def _create_consumer(call: Call) -> bytes:
    door, (topic, name, consumer) = call.door, call.args[2:5]
    check_consumer(_group_of_key(door, topic, name), consumer)
    is_new = await submitted(door.pipeline, ConsumerMade(topic, name, consumer, call.now_ms))
    return encode.integer(1 if is_new else 0)


async def _delete_consumer(call: Call) -> bytes:
    door, (topic, name, consumer) = call.door, call.args[2:5]
    if consumer not in _group_of_key(door, topic, name).consumers:
        return encode.integer(0)
    command = ConsumerGone(topic, name, consumer)
    pending = await submitted_recorded(call, "consumer deleted", command, name)
    assert pending is None or isinstance(pending, int)
    return encode.integer(pending or 0)


def _group_of_key(door: RespParts, topic: bytes, name: bytes) -> Group:
    group = door.broker.groups.get(topic, name)
    if group is not None:
        check_group(door, topic, name)
        return group
    raise no_group_of_key(topic, name) if door.reader.exists(topic) else CommandError(NO_KEY)


def _help(call: Call) -> None:
    call.reply(encode.array([encode.simple(line) for line in HELP]))


# ── XREADGROUP ────────────────────────────────────────────────────────────────────────────────


def _read_group(call: Call) -> None:
    try:
        options = read_options(call.args, may_block=call.may_block)
        for source in options.sources:
            _check_reader(call.door, options, source)
    except CommandError as fault:
        call.fail(fault.message)
        return
    if len(options.sources) == 1 and options.sources[0].after is None:
        _NextEntries(call, options).begin()
    else:
        answer(call, _read_many(call, options))


async def _read_many(call: Call, options: ReadOptions) -> bytes:
    """Several streams, or what the consumer was given before."""
    streams: list[tuple[bytes, list[bytes]]] = []
    for source in options.sources:
        if source.after is None:
            streams += await _read_new(call, options, [source.topic], waits=False)
        else:
            streams.append(
                (source.topic, await _read_own(call, options, source.topic, source.after))
            )
    if not streams and options.block_ms is not None:
        topics = [source.topic for source in options.sources]
        streams = await _read_new(call, options, topics, waits=True)
    if not any(entries for _, entries in streams):
        await confirmed(call)
    return streams_reply(streams, call.connection.protocol)


def _check_reader(door: RespParts, options: ReadOptions, source: ReadSource) -> None:
    assert options.group is not None
    group = door.broker.groups.get(source.topic, options.group)
    if group is None:
        where = " in XREADGROUP with GROUP option"
        raise no_group(source.topic, options.group, where)
    check_group(door, source.topic, options.group)
    check_consumer(group, options.consumer)
    if source.after is None and not options.is_settled:
        check_pending(group)


class _NextEntries:
    """New entries of one stream, as nearly every XREADGROUP wants them: callbacks and no task."""

    __slots__ = ("_call", "_options", "_topics", "_waiting")

    def __init__(self, call: Call, options: ReadOptions) -> None:
        self._call = call
        self._options = options
        self._topics = [options.sources[0].topic]
        self._waiting = WaitingConsumer(
            options.consumer,
            options.count_max,
            settle=options.is_settled,
            waits=options.block_ms is not None,
            done=self._done,
        )

    def begin(self) -> None:
        call, options, waiting = self._call, self._options, self._waiting
        assert options.group is not None
        call.connection.on_close(self._abandon)
        if waiting.waits:
            call.connection.unblock = waiting.unblock
        timeout_s = (options.block_ms or 0) / 1000
        call.door.group_queues.join(self._topics, options.group, waiting, timeout_s)

    def _abandon(self) -> None:
        self._waiting.abandon()
        self._leave()

    def _leave(self) -> None:
        assert self._options.group is not None
        self._call.door.group_queues.leave(self._topics, self._options.group, self._waiting)
        self._call.connection.unblock = None

    def _done(self, found: Found) -> None:
        call = self._call
        self._leave()
        call.connection.off_close(self._abandon)
        if call.closed:
            return
        if isinstance(found, Exception):
            fail(call, found)
        elif found is None:
            confirm(call, self._answer_with_nothing)
        else:
            _note_ids(call.door, found)
            call.reply(streams_reply([found[:2]], call.connection.protocol))

    def _answer_with_nothing(self, refusal: str) -> None:
        if refusal:
            self._call.fail(refusal)
        else:
            self._call.reply(streams_reply([], self._call.connection.protocol))


def _note_ids(door: RespParts, found: NewEntries) -> None:
    if found.known is None:
        door.known_ids.note(found.topic, found.entries)
    else:
        door.known_ids.note_ids(*found.known)


async def _read_new(
    call: Call, options: ReadOptions, topics: list[bytes], *, waits: bool
) -> list[tuple[bytes, list[bytes]]]:
    assert options.group is not None
    door, queues = call.door, call.door.group_queues
    future: asyncio.Future[Found] = door.loop.create_future()
    waiting = WaitingConsumer(
        options.consumer,
        options.count_max,
        settle=options.is_settled,
        waits=waits,
        done=future.set_result,
    )
    timeout_s = (options.block_ms or 0) / 1000 if waits else 0
    with call.connection.blocked(waiting.unblock) if waits else nullcontext():
        try:
            queues.join(topics, options.group, waiting, timeout_s)
            found = await future
        finally:
            waiting.abandon()
            queues.leave(topics, options.group, waiting)
    if isinstance(found, Exception):
        raise found
    if found is None:
        return []
    _note_ids(door, found)
    return [found[:2]]


async def _read_own(
    call: Call, options: ReadOptions, topic: bytes, after: ids.Position
) -> list[bytes]:
    door, protocol, name = call.door, call.connection.protocol, options.group
    assert name is not None
    start = await door.reader.offset_of(topic, after)
    pending = await _pending_of(door, topic, name, options.consumer, call.now_ms)
    offsets = sorted(offset for offset in pending if offset >= start)[: options.count_max]
    found = await door.reader.entries_at(topic, offsets)
    if not found.is_whole:
        raise door.reader.too_large()
    entries = {offset: _gone_entry(offset, protocol) for offset in offsets} | dict(found.entries)
    door.known_ids.note(topic, [entry for _, entry in found.entries])
    present = [offset for offset, _ in found.entries]
    renewed = await _renew(call, options, topic, present)
    taken_away = {*present} - {*renewed}
    return [entries[offset] for offset in offsets if offset not in taken_away]


def _gone_entry(offset: int, protocol: encode.Protocol) -> bytes:
    item = [encode.bulk(ids.entry_id(0, offset), protocol), encode.null_array(protocol)]
    return encode.array(item)


async def _renew(call: Call, options: ReadOptions, topic: bytes, offsets: list[int]) -> list[int]:
    door, name, now_ms = call.door, options.group, call.now_ms
    assert name is not None
    if not offsets:
        return []
    renewal = Claimed(
        topic,
        name,
        options.consumer,
        offsets,
        min_idle_ms=0,
        now_ms=now_ms,
        taken_ms=now_ms,
        deliveries=None,
        counts=True,
        forces=False,
        renews=True,
    )
    renewed = await submitted(door.pipeline, renewal)
    if renewed is None:
        raise no_group(topic, name)
    assert isinstance(renewed, list)
    return renewed


async def _pending_of(
    door: RespParts, topic: bytes, name: bytes, consumer: bytes, now_ms: int
) -> set[int]:
    """What a consumer has. As in Redis, a new consumer is created by asking."""
    group = door.broker.groups.get(topic, name)
    if group is not None and consumer not in group.consumers:
        await submitted(door.pipeline, ConsumerMade(topic, name, consumer, now_ms))
        group = door.broker.groups.get(topic, name)
    if group is None:
        raise no_group(topic, name)
    made = group.consumers.get(consumer)
    return made.pending if made else set()  # deleted meanwhile, perhaps with its group


# ── XACK ──────────────────────────────────────────────────────────────────────────────────────


class _Acknowledgements:
    """The answers to a run of XACKs, sent together when there is one for each."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._answers: dict[int, bytes] = {}

    def answer(self, number: int, answer: bytes) -> None:
        self._answers[number] = answer
        count = len(self._call.tails)
        if len(self._answers) == count and not self._call.closed:
            self._call.reply(b"".join([self._answers[number] for number in range(count)]))

    def settle(self, number: int, offsets: list[int]) -> None:
        if not offsets:
            self.answer(number, encode.integer(0))
            return
        topic, group = self._call.args[1:3]
        settled = Settled(topic, group, ranges_of(sorted(set(offsets))))
        waiter = Callback(partial(self._settled, number), partial(self._refused, number))
        self._call.door.pipeline.submit(settled, waiter, durable=True)

    def _settled(self, number: int, count: object) -> None:
        assert count is None or isinstance(count, int)
        self.answer(number, encode.integer(count or 0))

    def _refused(self, number: int, reason: DisconnectReason, _detail: str) -> None:
        self.answer(number, encode.error(not_stored(reason.value)))

    def look_up(self, unknown: list[tuple[int, list[ids.EntryId]]]) -> None:
        """Settle entries that have the very ids named; one that is gone by its offset alone."""
        door, topic = self._call.door, self._call.args[1]
        info = door.reader.info(topic)
        end = info.next_offset if info else 0
        wanted = {entry.offset for _, entries in unknown for entry in entries if entry.offset < end}

        def settle(found: dict[int, bytes]) -> None:
            for number, entries in unknown:
                meant = [entry.offset for entry in entries if is_meant(found, entry)]
                self.settle(number, meant)

        def fail(error: StorageError) -> None:
            for number, _ in unknown:
                self.answer(number, encode.error(f"ERR The journal failed: {error.message}"))

        door.readers.run(lambda: read_ids(door.store, topic, wanted), settle, fail)


def _acknowledge(call: Call) -> None:
    door, (topic, name) = call.door, call.args[1:3]
    if door.broker.groups.get(topic, name) is None:
        call.reply(encode.integers(0, len(call.tails)))
        return
    run = _Acknowledgements(call)
    known = door.known_ids
    unknown: list[tuple[int, list[ids.EntryId]]] = []
    for number, last in enumerate(call.tails):
        texts = [*call.args[3:-1], last]
        offsets = known.offsets(topic, texts)
        if offsets is not None:
            run.settle(number, offsets)
            continue
        try:
            unknown.append((number, ids.entry_ids(texts)))
        except CommandError as fault:
            run.answer(number, encode.error(fault.message))
    if unknown:
        run.look_up(unknown)


WRITES = ("write",)
_READING = on_parsed(Action.WORK, read_topics)

COMMANDS = {
    b"XGROUP": Spec(
        _help,
        -2,
        OPEN,
        subcommands={
            b"CREATE": Spec(
                stepwise(_create), -5, MAKE, flags=("write", "denyoom"), keys=(2, 2, 1)
            ),
            b"SETID": Spec(stepwise(_set_id), -5, MANAGE, flags=WRITES, keys=(2, 2, 1)),
            b"DESTROY": Spec(stepwise(_destroy), 4, MANAGE, flags=WRITES, keys=(2, 2, 1)),
            b"CREATECONSUMER": Spec(
                stepwise(_create_consumer), 5, MAKE, flags=("write", "denyoom"), keys=(2, 2, 1)
            ),
            b"DELCONSUMER": Spec(
                stepwise(_delete_consumer), 5, MANAGE, flags=WRITES, keys=(2, 2, 1)
            ),
            b"HELP": Spec(_help, 2, OPEN, flags=("loading", "stale")),
        },
    ),
    b"XREADGROUP": Spec(_read_group, -7, _READING, flags=("write", "blocking", "movablekeys")),
    b"XACK": Spec(
        _acknowledge, -4, WORK, is_pipelined=True, flags=("write", "fast"), keys=(1, 1, 1)
    ),
}
