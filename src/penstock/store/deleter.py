"""Trimming topics and deleting single messages, durably (see deletions.py)."""

from collections.abc import Callable, Sequence

import msgspec

from penstock.store.deletions import (
    DELETED_ROW_BYTES,
    Deletion,
    OffsetRange,
    erase,
    put_deleted,
    ranges_of,
)
from penstock.store.environment import Environment, Transaction
from penstock.store.marks import StorePosition, put_marks
from penstock.store.offset_assigner import OffsetAssigner
from penstock.store.reader import Reader
from penstock.store.topics import StoredTopic


class Deleter:
    """Deletes messages; calls ``examine`` with each topic that lost some. Writer thread only."""

    def __init__(
        self,
        environment: Environment,
        assigner: OffsetAssigner,
        reader: Reader,
        position: StorePosition,
        examine: Callable[[bytes], None],
    ) -> None:
        self._environment = environment
        self._assigner = assigner
        self._topics = assigner.topics
        self._reader = reader
        self._position = position
        self._examine = examine

    def trim(self, topic: bytes, offset: int) -> int:
        """Delete all messages below an offset; return how many there were."""
        return self._delete(topic, lambda first, end: [(first, min(offset, end))])

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        """Delete single messages; return how many there were."""
        return self._delete(topic, lambda first, end: ranges_of(offsets, first, end))

    def _delete(self, name: bytes, wanted: Callable[[int, int], list[OffsetRange]]) -> int:
        with self._environment.reading() as transaction:
            state = self._assigner.topic(transaction, name)
        if state is None:
            return 0
        deletion = erase(
            self._topics.deleted(name),
            wanted(state.first_offset, state.next_offset),
            lambda offset_ranges: self._reader.payload_bytes(state.id, offset_ranges),
        )
        if deletion.messages:
            self._write(state, deletion)
        return deletion.messages

    def _write(self, state: StoredTopic, deletion: Deletion) -> None:
        removed = self._position.marks.removed_messages + deletion.messages
        marks = msgspec.structs.replace(self._position.marks, removed_messages=removed)

        def job(transaction: Transaction) -> None:
            topic = (state.id, state.name)
            put_deleted(self._environment, transaction, topic, deletion.ranges, deletion.changes)
            put_marks(self._environment, transaction, marks)

        self._environment.write(len(deletion.changes) * DELETED_ROW_BYTES, job)
        self._position.marks = marks
        with self._topics.lock:
            self._topics.set_deleted(state.name, deletion.ranges)
        self._examine(state.name)
