"""XINFO: details of a stream, its groups and their consumers; the fields are those of Redis 7.0."""

from collections.abc import Iterable
from typing import TypeAlias

from penstock.core.groups import Group
from penstock.doors.resp.access import OPEN, READ, SEEN
from penstock.doors.resp.awaiting import encoded_off_loop
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.faults import CommandError, no_group_of_key
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams.options import integer
from penstock.doors.resp.streams.pending import delivered
from penstock.doors.resp.tasks import stepwise
from penstock.store.store import TopicInfo
from penstock.wire.resp import encode
from penstock.wire.resp.encode import Protocol, Value

Pairs: TypeAlias = list[tuple[str, bytes]]  # names and encoded values
FULL_COUNT = 10  # entries, and pending entries of each list, that FULL shows without COUNT
NO_ID = b"0-0"

HELP = (
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    Show information about the stream.",
    "HELP",
    "    Print this help.",
)


def _check_exists(door: RespParts, topic: bytes) -> None:
    if not door.reader.exists(topic):
        raise CommandError("ERR no such key")


def _mapping(pairs: Pairs, protocol: Protocol) -> bytes:
    return encode.mapping(
        [(encode.value(name, protocol), value) for name, value in pairs], protocol
    )


async def _stream(call: Call) -> bytes:
    door, topic, protocol = call.door, call.args[2], call.connection.protocol
    count_max = _full_count(call.args)
    _check_exists(door, topic)
    groups = door.broker.groups.by_topic.get(topic, {})
    pairs = await _overview(door, topic, protocol)
    if count_max is None:
        pairs.append(("groups", encode.integer(len(groups))))
        pairs += await _ends(door, topic, protocol)
        return _mapping(pairs, protocol)
    pairs.append(("entries", encode.array(await _entries(door, topic, count_max))))
    described = [await _full_group(door, group, count_max) for _, group in sorted(groups.items())]
    pairs.append(("groups", await encoded_off_loop(door.readers, described, protocol)))
    return _mapping(pairs, protocol)


def _full_count(args: list[bytes]) -> int | None:
    """How many entries the full form shows, 0 for all; None for the short form."""
    options = [option.upper() for option in args[3:]]
    if not options:
        return None
    if options == [b"FULL"]:
        return FULL_COUNT
    if len(options) == 3 and options[:2] == [b"FULL", b"COUNT"]:
        count = integer(options[2])
        return count if count >= 0 else FULL_COUNT
    raise CommandError(
        "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."
    )


async def _overview(door: RespParts, topic: bytes, protocol: Protocol) -> Pairs:
    info = door.reader.info(topic)
    first = NO_ID
    last = NO_ID
    if info is not None and info.count:
        names = await door.reader.ids_at(topic, (info.first_offset, info.next_offset - 1))
        first = names[info.first_offset]
        last = names[info.next_offset - 1]
    values: dict[str, Value] = {
        "length": info.count if info else 0,
        "radix-tree-keys": 1 if info and info.count else 0,
        "radix-tree-nodes": 2 if info and info.count else 1,
        "last-generated-id": last,
        "max-deleted-entry-id": NO_ID,
        "entries-added": info.next_offset if info else 0,
        "recorded-first-entry-id": first,
    }
    return [(name, encode.value(value, protocol)) for name, value in values.items()]


async def _ends(door: RespParts, topic: bytes, protocol: Protocol) -> Pairs:
    info = door.reader.info(topic)
    if info is None:
        return [("first-entry", encode.null(protocol)), ("last-entry", encode.null(protocol))]
    bounds = info.first_offset, info.next_offset
    first = await door.reader.entries_from(topic, *bounds, count=1)
    last = await door.reader.entries_back_from(info, *bounds, count=1)
    return [
        (name, found.entries[0][1] if found.entries else encode.null(protocol))
        for name, found in (("first-entry", first), ("last-entry", last))
    ]


async def _entries(door: RespParts, topic: bytes, count_max: int) -> list[bytes]:
    info = door.reader.info(topic)
    if info is None:
        return []
    bounds = info.first_offset, info.next_offset
    found = await door.reader.entries_from(topic, *bounds, count=count_max or None)
    if not found.is_whole:
        raise door.reader.too_large()
    return [data for _, data in found.entries]


async def _full_group(door: RespParts, group: Group, count_max: int) -> Value:
    delivered_ones = list(delivered(group))
    listed = _first_of(delivered_ones, count_max)
    held = {name: _first_of(c.pending, count_max) for name, c in sorted(group.consumers.items())}
    wanted = {*listed, *(offset for offsets in held.values() for offset in offsets)}
    names = await door.reader.ids_at(group.topic, wanted)
    pending: list[Value] = [
        [names[offset], found.consumer or b"", found.taken_ms, found.deliveries]
        for offset in listed
        if (found := group.pending.get(offset))
    ]
    consumers: list[Value] = [
        {
            "name": name,
            "seen-time": group.consumers[name].seen_ms,
            "pel-count": len(group.consumers[name].pending),
            "pending": [
                [names[offset], found.taken_ms, found.deliveries]
                for offset in offsets
                if (found := group.pending.get(offset))
            ],
        }
        for name, offsets in held.items()
        if name in group.consumers
    ]
    return {
        "name": group.name,
        **await _progress(door, group),
        "pel-count": len(delivered_ones),
        "pending": pending,
        "consumers": consumers,
    }


def _first_of(offsets: Iterable[int], count_max: int) -> list[int]:
    return sorted(offsets)[: count_max or None]


async def _progress(door: RespParts, group: Group) -> dict[Value, Value]:
    last = group.next - 1
    names = await door.reader.ids_at(group.topic, [last] if last >= 0 else [])
    info = door.reader.info(group.topic)
    return {
        "last-delivered-id": names.get(last, NO_ID),
        "entries-read": group.next + group.ahead,
        "lag": _lag(info, group),
    }


def _lag(info: TopicInfo | None, group: Group) -> int | None:
    """How many entries the group has yet to hand out; None if some may be deleted."""
    if info is None or group.next >= info.next_offset:
        return 0
    following = max(group.next, info.first_offset)
    return None if info.deleted else max(info.next_offset - following - group.ahead, 0)


async def _groups(call: Call) -> bytes:
    door, topic, protocol = call.door, call.args[2], call.connection.protocol
    _check_exists(door, topic)
    described: list[Value] = [
        {
            "name": name,
            "consumers": len(group.consumers),
            "pending": sum(1 for _ in delivered(group)),
            **await _progress(door, group),
        }
        for name, group in sorted(door.broker.groups.by_topic.get(topic, {}).items())
    ]
    return await encoded_off_loop(door.readers, described, protocol)


async def _consumers(call: Call) -> bytes:
    door, (topic, name) = call.door, call.args[2:4]
    _check_exists(door, topic)
    group = door.broker.groups.get(topic, name)
    if group is None:
        raise no_group_of_key(topic, name)
    described: list[Value] = [
        {
            "name": consumer_name,
            "pending": len(consumer.pending),
            "idle": max(call.now_ms - consumer.seen_ms, 0),
        }
        for consumer_name, consumer in sorted(group.consumers.items())
    ]
    return await encoded_off_loop(door.readers, described, call.connection.protocol)


def _help(call: Call) -> None:
    call.reply(encode.array([encode.simple(line) for line in HELP]))


READS = ("readonly",)

COMMANDS = {
    b"XINFO": Spec(
        _help,
        -2,
        OPEN,
        subcommands={
            b"STREAM": Spec(stepwise(_stream), -3, READ, flags=READS, keys=(2, 2, 1)),
            b"GROUPS": Spec(stepwise(_groups), 3, SEEN, flags=READS, keys=(2, 2, 1)),
            b"CONSUMERS": Spec(stepwise(_consumers), 4, SEEN, flags=READS, keys=(2, 2, 1)),
            b"HELP": Spec(_help, 2, OPEN, flags=("loading", "stale")),
        },
    )
}
