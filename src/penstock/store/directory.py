"""The data directory: which program owns it, and the lock that keeps other brokers out.

::

    LOCK        locked (flock) while a broker runs; holds its process id
    PENSTOCK    the marker: format version, the store's identity, whether it was ever ready
    data.mdb    LMDB
    lock.mdb    LMDB's table of readers
    blocks/     files of the journal's blocks (blocks/files.py)
    snapshot.new/   a store being received from another node; a start keeps complete blocks
    snapshot.ready/ a received store that replaces ours; a start completes that
    copy.*/     a copy of the database in the making; a start removes it

The marker is written first and becomes ``ready`` once an empty database is on disk; an interrupted
creation starts over. After that nothing is created or deleted here. A directory created here is
readable by its owner only.

**A received store** replaces ours while no database is open. Database and blocks belong together,
but only one thing can be renamed at a time. So one rename decides (``switch``): from
``snapshot.new`` to ``snapshot.ready``. Before it, ours is complete. After it, the received one is,
though in parts: every start moves what has not been moved yet before it looks at anything.
"""

import fcntl
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import IO

import msgspec

from penstock.errors import StorageDamaged, StorageError, StorageForeign, StorageLocked

FORMAT = 2
FORMAT_BEFORE_BLOCKS = 1  # is converted by the first start

MARKER_NAME = "PENSTOCK"
MARKER_DRAFT_NAME = "PENSTOCK.new"
LOCK_NAME = "LOCK"
BLOCKS_NAME = "blocks"
DATA_NAME = "data.mdb"
READERS_NAME = "lock.mdb"
SNAPSHOT_NAME = "snapshot.new"
READY_NAME = "snapshot.ready"
SOURCE_NAME = "SOURCE"  # in a snapshot: the identity of the store that it is a copy of
COPY_PREFIX = "copy."  # folders of copies of the database in the making (store_copy.py)

DRAFT_SUFFIX = ".new"  # of files that are being written
KEPT_S = 3600  # blocks of a snapshot that was cut off are kept for this long
_REPLACED_NAME = "replaced"  # in a ready snapshot: our blocks until now

_HARMLESS_NAMES = {LOCK_NAME, MARKER_DRAFT_NAME, "lost+found"}
_BACKUP_ADVICE = "Restore the directory from a backup, or name another one with --data."


class Marker(msgspec.Struct, frozen=True):
    """Content of the marker file (JSON)."""

    format: int
    store: str
    created_ms: int
    ready: bool


class DataDirectory:
    """A locked data directory; ``close`` unlocks it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            _make(path)
            if read_marker(path) is None:
                self._refuse_foreign()  # before anything, the lock included, is put there
            self._lock = lock_directory(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            self.marker = read_marker(path) or self._begin()
            finish_switch(path)
            tidy_snapshot(path)
            for left in path.glob(f"{COPY_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
            self._look_at_data()
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """Record that an empty database is on disk, so that it is never created again."""
        if not self.marker.ready:
            self.marker = msgspec.structs.replace(self.marker, ready=True)
            self._write_marker(self.marker)

    def upgrade(self) -> None:
        """Record that earlier versions of the program cannot read the store any more."""
        if self.marker.format != FORMAT:
            self.marker = msgspec.structs.replace(self.marker, format=FORMAT)
            self._write_marker(self.marker)

    def close(self) -> None:
        self._lock.close()

    def _look_at_data(self) -> None:
        data = self.path / DATA_NAME
        if not self.marker.ready:  # creation was interrupted: start over
            data.unlink(missing_ok=True)
            (self.path / READERS_NAME).unlink(missing_ok=True)
        elif not data.exists() or not data.stat().st_size:  # LMDB would make a new one
            raise StorageDamaged(f"{data} is missing or empty", _BACKUP_ADVICE)

    def _refuse_foreign(self) -> None:
        foreign = sorted({entry.name for entry in self.path.iterdir()} - _HARMLESS_NAMES)
        if DATA_NAME in foreign:
            raise marker_missing(self.path)
        if foreign:
            raise StorageForeign(
                f"{self.path} is not a Penstock data directory: it has no {MARKER_NAME} file, "
                f"but {', '.join(foreign[:5])}",
                "Name an empty directory, or one that does not exist yet, with --data.",
            )

    def _begin(self) -> Marker:
        self._refuse_foreign()
        marker = Marker(FORMAT, uuid.uuid4().hex, time.time_ns() // 1_000_000, ready=False)
        self._write_marker(marker)
        return marker

    def _write_marker(self, marker: Marker) -> None:
        draft = self.path / MARKER_DRAFT_NAME
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(marker) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self.path / MARKER_NAME)
            sync_directory(self.path)
        except OSError as error:
            raise _unusable(self.path, error) from error


def read_marker(path: Path) -> Marker | None:
    """The marker of a data directory; None if it has none."""
    try:
        content = (path / MARKER_NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        marker = msgspec.json.decode(content, type=Marker)
    except msgspec.DecodeError as error:
        raise StorageDamaged(f"{path / MARKER_NAME} is damaged: {error}", _BACKUP_ADVICE) from error
    if marker.format not in (FORMAT_BEFORE_BLOCKS, FORMAT):
        raise StorageForeign(
            f"{path} has format {marker.format}; this program knows formats up to {FORMAT}",
            "Start the version of Penstock that wrote it, or a later one.",
        )
    return marker


def snapshot_path(path: Path) -> Path:
    return path / SNAPSHOT_NAME


def fresh_snapshot(path: Path) -> Path:
    discard_snapshot(path)
    draft = snapshot_path(path)
    draft.mkdir(mode=0o700)
    return draft


def discard_snapshot(path: Path) -> None:
    shutil.rmtree(snapshot_path(path), ignore_errors=True)


def tidy_snapshot(path: Path) -> None:
    """Remove a snapshot that was cut off, but for complete blocks if the source is known.

    They need not be sent again if it goes on soon.
    """
    draft = snapshot_path(path)
    blocks = draft / BLOCKS_NAME
    if _age_s(draft / SOURCE_NAME) > KEPT_S or not blocks.is_dir():
        discard_snapshot(path)
        return
    for entry in (*draft.iterdir(), *blocks.glob(f"*{DRAFT_SUFFIX}")):
        if entry.name in {SOURCE_NAME, BLOCKS_NAME}:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if not any(blocks.iterdir()):
        discard_snapshot(path)


def _age_s(file: Path) -> float:
    """Seconds since a file was written or touched; endless if it is not there, or in the future."""
    try:
        age = time.time() - file.stat().st_mtime
    except OSError:
        return float("inf")
    return age if age >= 0 else float("inf")


def switch(path: Path) -> None:
    """Replace our store by the received one. The lock is held, and no database is open."""
    draft = snapshot_path(path)
    (draft / BLOCKS_NAME).mkdir(mode=0o700, exist_ok=True)
    sync_directory(draft)
    draft.rename(path / READY_NAME)
    sync_directory(path)
    finish_switch(path)


def finish_switch(path: Path) -> None:
    """Move what ``switch`` has not moved yet; every step may be the last before a crash."""
    ready, own = path / READY_NAME, path / BLOCKS_NAME
    if not ready.is_dir():
        return
    if (ready / BLOCKS_NAME).exists():
        if own.exists():
            own.rename(ready / _REPLACED_NAME)
        (ready / BLOCKS_NAME).rename(own)
        sync_directory(path)
        sync_directory(ready)
    if (ready / DATA_NAME).exists():
        (path / READERS_NAME).unlink(missing_ok=True)
        (ready / DATA_NAME).rename(path / DATA_NAME)
        sync_directory(path)
        sync_directory(ready)
    shutil.rmtree(ready, ignore_errors=True)


def check_switched(path: Path) -> None:
    """Raise StorageError if a received store has replaced ours in part only."""
    if (path / READY_NAME).exists():
        raise StorageError(
            f"{path} is being replaced by a snapshot of another node, which was interrupted",
            "Start the broker of this directory once: it completes that.",
        )


def marker_missing(path: Path) -> StorageForeign:
    return StorageForeign(
        f"{path} is not a complete Penstock data directory: it holds {DATA_NAME}, but the marker"
        f" file {MARKER_NAME} is missing",
        f"If this is a copy, copy {MARKER_NAME} from where {DATA_NAME} came from, or from a backup;"
        " else name another directory.",
    )


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        for file in (path, *path.parents):
            if file.is_file():
                raise StorageForeign(
                    f"{file} is a file, not a directory",
                    "Name a directory, or a path that does not exist yet, with --data.",
                ) from error
        raise


def lock_directory(path: Path) -> IO[bytes]:
    """Lock a data directory until the returned file is closed; raises StorageLocked."""
    file = (path / LOCK_NAME).open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read(20).decode("ascii", "replace").strip() or "unknown"
        file.close()
        raise StorageLocked(
            f"{path} is in use by another broker (process {owner})",
            "Stop that one first, or name another data directory.",
        ) from error
    file.truncate(0)
    file.write(b"%d\n" % os.getpid())
    file.flush()
    return file


def sync_directory(path: Path) -> None:
    """Flush the directory itself, so that renames in it are durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be used as data directory: {error.strerror or error}",
        "Check that it exists, that this user may write to it, and that the disk has room.",
    )
