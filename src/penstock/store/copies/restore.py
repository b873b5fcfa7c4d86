"""Restore a data directory from a backup and its predecessors.

Everything is written to a temporary folder beside the directory, and every digest is verified on
the way. Only when all of it is sound and on disk, one rename puts it in place. A crash before the
rename leaves the temporary folder, which the next restore removes; the directory is as it was.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, cast

import msgspec
import zstandard

from penstock.errors import PenstockError, StorageError, StorageForeign, StorageFull
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.format import RAW, ZSTD
from penstock.store.copies.backup import Progress, require_predecessors
from penstock.store.copies.file import (
    OWN,
    PIECE_BYTES,
    BackedUpBlock,
    BackupIndex,
    BackupReader,
    Section,
)
from penstock.store.directory import (
    DATA_NAME,
    MARKER_NAME,
    READERS_NAME,
    read_marker,
    sync_directory,
)

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_FULL_CODES: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored."""

    data: str
    file: str
    id: str
    created_ms: int
    bytes: int
    blocks: int
    files: list[str]  # backups that were read
    lost: list[str]  # blocks that were lost already when the backup was made
    damaged: list[str]  # and those that were damaged, of which sound parts were restored


def restore(
    file: Path,
    data: Path,
    progress: Progress = lambda _done, _of: None,
    *,
    look: Callable[[Path], None] = lambda _draft: None,
    finish: Callable[[Path], None] = lambda _draft: None,
) -> RestoreReport:
    """Restore a data directory; raises a PenstockError, having changed nothing.

    ``look`` is called with the temporary folder once it has the database, before the blocks;
    ``finish`` when it is complete, before it is put in place. Either may raise.
    """
    _refuse_overwriting(data)
    try:
        with ExitStack() as stack:
            readers = _open_chain(file, stack)
            with _draft_of(data) as draft:
                _check_room(draft, readers[OWN].index)
                run = _Restore(readers, draft, progress)
                run.write_database()
                look(draft)
                run.write_blocks()
                finish(draft)
                _publish(draft, data)
    except OSError as error:
        raise _failed(data, error) from error
    index = readers[OWN].index
    return RestoreReport(
        data=str(data),
        file=str(file),
        id=readers[OWN].digest.hex(),
        created_ms=index.created_ms,
        bytes=run.written_bytes,
        blocks=sum(1 for block in index.blocks if block.section is not None),
        files=[str(reader.path) for reader in readers.values()],
        lost=[f"block {b.summary.number:016x}" for b in index.blocks if b.section is None],
        damaged=[f"block {b.summary.number:016x}" for b in index.blocks if b.is_damaged],
    )


def _open_chain(file: Path, stack: ExitStack) -> dict[bytes, BackupReader]:
    """The backup, under ``OWN``, and the predecessors that hold blocks of it."""
    last = stack.enter_context(BackupReader(file))
    readers = {OWN: last}
    for digest, path in require_predecessors(file, last.index).items():
        readers[digest] = stack.enter_context(BackupReader(path))
        if readers[digest].digest != digest:
            raise readers[digest].damaged("it has changed just now")
    return readers


class _Restore:
    """One run."""

    def __init__(
        self, readers: Mapping[bytes, BackupReader], draft: Path, progress: Progress
    ) -> None:
        self._readers = readers
        self._index = readers[OWN].index
        self._draft = draft
        self._progress = progress
        self._done, self._total = 0, self._index.section_bytes
        self.written_bytes = 0

    def write_database(self) -> None:
        own = self._readers[OWN]
        self._write(own, self._index.marker, self._draft / MARKER_NAME, "the marker")
        marker = read_marker(self._draft)
        if marker is None or marker.store != self._index.store:
            raise own.damaged("the marker is of another store")
        self._write(own, self._index.database, self._draft / DATA_NAME, "the database")

    def write_blocks(self) -> None:
        files = BlockFiles(self._draft)
        files.path.mkdir(mode=FOLDER_MODE)
        for block in self._index.blocks:
            self._write_block(block, files.file(block.summary.number))
        sync_directory(files.path)

    def _write_block(self, block: BackedUpBlock, target: Path) -> None:
        if block.section is None:
            return  # the store goes on without it, and names it
        reader = self._readers.get(block.holder)
        if reader is None:
            raise self._readers[OWN].damaged("a block is in a backup that is not named")
        self._write(reader, block.section, target, f"block {block.summary.number:016x}")

    def _write(self, reader: BackupReader, section: Section, target: Path, what: str) -> None:
        written = 0
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            for piece in self._raw(reader, section, what):
                written += len(piece)
                if written > section.raw_bytes:
                    break
                file.write(piece)
            if written != section.raw_bytes:
                raise reader.damaged(f"{what} has not the size that was noted")
            file.flush()
            os.fsync(file.fileno())
        self.written_bytes += written

    def _raw(self, reader: BackupReader, section: Section, what: str) -> Iterator[bytes]:
        if section.codec not in (RAW, ZSTD):
            raise reader.damaged(f"{what} is compressed in an unknown way ({section.codec})")
        pieces = self._counted(reader.pieces(section, what))
        if section.codec == RAW:
            yield from pieces
            return
        source = _Source(pieces)
        try:
            yield from zstandard.ZstdDecompressor().read_to_iter(
                cast("IO[bytes]", source), read_size=PIECE_BYTES, write_size=PIECE_BYTES
            )
        except zstandard.ZstdError as error:
            raise reader.damaged(f"{what} cannot be decompressed ({error})") from error
        source.drain()

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._done += len(piece)
            self._progress(self._done, self._total)


class _Source:
    """Pieces as a file, for a decompressor that makes no more at once than is asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _size: int) -> bytes:
        return next(self._pieces, b"")

    def drain(self) -> None:
        """Read to the end: there the digest is verified."""
        for _piece in self._pieces:
            pass


# ── The directory ─────────────────────────────────────────────────────────────────────────────


def _refuse_overwriting(data: Path) -> None:
    if not data.exists() and not data.is_symlink():
        return
    if not data.is_dir() or any(data.iterdir()):
        what = "not empty" if data.is_dir() else "not a directory"
        raise StorageForeign(
            f"{data} is {what}: a restore never overwrites",
            "Name a directory that does not exist yet, or move this one away first.",
        )
    if data.is_symlink() or data.is_mount():
        raise StorageForeign(
            f"{data} is a mount point or a link: it cannot be replaced by a restored directory",
            f"Restore to a folder on it, as in --data {data / 'data'}, and start the broker there.",
        )


@contextmanager
def _draft_of(data: Path) -> Iterator[Path]:
    """A temporary folder beside; nothing is left of it if the restore fails."""
    target = data.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.restoring")
    lock = _locked(draft)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # nothing is there if it was put in place
        os.close(lock)


def _locked(draft: Path) -> int:
    """Make the folder, empty, and lock it, so that two restores do not meet in it."""
    draft.mkdir(mode=FOLDER_MODE, exist_ok=True)
    lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in draft.iterdir():  # a restore was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    except BlockingIOError as error:
        os.close(lock)
        raise PenstockError(
            f"another restore to this directory is under way (in {draft})", "Wait for its end."
        ) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _check_room(draft: Path, index: BackupIndex) -> None:
    found = os.statvfs(draft)
    free, needed = found.f_bavail * found.f_frsize, index.raw_bytes
    if free < needed:
        raise StorageFull(
            f"the restored directory needs {needed:,} bytes, and {free:,} are free",
            "Make room on that disk, or restore to another one.",
        )


def _publish(draft: Path, data: Path) -> None:
    target = data.absolute()
    (draft / READERS_NAME).unlink(missing_ok=True)  # of somebody who looked
    sync_directory(draft)
    draft.rename(target)  # fails unless there is nothing, or an empty directory
    sync_directory(target.parent)


def _failed(data: Path, error: OSError) -> StorageError:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return StorageForeign(
            f"{data} is not empty any more: a restore never overwrites", "Name another directory."
        )
    if error.errno in _FULL_CODES:
        return StorageFull(
            f"there is no room to restore to {data} ({error.strerror})",
            "Make room on that disk, or restore to another one. Nothing was left behind.",
        )
    return StorageError(
        f"{data} could not be restored ({error.strerror or error})",
        "Check that this user may write to the folder in which it is.",
    )
