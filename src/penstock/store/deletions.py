"""Offsets that were deleted though their groups are still there: tombstones, as ranges.

A group is written once and never touched again, so a message that is trimmed or deleted stays on
disk until its whole group goes. Meanwhile its offset lies in a *range* of deleted offsets, and
everything that reads looks past those. Ranges of a topic are disjoint and never touch: two that
meet become one, so the offset after a range is a living message or the topic's end.

Two notions of a topic's beginning follow. Its *state* (topics.py) begins with the oldest group that
is still there; that is what retention moves, and ranges below it are forgotten. Its ``TopicInfo``
begins with the first living message. Trimming is deleting a range at the beginning; nothing else
knows the difference.

Ranges are immutable: a change makes new ones, and a reader keeps those it began with. All ranges of
all topics are in memory, 24 bytes each, and each knows how many bytes of payload it covers, so that
sizes stay exact without looking at the messages again. A topic that has none costs one failed look
into a dict. On disk each is a row of its own; the topic's name stands before the first.
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

DELETED_ROW_BYTES = 64
"""What a range of deleted offsets takes on disk, or a little less."""

OFFSET_MAX = 2**64 - 1

OffsetRange: TypeAlias = tuple[int, int]
"""An offset, and the one after the last."""

Changes: TypeAlias = dict[int, tuple[int, int] | None]
"""Rows by first offset: the offset after the last, and bytes; None where a row goes."""

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
        """Whether an offset is deleted."""
        return self.skip(offset) != offset

    def within(self, first: int, end: int) -> Iterator[OffsetRange]:
        """The deleted stretches of ``first … end - 1``."""
        for place in range(bisect_right(self.ends, first), bisect_left(self.firsts, end)):
            yield max(first, self.firsts[place]), min(end, self.ends[place])

    def living(self, first: int, end: int = OFFSET_MAX) -> Iterator[OffsetRange]:
        """The other stretches of ``first … end - 1``."""
        for deleted_first, deleted_end in self.within(first, end):
            if first < deleted_first:
                yield first, deleted_first
            first = deleted_end
        if first < end:
            yield first, end

    def plus(self, added: Iterable[tuple[int, int, int]]) -> tuple["Ranges", Changes]:
        """With living stretches (first, end, bytes) deleted as well; and what changes on disk."""
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
        """Without what lies below ``offset``, which covers so many bytes; and what changes."""
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
"""The ranges of a topic from which nothing was deleted."""


class Deletion(NamedTuple):
    """What deleting comes to: the ranges afterwards, the rows that change, how many messages go."""

    ranges: Ranges
    changes: Changes
    messages: int


def erase(
    deleted: Ranges,
    wanted: Iterable[OffsetRange],
    payload_bytes: Callable[[list[OffsetRange]], list[int]],
) -> Deletion:
    """Delete what still lives of some stretches (ascending, disjoint), all within the topic."""
    stretches = [part for first, end in wanted for part in deleted.living(first, end)]
    sizes = payload_bytes(stretches)
    added = [(first, end, size) for (first, end), size in zip(stretches, sizes, strict=True)]
    ranges, changes = deleted.plus(added)
    return Deletion(ranges, changes, sum(end - first for first, end in stretches))


def stretches_of(offsets: Iterable[int], first: int, end: int) -> list[OffsetRange]:
    """Those of some offsets that lie in ``first … end - 1``, as stretches."""
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
    """Write the rows of a topic (id and name) that change; ``ranges`` are those afterwards."""
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
    """The whole table, without topics that were dropped: name and ranges by topic id.

    Raises StorageDamaged.
    """
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
