"""The journal as clients and administrators see it: without what is staged.

Staged rows lie in topics of the journal, too. Every door, page and list reads the journal through
this module, so none of them can show a staged topic by oversight. Only staging uses ``whole``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.model.message import Message
from penstock.model.stages import is_staged
from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.history import History, HistoryStep
from penstock.store.raw_slice import RawSlice
from penstock.store.scan import Scan, ScanStep
from penstock.store.store import (
    Commit,
    RawQuery,
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
    """A store without its staged topics; see ``store.store.Store`` for the methods."""

    def __init__(self, whole: Store) -> None:
        self.whole = whole

    # ── topics that may be staged ────────────────────────────────────────────────────────────────

    def topic(self, name: bytes) -> TopicInfo | None:
        return None if is_staged(name) else self.whole.topic(name)

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        if is_staged(prefix):
            return iter(())
        return (info for info in self.whole.topics(prefix, after) if not is_staged(info.name))

    def count_from(self, topic: bytes, offset: int) -> int:
        return 0 if is_staged(topic) else self.whole.count_from(topic, offset)

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        if is_staged(topic):
            return TopicRange(topic, 0, offset, [])
        return self.whole.read_topic(topic, offset, count_max, bytes_max)

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        return None if is_staged(query.topic) else self.whole.read_raw(query, make)

    def read_raw_many(
        self, scan: Scan, count_max: int, bytes_max: int, make: Callable[[ScanStep], Result]
    ) -> Result:
        for topic in scan.left():
            topic.is_done = topic.is_done or is_staged(topic.name)
        return self.whole.read_raw_many(scan, count_max, bytes_max, make)

    def read_history(
        self, history: History, low: int, end: int, count_max: int, bytes_max: int
    ) -> HistoryStep:
        found, reached = self.whole.read_history(history, low, end, count_max, bytes_max)
        return HistoryStep([each for each in found if not is_staged(each.topic)], reached)

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        return offset if is_staged(topic) else self.whole.measure(topic, offset, bytes_max)

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        if is_staged(topic):
            return TopicFlags(offset, [], {})
        return self.whole.read_flags(topic, offset, count_max)

    def trim(self, topic: bytes, offset: int) -> int:
        return 0 if is_staged(topic) else self.whole.trim(topic, offset)

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        return 0 if is_staged(topic) else self.whole.delete(topic, offsets)

    # ── everything else ───────────────────────────────────────────────────────────────────────

    @property
    def next_sequence(self) -> int:
        return self.whole.next_sequence

    @property
    def next_index(self) -> int:
        return self.whole.next_index

    def commit(self, batch: Batch) -> Commit:
        return self.whole.commit(batch)

    def commit_small(self, batch: Batch) -> Commit:
        return self.whole.commit_small(batch)

    @property
    def has_room(self) -> bool:
        return self.whole.has_room

    def prepare(self) -> None:
        self.whole.prepare()

    def replay(self) -> Iterator[Entry]:
        return self.whole.replay()

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        return self.whole.rows(table)

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        return self.whole.read(sequences)

    def retain(self, request: RetentionRequest) -> RetentionResult:
        return self.whole.retain(request)

    def size(self) -> StoreSize:
        return self.whole.size()

    def close(self) -> None:
        self.whole.close()
