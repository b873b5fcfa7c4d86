"""Read-ahead of groups: the entries that a group hands out next are read before they are needed.

A consumer that asks for one entry at a time would wait for a reader thread each time. So a read for
a group takes more than was asked for, encoded for clients. What is left is handed out on the loop,
without any read; the next read begins when half of it is used up. Entries that were committed while
a consumer waits are kept as well: it is told of them by the commit itself.

What is at hand is void once entries of the topic were deleted, or the topic was. Entries that
retention removed are never asked for.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.doors.resp.streams.encoding import EncodedEntries, encoded_slice
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Extras
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store, TopicInfo, TopicRange

AHEAD_COUNT_MAX = 1_024
AHEAD_BYTES_MAX = 128 * KIB
"""What is read at a time, in payload bytes; half as much again may be in memory."""

AHEAD_GROUPS_MAX = 64  # groups whose entries are kept: those that were served last

Key = tuple[bytes, bytes]  # topic and group


class _Read(NamedTuple):
    """The result of a read: entries of consecutive offsets."""

    run: EncodedEntries
    is_timed: bool  # it ends before a message that is delayed or expires


class _Ahead:
    """The entries at hand of one group."""

    __slots__ = ("entries", "first", "ids", "incarnation", "reading")

    def __init__(self, incarnation: int, first: int) -> None:
        self.incarnation = incarnation  # of the topic
        self.first = first
        self.ids: list[bytes] = []
        self.entries: list[bytes] = []
        self.reading = False  # the next ones are being read

    @property
    def end(self) -> int:
        return self.first + len(self.ids)

    def cut(self, start: int, count: int) -> EncodedEntries:
        """Some of them; what is before ``start`` is not needed any more."""
        passed = start - self.first
        found = EncodedEntries(
            start, self.ids[passed : passed + count], self.entries[passed : passed + count]
        )
        if passed > len(self.ids) // 2:
            del self.ids[:passed]
            del self.entries[:passed]
            self.first = start
        return found

    def add(self, run: EncodedEntries) -> None:
        known = self.end - run.first
        if 0 <= known < len(run.ids):
            self.ids += run.ids[known:]
            self.entries += run.entries[known:]


class EntriesAhead:
    """The entries at hand of all groups of a broker."""

    def __init__(self, store: Store, readers: JournalReaders) -> None:
        self._store = store
        self._readers = readers
        self._groups: dict[Key, _Ahead] = {}  # least recently served first

    def take(self, key: Key, info: TopicInfo, start: int, count: int) -> EncodedEntries | None:
        """Entries from ``start`` on, as many as are at hand; None if the first is not."""
        ahead = self._groups.pop(key, None)
        if ahead is None or ahead.incarnation != info.id or info.deleted:
            return None
        if not ahead.first <= start < ahead.end:
            return None
        self._groups[key] = ahead
        found = ahead.cut(start, count)
        left = ahead.end - start - len(found.ids)
        if left < max(count, AHEAD_COUNT_MAX // 2) and ahead.end < info.next_offset:
            self._read_on(key, ahead)
        return found

    def read(
        self,
        key: Key,
        info: TopicInfo,
        start: int,
        done: Callable[[EncodedEntries, bool], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Read entries, and keep them; ``done`` gets them, and whether a timed one follows."""

        def found(result: _Read) -> None:
            self._keep(key, info, result.run)
            done(*result)

        self._readers.run(partial(_read, self._store, key[0], start), found, failed)

    def committed(self, key: Key, info: TopicInfo, run: EncodedEntries, start: int) -> None:
        """Keep entries of a commit, if they follow what is at hand, or begin at ``start``."""
        ahead = self._groups.get(key)
        if ahead is not None and ahead.end == run.first:
            if len(ahead.ids) < AHEAD_COUNT_MAX and not ahead.reading:
                ahead.add(run)
        elif run.first == start:
            self._keep(key, info, run)

    def _keep(self, key: Key, info: TopicInfo, run: EncodedEntries) -> None:
        ahead = self._groups.pop(key, None)
        if ahead is None or ahead.incarnation != info.id or ahead.end != run.first:
            ahead = _Ahead(info.id, run.first)
        ahead.add(run)
        self._groups[key] = ahead
        if len(self._groups) > AHEAD_GROUPS_MAX:
            del self._groups[next(iter(self._groups))]

    def _read_on(self, key: Key, ahead: _Ahead) -> None:
        if ahead.reading:
            return
        ahead.reading = True

        def found(result: _Read) -> None:
            ahead.reading = not result.run.ids  # nothing: the next that is missed says why
            ahead.add(result.run)

        def failed(_error: StorageError) -> None:
            """Whoever needs them will meet the error."""

        self._readers.run(partial(_read, self._store, key[0], ahead.end), found, failed)


def _read(store: Store, topic: bytes, start: int) -> _Read:
    found = store.read_topic(topic, start, AHEAD_COUNT_MAX, AHEAD_BYTES_MAX)
    return consecutive(found, start)


def consecutive(found: TopicRange, start: int) -> _Read:
    """The entries from ``start`` to the first that is missing, or is delayed or expires."""
    run = EncodedEntries(start, [], [])
    for part in found.slices:
        if part.first_offset != run.end:
            break
        timed = _first_timed(part.extras, part.count)
        more = encoded_slice(part, found.topic)
        run.ids.extend(more.ids[:timed])
        run.entries.extend(more.entries[:timed])
        if timed < part.count:
            return _Read(run, is_timed=True)
    return _Read(run, is_timed=False)


def _first_timed(extras: dict[int, Extras], count: int) -> int:
    timed = [number for number, one in extras.items() if one.due_ms or one.expires_ms]
    return min(timed, default=count)
