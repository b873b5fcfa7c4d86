"""Folding in the background, one block at a time, without holding up the broker.

A fold is a second of pure computation, which would hold up everybody who waits for the interpreter;
so it runs in another process (``fold_process``). ``ProcessFolder`` starts that with the first job
and again whenever it died. It ends with the broker, however that ends: its stdin is closed then.
Jobs and answers are MessagePack in frames. A thread per job talks to it, so that neither starting a
process nor a full pipe is waited for.

A fold only makes a file. The store registers it, or removes it.

A child that gives no answer for ``ANSWER_S`` hangs: it is killed, and the job has failed. Commits
may be waiting for it.
"""

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from penstock.errors import (
    StorageBroken,
    StorageDamaged,
    StorageError,
    StorageForeign,
    StorageFull,
)
from penstock.store.blocks.block import BlockSummary
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.fold import Fold, fold
from penstock.store.dropped import load_dropped
from penstock.store.entry import Entry
from penstock.store.environment import Environment, Transaction
from penstock.store.journal import JournalCursor
from penstock.store.keys import name_key
from penstock.store.topics import unpack_topic

FRAME_BYTES_MAX: Final = 1 << 30  # of a job; cuts take some ten bytes per topic
ERROR_CHARACTERS_MAX: Final = 500
ANSWER_S: Final = 120.0  # for a job; a block takes a second or two, and the machine may be busy
_LENGTH: Final = struct.Struct("<I")
_MODULE: Final = "penstock.store.blocks.fold_process"
_KINDS: Final = {
    kind.__name__: kind
    for kind in (StorageError, StorageFull, StorageBroken, StorageDamaged, StorageForeign)
}


class FoldJob(msgspec.Struct, frozen=True):
    """What to fold: blocks, by number and ascending, then entries ``first_index … last_index``.

    A ``last_index`` of 0 means no entries. Entries in between that are gone are left out.
    ``is_settled``: all topics have rows, which say what is alive; ``fold`` need not.
    """

    fold: Fold
    blocks: tuple[int, ...] = ()
    first_index: int = 0
    last_index: int = 0
    is_settled: bool = False


class FoldReply(msgspec.Struct, frozen=True):
    """The answer: a summary, or the kind of an error and its text."""

    summary: BlockSummary | None = None
    kind: str = ""
    message: str = ""
    advice: str = ""

    def result(self) -> BlockSummary | StorageError:
        if self.summary is not None:
            return self.summary
        return _KINDS.get(self.kind, StorageError)(self.message, self.advice)


class Folder(Protocol):
    """Folds in the background, one job at a time."""

    def start(self, job: FoldJob) -> None:
        """Begin; the result of the job before must have been taken."""

    def result(self) -> BlockSummary | StorageError | None:
        """The result, once; None while the job runs, and without a job."""

    def wait(self) -> None:
        """Wait until a job that runs has a result."""

    def close(self) -> None:
        """Give up the job that runs, if any. Its file may remain."""


def run_job(environment: Environment, files: BlockFiles, job: FoldJob) -> BlockSummary:
    """Fold in this thread. Entries are read in one transaction, which ends before the writing."""
    with environment.reading() as transaction:
        cursor = JournalCursor(environment, transaction, {})
        plan = job.fold
        if job.is_settled:
            found = chain(_parts(files, job), _entries(cursor, job))
            plan = settled(environment, transaction, found, plan)
        chunks = fold(chain(_parts(files, job), _entries(cursor, job)), plan)
        first = next(chunks)  # by then all entries were read
    return files.create(job.fold.number, chain((first,), chunks))


def _parts(files: BlockFiles, job: FoldJob) -> Iterator[Entry]:
    for number in job.blocks:
        yield from files.open(files.summary(number)).entries()


def _entries(cursor: JournalCursor, job: FoldJob) -> Iterator[Entry]:
    if not job.last_index:
        return
    for entry in cursor.after(job.first_index - 1):
        if entry.index > job.last_index:
            return
        yield entry


def settled(
    environment: Environment, transaction: Transaction, entries: Iterable[Entry], plan: Fold
) -> Fold:
    """Leave out what the topics' rows say is gone: below a first offset, or of a dropped topic.

    What is left of a topic that was dropped lately, and still has a record, is not: it is counted
    as dead when the record goes.
    """
    records = load_dropped(environment, transaction)
    cuts = {topic_id: record.state.first_offset for topic_id, record in records.items()}
    dropped: set[int] = set()
    for entry in entries:
        for _, topic_id, name, *_ in entry.extents(0, entry.group_count):
            if topic_id in cuts or topic_id in dropped:
                continue
            row = transaction.get(name_key(name), db=environment["topics"])
            state = None if row is None else unpack_topic(row)
            if state is None or state.id != topic_id:
                dropped.add(topic_id)
            else:
                cuts[topic_id] = state.first_offset
    return msgspec.structs.replace(plan, cuts=cuts, dropped=frozenset(dropped))


class InlineFolder:
    """Folds in the calling thread, within ``start``."""

    def __init__(self, environment: Environment, files: BlockFiles) -> None:
        self._environment = environment
        self._files = files
        self._result: BlockSummary | StorageError | None = None

    def start(self, job: FoldJob) -> None:
        try:
            self._result = run_job(self._environment, self._files, job)
        except StorageError as error:
            self._result = error

    def result(self) -> BlockSummary | StorageError | None:
        found, self._result = self._result, None
        return found

    def wait(self) -> None:
        """Nothing runs between calls."""

    def close(self) -> None:
        """Nothing runs between calls."""


class ProcessFolder:
    """Folds in a child process. ``start``, ``result`` and ``close`` are for one thread at a time.

    ``wake`` is called, in another thread, when there is a result, and ``forget`` when the child
    died: it may have held a snapshot of the database, whose pages are free then.
    """

    def __init__(
        self,
        data: Path,
        wake: Callable[[], None] = lambda: None,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self._data = data
        self.answer_s = ANSWER_S
        self._wake = wake
        self._forget = forget
        self._lock = threading.Lock()  # around the child's start and end
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._result: BlockSummary | StorageError | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The child's; None if there is none."""
        child = self._child
        return None if child is None else child.pid

    def start(self, job: FoldJob) -> None:
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, args=(job,), name="fold", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # too many threads
            self._result = _died("", str(error))

    def result(self) -> BlockSummary | StorageError | None:
        if self._thread is None or self._result is None:
            return None
        found, self._result, self._thread = self._result, None, None
        return found

    def wait(self) -> None:
        if self._thread is not None and self._result is None:
            self._thread.join()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.kill()
        self.wait()
        self._thread = None
        self._end()

    def _run(self, job: FoldJob) -> None:
        try:
            self._result = self._asked(job)
        except Exception as error:  # noqa: BLE001 - no child could be started, it died, or a bug
            self._result = _died(self._end(), str(error))
        self._wake()

    def _asked(self, job: FoldJob) -> BlockSummary | StorageError:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        guard = threading.Timer(self.answer_s, child.kill)
        guard.start()
        try:
            write_frame(child.stdin, msgspec.msgpack.encode(job))
            reply = read_frame(child.stdout)
        finally:
            guard.cancel()
        if reply is None:
            return _died(self._end(), "it ended")
        return msgspec.msgpack.decode(reply, type=FoldReply).result()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise BrokenPipeError("the folder is closed")
            if self._child is None:
                self._child = subprocess.Popen(  # noqa: S603 - our own module and directory
                    [sys.executable, "-P", "-m", _MODULE, str(self._data)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                )
            return self._child

    def _end(self) -> str:
        """End the child and let go of all it held; return what it had to say."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        assert child.stderr is not None
        text = child.stderr.read().decode("utf-8", "replace").strip()[-ERROR_CHARACTERS_MAX:]
        status = child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(StorageError):  # the next commit reports it
            self._forget()
        return text or _status_text(status)


def process_folder(data: Path, environment: Environment, files: BlockFiles) -> Folder:
    """A folder for a store that serves others at the same time."""
    del files  # the process opens them itself
    return ProcessFolder(data, forget=environment.forget_dead_readers)


def inline_folder(data: Path, environment: Environment, files: BlockFiles) -> Folder:
    """A folder for a store that does nothing else meanwhile."""
    del data
    return InlineFolder(environment, files)


def _status_text(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _died(text: str, reason: str) -> StorageError:
    return StorageError(
        f"the process that folds the journal died: {text or reason}",
        "It is started again. If this repeats, check the memory and the disk of this machine.",
    )


def write_frame(pipe: IO[bytes], content: bytes) -> None:
    for piece in (_LENGTH.pack(len(content)), content):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(pipe.fileno(), rest) :]


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """The next frame; None at the end of the stream."""
    head = _read_exactly(pipe, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    return _read_exactly(pipe, length) if length <= FRAME_BYTES_MAX else None


def _read_exactly(pipe: IO[bytes], size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = os.read(pipe.fileno(), min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def error_reply(error: Exception) -> FoldReply:
    if isinstance(error, StorageError):
        kind = next(name for name in _kind_names(type(error)) if name in _KINDS)
        return FoldReply(kind=kind, message=error.message, advice=error.advice)
    return FoldReply(
        kind=StorageError.__name__,
        message=f"a fold failed ({type(error).__name__}: {error})"[:ERROR_CHARACTERS_MAX],
        advice="Check the memory and the disk of this machine.",
    )


def _kind_names(kind: type) -> Iterable[str]:
    return (parent.__name__ for parent in kind.__mro__)
