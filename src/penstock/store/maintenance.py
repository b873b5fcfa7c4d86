"""Work on the store of a stopped broker: converting it completely, and making it small.

Both hold the lock of the directory, and do what a broker does in the background, in this thread.
They may be interrupted at any moment and called again: each step is complete in itself.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from penstock.errors import StorageError, StorageForeign
from penstock.limits import BLOCK_BYTES
from penstock.store.blocks.folder import inline_folder
from penstock.store.directory import (
    BLOCKS_NAME,
    COPY_PREFIX,
    DATA_NAME,
    READERS_NAME,
    DataDirectory,
    marker_missing,
    read_marker,
    sync_directory,
)
from penstock.store.disk_budget import BLOCK_BYTES_MIN, BLOCKS_PER_TOTAL
from penstock.store.environment import Environment
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import RetentionRequest, RetentionRules

Progress = Callable[[int, int], None]
"""Called with what is done, and the whole."""

_FILE_MODE: Final = 0o600

# It removes nothing, but counts as dead what was trimmed, deleted or dropped.
_NO_LIMITS: Final = RetentionRequest(RetentionRules(), now_ms=0, floor_sequence=1 << 62)


class MaintenanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory was before and is now."""

    bytes_before: int
    bytes_after: int
    blocks_before: int
    blocks_after: int
    entries_left: int  # of an earlier version: a start has to replay them first


def convert(path: Path, progress: Progress = lambda _done, _of: None) -> MaintenanceReport:
    """Make blocks of everything that an earlier version has stored."""
    with _measured(path) as sizes:
        return sizes.report(_work(path, progress))


def compact(path: Path, progress: Progress = lambda _done, _of: None) -> MaintenanceReport:
    """Fold whatever is worth it, and write the database anew, without free pages."""
    with _measured(path) as sizes:
        left = _work(path, progress)
        _rewrite(path)
        return sizes.report(left)


def _work(path: Path, progress: Progress) -> int:
    """Do all the work there is; return how many entries of an earlier version are left."""
    store = LmdbStore(path, folder=inline_folder, block_bytes=_block_bytes(path))
    try:
        while store.retain(_NO_LIMITS).more:
            pass
        last = store.work_left
        total = last
        while store.fold_step():
            if store.work_left != last:
                last = store.work_left
                total = max(total, last)
                progress(total - last, total)
        progress(total, total)
        if store.fold_failure is not None:
            raise store.fold_failure
        return store.unconverted
    finally:
        store.close()


def _block_bytes(path: Path) -> int:
    """As if the size were the total: a block is a sixteenth, so that retention stays fine."""
    return min(BLOCK_BYTES, max(_size(path) // BLOCKS_PER_TOTAL, BLOCK_BYTES_MIN))


def _rewrite(path: Path) -> None:
    """Replace the database by a copy without free pages, with one rename."""
    directory = DataDirectory(path)
    try:
        folder = Path(tempfile.mkdtemp(prefix=COPY_PREFIX, dir=path))
        try:
            _copy(path, folder / DATA_NAME)
            (path / READERS_NAME).unlink(missing_ok=True)
            (folder / DATA_NAME).rename(path / DATA_NAME)
            sync_directory(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"the database could not be written anew ({error.strerror or error})",
            "Check that the disk has room for a copy of it. Nothing was changed by this.",
        ) from error
    finally:
        directory.close()


def _copy(path: Path, target: Path) -> None:
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    try:
        environment = Environment(path, map_bytes=0, readonly=True)
        try:
            environment.copy(file)
        finally:
            environment.close()
        os.fsync(file)
    finally:
        os.close(file)


class _Sizes:
    """The directory as it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes, self._blocks = _size(path), _block_count(path)

    def report(self, entries_left: int) -> MaintenanceReport:
        return MaintenanceReport(
            bytes_before=self._bytes,
            bytes_after=_size(self._path),
            blocks_before=self._blocks,
            blocks_after=_block_count(self._path),
            entries_left=entries_left,
        )


@contextmanager
def _measured(path: Path) -> Iterator[_Sizes]:
    if not (path / DATA_NAME).is_file():
        raise StorageForeign(
            f"{path} is not a Penstock data directory: there is no {DATA_NAME}",
            "Name the directory that the broker was started with.",
        )
    if read_marker(path) is None:
        raise marker_missing(path)
    yield _Sizes(path)


def _size(path: Path) -> int:
    size = (path / DATA_NAME).stat().st_size
    for file in (path / BLOCKS_NAME).glob("*.blk"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def _block_count(path: Path) -> int:
    return sum(1 for _ in (path / BLOCKS_NAME).glob("*.blk"))
