"""The writer thread, and the work that is collected for it while it is busy.

While the writer is busy the core goes on: what it wants written, applied and sent is collected in
one ``DiskWork``, which runs in one transaction when the writer is free. That is group commit.
Messages that must not leave before something is durable are part of the work.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from penstock.cluster.consensus import DoneCallback
from penstock.cluster.forwarding import MergedBatch, QueuedBatch, TailState, merge
from penstock.cluster.swiftness import Swiftness
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.raft.ready import PersistMark
from penstock.raft.types import RaftEntry, RaftMessage
from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.store import Commit, EncodedBatch, LogEntry, LogStore, Write, Written
from penstock.store.writer import Writer

_log = get_logger("cluster")


def joined(earlier: list[RaftEntry], later: Sequence[RaftEntry]) -> list[RaftEntry]:
    """Append ``later``, which may replace the end of ``earlier``."""
    if earlier and later and later[0].index <= earlier[-1].index:
        kept = max(later[0].index - earlier[0].index, 0)
        return [*earlier[:kept], *later]
    return [*earlier, *later]


class DiskWork(msgspec.Struct):
    """One transaction, and what follows once it is durable."""

    entries: list[RaftEntry] = []
    apply_to: int = 0  # apply committed entries up to this one first
    rows: list[tuple[str, bytes, bytes | None]] = []  # table, key, value; see ``Batch.rows``
    checkpoint: int | None = None
    needs_record: bool = False  # the record has changed and must become durable
    blocks_sending: bool = False  # term or vote have changed: send nothing before they are durable
    marks: list[PersistMark] = []
    after_persist: list[RaftMessage] = []
    callbacks: list[DoneCallback] = []
    batches: list[Batch] = []  # batches without content: their rows are all they have

    @property
    def is_empty(self) -> bool:
        return not (
            self.needs_disk or self.marks or self.after_persist or self.callbacks or self.batches
        )

    @property
    def needs_write(self) -> bool:
        """Whether a transaction is due. Rows alone can wait for the next one."""
        return bool(self.entries or self.needs_record or self.batches)

    @property
    def needs_disk(self) -> bool:
        return self.needs_write or bool(self.apply_to)

    def successor(self) -> "DiskWork":
        """The next work. It inherits rows that this one does not write."""
        if self.needs_write:
            return DiskWork()
        return DiskWork(rows=self.rows, checkpoint=self.checkpoint)

    def add_rows(self, batch: Batch) -> None:
        self.rows = [*self.rows, *batch.rows]
        if batch.checkpoint is not None:
            self.checkpoint = batch.checkpoint

    def write(self, record: bytes, committed: int | None) -> Write | None:
        """The transaction, None if none is due. Each one includes the record."""
        if not self.needs_write:
            return None
        entries = [LogEntry(entry.index, entry.kind.value, entry.data) for entry in self.entries]
        return Write(entries, record, committed, self.rows, self.checkpoint)


class Disk:
    """The writer thread. One task at a time: see ``is_busy``. Callbacks run on the loop."""

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
        self.start = self._writer.start
        self.close = self._writer.close
        self.run = self._writer.run
        self.is_busy = False
        self._swiftness = Swiftness()
        self._is_answering = False

    def commit(self, batch: Batch, *, at_once: bool = False) -> None:
        """Write and apply a batch in one step. Only for a lone node.

        ``at_once``: the caller is ready for the answer before this returns. What an answer brings
        about is answered later all the same, so that a chain of commits stays a loop.
        """
        assert not self.is_busy, "one batch at a time"
        self.is_busy = True
        if self._writer.is_idle and self._store.has_room and self._swiftness.allows(batch):
            outcome = self._writer.commit_here(batch)
            self._swiftness.note(outcome, is_here=True)
            if at_once and not self._is_answering:
                self._answer(batch, outcome)
            else:
                self._loop.call_soon(self._free, self._committed, batch, outcome)
        else:
            self._writer.submit(batch)

    def _answer(self, batch: Batch, outcome: Commit | StorageError) -> None:
        self._is_answering = True
        try:
            self._free(self._committed, batch, outcome)
        finally:
            self._is_answering = False

    def _committed_on_writer(self, batch: Batch, outcome: Commit | StorageError) -> None:
        self._swiftness.note(outcome)
        self._post(self._free, self._committed, batch, outcome)

    def encode_batch(
        self,
        queued: Sequence[QueuedBatch],
        is_late: Callable[[Batch], bool],
        tail: TailState,
        encoded: Callable[[MergedBatch, EncodedBatch | None], None],
    ) -> None:
        """Merge batches and encode them as the next entry."""

        def job() -> None:
            merged = merge(queued, is_late, tail)
            data = self._store.encode_batch(merged.batch) if merged.taken else None
            self._post(self._free, encoded, merged, data)

        self._begin(job)

    def perform(
        self,
        apply_to: int,
        write: Write | None,
        applied: Callable[[list[Entry]], None],
        done: Callable[[Written | None], None],
    ) -> None:
        """Apply up to an entry, then write. ``applied`` runs before the write is durable."""

        def job() -> None:
            if apply_to:
                self._post(applied, self._store.apply(apply_to))
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

    def _free(self, callback: Callable[..., None], *arguments: object) -> None:
        self.is_busy = False
        callback(*arguments)

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call on the loop, from the writer thread. The loop may be closed already."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            _log.warning("write_after_stop")
