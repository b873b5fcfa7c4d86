"""XLEN, XRANGE, XREVRANGE, XREAD: commands that read a stream without a group."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from operator import or_
from typing import NamedTuple, Self

from penstock.commit.feed import Feed
from penstock.doors.resp.access import READ, SEEN, on_parsed
from penstock.doors.resp.awaiting import off_loop
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.confirming import confirmed
from penstock.doors.resp.faults import CommandError
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams.ids import Position, entry_id
from penstock.doors.resp.streams.options import (
    ReadOptions,
    ReadSource,
    range_options,
    read_options,
    read_topics,
)
from penstock.doors.resp.tasks import stepwise
from penstock.store.search import CLOCK_SKEW_MS
from penstock.trust.rules import Action
from penstock.wire.resp import encode
from penstock.wire.resp.names import name_of


def _length(call: Call) -> None:
    info = call.door.reader.info(call.args[1])
    call.value(info.count if info else 0)


async def _range(call: Call, *, is_reverse: bool = False) -> bytes:
    reader, topic = call.door.reader, call.args[1]
    options = range_options(call.args, is_reverse=is_reverse)
    if options.count_max == 0:
        return encode.null_array(call.connection.protocol)
    info = reader.info(topic)
    if info is None:
        return encode.array([])
    start = max(await reader.offset_of(topic, options.start), info.first_offset)
    end = min(await reader.offset_of(topic, options.end), info.next_offset)
    if is_reverse:
        found = await reader.entries_back_from(info, start, end, options.count_max)
    else:
        found = await reader.entries_from(topic, start, end, options.count_max)
    if not found.is_whole:
        raise reader.too_large()
    return encode.array([data for _, data in found.entries])


async def _reverse_range(call: Call) -> bytes:
    return await _range(call, is_reverse=True)


def streams_reply(streams: list[tuple[bytes, list[bytes]]], protocol: encode.Protocol) -> bytes:
    if not streams:
        return encode.null_array(protocol)
    pairs = [
        (encode.bulk(name_of(topic), protocol), encode.array(found)) for topic, found in streams
    ]
    if protocol == 3:
        return encode.mapping(pairs, protocol)
    return encode.array([encode.array(pair) for pair in pairs])


async def _read(call: Call) -> bytes:
    door, options = call.door, read_options(call.args, may_block=call.may_block)
    starts = await _starts(door, options.sources)
    found = await _read_once(door, starts, options.count_max)
    if not found and options.block_ms is not None:
        found = await _read_when_grown(call, starts, options)
        if not found:
            await confirmed(call)  # entries written elsewhere may have arrived
            found = await _read_once(door, starts, options.count_max)
        call.require(Action.READ, *[source.topic for source in options.sources])
    return streams_reply(found, call.connection.protocol)


class _Start(NamedTuple):
    """Where to begin in a stream: at an offset, or at a place that lies in the future."""

    topic: bytes
    offset: int
    undecided: Position | None = None


async def _starts(door: RespParts, sources: Sequence[ReadSource]) -> list[_Start]:
    """Where to begin in each stream, found in one job: one XREAD may name thousands."""
    future = door.wall_ms() + CLOCK_SKEW_MS
    ends = [info.next_offset if (info := door.reader.info(one.topic)) else 0 for one in sources]

    known = [_is_known(door, source) for source in sources]

    def start(source: ReadSource, end: int, is_known: bool) -> _Start:
        topic, after = source
        if after is None:
            return _Start(topic, end)
        if is_known:
            return _Start(topic, after.number + 1)
        offset = after.resolve(door.store, topic)
        is_future = (after.time_ms or 0) > future and offset >= end
        return _Start(topic, offset, after if is_future else None)

    def resolved() -> list[_Start]:
        return list(map(start, sources, ends, known))

    is_fixed = [source.after is None or source.after.is_fixed for source in sources]
    if all(map(or_, is_fixed, known)):
        return resolved()
    return await off_loop(door.readers, resolved)


def _is_known(door: RespParts, source: ReadSource) -> bool:
    topic, after = source
    if after is None or after.time_ms is None or not after.is_behind:
        return False
    return door.known_ids.covers(topic, [entry_id(after.time_ms, after.number)])


async def _read_once(
    door: RespParts, starts: list[_Start], count: int | None
) -> list[tuple[bytes, list[bytes]]]:
    streams, reader = [], door.reader
    for topic, offset, undecided in starts:
        # The end comes first: an entry that is stored during the search was not searched.
        info = reader.info(topic)
        start = await reader.offset_of(topic, undecided) if undecided else offset
        if info is None or start >= info.next_offset:
            continue
        found = await reader.entries_from(topic, start, info.next_offset, count)
        if found.entries:
            streams.append((topic, [data for _, data in found.entries]))
            door.known_ids.note(topic, [found.entries[-1][1]])
    return streams


class _Growth:
    """Which of thousands of topics have grown, so that a commit makes us look at one only."""

    def __init__(self, feed: Feed, topics: Iterable[bytes]) -> None:
        self._feed = feed
        self._grown: set[bytes] = set()
        self._has_grown = asyncio.Event()
        self._watchers = {topic: partial(self._note, topic) for topic in topics}

    def __enter__(self) -> Self:
        for topic, watcher in self._watchers.items():
            self._feed.watch(topic, watcher)
        return self

    def __exit__(self, *_error: object) -> None:
        for topic, watcher in self._watchers.items():
            self._feed.unwatch(topic, watcher)

    def _note(self, topic: bytes) -> None:
        self._grown.add(topic)
        self._has_grown.set()

    async def next(self) -> set[bytes]:
        await self._has_grown.wait()
        self._has_grown.clear()
        grown, self._grown = self._grown, set()
        return grown


async def _read_when_grown(
    call: Call, starts: list[_Start], options: ReadOptions
) -> list[tuple[bytes, list[bytes]]]:
    door = call.door
    ended_by = ""

    def unblock(fault: str) -> None:
        nonlocal ended_by
        ended_by = fault
        timeout.reschedule(door.loop.time())

    positions: dict[bytes, list[int]] = {}
    for position, start in enumerate(starts):
        positions.setdefault(start.topic, []).append(position)
    try:
        async with asyncio.timeout((options.block_ms or 0) / 1000 or None) as timeout:
            with call.connection.blocked(unblock), _Growth(door.feed, positions) as growth:
                # They may have grown before they were watched.
                found = await _read_once(door, starts, options.count_max)
                while not found:
                    grown = sorted(n for topic in await growth.next() for n in positions[topic])
                    found = await _read_once(door, [starts[n] for n in grown], options.count_max)
                return found
    except TimeoutError:
        if ended_by:
            raise CommandError(ended_by) from None
        return []


READS = ("readonly",)
_READING = on_parsed(Action.READ, read_topics)

COMMANDS = {
    b"XLEN": Spec(_length, 2, SEEN, flags=("readonly", "fast"), keys=(1, 1, 1)),
    b"XRANGE": Spec(stepwise(_range), -4, READ, flags=READS, keys=(1, 1, 1)),
    b"XREVRANGE": Spec(stepwise(_reverse_range), -4, READ, flags=READS, keys=(1, 1, 1)),
    b"XREAD": Spec(stepwise(_read), -4, _READING, flags=("readonly", "blocking", "movablekeys")),
}
