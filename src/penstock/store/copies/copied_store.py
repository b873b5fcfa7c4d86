"""A consistent copy of a whole store, as open files; ``store_copy`` takes it."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.format import BlockSummary
from penstock.store.directory import DATA_NAME

LOST: Final = -1
_PIECE_BYTES: Final = 1 << 20


class CopiedBlock(NamedTuple):
    """A block of a copy, with its open file."""

    summary: BlockSummary
    file: int  # a descriptor, for ``os.pread``

    @property
    def is_lost(self) -> bool:
        """Whether the store itself has no sound file of this block."""
        return self.file == LOST

    @property
    def file_bytes(self) -> int:
        return 0 if self.is_lost else self.summary.file_bytes


class StoreCopy:
    """A copy of a store, as open files; ``close`` it. Nothing of it has a name on disk any more."""

    def __init__(self, database: int, blocks: Iterable[CopiedBlock]) -> None:
        self.database = database
        self.database_bytes = os.fstat(database).st_size
        self.blocks = tuple(blocks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def total_bytes(self) -> int:
        return self.database_bytes + sum(block.file_bytes for block in self.blocks)

    def write_to(self, path: Path) -> None:
        """Write everything into a directory, as a store has it; lost blocks are empty files."""
        files = BlockFiles(path)
        files.path.mkdir(exist_ok=True, mode=0o700)
        _write(self.database, path / DATA_NAME)
        for block in self.blocks:
            target = files.file(block.summary.number)
            if block.is_lost:
                target.touch(mode=0o600)
            else:
                _write(block.file, target)

    def close(self) -> None:
        close_files([self.database, *[block.file for block in self.blocks if not block.is_lost]])
        self.blocks = ()


def _write(source: int, target: Path) -> None:
    with target.open("wb") as file:
        at = 0
        while piece := os.pread(source, _PIECE_BYTES, at):
            file.write(piece)
            at += len(piece)
        file.flush()
        os.fsync(file.fileno())


def close_files(files: Iterable[int]) -> None:
    for file in files:
        with suppress(OSError):
            os.close(file)
