"""The files of blocks: ``DATA/blocks/<number, 16 hexadecimal digits>.blk``.

A file appears under its name when it is complete and on disk: it is written under a temporary one,
flushed, renamed, and the directory is flushed. From then on it never changes. It may be removed
while somebody reads it: the memory map keeps it alive.
"""

import errno
import mmap
import os
import re
import sys
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.errors import StorageBroken, StorageDamaged, StorageError, StorageFull
from penstock.store.blocks.block import Block, BlockSummary, PartCache
from penstock.store.blocks.fold import summary_of
from penstock.store.blocks.format import damaged
from penstock.store.directory import BLOCKS_NAME, DRAFT_SUFFIX, sync_directory

_SUFFIX: Final = ".blk"
_NAME: Final = re.compile(r"([0-9a-f]{16})\.blk")
_DRAFT: Final = re.compile(r"[0-9a-f]{16}\.\d+\.new")
_FULL_CODES: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
# Since Python 3.13 a map need not keep a descriptor, of which a store with many blocks has many.
_MAP_OPTIONS: Final[dict[str, bool]] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
_CHUNK_BYTES: Final = 1 << 20  # small chunks are written together


class BlockFiles:
    """The folder of blocks of a data directory; it is made with the first block."""

    def __init__(self, data: Path, cache: PartCache | None = None) -> None:
        self.path = data / BLOCKS_NAME
        self.cache = PartCache() if cache is None else cache

    def file(self, number: int) -> Path:
        return self.path / f"{number:016x}{_SUFFIX}"

    def create(self, number: int, chunks: Iterable[bytes | memoryview]) -> BlockSummary:
        """Write a block; it is on disk when this returns. Raises, having left nothing behind."""
        # the process in the name: one that was left behind must not write to this file
        draft = self.path / f"{number:016x}.{os.getpid()}{DRAFT_SUFFIX}"
        try:
            self._make()
            summary = _written(draft, chunks)
            assert summary.number == number
            self._publish(draft, number)
        except BaseException as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _write_error(error) from error
            raise
        return summary

    def _publish(self, draft: Path, number: int) -> None:
        file = self.file(number)
        draft.rename(file)
        try:
            sync_directory(self.path)
        except OSError:
            file.unlink(missing_ok=True)
            raise

    def open(self, summary: BlockSummary) -> Block:
        """Map a block; raises StorageDamaged if it is missing or another one."""
        found = self._opened(summary.number)
        if found.summary != summary:
            file = self.file(summary.number)
            raise damaged(summary.number, f"{file} is not the block that was registered")
        return found

    def summary(self, number: int) -> BlockSummary:
        """What the footer of a file says about it."""
        return self._opened(number).summary

    def _opened(self, number: int) -> Block:
        file = self.file(number)
        try:
            return Block(_mapped(file), self.cache)
        except FileNotFoundError as error:
            raise damaged(number, f"the file {file} is missing") from error
        except (OSError, ValueError) as error:
            raise damaged(number, f"{file} cannot be read ({error})") from error
        except StorageDamaged as error:
            raise StorageDamaged(f"{file}: {error.message}", error.advice) from error

    def remove(self, number: int) -> None:
        try:
            self.file(number).unlink(missing_ok=True)
        except OSError as error:
            raise _write_error(error) from error
        self.cache.forget(number)

    def numbers(self) -> list[int]:
        """Numbers of the files that are there, ascending."""
        return sorted(int(found[1], 16) for found in map(_NAME.fullmatch, self._names()) if found)

    def clean(self, known: Container[int]) -> list[int]:
        """Remove blocks that are not known, and drafts; return the numbers of the former."""
        for name in self._names():
            if _DRAFT.fullmatch(name):
                with suppress(FileNotFoundError):
                    (self.path / name).unlink()
        strangers = [number for number in self.numbers() if number not in known]
        for number in strangers:
            self.remove(number)
        return strangers

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _write_error(error) from error

    def _make(self) -> None:
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, exist_ok=True)
            sync_directory(self.path.parent)


def _written(draft: Path, chunks: Iterable[bytes | memoryview]) -> BlockSummary:
    """Write and flush a file; return what its footer says."""
    with draft.open("w+b", buffering=_CHUNK_BYTES) as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    return summary_of(_mapped(draft))


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_MAP_OPTIONS))


def _write_error(error: OSError) -> StorageError:
    if error.errno in _FULL_CODES:
        return StorageFull(
            f"the disk of the data directory is full ({error})",
            "Make room, or lower the retention limits; the broker tries again by itself.",
        )
    if error.errno == errno.EIO:
        return StorageBroken(
            f"the disk failed while a block was written ({error})",
            "Check the disk and the kernel's log. What was acknowledged before is on disk.",
        )
    return StorageError(
        f"a block could not be written or removed ({error})",
        "Check that this user may write to the data directory, and the kernel's log.",
    )
