"""An archive at one moment: its files, and how far each topic is archived.

The manifest is read first, then the logs: what a log has beyond the manifest's mark is not
compacted. The position is that of the last batch in the log, from the query's checkpoint.
"""

from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path

import msgspec

from penstock.errors import PenstockError, StorageDamaged
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived import sink_log
from penstock.spark.archived.layout import CHECKPOINT, LIVE, date_of, key_of, topic_key
from penstock.spark.archived.manifest import ArchiveSegment, Manifest
from penstock.spark.archived.sink_log import SinkLog
from penstock.spark.offsets import decode


class ArchiveFile(msgspec.Struct, frozen=True, gc=False):
    """A Parquet file of the archive, by absolute path."""

    path: str
    size: int


class ArchivedTopic(msgspec.Struct, frozen=True, gc=False):
    """The archived offsets of an incarnation, ``first`` to ``next``, without deleted ones."""

    incarnation: int
    first: int
    next: int


class Snapshot(msgspec.Struct, frozen=True):
    """The files of the archive, and the log of each segment."""

    root: Path
    manifest: Manifest
    logs: dict[str, SinkLog]
    parts: tuple[ArchiveFile, ...]

    @property
    def batch(self) -> int:
        return self.logs[self.manifest.current.name].batch


def take(root: Path) -> Snapshot:
    manifest = manifests.load(root)
    logs = {s.name: sink_log.read(root / LIVE / s.name) for s in manifest.segments}
    parts = [ArchiveFile(str(root / file.path), file.size) for file in manifest.files]
    for segment in manifest.segments:
        parts += _uncovered(root, segment, logs[segment.name])
    return Snapshot(root, manifest, logs, tuple(parts))


def _uncovered(root: Path, segment: ArchiveSegment, log: SinkLog) -> Iterator[ArchiveFile]:
    count = segment.covered
    if count and (len(log.entries) < count or log.entries[count - 1].path != segment.last):
        raise StorageDamaged(
            f"the log of {root / LIVE / segment.name} is not the log that was compacted",
            "Restore its _spark_metadata: without it rows would be missing or doubled.",
        )
    for entry in log.entries[count:]:
        yield ArchiveFile(str(root / LIVE / segment.name / entry.path), entry.size)


def chosen(
    parts: Collection[ArchiveFile],
    topics: Collection[str] | None = None,
    since: date | None = None,
    until: date | None = None,
) -> list[ArchiveFile]:
    keys = None if topics is None else {topic_key(topic) for topic in topics}

    def fits(part: ArchiveFile) -> bool:
        key, day = key_of(part.path), date_of(part.path)
        if keys is not None and key is not None and key not in keys:
            return False
        return day is None or ((since is None or day >= since) and (until is None or day <= until))

    return [part for part in parts if fits(part)]


def position(snapshot: Snapshot) -> dict[str, ArchivedTopic]:
    if snapshot.batch < 0:
        return {}
    checkpoint = snapshot.root / (snapshot.manifest.checkpoint or CHECKPOINT)
    path = checkpoint / "offsets" / str(snapshot.batch)
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        raise StorageDamaged(
            f"the checkpoint of the archive lacks batch {snapshot.batch}: {path}",
            "Try again; if it persists, the checkpoint belongs to another archive.",
        ) from None
    try:
        spots = decode(msgspec.json.decode(lines[-1])).topics
        return {name: ArchivedTopic(of, first, end) for name, (of, end, first) in spots.items()}
    except (msgspec.MsgspecError, PenstockError, AttributeError, KeyError, TypeError):
        raise StorageDamaged(f"{path} does not end with offsets of this source") from None
