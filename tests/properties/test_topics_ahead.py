"""Entries that are encoded ahead of the commit are those that one at a time would give."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore
from penstock.store.store import LogEntry, LogStore, Write

NAMES = [b"a", b"b", b"c/d"]

messages = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 3)), min_size=1, max_size=4)


def batch_of(groups: list[tuple[bytes, int]]) -> Batch:
    batch = Batch()
    for name, count in groups:
        batch.append(name, [b"x"] * count, 1_000, 1)
    return batch


class Ahead(RuleBasedStateMachine):
    """``log`` has all entries; a store of one at a time is rebuilt from it to encode the next."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="ahead-")
        self.stores: list[LogStore] = [LmdbStore(Path(self.directory.name)), MemoryStore()]
        self.log: list[LogEntry] = []
        self.applied = 0
        self.drops_at = 0

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.directory.cleanup()

    def one_at_a_time(self, entries: list[LogEntry]) -> MemoryStore:
        store = MemoryStore()
        for entry in entries:
            store.write(Write([entry], committed=entry.index))
            store.apply(entry.index)
        return store

    @property
    def may_encode(self) -> bool:
        return self.drops_at <= self.applied

    @precondition(lambda self: self.may_encode)
    @rule(groups=messages)
    def write(self, groups: list[tuple[bytes, int]]) -> None:
        self.append(batch_of(groups))

    @precondition(lambda self: self.applied == len(self.log))
    @rule(name=st.sampled_from(NAMES), groups=messages)
    def drop(self, name: bytes, groups: list[tuple[bytes, int]]) -> None:
        batch = batch_of(groups)
        batch.drop(name)
        self.append(batch)
        self.drops_at = len(self.log)

    def append(self, batch: Batch) -> None:
        expected = self.one_at_a_time(self.log).encode_batch(batch)
        entry = LogEntry(len(self.log) + 1, 0, expected.data)
        for store in self.stores:
            assert store.encode_batch(batch) == expected
            store.write(Write([entry], committed=self.applied))
        self.log.append(entry)

    @rule(count=st.integers(1, 3))
    def apply(self, count: int) -> None:
        self.applied = min(self.applied + count, len(self.log))
        for store in self.stores:
            store.apply(self.applied)

    @precondition(lambda self: self.applied < len(self.log))
    @rule(data=st.data(), groups=st.lists(messages, min_size=1, max_size=3))
    def replace(self, data: st.DataObject, groups: list[list[tuple[bytes, int]]]) -> None:
        """Another leader has replaced the end of the log."""
        first = data.draw(st.integers(self.applied + 1, len(self.log)))
        self.log = self.log[: first - 1]
        if self.drops_at >= first:
            self.drops_at = 0
        entries = [LogEntry(first, 0, b"")]
        for number, names in enumerate(groups, first + 1):
            other = self.one_at_a_time([*self.log, *entries])
            entries.append(LogEntry(number, 0, other.encode_batch(batch_of(names)).data))
        for store in self.stores:
            store.write(Write(entries, committed=self.applied))
        self.log += entries


TestAhead = Ahead.TestCase
TestAhead.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
