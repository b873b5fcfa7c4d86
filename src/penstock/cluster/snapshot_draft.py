"""A store that is being received, in ``snapshot.new`` beside our own.

Everything that arrives is compared with its length and digest, and flushed. A block appears under
its name once it is complete. It must be the one that the received database lists, checksum by
checksum. One that the sender itself has lost or damaged arrives as it is: the store goes on without
it, there and here, and refusing it would keep this node from ever joining.

If the transfer is cut off, complete blocks stay for the next attempt, unless that is from another
store. They are verified again then: this machine may have crashed since. So are blocks of our own
store that may be the same, because an earlier snapshot brought them: those are linked.

One thread at a time calls these methods; all of them block.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from penstock.cluster.snapshot_frames import DIGEST_BYTES, SnapshotEnd
from penstock.errors import StorageDamaged, StorageError, StorageFull
from penstock.limits import MIB
from penstock.obs.log import get_logger
from penstock.store.blocks.block import BlockSummary
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.registry import listed_blocks
from penstock.store.directory import (
    DATA_NAME,
    DRAFT_SUFFIX,
    SOURCE_NAME,
    fresh_snapshot,
    snapshot_path,
    sync_directory,
    tidy_snapshot,
)

SPARED_BYTES = 256 * MIB  # disk space that a snapshot leaves to the store that is in use

_log = get_logger("cluster")


class SnapshotDraft:
    """The folder in which a store arrives."""

    def __init__(self, data: Path, source: str) -> None:
        """``source`` identifies the sender's store; empty: it is not known."""
        self.path = _prepared(data, source)
        self._files = BlockFiles(self.path)
        self._own = BlockFiles(data)
        self._listed: dict[int, BlockSummary] = {}
        self.blocks = 0  # that are here, of those listed
        self.size = 0  # bytes of them and of the database
        self.blocks_received = 0
        self._file: DraftFile | None = None  # the last

    def expect(self, size: int) -> None:
        """Refuse a store that is too large, before any of it has come."""
        kept = sum(self._file_bytes(number) for number in self._files.numbers())
        self._check_room(size - kept)

    def database(self) -> "DraftFile":
        room = self._room()
        self._file = DraftFile(self.path / DATA_NAME, room, _no_room(room))
        return self._file

    def take_database(self, file: "DraftFile", end: SnapshotEnd) -> list[BlockSummary]:
        """The blocks that the store has, once its database is complete."""
        file.finish(end)
        self.size += file.size
        listed = listed_blocks(self.path)
        self._listed = {summary.number: summary for summary in listed}
        self._files.clean(self._listed)  # of an earlier moment: it may take the room of others
        return listed

    def lacking(self, summaries: Iterable[BlockSummary]) -> list[BlockSummary]:
        """Those that are not here yet; those that are count from now on."""
        missing = []
        here = set(self._files.numbers())
        for summary in summaries:
            is_here = summary.number in here or self._linked(summary)
            if is_here and self._is_kept(summary):
                self.blocks += 1
                self.size += summary.file_bytes
            else:
                missing.append(summary)
        self._check_room(sum(summary.file_bytes for summary in missing))
        return missing

    def block(self, number: int, size: int) -> "DraftFile":
        """A file for a block that was asked for."""
        if size > self._listed[number].file_bytes:
            raise _differs()
        self._check_room(size)
        with suppress(FileExistsError):
            self._files.path.mkdir(mode=0o700)
        name = f"{number:016x}.{os.getpid()}{DRAFT_SUFFIX}"
        self._file = DraftFile(self._files.path / name, size, _differs())
        return self._file

    def take_block(self, number: int, file: "DraftFile", end: SnapshotEnd) -> None:
        file.finish(end)
        file.path.rename(self._files.file(number))
        self.blocks += 1
        self.size += file.size
        self.blocks_received += 1
        fault = self._fault(self._listed[number])
        if fault is not None:
            _log.error("snapshot_block_damaged", error=fault.message, advice=fault.advice)
        os.utime(self.path / SOURCE_NAME)  # see ``tidy_snapshot``

    def close(self) -> None:
        """Close a file that was cut off."""
        if self._file is not None:
            self._file.close()

    def finish(self) -> None:
        """Everything is here."""
        if self._listed:
            sync_directory(self._files.path)
        sync_directory(self.path)

    def _linked(self, summary: BlockSummary) -> bool:
        """Whether our own store may have a block, from a snapshot before; it is linked, then.

        A node that fell behind again right after it joined needs little more than the database.
        """
        own = self._own.file(summary.number)
        try:
            if own.stat().st_size != summary.file_bytes:
                return False
            with suppress(FileExistsError):
                self._files.path.mkdir(mode=0o700)
            os.link(own, self._files.file(summary.number))
        except OSError:  # it is not there, or this file system has no links
            return False
        return True

    def _is_kept(self, summary: BlockSummary) -> bool:
        """Whether a block of an earlier attempt is here and whole; if it is not whole it goes."""
        if self._fault(summary) is None:
            return True
        self._files.remove(summary.number)
        return False

    def _fault(self, summary: BlockSummary) -> StorageDamaged | None:
        try:
            return next(self._files.open(summary).checksum_faults(), None)
        except StorageDamaged as error:
            return error

    def _file_bytes(self, number: int) -> int:
        return self._files.file(number).stat().st_size

    def _room(self) -> int:
        found = os.statvfs(self.path)
        return max(0, found.f_bavail * found.f_frsize - SPARED_BYTES)

    def _check_room(self, size: int) -> None:
        if size > (room := self._room()):
            raise _no_room(room)


class DraftFile:
    """A file that is being received."""

    def __init__(self, path: Path, bytes_max: int, excess: StorageError) -> None:
        """``excess`` is raised if more than ``bytes_max`` come."""
        self.path = path
        self.size = 0
        self._bytes_max = bytes_max
        self._excess = excess
        self._file = path.open("wb", buffering=0)
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def append(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._bytes_max:
            raise self._excess
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def finish(self, end: SnapshotEnd) -> None:
        if (self.size, self._digest.digest()) != (end.size, end.digest):
            raise _differs()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        self._file.close()


def _prepared(data: Path, source: str) -> Path:
    """The folder, with blocks of an earlier attempt from the same store, if there are any."""
    tidy_snapshot(data)
    path = snapshot_path(data)
    name = path / SOURCE_NAME
    if source and name.exists() and name.read_text() == source:
        return path
    fresh_snapshot(data)
    name.write_text(source)
    return path


def _differs() -> StorageDamaged:
    return StorageDamaged("the snapshot is not what was sent", "It will be sent again.")


def _no_room(room: int) -> StorageFull:
    return StorageFull(
        f"the disk has no room for a snapshot of more than {room} bytes",
        "Make room on the disk of the data directory.",
    )
