"""The journal as clients and administrators see it: without what is staged.

Rows that wait for their commit lie in topics of the journal, too. Every door, every page and every
list reads the journal through here, so that none of them can show such a topic by oversight; for
them there is none. Only who stages and commits has the ``whole`` of it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.model.message import Message
from penstock.model.stages import is_staged
from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.store import (
    Commit,
    RawQuery,
    RawSlice,
    RetentionRequest,
    RetentionResult,
    Store,
    StoreSize,
    TopicFlags,
    TopicInfo,
    TopicRange,
)

Result = TypeVar("Result")


class VisibleStore:
    """A store that keeps to itself what is staged; see ``store.store.Store`` for the rest."""

    def __init__(self, whole: Store) -> None:
        self.whole = whole

    # ── what may be staged ────────────────────────────────────────────────────────────────────

    def topic(self, name: bytes) -> TopicInfo | None:
        """One topic, if it may be seen."""
        return None if is_staged(name) else self.whole.topic(name)

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        """All topics that may be seen."""
        if is_staged(prefix):
            return iter(())
        return (info for info in self.whole.topics(prefix, after) if not is_staged(info.name))

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        """Messages of a topic; none of one that may not be seen."""
        if is_staged(topic):
            return TopicRange(topic, 0, offset, [])
        return self.whole.read_topic(topic, offset, count_max, bytes_max)

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        """What is made of messages; None of a topic that may not be seen."""
        return None if is_staged(query.topic) else self.whole.read_raw(query, make)

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        """How far so many bytes reach; nowhere in a topic that may not be seen."""
        return offset if is_staged(topic) else self.whole.measure(topic, offset, bytes_max)

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        """Flags and schedules of a topic; none of one that may not be seen."""
        if is_staged(topic):
            return TopicFlags(offset, [], {})
        return self.whole.read_flags(topic, offset, count_max)

    def trim(self, topic: bytes, offset: int) -> int:
        """Remove messages below an offset; none of a topic that may not be seen."""
        return 0 if is_staged(topic) else self.whole.trim(topic, offset)

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        """Remove single messages; none of a topic that may not be seen."""
        return 0 if is_staged(topic) else self.whole.delete(topic, offsets)

    # ── all the rest ──────────────────────────────────────────────────────────────────────────

    @property
    def next_sequence(self) -> int:
        """See ``Store``."""
        return self.whole.next_sequence

    @property
    def next_index(self) -> int:
        """See ``Store``."""
        return self.whole.next_index

    def commit(self, batch: Batch) -> Commit:
        """See ``Store``."""
        return self.whole.commit(batch)

    def prepare(self) -> None:
        """See ``Store``."""
        self.whole.prepare()

    def replay(self) -> Iterator[Entry]:
        """See ``Store``."""
        return self.whole.replay()

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """See ``Store``."""
        return self.whole.rows(table)

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        """See ``Store``; sequences are known only to who was given the messages."""
        return self.whole.read(sequences)

    def retain(self, request: RetentionRequest) -> RetentionResult:
        """See ``Store``."""
        return self.whole.retain(request)

    def size(self) -> StoreSize:
        """See ``Store``."""
        return self.whole.size()

    def close(self) -> None:
        """See ``Store``."""
        self.whole.close()
