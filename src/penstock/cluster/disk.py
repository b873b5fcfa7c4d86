"""One thing after another on the writer thread, and what is gathered for it meanwhile.

While the writer is busy the core goes on: what it wants written, applied and sent is collected in
one ``DiskWork``, which runs in one transaction when the writer is free. That is group commit.
Messages that must not leave before something is durable are part of the work.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.cluster.forwarding import MergedBatch, QueuedBatch, merge
from penstock.cluster.reads import DoneCallback
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.raft.ready import PersistMark
from penstock.raft.types import RaftEntry, RaftMessage
from penstock.store.batch import Batch
from penstock.store.entry import Entry as JournalEntry
from penstock.store.store import Commit, EncodedBatch, LogEntry, LogStore, Write, Written
from penstock.store.writer import Writer

Row = tuple[str, bytes, bytes | None]
"""Table, key, value; see ``Batch.rows``."""

_log = get_logger("cluster")


def joined(earlier: list[RaftEntry], later: Sequence[RaftEntry]) -> list[RaftEntry]:
    """What is to be written if ``later`` comes after ``earlier``, of which it may replace some."""
    if earlier and later and later[0].index <= earlier[-1].index:
        kept = max(later[0].index - earlier[0].index, 0)
        return [*earlier[:kept], *later]
    return [*earlier, *later]


class DiskWork(msgspec.Struct):
    """What the core and others want of the disk, and what is to follow."""

    entries: list[RaftEntry] = []
    fold_to: int = 0
    rows: list[Row] = []
    checkpoint: int | None = None
    needs_record: bool = False
    """Whether the record says something that must be durable."""
    holds: bool = False
    """Whether it is the term or the vote: then nothing may be sent before."""
    marks: list[PersistMark] = []
    after: list[RaftMessage] = []
    """To be sent when all of it is durable."""
    thens: list[DoneCallback] = []
    """Told when all of it is durable."""
    batches: list[Batch] = []
    """Batches with rows only, which are done with it."""

    @property
    def is_void(self) -> bool:
        """Whether there is nothing, not even to be told or sent."""
        return not (self.needs_disk or self.marks or self.after or self.thens or self.batches)

    @property
    def needs_write(self) -> bool:
        """Whether there must be a transaction. Rows alone can wait for one."""
        return bool(self.entries or self.needs_record or self.batches)

    @property
    def needs_disk(self) -> bool:
        """Whether the writer has something to do."""
        return self.needs_write or bool(self.fold_to)

    def successor(self) -> "DiskWork":
        """What is gathered next. Rows that find no write go on waiting for one."""
        if self.needs_write:
            return DiskWork()
        return DiskWork(rows=self.rows, checkpoint=self.checkpoint)

    def add_rows(self, batch: Batch) -> None:
        """Take over what a batch has for the checkpoint."""
        self.rows = [*self.rows, *batch.rows]
        if batch.checkpoint is not None:
            self.checkpoint = batch.checkpoint

    def write(self, record: bytes, committed: int | None) -> Write | None:
        """The transaction, if there must be one. The record goes with every one."""
        if not self.needs_write:
            return None
        entries = [LogEntry(entry.index, entry.kind.value, entry.data) for entry in self.entries]
        return Write(entries, record, committed, self.rows, self.checkpoint)


class Disk:
    """The writer thread. One task at a time: see ``is_busy``. Callbacks come on the loop."""

    def __init__(
        self,
        store: LogStore,
        loop: asyncio.AbstractEventLoop,
        committed: Callable[[Batch, Commit | StorageError], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._loop = loop
        self._committed = committed
        self._failed = failed
        self._writer = Writer(store, self._committed_on_writer)
        self.is_busy = False

    def start(self) -> None:
        """Start the thread."""
        self._writer.start()

    def close(self) -> None:
        """Finish what was handed over, and end the thread."""
        self._writer.close()

    def run(self, job: Callable[[], None]) -> None:
        """Run somebody else's job between two tasks."""
        self._writer.run(job)

    def commit(self, batch: Batch) -> None:
        """Write, fold and be done with a batch: nobody else has a say."""
        self.is_busy = True
        self._writer.submit(batch)

    def _committed_on_writer(self, batch: Batch, outcome: Commit | StorageError) -> None:
        self._post(self._free, self._committed, batch, outcome)

    def encode_batch(
        self,
        candidates: Sequence[QueuedBatch],
        is_late: Callable[[Batch], bool],
        drawn: Callable[[MergedBatch, EncodedBatch | None], None],
    ) -> None:
        """Join batches and give them their place in the log, which has no tail."""

        def job() -> None:
            merged = merge(candidates, is_late)
            data = self._store.encode_batch(merged.batch) if merged.taken else None
            self._post(self._free, drawn, merged, data)

        self._begin(job)

    def perform(
        self,
        fold_to: int,
        write: Write | None,
        folded: Callable[[list[JournalEntry]], None],
        done: Callable[[Written | None], None],
    ) -> None:
        """Fold up to an entry, then write. ``folded`` is told before the write is durable."""

        def job() -> None:
            if fold_to:
                self._post(folded, self._store.apply(fold_to))
            written = self._store.write(write) if write is not None else None
            self._post(self._free, done, written)
            if written is not None:
                self._store.prepare()

        self._begin(job)

    def _begin(self, job: Callable[[], None]) -> None:
        self.is_busy = True

        def guarded() -> None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 - whatever it is, this node cannot go on
                self._post(self._failed, error)

        self._writer.run(guarded)

    def _free(self, then: Callable[..., None], *arguments: Any) -> None:
        self.is_busy = False
        then(*arguments)

    def _post(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """On the writer thread: have the loop call, which may be gone by now."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            _log.warning("write_after_stop")
