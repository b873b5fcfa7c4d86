"""Entries of a topic, encoded for a client; and the commands that read without a group.

Reading goes on in threads, in lots, so that no client holds up others for long. What has gathered
is bounded by ``limits.outbound_bytes_max``, however much a client asks for, and a single entry is
never too much. What happens at the bound depends on the question. XRANGE asks for a stretch, and
part of it would be a lie: it gets an error that says to use COUNT. XREAD asks for what is next, and
a part of that is what it gets: it goes on behind the last entry anyway.
"""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from operator import or_
from typing import NamedTuple, Self

from penstock.commit.feed import Feed
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.confirming import confirmed
from penstock.doors.resp.fields import fields_of
from penstock.doors.resp.stream_faults import UNBLOCKED, StreamFault
from penstock.doors.resp.stream_ids import EntryId, Place, entry_id
from penstock.doors.resp.stream_known import KnownIds
from penstock.doors.resp.stream_options import Read, Source, range_options, read_options
from penstock.doors.resp.stream_steps import off_loop, stepwise
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.node.hub import Hub
from penstock.store.search import CLOCK_SKEW_MS
from penstock.store.store import Store, TopicInfo
from penstock.wire.resp import encode
from penstock.wire.resp.names import name_of

LOT_COUNT = 1_024
LOT_BYTES = 512 * KIB
"""What is read from the journal at a time."""

Entry = tuple[int, bytes]
"""An offset, and the entry as it is sent: an array of its id and its fields."""


class Gathered(NamedTuple):
    """Entries that were read, up to the bound on bytes."""

    entries: list[Entry]
    end: int
    """Everything before this offset was looked at."""
    is_whole: bool
    """Whether the bound was not reached: what was asked for is all there."""
    is_timed: bool = False
    """Whether it ends before a message that is not to be handed out at every time."""


def topic_info(hub: Hub, topic: bytes) -> TopicInfo | None:
    """What the store knows of a topic; no message has a topic without a name."""
    return hub.store.topic(topic) if topic else None


def exists(hub: Hub, topic: bytes) -> bool:
    """Whether there is such a stream: something was published to it, or it has a group."""
    is_there = topic_info(hub, topic) is not None or topic in hub.broker.groups.by_topic
    return is_there or (hub.pipeline.is_unsettled and hub.pipeline.holds(topic))


async def offset_of(hub: Hub, topic: bytes, place: Place) -> int:
    """The offset that a place means."""
    if place.is_fixed:
        return place.number
    return await off_loop(hub, lambda: place.resolve(hub.store, topic))


def encoded(message: Message) -> bytes:
    """A message as an entry."""
    name = entry_id(message.time_ms, message.offset)
    fields = fields_of(message.payload, message.flags, message.extras)
    items = [b"$%d\r\n%b\r\n" % (len(field), field) for field in fields]
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(name), name, encode.array(items))


def too_large(hub: Hub) -> StreamFault:
    """The answer would be larger than may wait for one client."""
    bound = hub.limits.outbound_bytes_max
    return StreamFault(f"ERR The reply would be larger than {bound} bytes, use a smaller COUNT")


# ── gathering ─────────────────────────────────────────────────────────────────────────────────


async def entries_from(
    hub: Hub,
    topic: bytes,
    start: int,
    end: int,
    count: int | None = None,
    *,
    stops_at_times: bool = False,
) -> Gathered:
    """The entries of offsets ``start … end - 1``, at most ``count``, ascending.

    ``stops_at_times``: end before the first message that is delayed or expires.
    """
    entries: list[Entry] = []
    room = hub.limits.outbound_bytes_max
    timed: int | None = None
    while timed is None and start < end and (count is None or len(entries) < count):
        wanted = end - start if count is None else min(end - start, count - len(entries))
        found = await off_loop(hub, partial(_lot, hub.store, topic, start, end, wanted))
        timed = found.timed if stops_at_times else None
        lot = [entry for entry in found.entries if timed is None or entry[0] < timed]
        if found.end <= start:
            break
        fitting = _fitting(lot, room, is_first=not entries)
        entries += lot[:fitting]
        if fitting < len(lot):
            return Gathered(entries, lot[fitting][0], is_whole=False)
        room -= sum(len(data) for _, data in lot)
        start = found.end if timed is None else timed
    return Gathered(entries, min(start, end), is_whole=True, is_timed=timed is not None)


class _Lot(NamedTuple):
    """Entries read at a time."""

    entries: list[Entry]
    end: int
    """Where the next lot begins."""
    timed: int | None
    """The first that is delayed or expires."""


def _lot(store: Store, topic: bytes, start: int, end: int, count: int) -> _Lot:
    """A lot of entries from ``start`` on."""
    found = store.read_topic(topic, start, min(count, LOT_COUNT), LOT_BYTES)
    messages = [message for message in found.messages() if message.offset < end]
    entries = [(message.offset, encoded(message)) for message in messages]
    timed = next((message.offset for message in messages if _is_timed(message)), None)
    return _Lot(entries, found.next_offset, timed)


def _is_timed(message: Message) -> bool:
    extras = message.extras
    return extras is not None and bool(extras.due_ms or extras.expires_ms)


def _fitting(lot: list[Entry], room: int, *, is_first: bool) -> int:
    """How many entries of a lot there is room for; the very first one always fits."""
    for number, (_, data) in enumerate(lot):
        room -= len(data)
        if room < 0 and not (is_first and number == 0):
            return number
    return len(lot)


async def entries_back_from(
    hub: Hub, info: TopicInfo, start: int, end: int, count: int | None = None
) -> Gathered:
    """The entries of offsets ``start … end - 1``, at most ``count``, descending."""
    entries: list[Entry] = []
    room = hub.limits.outbound_bytes_max
    stride_max = max(min(LOT_COUNT, LOT_BYTES * max(info.count, 1) // max(info.bytes, 1)), 1)
    stride = min(stride_max, count or stride_max)
    while start < end and (count is None or len(entries) < count):
        low = max(start, end - stride)
        part = await entries_from(hub, info.name, low, end)
        lot = part.entries[::-1][: count and count - len(entries)]
        if not part.is_whole or _fitting(lot, room, is_first=not entries) < len(lot):
            return Gathered(entries, end, is_whole=False)
        room -= sum(len(data) for _, data in lot)
        entries += lot
        end = low
        stride = stride if lot else min(stride * 2, stride_max)  # hurry over what was deleted
    return Gathered(entries, end, is_whole=True)


async def entries_at(hub: Hub, topic: bytes, offsets: Iterable[int]) -> Gathered:
    """The entries of single offsets, ascending, without those that are gone."""
    wanted = sorted(set(offsets))
    bound = hub.limits.outbound_bytes_max

    def read() -> Gathered:
        entries: list[Entry] = []
        room = bound
        for message in _messages_at(hub.store, topic, wanted):
            data = encoded(message)
            room -= len(data)
            if room < 0 and entries:
                return Gathered(entries, message.offset, is_whole=False)
            entries.append((message.offset, data))
        return Gathered(entries, wanted[-1] + 1, is_whole=True)

    return await off_loop(hub, read) if wanted else Gathered([], 0, is_whole=True)


async def ids_at(hub: Hub, topic: bytes, offsets: Iterable[int]) -> dict[int, bytes]:
    """The ids of entries by their offsets. The time of one that is gone is not known: it is 0."""
    wanted = set(offsets)
    return await off_loop(hub, lambda: read_ids(hub.store, topic, wanted)) if wanted else {}


def read_ids(store: Store, topic: bytes, offsets: set[int]) -> dict[int, bytes]:
    """The same, in a thread that may read."""
    wanted = sorted(offsets)
    found = {offset: entry_id(0, offset) for offset in wanted}
    for message in _messages_at(store, topic, wanted):
        found[message.offset] = entry_id(message.time_ms, message.offset)
    return found


def is_meant(found: dict[int, bytes], asked: EntryId) -> bool:
    """Whether an id is that of an entry in what ``ids_at`` found, or may be: it is gone."""
    return found.get(asked.offset) in (entry_id(*asked), entry_id(0, asked.offset))


def _messages_at(store: Store, topic: bytes, offsets: list[int]) -> Iterator[Message]:
    """Messages of single offsets, ascending: one read for each stretch of them."""
    for first, end in ranges_of(offsets) if offsets else ():
        start, following = first - 1, first
        while start < following < end:
            start = following
            found = store.read_topic(topic, start, min(end - start, LOT_COUNT), LOT_BYTES)
            yield from (message for message in found.messages() if message.offset < end)
            following = found.next_offset


# ── XLEN, XRANGE, XREVRANGE ───────────────────────────────────────────────────────────────────


def _length(call: Call) -> None:
    info = topic_info(call.connection.hub, call.args[1])
    call.value(info.count if info else 0)


async def _range(call: Call, *, is_reverse: bool = False) -> bytes:
    hub, topic = call.connection.hub, call.args[1]
    options = range_options(call.args, is_reverse=is_reverse)
    if options.count_max == 0:
        return encode.null_array(call.connection.protocol)
    info = topic_info(hub, topic)
    if info is None:
        return encode.array([])
    start = max(await offset_of(hub, topic, options.start), info.first_offset)
    end = min(await offset_of(hub, topic, options.end), info.next_offset)
    if is_reverse:
        found = await entries_back_from(hub, info, start, end, options.count_max)
    else:
        found = await entries_from(hub, topic, start, end, options.count_max)
    if not found.is_whole:
        raise too_large(hub)
    return encode.array([data for _, data in found.entries])


async def _reverse_range(call: Call) -> bytes:
    return await _range(call, is_reverse=True)


# ── XREAD ─────────────────────────────────────────────────────────────────────────────────────


def streams_reply(streams: list[tuple[bytes, list[bytes]]], protocol: encode.Protocol) -> bytes:
    """Entries by stream, as XREAD and XREADGROUP answer; nothing at all is a null."""
    if not streams:
        return encode.null_array(protocol)
    pairs = [
        (encode.bulk(name_of(topic), protocol), encode.array(found)) for topic, found in streams
    ]
    if protocol == 3:
        return encode.mapping(pairs, protocol)
    return encode.array([encode.array(pair) for pair in pairs])


async def _read(call: Call) -> bytes:
    hub, options = call.connection.hub, read_options(call.args, may_block=call.may_block)
    starts = await _starts(hub, options.sources)
    found = await _read_once(hub, starts, options.count_max)
    if not found and options.block_ms is not None:
        found = await _read_when_grown(call, starts, options)
        if not found:
            await confirmed(call)  # what others have written meanwhile is not there yet, or is now
            found = await _read_once(hub, starts, options.count_max)
    return streams_reply(found, call.connection.protocol)


class _Start(NamedTuple):
    """Where to begin in a stream: at an offset, or at a place that lies in the future."""

    topic: bytes
    offset: int
    undecided: Place | None = None


async def _starts(hub: Hub, sources: list[Source]) -> list[_Start]:
    """Where to begin in each stream, found in one job: one XREAD may name thousands."""
    future = hub.wall_ms() + CLOCK_SKEW_MS
    ends = [info.next_offset if (info := topic_info(hub, one.topic)) else 0 for one in sources]

    known = [_is_known(hub, source) for source in sources]

    def start(source: Source, end: int, is_known: bool) -> _Start:
        topic, after = source
        if after is None:
            return _Start(topic, end)
        if is_known:
            return _Start(topic, after.number + 1)
        offset = after.resolve(hub.store, topic)
        is_future = (after.time_ms or 0) > future and offset >= end
        return _Start(topic, offset, after if is_future else None)

    def resolved() -> list[_Start]:
        return list(map(start, sources, ends, known))

    is_fixed = [source.after is None or source.after.is_fixed for source in sources]
    if all(map(or_, is_fixed, known)):
        return resolved()
    return await off_loop(hub, resolved)


def _is_known(hub: Hub, source: Source) -> bool:
    """Whether a stream is read on behind an entry that some client was given lately."""
    topic, after = source
    if after is None or after.time_ms is None or not after.is_behind:
        return False
    return KnownIds.of(hub).covers(topic, [entry_id(after.time_ms, after.number)])


async def _read_once(
    hub: Hub, starts: list[_Start], count: int | None
) -> list[tuple[bytes, list[bytes]]]:
    """What there is to read now, by stream."""
    streams = []
    for topic, offset, undecided in starts:
        start = await offset_of(hub, topic, undecided) if undecided else offset
        info = topic_info(hub, topic)
        if info is None or start >= info.next_offset:
            continue
        found = await entries_from(hub, topic, start, info.next_offset, count)
        if found.entries:
            streams.append((topic, [data for _, data in found.entries]))
            KnownIds.of(hub).note(topic, [found.entries[-1][1]])
    return streams


class _Growth:
    """Which of some topics have grown since they were last looked at.

    One XREAD may name thousands, and wait for an id that is far away: each commit to one of them
    must not make us look at all the others.
    """

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
        """Wait until one has grown; those that have."""
        await self._has_grown.wait()
        self._has_grown.clear()
        grown, self._grown = self._grown, set()
        return grown


async def _read_when_grown(
    call: Call, starts: list[_Start], options: Read
) -> list[tuple[bytes, list[bytes]]]:
    """Wait until one of the streams has something to read, or the time is over."""
    hub = call.connection.hub
    is_ended = False

    def unblock(is_error: bool) -> None:
        nonlocal is_ended
        is_ended = is_error
        timeout.reschedule(hub.loop.time())

    places: dict[bytes, list[int]] = {}
    for place, start in enumerate(starts):
        places.setdefault(start.topic, []).append(place)
    try:
        async with asyncio.timeout((options.block_ms or 0) / 1000 or None) as timeout:
            with call.connection.blocked(unblock), _Growth(hub.feed, places) as growth:
                found = await _read_once(hub, starts, options.count_max)  # may have grown meanwhile
                while not found:
                    grown = sorted(n for topic in await growth.next() for n in places[topic])
                    found = await _read_once(hub, [starts[n] for n in grown], options.count_max)
                return found
    except TimeoutError:
        if is_ended:
            raise StreamFault(UNBLOCKED) from None
        return []


READS = ("readonly",)

COMMANDS = {
    b"XLEN": Spec(_length, 2, flags=("readonly", "fast"), keys=(1, 1, 1)),
    b"XRANGE": Spec(stepwise(_range), -4, flags=READS, keys=(1, 1, 1)),
    b"XREVRANGE": Spec(stepwise(_reverse_range), -4, flags=READS, keys=(1, 1, 1)),
    b"XREAD": Spec(stepwise(_read), -4, flags=("readonly", "blocking", "movablekeys")),
}
