"""Offsets of pending messages, for publishers that are acknowledged before the commit.

Under ``durability = "interval"`` a publisher does not wait for the commit, and some ask for the
offset of what they published. It follows from the journal and from what is pending before it: there
is no other writer, batches are committed in order, and a failed batch is retried unchanged. A topic
that is deleted starts again at 0 with the batch that deletes it; messages published to it before
must be in an earlier batch (``Pipeline.drop_topic`` ensures that).

The store is queried once per topic. It cannot be queried about topics of the batch in flight, which
may or may not be on disk; such an offset is reported with the commit.
"""

from typing import Final

from penstock.commit.pending_batch import OffsetWaiter, PendingBatch
from penstock.core.completion import Completion, Journaled
from penstock.core.producers import Producers
from penstock.errors import StorageError
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store

TOPICS_MAX: Final = 65_536  # topics whose offsets are remembered


class PendingOffsets:
    """Predicts offsets and holds the completions that get them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._firsts: dict[
            bytes, int
        ] = {}  # offset of each topic's first message in the open batch
        # offset, message count, completion, time
        self._waiting: list[tuple[int, int, Completion[Journaled], int]] = []

    def add(self, wanted: OffsetWaiter, in_flight: Batch | None) -> bool:
        """Have ``take`` return the waiter with its offset; False if the offset is not known yet."""
        topic, place, count, waiter, now_ms = wanted
        first = self._firsts.get(topic)
        if first is None:
            first = self._next_offset(topic, in_flight)
        if first is None:
            return False
        self._firsts[topic] = first
        self._waiting.append((first + place, count, waiter, now_ms))
        return True

    def _next_offset(self, topic: bytes, in_flight: Batch | None) -> int | None:
        if in_flight is not None and (topic in in_flight.topics or topic in in_flight.drops):
            return None
        try:
            info = self._store.topic(topic)
        except StorageError:
            return None
        return info.next_offset if info else 0

    def dropped(self, topic: bytes) -> None:
        """The open batch, which has no message of the topic yet, deletes it."""
        self._firsts[topic] = 0

    def sealed(self, batch: Batch) -> None:
        """The open batch is in flight now; the next one begins."""
        for topic in batch.topics.keys() & self._firsts.keys():
            self._firsts[topic] += batch.messages_of(topic)
        if len(self._firsts) > TOPICS_MAX:
            self._firsts.clear()

    def take(self) -> list[tuple[int, int, Completion[Journaled], int]]:
        waiting, self._waiting = self._waiting, []
        return waiting


def complete_offsets(pending: PendingBatch, commit: Commit) -> None:
    """Complete those who waited for the commit with the offsets of their messages."""
    numbers, firsts = pending.batch.topics, commit.first_offsets
    for topic, place, _count, waiter, now_ms in pending.offset_waiters:
        waiter.done(Journaled(firsts[numbers[topic]] + place, now_ms))


def note_producers(producers: Producers, batch: Batch, commit: Commit) -> None:
    """Remember the offsets of numbered messages that are on disk."""
    for topic, runs in batch.producers.items():
        first = commit.first_offsets[batch.topics[topic]]
        for place, count, producer, seq in runs:
            producers.note(topic, producer, seq, first + place, count)
