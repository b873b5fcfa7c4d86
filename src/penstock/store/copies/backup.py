"""Back up a store to one file, while it is in use or not.

The database is copied as of one moment, together with open files of all blocks that it lists
(store_copy.py). A block is an immutable file, so a backup that continues an earlier one leaves out
the blocks which that one has, itself or in its predecessors. The database is small: the tail,
topics, sessions. It is always written, compressed.

The file is written under a temporary name, flushed, and then linked under its own: there is never
half a backup under that name, and nothing is overwritten.
"""

import errno
import fcntl
import mmap
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import zstandard

from penstock.errors import PenstockError, StorageError, StorageForeign, StorageFull
from penstock.store.blocks.block import Block, BlockSummary
from penstock.store.copies.copied_store import CopiedBlock, StoreCopy
from penstock.store.copies.file import (
    OWN,
    PIECE_BYTES,
    BackedUpBlock,
    BackupIndex,
    BackupReader,
    BackupWriter,
    Predecessor,
    Section,
    find_backups,
)
from penstock.store.copies.store_copy import copy_store
from penstock.store.directory import (
    DATA_NAME,
    MARKER_NAME,
    Marker,
    check_switched,
    marker_missing,
    read_marker,
    sync_directory,
)
from penstock.store.environment import Environment

FILE_MODE: Final = 0o600  # messages, and hashes of passwords
_DRAFT_SUFFIX: Final = ".new"
_FULL_CODES: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)

Progress = Callable[[int, int], None]
"""Called with the bytes that are done, and all of them."""


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup has."""

    file: str
    id: str
    previous: str  # empty: a full backup
    bytes: int
    database_bytes: int
    blocks: int
    blocks_written: int  # the others are in predecessors
    needs: list[str]  # names of predecessors that a restore needs
    damaged: list[str]  # damage of the store itself


def back_up(
    data: Path, file: Path, since: Path | None, progress: Progress = lambda _done, _of: None
) -> BackupReport:
    """Write a backup of a data directory; raises a PenstockError, having left nothing behind."""
    marker = _checked_marker(data)
    _refuse_overwriting(file)
    known = Known.read(since, marker) if since is not None else Known()
    try:
        with _draft_of(file) as draft, _copied(data) as copy:
            run = _Backup(BackupWriter(draft), copy, known, progress)
            index, digest = run.write(data, marker)
            draft.flush()
            os.fsync(draft.fileno())
            _publish(Path(draft.name), file)
            size = os.fstat(draft.fileno()).st_size
    except OSError as error:
        raise _failed(file, error) from error
    return BackupReport(
        file=str(file),
        id=digest.hex(),
        previous=index.previous.hex(),
        bytes=size,
        database_bytes=index.database.raw_bytes,
        blocks=len(index.blocks),
        blocks_written=sum(1 for block in index.blocks if block.section and block.holder == OWN),
        needs=[predecessor.name for predecessor in index.predecessors],
        damaged=run.damage,
    )


class Known:
    """What the earlier backup and its predecessors have; a block that is damaged there is new."""

    def __init__(
        self,
        blocks: dict[BlockSummary, BackedUpBlock] | None = None,
        digest: bytes = OWN,
        predecessors: dict[bytes, Predecessor] | None = None,
    ) -> None:
        self.blocks = blocks or {}
        self.digest = digest
        self.predecessors = predecessors or {}

    @classmethod
    def read(cls, path: Path, marker: Marker) -> "Known":
        with BackupReader(path) as reader:
            index, digest = reader.index, reader.digest
        if index.store != marker.store:
            raise PenstockError(
                f"{path} is a backup of another store", "Make a full backup: without --since."
            )
        require_predecessors(path, index)
        blocks = {
            block.summary: msgspec.structs.replace(block, holder=block.holder or digest)
            for block in index.blocks
            if block.section is not None and not block.is_damaged
        }
        own = Predecessor(digest, path.name, index.created_ms)
        return cls(blocks, digest, {each.digest: each for each in (own, *index.predecessors)})


def require_predecessors(path: Path, index: BackupIndex) -> dict[bytes, Path]:
    """Where the backups are that this one needs; raises, naming those that are missing."""
    wanted = {each.digest for each in index.predecessors}
    try:
        found = find_backups(path.absolute().parent, wanted)
    except OSError as error:
        raise _failed(path, error) from error
    missing = [each for each in index.predecessors if each.digest not in found]
    if missing:
        names = ", ".join(f"{each.name} of {_date(each.created_ms)}" for each in missing)
        raise PenstockError(
            f"{path} continues earlier backups, of which these are missing: {names}",
            f"Put {'them' if missing[1:] else 'it'} into the same folder, under any name, or use"
            " another backup.",
        )
    return found


class _Backup:
    """One run."""

    def __init__(
        self,
        writer: BackupWriter,
        copy: StoreCopy,
        known: Known,
        progress: Progress,
    ) -> None:
        self._writer = writer
        self._copy = copy
        self._known = known
        self._progress = progress
        self._done = 0
        self._total = copy.database_bytes + sum(
            b.file_bytes for b in copy.blocks if self._is_new(b)
        )
        self.damage: list[str] = []

    def _is_new(self, block: CopiedBlock) -> bool:
        return block.summary not in self._known.blocks

    def write(self, data: Path, marker: Marker) -> tuple[BackupIndex, bytes]:
        created_ms = time.time_ns() // 1_000_000
        marker_section = self._write_marker(data)
        database = self._write_database()
        blocks = [self._block(block) for block in self._copy.blocks]
        holders = {block.holder for block in blocks}
        predecessors = [p for digest, p in self._known.predecessors.items() if digest in holders]
        index = BackupIndex(
            marker.store,
            created_ms,
            marker_section,
            database,
            blocks,
            self._known.digest,
            predecessors,
        )
        return index, self._writer.finish(index)

    def _write_marker(self, data: Path) -> Section:
        with self._writer.section() as section:
            section.write((data / MARKER_NAME).read_bytes())
            return section.written()

    def _write_database(self) -> Section:
        """The database, compressed: most of its pages are half empty."""
        compressor = zstandard.ZstdCompressor(level=1).compressobj()
        with self._writer.section() as section:
            for piece in self._pieces(self._copy.database):
                section.write(compressor.compress(piece))
            section.write(compressor.flush())
            return section.written(self._copy.database_bytes)

    def _block(self, block: CopiedBlock) -> BackedUpBlock:
        """Write a block that no earlier backup has."""
        known = self._known.blocks.get(block.summary)
        if known is not None:
            return known
        if block.is_lost:
            self.damage.append(f"block {block.summary.number:016x} is lost or damaged")
            return BackedUpBlock(block.summary, None)
        with self._writer.section() as section:
            for piece in self._pieces(block.file):
                section.write(piece)
            faults = damage_in(block.file)
            self.damage += faults
            return BackedUpBlock(block.summary, section.written(), is_damaged=bool(faults))

    def _pieces(self, file: int) -> Iterator[bytes]:
        at = 0
        while piece := os.pread(file, PIECE_BYTES, at):
            yield piece
            at += len(piece)
            self._done += len(piece)
            self._progress(self._done, self._total)


def damage_in(file: int) -> list[str]:
    """What is damaged in the file of a block, by its own checksums."""
    block = Block(memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ)))
    return [fault.message for fault in block.checksum_faults()]


def _checked_marker(data: Path) -> Marker:
    marker = read_marker(data)
    if not (data / DATA_NAME).exists() or (marker is not None and not marker.ready):
        raise StorageForeign(
            f"{data} is not a Penstock data directory with a store in it",
            "Name the directory that the broker was started with: --data DIR.",
        )
    if marker is None:
        raise marker_missing(data)
    return marker


@contextmanager
def _copied(data: Path) -> Iterator[StoreCopy]:
    check_switched(data)
    database = (data / DATA_NAME).stat().st_ino
    environment = Environment(data, map_bytes=0, readonly=True)
    try:
        with copy_store(data, environment.copy) as copy:
            # the blocks of a snapshot from another node are none of the old database's
            check_switched(data)
            if (data / DATA_NAME).stat().st_ino != database:
                raise StorageError(
                    f"{data} was replaced by a snapshot of another node during the backup",
                    "Make the backup again.",
                )
            yield copy
    finally:
        environment.close()


# ── The file ──────────────────────────────────────────────────────────────────────────────────


def _refuse_overwriting(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise PenstockError(f"{file} exists already", "Name another file, or remove it first.")


@contextmanager
def _draft_of(file: Path) -> Iterator[BinaryIO]:
    """A new file beside; its name goes with the context, and with the next backup after a crash."""
    _remove_old_drafts(file)
    path = file.with_name(f".{file.name}.{os.getpid()}{_DRAFT_SUFFIX}")
    with path.open("x+b", PIECE_BYTES) as draft:
        try:
            os.fchmod(draft.fileno(), FILE_MODE)
            fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield draft
        finally:
            path.unlink(missing_ok=True)


def _remove_old_drafts(file: Path) -> None:
    """Remove what a killed backup left; one that is being written is locked."""
    pattern = re.compile(rf"\.{re.escape(file.name)}\.\d+{re.escape(_DRAFT_SUFFIX)}")
    for path in file.absolute().parent.iterdir():
        if not pattern.fullmatch(path.name):
            continue
        with suppress(OSError), path.open("rb") as draft:
            fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _publish(draft: Path, file: Path) -> None:
    """Give the draft its name; unlike a rename, a link does not replace another file."""
    try:
        os.link(draft, file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _refuse_overwriting(file)
        draft.rename(file)
    sync_directory(file.absolute().parent)


def _failed(file: Path, error: OSError) -> PenstockError:
    if isinstance(error, FileExistsError):
        return PenstockError(f"{file} exists already", "Name another file, or remove it first.")
    if error.errno in _FULL_CODES:
        return StorageFull(
            f"there is no room for the backup {file} ({error.strerror})",
            "Make room on that disk, or name a file on another one. Nothing was left behind.",
        )
    return StorageError(
        f"the backup {file} could not be written ({error.strerror or error})",
        "Check that its folder exists and that this user may write to it.",
    )


def _date(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time_ms / 1000))
