"""A consistent copy of a whole store, taken while it is in use: for other nodes and for backups.

It consists of a copy of the database, as of one moment, and of the files of the blocks that the
copied database lists. Block files never change, but they may be removed at any time. So the
database is copied first, to a temporary file, and the blocks it lists are opened at once: a file
that is open outlives its removal. If one is gone already, everything starts over.

A row of a block is removed before its file is. So a block that is missing, and is still listed by a
copy that was begun later, is lost. That is damage of this block alone; the copy is taken without
it, as the store itself goes on without it.
"""

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from penstock.errors import StorageDamaged, StorageError, StorageFull
from penstock.limits import MIB
from penstock.store.blocks.block import BlockSummary
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.fold import summary_of
from penstock.store.blocks.registry import listed_blocks
from penstock.store.copies.copied_store import LOST, CopiedBlock, StoreCopy, close_files
from penstock.store.directory import COPY_PREFIX, DATA_NAME

ATTEMPTS_MAX: Final = 5  # each begins with another copy of the database
SPARED_BYTES: Final = 16 * MIB  # disk space that a copy leaves to the store that is in use


def copy_store(data: Path, write_database: Callable[[int], None]) -> StoreCopy:
    """Copy the store in a data directory. Blocks; any thread. Raises StorageError.

    ``write_database`` writes a copy of the database, of one moment, to an open file.
    """
    missing: set[BlockSummary] = set()
    for _attempt in range(ATTEMPTS_MAX):
        database, summaries = _copied_database(data, write_database)
        try:
            blocks = _opened(BlockFiles(data), summaries)
        except BaseException:
            os.close(database)
            raise
        now_missing = {block.summary for block in blocks if block.is_lost}
        copy = StoreCopy(database, blocks)
        if now_missing <= missing:
            return copy
        copy.close()
        missing |= now_missing
    raise StorageError(
        "the store could not be copied: blocks are removed faster than they can be opened",
        "Try again, or make room on the disk: retention is removing much at this moment.",
    )


def _copied_database(
    data: Path, write_database: Callable[[int], None]
) -> tuple[int, list[BlockSummary]]:
    """An open copy of the database without a name, and the blocks that it lists."""
    try:
        _check_room(data)
        folder = Path(tempfile.mkdtemp(prefix=COPY_PREFIX, dir=data))
    except OSError as error:
        raise _failed(error) from error
    try:
        file = os.open(folder / DATA_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_database(file)
            return file, listed_blocks(folder)
        except BaseException:
            os.close(file)
            raise
    except OSError as error:
        raise _failed(error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_room(data: Path) -> None:
    """Refuse a copy that would take from the store in use the room that it needs."""
    found = os.statvfs(data)
    free, size = found.f_bavail * found.f_frsize, (data / DATA_NAME).stat().st_size
    if free < size + SPARED_BYTES:
        raise StorageFull(
            f"the store could not be copied: {free} bytes are free on its disk, and its database"
            f" has {size}",
            "Make room on the disk of the data directory.",
        )


def _opened(files: BlockFiles, summaries: Iterable[BlockSummary]) -> list[CopiedBlock]:
    blocks: list[CopiedBlock] = []
    try:
        for summary in summaries:
            blocks.append(_open(files, summary))  # noqa: PERF401 - closed if a later one fails
    except OSError as error:
        close_files(block.file for block in blocks if not block.is_lost)
        raise _failed(error) from error
    return blocks


def _open(files: BlockFiles, summary: BlockSummary) -> CopiedBlock:
    try:
        file = os.open(files.file(summary.number), os.O_RDONLY)
    except FileNotFoundError:
        return CopiedBlock(summary, LOST)
    if _summary(file) == summary:
        return CopiedBlock(summary, file)
    os.close(file)
    return CopiedBlock(summary, LOST)


def _summary(file: int) -> BlockSummary | None:
    """What the footer says; None if there is none that is sound."""
    try:
        with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            return summary_of(view)
    except (ValueError, StorageDamaged):  # empty, or damaged
        return None


def _failed(error: OSError) -> StorageError:
    return StorageError(
        f"the store could not be copied ({error})",
        "Check that the disk has room for a copy of data.mdb, and that enough files may be open.",
    )
