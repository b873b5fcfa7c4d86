"""Giving a batch its place: topic ids and offsets follow from what the journal has before it."""

from typing import NamedTuple

from penstock.store.batch import Batch
from penstock.store.entry import Placement, encode
from penstock.store.environment import Environment, Transaction
from penstock.store.keys import name_key
from penstock.store.topics import StoredTopic, TopicStates, unpack_topic


class AssignedBatch(NamedTuple):
    """A batch as an entry, and the states of its topics: those it adds to, those it drops."""

    entry: bytes
    first_offsets: tuple[int, ...]
    states: list[StoredTopic]
    gone: list[StoredTopic]


_NO_ENTRY = AssignedBatch(b"", (), [], [])


class OffsetAssigner:
    """Makes entries of batches. Writer thread only."""

    def __init__(self, environment: Environment, topics: TopicStates) -> None:
        self._environment = environment
        self._topics = topics

    def draw(
        self, transaction: Transaction, batch: Batch, index: int, sequence: int
    ) -> AssignedBatch:
        """Give a batch its place behind all that is applied; nothing if it is for rows only."""
        if not batch.has_content:
            return _NO_ENTRY
        gone = self._gone(transaction, batch) if batch.drops else []
        states = self._states(transaction, batch)
        first_offsets = tuple([state.next_offset for state in states])
        placements = [
            Placement(s.id, first) for s, first in zip(states, first_offsets, strict=True)
        ]
        dropped = [(state.id, state.name) for state in gone]
        entry = encode(batch, index, sequence, placements, dropped)
        return AssignedBatch(entry, first_offsets, states, gone)

    def _gone(self, transaction: Transaction, batch: Batch) -> list[StoredTopic]:
        """States of the topics that a batch drops, those that there are."""
        found = [self.topic(transaction, name) for name in batch.drops]
        return [state for state in found if state is not None]

    def _states(self, transaction: Transaction, batch: Batch) -> list[StoredTopic]:
        """States of the batch's topics; new ones get the next ids, not yet remembered."""
        states = []
        topic_id = self._topics.next_id
        for name in batch.groups:
            state = self._topics.get(name) or self.topic(transaction, name)
            if state is None or name in batch.drops:
                state = StoredTopic(topic_id, name)
                topic_id += 1
            states.append(state)
        return states

    def topic(self, transaction: Transaction, name: bytes) -> StoredTopic | None:
        """The state of a topic, brought to memory if it was not there."""
        state = self._topics.get(name)
        if state is None:
            row = transaction.get(name_key(name), db=self._environment["topics"])
            if row is not None:
                state = unpack_topic(row)
                with self._topics.lock:
                    self._topics.keep(state)
                    self._topics.idle(state)
        return state
