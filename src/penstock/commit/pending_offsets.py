"""Where messages in the line will lie, for those who are answered before the disk has them.

Under ``durability = "interval"`` a publisher does not wait for the commit, and some want to know
the offset of what they published. It follows from what the journal has and what is in the line
before: nobody else writes, batches are committed in order, and one that fails is tried again as it
is. A topic that is deleted begins anew, at 0, with the batch that deletes it; messages that were
published to it before must be in an earlier batch (``Pipeline.drop_topic`` sees to that).

The journal is asked once per topic. It cannot be asked about topics of the batch that is on its way
to the disk, as nobody can tell whether it has arrived; whoever wants to know such an offset is told
with the commit.
"""

from typing import Final

from penstock.commit.pending_batch import PendingBatch, Wanted
from penstock.core.completion import Completion, Journaled
from penstock.core.producers import Producers
from penstock.errors import StorageError
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store

TOPICS_MAX: Final = 65_536
"""Topics whose offsets are remembered."""


class PendingOffsets:
    """The offsets of one line, and who waits to be told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._firsts: dict[bytes, int] = {}
        """The offset that a topic's first message in the open batch has, or will have."""
        self._waiting: list[tuple[int, int, Completion[Journaled], int]] = []
        """Offset, how many messages, waiter, time."""

    def tell(self, wanted: Wanted, in_flight: Batch | None) -> bool:
        """Have a waiter told the offset of a message; False if that is not known yet."""
        topic, place, count, waiter, now_ms = wanted
        first = self._firsts.get(topic)
        if first is None:
            first = self._ask(topic, in_flight)
        if first is None:
            return False
        self._firsts[topic] = first
        self._waiting.append((first + place, count, waiter, now_ms))
        return True

    def _ask(self, topic: bytes, in_flight: Batch | None) -> int | None:
        if in_flight is not None and (topic in in_flight.groups or topic in in_flight.drops):
            return None
        try:
            info = self._store.topic(topic)
        except StorageError:
            return None
        return info.next_offset if info else 0

    def dropped(self, topic: bytes) -> None:
        """A topic ends with the open batch, which has no message of it yet."""
        self._firsts[topic] = 0

    def sealed(self, batch: Batch) -> None:
        """The open batch is on its way, the next begins."""
        for topic in batch.groups.keys() & self._firsts.keys():
            self._firsts[topic] += len(batch.groups[topic].payloads)
        if len(self._firsts) > TOPICS_MAX:
            self._firsts.clear()

    def take(self) -> list[tuple[int, int, Completion[Journaled], int]]:
        """Who is to be told now."""
        waiting, self._waiting = self._waiting, []
        return waiting


def tell_offsets(group: PendingBatch, commit: Commit) -> None:
    """Tell those who waited for the disk where their messages lie."""
    firsts = dict(zip(group.batch.groups, commit.first_offsets, strict=True))
    for topic, place, _count, waiter, now_ms in group.tell:
        waiter.done(Journaled(firsts[topic] + place, now_ms))


def note_producers(producers: Producers, batch: Batch, commit: Commit) -> None:
    """Remember where numbered messages lie, whatever the durability, once they are on disk."""
    firsts = dict(zip(batch.groups, commit.first_offsets, strict=True))
    for topic, runs in batch.producers.items():
        for place, count, producer, seq in runs:
            producers.note(topic, producer, seq, firsts[topic] + place, count)
