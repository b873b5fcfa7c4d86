"""Warn before the disk of the data directory is full.

Little is free when it is less than a twentieth of the file system, though at least ``LITTLE_MIN``
(a quarter of a small file system), and at most ``LITTLE_MAX``: folding needs room for a block or
two, LMDB for the pages of a commit, and a person needs time to act. The log says so once, and once
more when there is room again.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from penstock.limits import GIB, MIB
from penstock.obs.log import get_logger

LITTLE_MIN: Final = 256 * MIB  # four blocks
LITTLE_MAX: Final = 2 * GIB
EVERY_S: Final = 5.0
ENOUGH_AGAIN: Final = 1.1  # so much more must be free, or the log would tell of every file

ADVICE: Final = (
    "Make room on this disk, or lower journal.total_bytes_max. When it is full, publishes that need"
    " the disk are refused; nothing acknowledged is lost."
)

_log = get_logger("store")


class FreeSpace(NamedTuple):
    """Bytes of a file system: those that this user may still use, and all."""

    free: int
    total: int

    @property
    def little(self) -> int:
        """Less than this is little."""
        wanted = min(max(self.total // 20, LITTLE_MIN), LITTLE_MAX)
        return min(wanted, self.total // 4)


def free_space(path: Path) -> FreeSpace:
    """Raises OSError."""
    found = os.statvfs(path)
    return FreeSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def free_bytes(path: Path) -> int:
    """Bytes that may still be used; 0 if nobody knows."""
    try:
        return free_space(path).free
    except OSError:
        return 0


class DiskWatch:
    """Looks at the file system of a data directory from time to time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_at = 0.0
        self.is_low = False

    def turn(self, now: float) -> None:
        """Look, if it is time to: a system call of some microseconds."""
        if now < self._due_at:
            return
        self._due_at = now + EVERY_S
        try:
            self.seen(free_space(self._path))
        except OSError as error:
            _log.warning("disk_unknown", path=str(self._path), error=error.strerror)

    def seen(self, space: FreeSpace) -> None:
        if not self.is_low and space.free < space.little:
            self.is_low = True
            _log.warning(
                "disk_nearly_full", free_bytes=space.free, little=space.little, advice=ADVICE
            )
        elif self.is_low and space.free > space.little * ENOUGH_AGAIN:
            self.is_low = False
            _log.info("disk_has_room", free_bytes=space.free)
