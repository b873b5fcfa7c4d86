"""The manifest of an archive: which files hold its rows, after compaction.

The file sink's log names every file, so compaction writes *other* files, and the manifest says
which ones they replace. The first ``covered`` log entries of each segment are compacted; ``last``
is the path of the last of them, to detect a replaced log. ``retired`` files no longer count, but
are kept for running readers until vacuumed.

So a row counts once: its file is in a log and not covered, or it is in exactly one of ``files``.
Manifests are numbered and created with an atomic ``link``; the loser gets ``ManifestConflict``. A
reader takes one manifest, then the logs, and so sees the archive as of one moment, without a lock.
"""

import os
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from penstock.errors import ConfigError, PenstockError, StorageDamaged
from penstock.spark.archived.layout import LIVE, MANIFEST
from penstock.spark.archived.sink_log import SinkLog

_VERSION: Final = 1
_KEPT: Final = 16  # older manifests, for diagnosis
_ATTEMPTS: Final = 5


class ManifestConflict(PenstockError):  # noqa: N818
    """The archive was changed concurrently. Nothing was changed; start over."""


class CompactedFile(msgspec.Struct, frozen=True, gc=False):
    """A Parquet file that compaction made; its path is relative to the archive."""

    path: str
    size: int
    rows: int


class ArchiveSegment(msgspec.Struct, frozen=True, gc=False):
    """A directory of the file sink, and how many of its entries are compacted."""

    name: str
    covered: int = 0
    last: str = ""


class Retired(msgspec.Struct, frozen=True, gc=False):
    """Relative paths that no longer count since a time."""

    at_ms: int
    paths: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """The parts of an archive; ``checkpoint`` is that of the query that writes it."""

    number: int
    partitioning: str
    checkpoint: str
    segments: tuple[ArchiveSegment, ...] = (ArchiveSegment("0"),)
    files: tuple[CompactedFile, ...] = ()
    retired: tuple[Retired, ...] = ()
    version: int = _VERSION

    @property
    def current(self) -> ArchiveSegment:
        return self.segments[-1]


def rotated(manifest: Manifest, seen: ArchiveSegment) -> Manifest:
    if manifest.current.name != seen.name:
        raise ManifestConflict("another archiving query has started in this archive")
    fresh = ArchiveSegment(str(int(seen.name) + 1))
    return _next(manifest, segments=(*manifest.segments, fresh))


def compacted(
    manifest: Manifest,
    taken: Manifest,
    *,
    logs: dict[str, SinkLog],
    merged: frozenset[str],
    made: tuple[CompactedFile, ...],
    at_ms: int,
) -> Manifest:
    """Replace all entries of ``logs`` and ``merged`` by ``made``; ``taken`` is where it began."""
    now = {segment.name: segment for segment in manifest.segments}
    if manifest.files != taken.files or any(now.get(s.name) != s for s in taken.segments):
        raise ManifestConflict("another compaction was faster")
    segments = [_covered(segment, logs.get(segment.name)) for segment in manifest.segments]
    old = [
        f"{LIVE}/{segment.name}/{entry.path}"
        for segment in taken.segments
        if segment.name in logs
        for entry in logs[segment.name].entries[segment.covered :]
    ]
    kept = tuple(file for file in manifest.files if file.path not in merged)
    # A segment rotated since then may have got its last batch after we read its log.
    done = {segment.name for segment in taken.segments[:-1]}
    gone = (*old, *sorted(merged), *(f"{LIVE}/{name}" for name in sorted(done)))
    return _next(
        manifest,
        segments=tuple(segment for segment in segments if segment.name not in done),
        files=(*kept, *made),
        retired=(*manifest.retired, Retired(at_ms, gone)),
    )


def _covered(segment: ArchiveSegment, log: SinkLog | None) -> ArchiveSegment:
    if log is None or not log.entries:
        return segment
    return ArchiveSegment(segment.name, len(log.entries), log.entries[-1].path)


def vacuumed(manifest: Manifest, before_ms: int) -> tuple[tuple[str, ...], Manifest]:
    old = [retired for retired in manifest.retired if retired.at_ms < before_ms]
    paths = tuple(path for retired in old for path in retired.paths)
    rest = tuple(retired for retired in manifest.retired if retired.at_ms >= before_ms)
    return paths, _next(manifest, retired=rest)


def _next(manifest: Manifest, **changes: object) -> Manifest:
    return msgspec.structs.replace(manifest, number=manifest.number + 1, **changes)


def load(root: Path) -> Manifest:
    for _ in range(_ATTEMPTS):
        numbers = _numbers(root)
        if not numbers:
            raise ConfigError(
                f"{root} is not an archive: it has no manifest",
                "Give the path that `penstock spark run archive --path` was given.",
            )
        try:
            return _decode(root, numbers[-1])
        except FileNotFoundError:  # newer ones replaced it meanwhile
            continue
    raise ManifestConflict(f"the manifest of {root} changes faster than it can be read")


def create(root: Path, partitioning: str, checkpoint: str) -> Manifest:
    if not _numbers(root):
        try:
            return publish(root, Manifest(0, partitioning, checkpoint))
        except ManifestConflict:  # created concurrently
            pass
    return load(root)


def publish(root: Path, manifest: Manifest) -> Manifest:
    path = _path(root, manifest.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not write_once(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1)):
        raise ManifestConflict(
            f"manifest {manifest.number} of {root} was created by another process"
        )
    for number in _numbers(root)[:-_KEPT]:
        _path(root, number).unlink(missing_ok=True)
    return manifest


def write_once(path: Path, content: bytes) -> bool:
    """Create a file durably; return false if it exists, which a rename would replace."""
    draft = path.parent / f".{uuid4().hex}"
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)
    return True


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decode(root: Path, number: int) -> Manifest:
    path = _path(root, number)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageDamaged(
            f"{path} is damaged: {error}",
            "Replace it by the previous manifest, if nothing was compacted since.",
        ) from None
    if manifest.version != _VERSION:
        raise StorageDamaged(f"{path} has version {manifest.version}, not {_VERSION}")
    return manifest


def _path(root: Path, number: int) -> Path:
    return root / MANIFEST / f"{number:010}.json"


def _numbers(root: Path) -> list[int]:
    names = (path.stem for path in (root / MANIFEST).glob("*.json"))
    return sorted(int(name) for name in names if name.isdecimal())
