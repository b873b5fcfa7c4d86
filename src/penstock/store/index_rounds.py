"""Writing the index in rounds, a slice at a time, beside commits or by itself (see index.py)."""

from collections.abc import Callable

import msgspec

from penstock.store.environment import Environment, Transaction
from penstock.store.index import MemoryIndex, row_span
from penstock.store.keys import index_key
from penstock.store.marks import Marks, StorePosition, put_marks
from penstock.store.topics import TopicStates, put_topic

SLICE_TOPICS_ALONE = 4_096  # topics per slice when the index is written by itself, without a commit


class IndexRounds:
    """Moves the index to disk; calls ``examine`` with each topic written. Writer thread only."""

    def __init__(
        self,
        environment: Environment,
        memory: MemoryIndex,
        topics: TopicStates,
        position: StorePosition,
        examine: Callable[[bytes], None],
    ) -> None:
        self._environment = environment
        self._memory = memory
        self._topics = topics
        self._position = position
        self._examine = examine
        self.is_wanted = True  # whether retention may begin a round of its own

    def begin_if_due(self) -> None:
        if not self._memory.is_writing and self._memory.fullness >= 1:
            self._begin()

    def _begin(self) -> None:
        self._memory.begin_round(self._position.next_index - 1, self._position.next_sequence)

    def write_slice(
        self, transaction: Transaction, marks: Marks, topics_min: int = 0
    ) -> tuple[list[int], Marks]:
        """Write a slice of the current round; return its topics, and the marks after it."""
        memory = self._memory
        if not memory.is_writing:
            return [], marks
        rows = memory.slice(topics_min)
        for topic_id, row in rows:
            first_offset, _ = row_span(row)
            key = index_key(topic_id, first_offset)
            transaction.put(key, bytes(row), db=self._environment["index"])
            state = self._topics.by_id(topic_id)
            if state is not None:
                put_topic(self._environment, transaction, state)
        if memory.is_last(len(rows)):
            marks = msgspec.structs.replace(
                marks,
                next_topic_id=self._topics.next_id,
                flushed_index=memory.round_index,
                flushed_sequence=memory.round_sequence,
            )
        return [topic_id for topic_id, _ in rows], marks

    def advance(self, slice_topics: list[int]) -> None:
        if not self._memory.is_writing:
            return
        states = [state for state in map(self._topics.by_id, slice_topics) if state is not None]
        with self._topics.lock:
            for state in states:
                self._examine(state.name)
                self._topics.idle(state)
        self._memory.advance(len(slice_topics))
        self._topics.evict()

    def flush(self) -> bool:
        """Write a slice in a transaction of its own; return whether more is left."""
        memory = self._memory
        if not memory.is_writing:
            if not memory.is_gathering:
                return False
            self._begin()
        self._flush_slice(SLICE_TOPICS_ALONE)
        return memory.is_writing or memory.is_gathering

    def flush_for_retention(self) -> None:
        """Write a slice for retention, with at most one round of its own until that is done."""
        if self.is_wanted and not self._memory.is_writing and self._memory.is_gathering:
            self.is_wanted = False
            self._begin()
        if self._memory.is_writing:
            self._flush_slice()

    @property
    def is_flush_left(self) -> bool:
        return self._memory.is_writing or (self.is_wanted and self._memory.is_gathering)

    def _flush_slice(self, topics_min: int = 0) -> None:
        before = self._position.marks

        def job(transaction: Transaction) -> tuple[list[int], Marks]:
            topics, marks = self.write_slice(transaction, before, topics_min)
            if marks is not before:
                put_marks(self._environment, transaction, marks)
            return topics, marks

        (topics, self._position.marks), _ = self._environment.write(0, job)
        self.advance(topics)
