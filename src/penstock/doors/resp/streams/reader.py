"""Reads the entries of a topic, encoded for a client, in threads and in batches.

What has gathered is bounded by ``limits.outbound_bytes_max``, but a single entry is never too much.
At the bound XRANGE gets an error that says to use COUNT, since part of a range would be a lie.
XREAD gets the part: it goes on behind the last entry anyway.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from penstock.commit.pipeline import Pipeline
from penstock.core.groups import Groups
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.awaiting import off_loop
from penstock.doors.resp.faults import CommandError
from penstock.doors.resp.streams.encoding import encoded, encoded_slice
from penstock.doors.resp.streams.ids import EntryId, Position, entry_id
from penstock.limits import KIB
from penstock.model.message import Extras, Message
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store, TopicInfo

READ_COUNT_MAX = 1_024
READ_BYTES_MAX = 512 * KIB  # what is read from the journal at a time
StreamEntry = tuple[int, bytes]  # offset, and the encoded array of id and fields


class Gathered(NamedTuple):
    """Entries that were read, up to the bound on bytes."""

    entries: list[StreamEntry]
    end: int  # everything before this offset was looked at
    is_whole: bool  # the bound was not reached: this is all that was asked for
    is_timed: bool = False  # it ends before a message that is delayed or expires


class EntryReader:
    """Reads entries for all RESP clients of a broker."""

    def __init__(
        self,
        store: Store,
        readers: JournalReaders,
        pipeline: Pipeline,
        groups: Groups,
        bytes_max: int,
    ) -> None:
        self.store = store
        self.readers = readers
        self._pipeline = pipeline
        self._groups = groups
        self._bytes_max = bytes_max

    def info(self, topic: bytes) -> TopicInfo | None:
        return self.store.topic(topic) if topic else None

    def exists(self, topic: bytes) -> bool:
        is_there = self.info(topic) is not None or topic in self._groups.by_topic
        return is_there or (self._pipeline.is_unsettled and self._pipeline.holds(topic))

    def too_large(self) -> CommandError:
        return CommandError(
            f"ERR The reply would be larger than {self._bytes_max} bytes, use a smaller COUNT"
        )

    def fitting(self, entries: list[bytes]) -> int:
        """How many entries there is room for in one answer; the first one always fits."""
        if sum(map(len, entries)) <= self._bytes_max:
            return len(entries)
        return _fitting(list(enumerate(entries)), self._bytes_max, is_first=True)

    async def offset_of(self, topic: bytes, position: Position) -> int:
        if position.is_fixed:
            return position.number
        return await off_loop(self.readers, lambda: position.resolve(self.store, topic))

    async def entries_from(
        self,
        topic: bytes,
        start: int,
        end: int,
        count: int | None = None,
        *,
        stops_at_times: bool = False,
    ) -> Gathered:
        """``stops_at_times``: end before the first message that is delayed or expires."""
        entries: list[StreamEntry] = []
        room = self._bytes_max
        timed: int | None = None
        while timed is None and start < end and (count is None or len(entries) < count):
            wanted = end - start if count is None else min(end - start, count - len(entries))
            found = await off_loop(
                self.readers, partial(_read, self.store, topic, start, end, wanted)
            )
            timed = found.timed if stops_at_times else None
            batch = [entry for entry in found.entries if timed is None or entry[0] < timed]
            if found.end <= start:
                break
            fitting = _fitting(batch, room, is_first=not entries)
            entries += batch[:fitting]
            if fitting < len(batch):
                return Gathered(entries, batch[fitting][0], is_whole=False)
            room -= sum(len(data) for _, data in batch)
            start = found.end if timed is None else timed
        return Gathered(entries, min(start, end), is_whole=True, is_timed=timed is not None)

    async def entries_back_from(
        self, info: TopicInfo, start: int, end: int, count: int | None = None
    ) -> Gathered:
        entries: list[StreamEntry] = []
        room = self._bytes_max
        fitting = READ_BYTES_MAX * max(info.count, 1) // max(info.bytes, 1)
        stride_max = max(min(READ_COUNT_MAX, fitting), 1)
        stride = min(stride_max, count or stride_max)
        while start < end and (count is None or len(entries) < count):
            low = max(start, end - stride)
            part = await self.entries_from(info.name, low, end)
            batch = part.entries[::-1][: count and count - len(entries)]
            if not part.is_whole or _fitting(batch, room, is_first=not entries) < len(batch):
                return Gathered(entries, end, is_whole=False)
            room -= sum(len(data) for _, data in batch)
            entries += batch
            end = low
            stride = stride if batch else min(stride * 2, stride_max)  # hurry over deleted ones
        return Gathered(entries, end, is_whole=True)

    async def entries_at(self, topic: bytes, offsets: Iterable[int]) -> Gathered:
        wanted = sorted(set(offsets))
        bytes_max = self._bytes_max

        def read() -> Gathered:
            entries: list[StreamEntry] = []
            room = bytes_max
            for message in _messages_at(self.store, topic, wanted):
                data = encoded(message)
                room -= len(data)
                if room < 0 and entries:
                    return Gathered(entries, message.offset, is_whole=False)
                entries.append((message.offset, data))
            return Gathered(entries, wanted[-1] + 1, is_whole=True)

        return await off_loop(self.readers, read) if wanted else Gathered([], 0, is_whole=True)

    async def ids_at(self, topic: bytes, offsets: Iterable[int]) -> dict[int, bytes]:
        """The ids of entries by offset. The time of an entry that is gone is unknown: it is 0."""
        wanted = set(offsets)
        if not wanted:
            return {}
        return await off_loop(self.readers, lambda: read_ids(self.store, topic, wanted))


class _Batch(NamedTuple):
    """Entries read at a time."""

    entries: list[StreamEntry]
    end: int  # where to read on
    timed: int | None  # the first that is delayed or expires


def _read(store: Store, topic: bytes, start: int, end: int, count: int) -> _Batch:
    found = store.read_topic(topic, start, min(count, READ_COUNT_MAX), READ_BYTES_MAX)
    entries: list[StreamEntry] = []
    timed: list[int] = []
    for part in found.slices:
        run = encoded_slice(part, topic)
        entries += zip(range(run.first, min(run.end, end)), run.entries, strict=False)
        timed += [part.first_offset + n for n, extras in part.extras.items() if _is_timed(extras)]
    first_timed = min(timed, default=end)
    return _Batch(entries, found.next_offset, first_timed if first_timed < end else None)


def _is_timed(extras: Extras) -> bool:
    return bool(extras.due_ms or extras.expires_ms)


def _fitting(batch: list[StreamEntry], room: int, *, is_first: bool) -> int:
    """How many entries there is room for; the very first one always fits."""
    for number, (_, data) in enumerate(batch):
        room -= len(data)
        if room < 0 and not (is_first and number == 0):
            return number
    return len(batch)


def read_ids(store: Store, topic: bytes, offsets: set[int]) -> dict[int, bytes]:
    wanted = sorted(offsets)
    found = {offset: entry_id(0, offset) for offset in wanted}
    for message in _messages_at(store, topic, wanted):
        found[message.offset] = entry_id(message.time_ms, message.offset)
    return found


def is_meant(found: dict[int, bytes], asked: EntryId) -> bool:
    """Whether an id is that of an entry in what ``ids_at`` found, or may be: it is gone."""
    return found.get(asked.offset) in (entry_id(*asked), entry_id(0, asked.offset))


def _messages_at(store: Store, topic: bytes, offsets: list[int]) -> Iterator[Message]:
    for first, end in ranges_of(offsets) if offsets else ():
        start, following = first - 1, first
        while start < following < end:
            start = following
            count = min(end - start, READ_COUNT_MAX)
            found = store.read_topic(topic, start, count, READ_BYTES_MAX)
            yield from (message for message in found.messages() if message.offset < end)
            following = found.next_offset
