"""Giving a batch its place: topic ids and offsets follow from what the journal has before it."""

from typing import NamedTuple

from penstock.store.batch import Batch
from penstock.store.entry import TIME_SPAN_MS_MAX, Placement, encode_entry
from penstock.store.environment import Environment, Transaction
from penstock.store.index import IndexedEntry, indexed_batch
from penstock.store.keys import name_key
from penstock.store.marks import StorePosition
from penstock.store.topics import StoredTopic, TopicStates, unpack_topic


class AssignedBatch(NamedTuple):
    """A batch as an entry, and the states of the topics that it adds to and that it drops."""

    entry: bytes
    indexed: IndexedEntry | None
    first_offsets: tuple[int, ...]
    states: list[StoredTopic]
    gone: list[StoredTopic]


_NO_ENTRY = AssignedBatch(b"", None, (), [], [])


class OffsetAssigner:
    """Makes entries of batches. Writer thread only."""

    def __init__(self, environment: Environment, topics: TopicStates) -> None:
        self._environment = environment
        self.topics = topics

    def assign(
        self, transaction: Transaction, batch: Batch, position: StorePosition
    ) -> AssignedBatch:
        """Encode a batch as the next entry; there is none if it only has rows."""
        if not batch.has_content:
            return _NO_ENTRY
        gone = self._gone(transaction, batch) if batch.drops else []
        states, fresh = self._states(transaction, batch)
        first_offsets = tuple([state.next_offset for state in states])
        placements = [
            Placement(s.id, first) for s, first in zip(states, first_offsets, strict=True)
        ]
        dropped = [(state.id, state.name) for state in gone]
        index, sequence = position.next_index, position.next_sequence
        encoded = encode_entry(batch, index, sequence, placements, dropped)
        for state in fresh:
            first_ms = batch.groups[state.name].runs[2]
            state.created_ms = min(first_ms, encoded.time_ms + TIME_SPAN_MS_MAX)
        indexed = indexed_batch(batch, encoded, index, sequence, placements)
        return AssignedBatch(encoded.data, indexed, first_offsets, states, gone)

    def _gone(self, transaction: Transaction, batch: Batch) -> list[StoredTopic]:
        found = [self.topic(transaction, name) for name in batch.drops]
        return [state for state in found if state is not None]

    def _states(
        self, transaction: Transaction, batch: Batch
    ) -> tuple[list[StoredTopic], list[StoredTopic]]:
        """States of the batch's topics; new ones get the next ids, remembered once committed."""
        states, fresh = [], []
        topic_id = self.topics.next_id
        for name in batch.groups:
            state = self.topics.get(name) or self.topic(transaction, name)
            if state is None or name in batch.drops:
                state = StoredTopic(topic_id, name)
                fresh.append(state)
                topic_id += 1
            states.append(state)
        return states, fresh

    def topic(self, transaction: Transaction, name: bytes) -> StoredTopic | None:
        """The state of a topic, loaded into memory if needed."""
        state = self.topics.get(name)
        if state is None:
            row = transaction.get(name_key(name), db=self._environment["topics"])
            if row is not None:
                state = unpack_topic(row)
                with self.topics.lock:
                    self.topics.keep(state)
                    self.topics.idle(state)
        return state
