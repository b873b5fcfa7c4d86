"""Giving a batch its place: topic ids and offsets follow from what the journal has before it."""

from typing import NamedTuple, Protocol

from penstock.store.batch import Batch
from penstock.store.entry import TIME_SPAN_MS_MAX, EncodedEntry, encode_entry
from penstock.store.environment import Environment, Transaction
from penstock.store.index import IndexedEntry, indexed_batch
from penstock.store.keys import name_key
from penstock.store.topics import StoredTopic, TopicStates, unpack_topic
from penstock.store.topics_ahead import TopicsAhead


class LogEnd(Protocol):
    """Where the next entry begins."""

    @property
    def next_index(self) -> int: ...

    @property
    def next_sequence(self) -> int: ...


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
        self,
        transaction: "Transaction | None",
        batch: Batch,
        position: LogEnd,
        ahead: TopicsAhead | None = None,
    ) -> AssignedBatch:
        """Encode a batch as the next entry; there is none if it only has rows.

        ``ahead`` has the topics of entries that are not applied yet: then no topic may be dropped.
        Without a transaction all topics must be in memory, and none may be dropped.
        """
        if not batch.has_content:
            return _NO_ENTRY
        gone = self._gone(transaction, batch) if batch.drops else []
        states, fresh = self._states(transaction, batch, ahead)
        first_offsets = tuple([state.next_offset for state in states])
        topic_ids = [state.id for state in states]
        dropped = [(state.id, state.name) for state in gone]
        index, sequence = position.next_index, position.next_sequence
        encoded = encode_entry(batch, index, sequence, topic_ids, first_offsets, dropped)
        if fresh:
            _note_created(batch, encoded, states, fresh)
        indexed = indexed_batch(batch, encoded, index, sequence, topic_ids, first_offsets)
        return AssignedBatch(encoded.data, indexed, first_offsets, states, gone)

    def _gone(self, transaction: "Transaction | None", batch: Batch) -> list[StoredTopic]:
        found = [self.topic(transaction, name) for name in batch.drops]
        return [state for state in found if state is not None]

    def _states(
        self, transaction: "Transaction | None", batch: Batch, ahead: TopicsAhead | None
    ) -> tuple[list[StoredTopic], list[StoredTopic]]:
        """States of the batch's topics; new ones get the next ids, remembered once committed."""
        found = self.topics.known(batch.topics)
        if ahead is None and not batch.drops and all(found):
            return found, []  # type: ignore[return-value] # mypy does not know what all means
        states, fresh = [], []
        topic_id = self.topics.next_id
        known = self.topics.get
        if ahead is not None:
            topic_id = max(topic_id, ahead.next_id)
            known = lambda name: ahead.states.get(name) or self.topics.get(name)  # noqa: E731
        for name in batch.topics:
            state = known(name) or self.topic(transaction, name)
            if state is None or name in batch.drops:
                state = StoredTopic(topic_id, name)
                fresh.append(state)
                topic_id += 1
            states.append(state)
        return states, fresh

    def topic(self, transaction: "Transaction | None", name: bytes) -> StoredTopic | None:
        """The state of a topic, loaded into memory if needed."""
        state = self.topics.get(name)
        if state is None:
            assert transaction is not None
            row = transaction.get(name_key(name), db=self._environment["topics"])
            if row is not None:
                state = unpack_topic(row)
                with self.topics.lock:
                    self.topics.keep(state)
                    self.topics.idle(state)
        return state


def _note_created(
    batch: Batch, encoded: EncodedEntry, states: list[StoredTopic], fresh: list[StoredTopic]
) -> None:
    """New topics were created when their first message came."""
    latest_ms = encoded.time_ms + TIME_SPAN_MS_MAX
    firsts = batch.first_times()
    created = {id(state) for state in fresh}
    for number, state in enumerate(states):
        if id(state) in created:
            state.created_ms = min(firsts[number], latest_ms)
