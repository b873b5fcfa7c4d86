"""Groups of consumers over RESP: XGROUP, XREADGROUP, XACK.

A group of a stream is a group of its topic (``core/groups``). What changes one is a command that is
journaled and applied before the client hears of it. What only looks at one reads the broker's state
here, on the loop; ids, and entries, are read from the journal.
"""

from contextlib import nullcontext
from typing import NamedTuple

from penstock.access.admission import topic_refusal
from penstock.core.commands import (
    Claimed,
    ConsumerGone,
    ConsumerMade,
    Settled,
)
from penstock.core.groups import Group
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp import stream_ids as ids
from penstock.doors.resp.calls import OK, Call, Spec
from penstock.doors.resp.confirming import confirmed
from penstock.doors.resp.stream_faults import (
    NO_KEY,
    StreamFault,
    no_group,
    no_group_of_key,
    not_stored,
)
from penstock.doors.resp.stream_known import KnownIds
from penstock.doors.resp.stream_lines import Lines
from penstock.doors.resp.stream_options import Read, Source, makes_stream, read_options
from penstock.doors.resp.stream_places import Place
from penstock.doors.resp.stream_reading import (
    entries_at,
    exists,
    is_meant,
    offset_of,
    read_ids,
    streams_reply,
    too_large,
    topic_info,
)
from penstock.doors.resp.stream_steps import stepwise, submitted
from penstock.errors import StorageError
from penstock.limits import GROUP_BYTES_MAX, GROUPS_MAX
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode

NAME_BYTES_MAX = GROUP_BYTES_MAX
"""Longest name of a group; a consumer is kept with each of its entries, and may have no longer."""

CONSUMERS_MAX = 10_000
"""Consumers of one group."""

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
        raise StreamFault(f"ERR The name of a {of} may not be longer than {NAME_BYTES_MAX} bytes")


def check_group(hub: Hub, topic: bytes, name: bytes) -> None:
    """Raise StreamFault if clients of this protocol may not use a group."""
    refusal = hub.gate.admit_group(topic, name)
    if refusal is not None:
        raise StreamFault(f"NOPERM {refusal.text}")


def check_consumer(group: Group, consumer: bytes) -> None:
    """Raise StreamFault if the group may not have this consumer."""
    _check_name(consumer, "consumer")
    if len(group.consumers) >= CONSUMERS_MAX and consumer not in group.consumers:
        raise StreamFault(f"ERR A group may not have more than {CONSUMERS_MAX} consumers")


def check_pending(group: Group) -> None:
    """Raise StreamFault if the group has too many pending entries to get more."""
    if len(group.pending) >= PENDING_MAX:
        raise StreamFault(
            f"ERR The group has {len(group.pending)} pending entries, acknowledge some with XACK"
        )


# ── XGROUP ────────────────────────────────────────────────────────────────────────────────────


async def _create(call: Call) -> bytes:
    hub, (topic, name, start) = call.connection.hub, call.args[2:5]
    may_make = makes_stream(call.args, "CREATE")
    if not may_make and not exists(hub, topic):
        raise StreamFault(NO_KEY)
    refusal = topic_refusal(topic, hub.limits)
    if refusal is not None:
        raise StreamFault(f"ERR {refusal[0].value}: {refusal[1]}")
    _check_name(name, "group")
    if hub.broker.groups.count >= GROUPS_MAX:
        raise StreamFault(f"ERR There may not be more than {GROUPS_MAX} groups")
    offset = await _start(hub, topic, start)
    made = hub.dispatchers.group_made(topic, name, offset, is_first=start in {b"0", b"0-0", b"-"})
    if not await submitted(hub, made):
        raise StreamFault("BUSYGROUP Consumer Group name already exists")
    return OK


async def _start(hub: Hub, topic: bytes, text: bytes) -> int:
    """The first offset that a group hands out."""
    if text != b"$":
        return await offset_of(hub, topic, ids.after(text))
    info = topic_info(hub, topic)
    return info.next_offset if info else 0


async def _set_id(call: Call) -> bytes:
    hub, (topic, name, start) = call.connection.hub, call.args[2:5]
    makes_stream(call.args, "SETID")
    _group_of_key(hub, topic, name)
    offset = await _start(hub, topic, {b"-": b"0", b"+": b"$"}.get(start, start))
    if await submitted(hub, hub.dispatchers.group_moved(topic, name, offset)) is None:
        raise no_group_of_key(topic, name)
    Lines.of(hub).serve(topic, name)
    return OK


async def _destroy(call: Call) -> bytes:
    hub, (topic, name) = call.connection.hub, call.args[2:4]
    if not exists(hub, topic):
        raise StreamFault(NO_KEY)
    if hub.broker.groups.get(topic, name) is None:
        return encode.integer(0)
    check_group(hub, topic, name)
    is_gone = await submitted(hub, hub.dispatchers.group_gone(topic, name))
    fault = "NOGROUP the consumer group this client was blocked on no longer exists"
    Lines.of(hub).fail(topic, name, StreamFault(fault))
    return encode.integer(1 if is_gone else 0)


async def _create_consumer(call: Call) -> bytes:
    hub, (topic, name, consumer) = call.connection.hub, call.args[2:5]
    check_consumer(_group_of_key(hub, topic, name), consumer)
    is_new = await submitted(hub, ConsumerMade(topic, name, consumer, call.now_ms))
    return encode.integer(1 if is_new else 0)


async def _delete_consumer(call: Call) -> bytes:
    hub, (topic, name, consumer) = call.connection.hub, call.args[2:5]
    if consumer not in _group_of_key(hub, topic, name).consumers:
        return encode.integer(0)
    pending = await submitted(hub, ConsumerGone(topic, name, consumer))
    assert pending is None or isinstance(pending, int)
    return encode.integer(pending or 0)


def _group_of_key(hub: Hub, topic: bytes, name: bytes) -> Group:
    group = hub.broker.groups.get(topic, name)
    if group is not None:
        check_group(hub, topic, name)
        return group
    raise no_group_of_key(topic, name) if exists(hub, topic) else StreamFault(NO_KEY)


def _help(call: Call) -> None:
    call.reply(encode.array([encode.simple(line) for line in HELP]))


# ── XREADGROUP ────────────────────────────────────────────────────────────────────────────────


async def _read_group(call: Call) -> bytes:
    hub, options = call.connection.hub, read_options(call.args, may_block=call.may_block)
    for source in options.sources:
        _check_reader(hub, options, source)
    streams: list[tuple[bytes, list[bytes]]] = []
    may_wait = options.block_ms is not None and len(options.sources) == 1
    for source in options.sources:
        if source.after is None:
            streams += await _read_new(call, options, [source.topic], waits=may_wait)
        else:
            streams.append(
                (source.topic, await _read_own(call, options, source.topic, source.after))
            )
    if not streams and options.block_ms is not None and not may_wait:
        topics = [source.topic for source in options.sources]
        streams = await _read_new(call, options, topics, waits=True)
    if not any(entries for _, entries in streams):
        await confirmed(call)
    return streams_reply(streams, call.connection.protocol)


def _check_reader(hub: Hub, options: Read, source: Source) -> None:
    assert options.group is not None
    group = hub.broker.groups.get(source.topic, options.group)
    if group is None:
        where = " in XREADGROUP with GROUP option"
        raise no_group(source.topic, options.group, where)
    check_group(hub, source.topic, options.group)
    check_consumer(group, options.consumer)
    if source.after is None and not options.is_settled:
        check_pending(group)


async def _read_new(
    call: Call, options: Read, topics: list[bytes], *, waits: bool
) -> list[tuple[bytes, list[bytes]]]:
    assert options.group is not None
    hub = call.connection.hub
    place = Place(hub, options.consumer, options.count_max, settle=options.is_settled, waits=waits)
    timeout_s = (options.block_ms or 0) / 1000 if waits else 0
    standing = Lines.of(hub).stand(topics, options.group, place, timeout_s)
    with call.connection.blocked(place.unblock) if waits else nullcontext():
        found = await standing
    if found is None:
        return []
    KnownIds.of(hub).note(*found)
    return [found]


async def _read_own(call: Call, options: Read, topic: bytes, after: ids.Place) -> list[bytes]:
    """What the consumer has not acknowledged yet, from a place on; it counts as delivered again."""
    hub, protocol, name = call.connection.hub, call.connection.protocol, options.group
    assert name is not None
    start = await offset_of(hub, topic, after)
    pending = await _pending_of(hub, topic, name, options.consumer, call.now_ms)
    offsets = sorted(offset for offset in pending if offset >= start)[: options.count_max]
    found = await entries_at(hub, topic, offsets)
    if not found.is_whole:
        raise too_large(hub)
    entries = {offset: _gone_entry(offset, protocol) for offset in offsets} | dict(found.entries)
    KnownIds.of(hub).note(topic, [entry for _, entry in found.entries])
    present = [offset for offset, _ in found.entries]
    renewed = await _renew(call, options, topic, present)
    taken_away = {*present} - {*renewed}
    return [entries[offset] for offset in offsets if offset not in taken_away]


def _gone_entry(offset: int, protocol: encode.Protocol) -> bytes:
    """An entry that was deleted since it was delivered: an id without fields."""
    item = [encode.bulk(ids.entry_id(0, offset), protocol), encode.null_array(protocol)]
    return encode.array(item)


async def _renew(call: Call, options: Read, topic: bytes, offsets: list[int]) -> list[int]:
    """Note that entries are delivered again to the one who has them; those that it still has."""
    hub, name, now_ms = call.connection.hub, options.group, call.now_ms
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
    renewed = await submitted(hub, renewal)
    if renewed is None:
        raise no_group(topic, name)
    assert isinstance(renewed, list)
    return renewed


async def _pending_of(
    hub: Hub, topic: bytes, name: bytes, consumer: bytes, now_ms: int
) -> set[int]:
    """What a consumer has, made if it is new: it is enough to ask for that, as in Redis."""
    group = hub.broker.groups.get(topic, name)
    if group is not None and consumer not in group.consumers:
        await submitted(hub, ConsumerMade(topic, name, consumer, now_ms))
        group = hub.broker.groups.get(topic, name)
    if group is None:
        raise no_group(topic, name)
    made = group.consumers.get(consumer)
    return made.pending if made else set()  # gone again, or its group made anew, as we waited


# ── XACK ──────────────────────────────────────────────────────────────────────────────────────


class _Acknowledgements:
    """The answers to a run of XACKs, sent together when there is one for each."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._answers: dict[int, bytes] = {}

    def answer(self, number: int, answer: bytes) -> None:
        """The answer to one of them."""
        self._answers[number] = answer
        count = len(self._call.tails)
        if len(self._answers) == count and not self._call.closed:
            self._call.reply(b"".join([self._answers[place] for place in range(count)]))

    def settle(self, number: int, offsets: list[int]) -> None:
        """Have the entries of one of them settled."""
        if not offsets:
            self.answer(number, encode.integer(0))
            return
        topic, group = self._call.args[1:3]
        settled = Settled(topic, group, ranges_of(sorted(set(offsets))))
        outlet = _Acknowledgement(self, number)
        self._call.connection.hub.pipeline.submit(settled, outlet, durable=True)

    def look_up(self, unknown: list[tuple[int, list[ids.EntryId]]]) -> None:
        """Settle those entries that have the very ids that were named; times are in the journal.

        An entry that is gone, and its time with it, is settled by its offset.
        """
        hub, topic = self._call.connection.hub, self._call.args[1]
        info = topic_info(hub, topic)
        end = info.next_offset if info else 0
        wanted = {entry.offset for _, entries in unknown for entry in entries if entry.offset < end}

        def settle(found: dict[int, bytes]) -> None:
            for number, entries in unknown:
                meant = [entry.offset for entry in entries if is_meant(found, entry)]
                self.settle(number, meant)

        def fail(error: StorageError) -> None:
            for number, _ in unknown:
                self.answer(number, encode.error(f"ERR The journal failed: {error.message}"))

        hub.readers.run(lambda: read_ids(hub.store, topic, wanted), settle, fail)


class _Acknowledgement(NamedTuple):
    """One XACK of a run, on its way to the disk."""

    run: _Acknowledgements
    number: int

    def done(self, value: object) -> None:
        """It is there; so many entries were pending."""
        assert value is None or isinstance(value, int)
        self.run.answer(self.number, encode.integer(value or 0))

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The disk refused it."""
        self.run.answer(self.number, encode.error(not_stored(reason.value)))


def _acknowledge(call: Call) -> None:
    hub, (topic, name) = call.connection.hub, call.args[1:3]
    if hub.broker.groups.get(topic, name) is None:
        call.reply(encode.integers(0, len(call.tails)))
        return
    run = _Acknowledgements(call)
    known = KnownIds.of(hub)
    unknown: list[tuple[int, list[ids.EntryId]]] = []
    for number, last in enumerate(call.tails):
        texts = [*call.args[3:-1], last]
        try:
            entries = ids.entry_ids(texts)
        except StreamFault as fault:
            run.answer(number, encode.error(fault.message))
            continue
        if known.covers(topic, texts):
            run.settle(number, [entry.offset for entry in entries])
        else:
            unknown.append((number, entries))
    if unknown:
        run.look_up(unknown)


WRITES = ("write",)

COMMANDS = {
    b"XGROUP": Spec(
        _help,
        -2,
        subcommands={
            b"CREATE": Spec(stepwise(_create), -5, flags=("write", "denyoom"), keys=(2, 2, 1)),
            b"SETID": Spec(stepwise(_set_id), -5, flags=WRITES, keys=(2, 2, 1)),
            b"DESTROY": Spec(stepwise(_destroy), 4, flags=WRITES, keys=(2, 2, 1)),
            b"CREATECONSUMER": Spec(
                stepwise(_create_consumer), 5, flags=("write", "denyoom"), keys=(2, 2, 1)
            ),
            b"DELCONSUMER": Spec(stepwise(_delete_consumer), 5, flags=WRITES, keys=(2, 2, 1)),
            b"HELP": Spec(_help, 2, flags=("loading", "stale")),
        },
    ),
    b"XREADGROUP": Spec(stepwise(_read_group), -7, flags=("write", "blocking", "movablekeys")),
    b"XACK": Spec(_acknowledge, -4, is_pipelined=True, flags=("write", "fast"), keys=(1, 1, 1)),
}
