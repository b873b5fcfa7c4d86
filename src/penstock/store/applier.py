"""Applying committed entries: they enter the index, and topics grow, begin or are dropped."""

from collections.abc import Callable, Sequence

import msgspec

from penstock.store.dropped import Dropped, put_dropped
from penstock.store.entry import FIRST_OFFSETS, TOPIC_IDS, Entry
from penstock.store.environment import Environment, Transaction
from penstock.store.index import IndexedEntry, MemoryIndex, indexed_entry
from penstock.store.journal import broken_order
from penstock.store.keys import name_key
from penstock.store.marks import Marks, StorePosition, put_marks
from penstock.store.offset_assigner import OffsetAssigner
from penstock.store.topics import StoredTopic, apply_groups


class Applier:
    """Makes committed entries visible to readers; calls ``forget`` with dropped topics."""

    def __init__(
        self,
        environment: Environment,
        memory: MemoryIndex,
        assigner: OffsetAssigner,
        dropped: dict[int, Dropped],
        forget: Callable[[bytes], None],
    ) -> None:
        self._environment = environment
        self._memory = memory
        self._assigner = assigner
        self._topics = assigner.topics
        self._dropped = dropped
        self._forget_limits = forget

    def add(
        self,
        entry: IndexedEntry,
        states: Sequence[StoredTopic],
        position: StorePosition,
        gone: Sequence[StoredTopic] = (),
    ) -> None:
        """Apply an entry; ``states`` are those of its topics, ``gone`` those that it drops.

        Topics with an id that was not given before are new; those with others are in memory.
        """
        self._memory.add(entry)  # before a reader learns that there is more
        if states or gone:
            with self._topics.lock:
                for state in gone:
                    self._forget(state, position)
                apply_groups(states, entry.first_offsets, entry.message_counts, entry.group_bytes)
                newest_id = max(entry.topic_ids, default=0)
                if newest_id >= self._topics.next_id:
                    self._begin(states)
        position.next_index = entry.entry_index + 1
        position.next_sequence = entry.end_sequence

    def _begin(self, states: Sequence[StoredTopic]) -> None:
        next_id = self._topics.next_id
        for state in states:
            if state.id >= next_id:
                self._topics.next_id = max(self._topics.next_id, state.id + 1)
                if state.id not in self._dropped:
                    self._topics.begin(state)

    def add_committed(self, entry: Entry, position: StorePosition) -> None:
        gone = self._dropped_by(entry)
        if gone:
            self._write_gone(gone, position)
        with self._topics.lock:
            for state in gone:
                self._forget(state, position)
        states, fresh = self._states(entry)
        self.add(indexed_entry(entry), states, position)
        with self._topics.lock:
            for state in fresh:
                self._topics.begin(state)

    def write_drops(
        self,
        transaction: Transaction,
        marks: Marks,
        gone: Sequence[StoredTopic],
        position: StorePosition,
    ) -> Marks:
        """Replace the rows of dropped topics by records; return the marks after that."""
        for state in gone:
            transaction.delete(name_key(state.name), db=self._environment["topics"])
            put_dropped(self._environment, transaction, Dropped(position.next_index, state))
        counts = (state.info(self._topics.deleted(state.name)).count for state in gone)
        removed = marks.removed_messages + sum(counts)
        return msgspec.structs.replace(marks, removed_messages=removed)

    def _write_gone(self, gone: Sequence[StoredTopic], position: StorePosition) -> None:
        def job(transaction: Transaction) -> Marks:
            marks = self.write_drops(transaction, position.marks, gone, position)
            put_marks(self._environment, transaction, marks)
            return marks

        position.marks, _ = self._environment.write(0, job)

    def _forget(self, state: StoredTopic, position: StorePosition) -> None:
        self._topics.remove(state)
        self._dropped[state.id] = Dropped(position.next_index, state)
        self._forget_limits(state.name)

    def _dropped_by(self, entry: Entry) -> list[StoredTopic]:
        """Topics that an entry drops, without those that have a record of it already."""
        dropped = [(number, name) for number, name in entry.dropped if number not in self._dropped]
        if not dropped:
            return []
        with self._environment.reading() as transaction:
            found = [self._assigner.topic(transaction, name) for _, name in dropped]
        states = [state for state in found if state is not None]
        if [state.id for state in states] != [number for number, _ in dropped]:
            raise broken_order(entry.index, "drops a topic that is not on record as dropped")
        return states

    def _states(self, entry: Entry) -> tuple[list[StoredTopic], list[StoredTopic]]:
        """States of an entry's topics, and those of them that are not in memory."""
        if not self._dropped:
            known = self._topics.known_ids(entry.column(TOPIC_IDS))
            first_offsets = entry.column(FIRST_OFFSETS)
            found = [
                state
                for state, first in zip(known, first_offsets, strict=True)
                if state is not None and state.next_offset >= first
            ]
            if len(found) == len(known):
                return found, []
        return self._states_by_name(entry)

    def _states_by_name(self, entry: Entry) -> tuple[list[StoredTopic], list[StoredTopic]]:
        """The same, of topics that may be new, or not in memory, or dropped by a later entry."""
        states, fresh = [], []
        with self._environment.reading() as transaction:
            for group, topic_id, name, first_offset, _, _ in entry.extents(0, entry.group_count):
                dropped = self._dropped.get(topic_id)  # by a later entry
                state = dropped.state if dropped else self._assigner.topic(transaction, name)
                if state is None:
                    state = StoredTopic(topic_id, name, created_ms=_first_ms(entry, group))
                    fresh.append(state)
                if state.id != topic_id or state.next_offset < first_offset:
                    raise broken_order(entry.index, f"leaves a gap in topic {name!r}")
                states.append(state)
        return states, fresh


def _first_ms(entry: Entry, group: int) -> int:
    first_run = entry.group_runs[group - 1] if group else 0
    return int(entry.time_ms + entry.run_times[first_run])
