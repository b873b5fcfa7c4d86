"""The state of topics: which offsets exist. Loaded when needed, kept while it may change.

A topic's row on disk may lag behind its state here by the entries of an incomplete round, never the
reverse. Applying an entry is idempotent, so a start may apply entries to rows that are partly
newer.

Memory holds the topics whose row is behind, those with deleted messages, and a bounded number of
others, the *idle* ones, evicted in LRU order; nothing here iterates over all. The writer thread
changes states and ranges under one lock; readers get copies.
"""

import struct
import threading
from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence

from penstock.store.deletions import NOTHING, Ranges
from penstock.store.environment import Environment, Transaction
from penstock.store.keys import NAME_BYTES_WHOLE, name_key
from penstock.store.new_topics import NewTopics
from penstock.store.store import TopicInfo

TOPICS_CACHED_MAX = 131_072  # topics kept in memory besides those that must be: some 70 MB

_ROW = struct.Struct("<IIQQQQ")  # id, zero, first offset, next offset, bytes, created


class StoredTopic:
    """A topic, as of the last commit."""

    __slots__ = ("bytes", "created_ms", "first_offset", "id", "name", "next_offset")

    def __init__(
        self,
        topic_id: int,
        name: bytes,
        first_offset: int = 0,
        next_offset: int = 0,
        size: int = 0,
        created_ms: int = 0,
    ) -> None:
        self.id = topic_id
        self.name = name
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.bytes = size
        self.created_ms = created_ms

    def copy(self) -> "StoredTopic":
        offsets = self.first_offset, self.next_offset
        return StoredTopic(self.id, self.name, *offsets, self.bytes, self.created_ms)

    def apply(self, first_offset: int, count: int, size: int) -> None:
        """Add a group, unless the state contains it already; ``apply_groups`` does so to many."""
        if first_offset + count > self.next_offset:
            self.next_offset = first_offset + count
            self.bytes += size

    def info(self, deleted: Ranges = NOTHING) -> TopicInfo:
        first_offset = deleted.skip(self.first_offset)
        return TopicInfo(
            self.id,
            self.name,
            first_offset,
            self.next_offset,
            self.bytes - deleted.bytes,
            self.created_ms,
            deleted.count - (first_offset - self.first_offset),
        )


def apply_groups(
    states: Sequence[StoredTopic],
    first_offsets: Sequence[int],
    counts: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Add a group to each state, unless the state contains it already."""
    for state, first_offset, count, size in zip(states, first_offsets, counts, sizes, strict=True):
        next_offset = first_offset + count
        if next_offset > state.next_offset:
            state.next_offset = next_offset
            state.bytes += size


def pack_topic(state: StoredTopic) -> bytes:
    numbers = (state.id, 0, state.first_offset, state.next_offset, state.bytes, state.created_ms)
    return _ROW.pack(*numbers) + state.name


def moved_row(moved: tuple[StoredTopic, int, int]) -> tuple[bytes, bytes]:
    """Key and row of a topic with another first offset and number of bytes."""
    state, first_offset, size = moved
    name = state.name
    row = _ROW.pack(state.id, 0, first_offset, state.next_offset, size, state.created_ms) + name
    return (name if len(name) <= NAME_BYTES_WHOLE else name_key(name)), row


def unpack_topic(row: bytes | memoryview) -> StoredTopic:
    topic_id, _, *numbers = _ROW.unpack_from(row)
    return StoredTopic(topic_id, bytes(row[_ROW.size :]), *numbers)


def put_topic(environment: Environment, transaction: Transaction, state: StoredTopic) -> None:
    transaction.put(name_key(state.name), pack_topic(state), db=environment["topics"])


class TopicStates:
    """States in memory, by name and by id."""

    def __init__(self) -> None:
        # held while states change, so that a reader's copy is consistent
        self.lock = threading.Lock()
        self._by_name: dict[bytes, StoredTopic] = {}
        # states that may be evicted, and perhaps some that no longer may
        self._idle: OrderedDict[bytes, StoredTopic] = OrderedDict()
        self.next_id = 1  # any thread may read it
        self._by_id: dict[int, StoredTopic] = {}
        self._deleted: dict[bytes, Ranges] = {}
        self.new = NewTopics(self.lock)

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._by_name)

    def get(self, name: bytes) -> StoredTopic | None:
        """A state, if it is in memory. Writer thread."""
        return self._by_name.get(name)

    def known(self, names: Iterable[bytes]) -> list[StoredTopic | None]:
        """``get`` of many."""
        return list(map(self._by_name.get, names))

    def known_ids(self, topic_ids: Iterable[int]) -> list[StoredTopic | None]:
        """``by_id`` of many."""
        return list(map(self._by_id.get, topic_ids))

    def by_id(self, topic_id: int) -> StoredTopic | None:
        """A state whose row is behind; None if the topic was dropped. Writer thread."""
        return self._by_id.get(topic_id)

    def begin(self, state: StoredTopic) -> None:
        """Remember the state of a topic that has no row yet. Writer thread, holding the lock."""
        self.keep(state)
        self.new.add(state.name)

    def have_rows(self, states: Iterable[StoredTopic]) -> None:
        """Note that the rows of these topics are on disk. Writer thread."""
        with self.lock:
            self.new.discard([state.name for state in states])

    def keep(self, state: StoredTopic) -> None:
        """Remember a state until it is ``idle``. Writer thread, holding the lock."""
        self._by_name[state.name] = state
        self._by_id[state.id] = state
        if self._idle:
            self._idle.pop(state.name, None)

    def idle(self, state: StoredTopic) -> None:
        """Allow to evict a state that equals its row. Writer thread, holding the lock."""
        self._idle[state.name] = state
        self._idle.move_to_end(state.name)

    def remove(self, state: StoredTopic) -> None:
        """Forget a dropped topic. Writer thread, holding the lock."""
        self._by_name.pop(state.name, None)
        self._by_id.pop(state.id, None)
        self._idle.pop(state.name, None)
        self._deleted.pop(state.name, None)
        self.new.discard([state.name])

    def deleted(self, name: bytes) -> Ranges:
        """Deleted ranges in groups that still exist. Writer thread."""
        return self._deleted.get(name, NOTHING)

    @property
    def with_deleted(self) -> Container[bytes]:
        """Topics that have deleted ranges. Writer thread."""
        return self._deleted.keys()

    def set_deleted(self, name: bytes, ranges: Ranges) -> None:
        """Replace a topic's deleted ranges. Writer thread, holding the lock."""
        if ranges.count:
            self._deleted[name] = ranges
        elif self._deleted.pop(name, None) is not None and name in self._by_name:
            self.idle(self._by_name[name])

    def deleted_names(self) -> list[bytes]:
        """Topics with deleted messages, whose states must be in memory. Writer thread."""
        return list(self._deleted)

    def view(self, name: bytes) -> tuple[TopicInfo, Ranges] | None:
        """A topic and its deleted ranges, if it is in memory. Any thread."""
        with self.lock:
            state = self._by_name.get(name)
            if state is None:
                return None
            deleted = self._deleted.get(name, NOTHING)
            return state.info(deleted), deleted

    def is_intact(self, topic_id: int, name: bytes, offset: int) -> bool:
        """Whether a topic is in memory, and nothing of it from an offset on is gone. Any thread."""
        state = self._by_id.get(topic_id)
        return state is not None and state.first_offset <= offset and name not in self._deleted

    def evict(self, behind: Container[int]) -> None:
        """Evict idle states in LRU order. Writer thread; it costs what it evicts.

        ``behind`` are the topics whose rows are behind: these stay.
        """
        with self.lock:
            while self._idle and len(self._by_name) > TOPICS_CACHED_MAX:
                name, state = self._idle.popitem(last=False)
                if not (state.id in behind or name in self._deleted):
                    del self._by_name[name]
                    del self._by_id[state.id]
