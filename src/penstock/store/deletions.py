"""Deleted offsets of messages that are still stored: tombstones, as ranges.

What is written does not change, so a deleted message stays on disk until retention has removed what
was before it. Meanwhile its offset lies in a *range* that every read skips. Ranges of a topic are
disjoint and never adjacent. A topic's *state* (topics.py) begins where retention has come to, its
``TopicInfo`` with the first living message; ranges below the state's beginning are forgotten.

Ranges are immutable: a change makes new ones, and a reader keeps those it started with. All are in
memory, 24 bytes each, with the bytes of payload they cover. On disk each range is a row; the
topic's name precedes the first.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeAlias

from penstock.errors import StorageDamaged
from penstock.store.environment import Environment, Transaction
from penstock.store.keys import index_key, topic_key, unpack_index_key

DELETED_ROW_BYTES = 64  # upper bound of what a range takes on disk

OFFSET_MAX = 2**64 - 1

OffsetRange: TypeAlias = tuple[int, int]  # the first offset, and the one after the last

# rows by first offset: end offset and bytes; None to delete a row
Changes: TypeAlias = dict[int, tuple[int, int] | None]

_ROW = struct.Struct("<QQ")


class Ranges:
    """The deleted offsets of one topic, ascending, with the bytes of payload they cover."""

    __slots__ = ("bytes", "count", "ends", "firsts", "sizes")

    def __init__(
        self, firsts: Iterable[int] = (), ends: Iterable[int] = (), sizes: Iterable[int] = ()
    ) -> None:
        self.firsts = array("Q", firsts)
        self.ends = array("Q", ends)
        self.sizes = array("Q", sizes)
        self.count = sum(self.ends) - sum(self.firsts)
        self.bytes = sum(self.sizes)

    def skip(self, offset: int) -> int:
        """The first offset from ``offset`` on that is not deleted."""
        place = bisect_right(self.firsts, offset) - 1
        return max(offset, self.ends[place]) if place >= 0 else offset

    def contains(self, offset: int) -> bool:
        return self.skip(offset) != offset

    def within(self, first: int, end: int) -> Iterator[OffsetRange]:
        for place in range(bisect_right(self.ends, first), bisect_left(self.firsts, end)):
            yield max(first, self.firsts[place]), min(end, self.ends[place])

    def living(self, first: int, end: int = OFFSET_MAX) -> Iterator[OffsetRange]:
        for deleted_first, deleted_end in self.within(first, end):
            if first < deleted_first:
                yield first, deleted_first
            first = deleted_end
        if first < end:
            yield first, end

    def left(self, first: int, end: int) -> int:
        """How many offsets of ``first … end - 1`` are not deleted."""
        gone = sum(last - start for start, last in self.within(first, end)) if self.count else 0
        return max(end - first - gone, 0)

    def plus(self, added: Iterable[tuple[int, int, int]]) -> tuple["Ranges", Changes]:
        """Ranges that include more (first, end, bytes), which were living; and the changed rows."""
        firsts, ends, sizes = self.firsts[:], self.ends[:], self.sizes[:]
        changes: Changes = {}
        for first, end, size in added:
            low, high = bisect_left(ends, first), bisect_right(firsts, end)  # those it touches
            changes.update(dict.fromkeys(firsts[low:high]))
            joined_first = min([first, *firsts[low:high]])
            joined_end = max([end, *ends[low:high]])
            joined_size = size + sum(sizes[low:high])
            changes[joined_first] = (joined_end, joined_size)
            firsts[low:high] = array("Q", [joined_first])
            ends[low:high] = array("Q", [joined_end])
            sizes[low:high] = array("Q", [joined_size])
        return Ranges(firsts, ends, sizes), changes

    def beyond(self, offset: int, bytes_below: int) -> tuple["Ranges", Changes]:
        """Ranges without those below ``offset``, which cover ``bytes_below``; and changed rows."""
        place = bisect_right(self.ends, offset)
        firsts, ends, sizes = self.firsts[place:], self.ends[place:], self.sizes[place:]
        changes: Changes = dict.fromkeys(self.firsts[:place])
        if firsts and firsts[0] < offset:
            changes[firsts[0]] = None
            firsts[0] = offset
            sizes[0] -= bytes_below - sum(self.sizes[:place])
            changes[offset] = (ends[0], sizes[0])
        return Ranges(firsts, ends, sizes), changes


NOTHING = Ranges()


class Deletion(NamedTuple):
    """The result of deleting: ranges, rows that change, number of messages."""

    ranges: Ranges
    changes: Changes
    messages: int


def erase(
    deleted: Ranges,
    wanted: Iterable[OffsetRange],
    payload_bytes: Callable[[list[OffsetRange]], list[int]],
) -> Deletion:
    """Delete the living messages of some ranges, which ascend and lie within the topic."""
    offset_ranges = [part for first, end in wanted for part in deleted.living(first, end)]
    sizes = payload_bytes(offset_ranges)
    added = [(first, end, size) for (first, end), size in zip(offset_ranges, sizes, strict=True)]
    ranges, changes = deleted.plus(added)
    return Deletion(ranges, changes, sum(end - first for first, end in offset_ranges))


def ranges_of(offsets: Iterable[int], first: int, end: int) -> list[OffsetRange]:
    ordered = sorted({offset for offset in offsets if first <= offset < end})
    numbered = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    runs = ([offset for _, offset in run] for _, run in numbered)
    return [(run[0], run[-1] + 1) for run in runs]


def put_deleted(
    environment: Environment,
    transaction: Transaction,
    topic: tuple[int, bytes],
    ranges: Ranges,
    changes: Changes,
) -> None:
    database = environment["deleted"]
    topic_id, name = topic
    for first, row in changes.items():
        if row is None:
            transaction.delete(index_key(topic_id, first), db=database)
        else:
            transaction.put(index_key(topic_id, first), _ROW.pack(*row), db=database)
    if ranges.count:
        transaction.put(topic_key(topic_id), name, db=database)
    else:
        transaction.delete(topic_key(topic_id), db=database)


def load_deleted(
    environment: Environment, transaction: Transaction, dropped: Container[int]
) -> dict[int, tuple[bytes, Ranges]]:
    """Name and ranges by topic id, without dropped topics; raises StorageDamaged."""
    found: dict[int, tuple[bytes, list[tuple[int, int, int]]]] = {}
    for key, value in transaction.cursor(environment["deleted"]):
        topic_id = int.from_bytes(key[:4], "big")
        if topic_id in dropped:
            continue
        if len(key) == len(topic_key(topic_id)):
            found[topic_id] = (bytes(value), [])
        elif topic_id not in found:
            raise StorageDamaged(
                f"messages were deleted from topic number {topic_id}, which has no name",
                "Restore the data directory from a backup.",
            )
        else:
            found[topic_id][1].append((unpack_index_key(key)[1], *_ROW.unpack(value)))
    return {
        topic_id: (name, Ranges(*zip(*rows, strict=True)))
        for topic_id, (name, rows) in found.items()
    }
