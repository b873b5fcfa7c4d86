"""What a data directory takes on disk, sampled while a load runs.

Two sizes, because neither tells all: *allocated* are the blocks that the file system has given
(``st_blocks``), which is what fills a disk; *apparent* is the length of the files (``st_size``),
which differs where files have holes or were allocated ahead. Files vanish while they are counted:
that is normal, and they count as gone.
"""

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

__all__ = ["DiskUsage", "DiskWatch", "evict", "usage_of"]

BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's block size is


class DiskUsage(NamedTuple):
    """The sizes of all files of a directory; ``by_kind`` are allocated bytes by suffix."""

    allocated: int
    apparent: int
    files: int
    by_kind: dict[str, int]


def usage_of(directory: Path) -> DiskUsage:
    """Count all files below ``directory``."""
    allocated = apparent = files = 0
    by_kind: dict[str, int] = {}
    for path, found in _files(directory):
        taken = found.st_blocks * BLOCK_BYTES
        allocated += taken
        apparent += found.st_size
        files += 1
        kind = path.suffix or path.name
        by_kind[kind] = by_kind.get(kind, 0) + taken
    return DiskUsage(allocated, apparent, files, by_kind)


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            try:
                yield path, path.lstat()
            except FileNotFoundError:
                continue


def evict(directory: Path) -> None:
    """Write back and drop the cached pages of all files, so that a start reads from the disk."""
    for path, found in list(_files(directory)):
        if not stat.S_ISREG(found.st_mode):
            continue  # a socket
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


class DiskWatch:
    """Samples a directory in a thread of its own, inside its context; keeps the largest sizes."""

    def __init__(self, directory: Path, period_s: float = 0.1) -> None:
        self._directory = directory
        self._period_s = period_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk-watch", daemon=True)
        self._started = time.monotonic()
        self.samples: list[tuple[float, int, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def allocated_max(self) -> int:
        """The most that was allocated at any moment."""
        return max(allocated for _, allocated, _ in self.samples)

    @property
    def apparent_max(self) -> int:
        """The largest sum of lengths."""
        return max(apparent for _, _, apparent in self.samples)

    def over(self, limit: float) -> float:
        """The share of samples whose allocated size was beyond ``limit``."""
        return sum(allocated > limit for _, allocated, _ in self.samples) / len(self.samples)

    def _watch(self) -> None:
        self._sample()
        while not self._end.wait(self._period_s):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        found = usage_of(self._directory)
        seconds = time.monotonic() - self._started
        self.samples.append((round(seconds, 2), found.allocated, found.apparent))
