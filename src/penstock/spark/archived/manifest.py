"""The manifest of an archive: which files are its rows, after compaction.

The file sink's directory cannot be compacted in place: its log names every file. So compaction
writes *other* files, and the manifest says from when on those count instead:

* ``segments`` are the directories of the file sink, in their order; the last one is written to. Of
  each the first ``covered`` entries of its log (``sink_log``) have been compacted; ``last`` is the
  path of the last of them, a seal that it is still that log.
* ``files`` are what compaction made of them.
* ``retired`` are files that no longer count, and since when. They stay for a while, for readers
  that have begun; then ``compaction.vacuum`` deletes them.

So a row counts exactly once: its file is in a log and not covered, or it is covered, and then in
exactly one of ``files``. The step from one to the other is the step from one manifest to the next,
and that is one ``link`` of a file system: manifests are numbered, and the next number is made by
whoever is first. Who comes second reads again, and looks whether what it wants still makes sense
(``ManifestConflict`` if not). A crash before the link changes nothing.

A reader takes one manifest, then the logs. A log that has grown meanwhile has more rows, all of
them beyond what is covered. A segment that came meanwhile is not seen, and all its rows are newer.
Either way it is what the archive was at one moment, without a lock.
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
_KEPT: Final = 16  # older manifests, for who wants to see what happened
_ATTEMPTS: Final = 5


class ManifestConflict(PenstockError):  # noqa: N818 - reads as the state it names
    """Somebody else has changed the archive meanwhile. Nothing was changed; begin again."""


class CompactedFile(msgspec.Struct, frozen=True, gc=False):
    """A Parquet file that compaction made, its path below the archive's directory."""

    path: str
    size: int
    rows: int


class ArchiveSegment(msgspec.Struct, frozen=True, gc=False):
    """A directory of the file sink, and how much of it compaction has taken."""

    name: str
    covered: int = 0
    last: str = ""


class Retired(msgspec.Struct, frozen=True, gc=False):
    """Paths below the archive's directory that do not count since a time."""

    at_ms: int
    paths: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """What an archive is made of; ``checkpoint`` is that of the query that writes it."""

    number: int
    partitioning: str
    checkpoint: str
    segments: tuple[ArchiveSegment, ...] = (ArchiveSegment("0"),)
    files: tuple[CompactedFile, ...] = ()
    retired: tuple[Retired, ...] = ()
    version: int = _VERSION

    @property
    def current(self) -> ArchiveSegment:
        """The segment that is written to."""
        return self.segments[-1]


# ── Steps, pure: from one manifest to the next ────────────────────────────────────────────────


def rotated(manifest: Manifest, seen: ArchiveSegment) -> Manifest:
    """Have the file sink write to a new directory, after the one that was ``seen`` as current."""
    if manifest.current.name != seen.name:
        raise ManifestConflict("another archiving query has begun in this archive")
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
    """Put ``made`` in the place of all entries of ``logs`` and of the files ``merged``.

    ``taken`` is the manifest that this compaction began with. Rotations since are no trouble; but
    if another compaction was faster, then what it took is in its files, and must not be in ours.
    """
    now = {segment.name: segment for segment in manifest.segments}
    if manifest.files != taken.files or any(now.get(s.name) != s for s in taken.segments):
        raise ManifestConflict("another compaction was faster")
    segments = tuple(_covered(segment, logs.get(segment.name)) for segment in manifest.segments)
    old = [path for s in taken.segments if s.name in logs for path in _fresh(s, logs[s.name])]
    kept = tuple(file for file in manifest.files if file.path not in merged)
    done = _done(taken)
    return _next(
        manifest,
        segments=tuple(segment for segment in segments if segment.name not in done),
        files=(*kept, *made),
        retired=(
            *manifest.retired,
            Retired(at_ms, (*old, *sorted(merged), *(f"{LIVE}/{name}" for name in sorted(done)))),
        ),
    )


def _covered(segment: ArchiveSegment, log: SinkLog | None) -> ArchiveSegment:
    if log is None or not log.entries:
        return segment
    return ArchiveSegment(segment.name, len(log.entries), log.entries[-1].path)


def _fresh(segment: ArchiveSegment, log: SinkLog) -> list[str]:
    return [f"{LIVE}/{segment.name}/{entry.path}" for entry in log.entries[segment.covered :]]


def _done(taken: Manifest) -> frozenset[str]:
    """Return the segments that nobody wrote to any more when this compaction read their logs.

    Not one that was rotated away since: its last batch may have come after we read its log.
    """
    return frozenset(segment.name for segment in taken.segments[:-1])


def vacuumed(manifest: Manifest, before_ms: int) -> tuple[tuple[str, ...], Manifest]:
    """Return the paths that may be deleted by now, and the manifest for when they are."""
    old = [retired for retired in manifest.retired if retired.at_ms < before_ms]
    paths = tuple(path for retired in old for path in retired.paths)
    rest = tuple(retired for retired in manifest.retired if retired.at_ms >= before_ms)
    return paths, _next(manifest, retired=rest)


def _next(manifest: Manifest, **changes: object) -> Manifest:
    return msgspec.structs.replace(manifest, number=manifest.number + 1, **changes)


# ── On disk ───────────────────────────────────────────────────────────────────────────────────


def load(root: Path) -> Manifest:
    """Read the newest manifest; ConfigError if the directory is no archive."""
    for _ in range(_ATTEMPTS):
        numbers = _numbers(root)
        if not numbers:
            raise ConfigError(
                f"{root} is no archive: it has no manifest",
                "Give the path that `penstock spark run archive --path` was given.",
            )
        try:
            return _decode(root, numbers[-1])
        except FileNotFoundError:  # so many newer ones came meanwhile
            continue
    raise ManifestConflict(f"the manifest of {root} changes faster than it can be read")


def create(root: Path, partitioning: str, checkpoint: str) -> Manifest:
    """Read the newest manifest, or make the first."""
    if not _numbers(root):
        try:
            return publish(root, Manifest(0, partitioning, checkpoint))
        except ManifestConflict:  # by somebody who made it at the same time
            pass
    return load(root)


def publish(root: Path, manifest: Manifest) -> Manifest:
    """Make a manifest the newest, durably; Overtaken if its number is taken."""
    path = _path(root, manifest.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not write_once(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1)):
        raise ManifestConflict(f"manifest {manifest.number} of {root} was made by somebody else")
    for number in _numbers(root)[:-_KEPT]:
        _path(root, number).unlink(missing_ok=True)
    return manifest


def write_once(path: Path, content: bytes) -> bool:
    """Make a file, durably and as a whole; false if there is one.

    By a link, not a rename: a link fails where a rename would replace what somebody else has put
    there.
    """
    draft = path.parent / f".{uuid4().hex}"
    try:
        _write(draft, content)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    _flush(path.parent)
    return True


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
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
            "Put the manifest before it in its place, if nothing was compacted since.",
        ) from None
    if manifest.version != _VERSION:
        raise StorageDamaged(f"{path} is of version {manifest.version}, not {_VERSION}")
    return manifest


def _path(root: Path, number: int) -> Path:
    return root / MANIFEST / f"{number:010}.json"


def _numbers(root: Path) -> list[int]:
    names = (path.stem for path in (root / MANIFEST).glob("*.json"))
    return sorted(int(name) for name in names if name.isdecimal())
