"""Many small files of an archive become few large ones, while it is written and read.

Why it is safe, step by step; whoever is killed anywhere can simply be run again:

1. *Take*: a snapshot says which files are the archive now. All that the file sink has written since
   the last compaction is taken, and files of the last one that stayed small and lie in the same
   directories.
2. *Rewrite*: their rows go to a new directory below ``compacted/``, sorted by topic and offset.
   Nobody reads it yet. Killed here, it stays as rubbish, and the next compaction sweeps it away.
3. *Check*: the new files are read back (their footers) and must have exactly as many rows as those
   they replace; they are flushed to the disk.
4. *Conclude*: one new manifest puts the new files in the place of the old ones: atomically, and
   only if no other compaction came first. The archiving query knows nothing of all this: it writes
   on, to the same directory, with the same log, and what it adds is beyond the manifest's mark.
5. *Vacuum*: files that do not count since a day (``grace``) are deleted, for readers may have begun
   with the manifest before. Spark's log goes on naming them, which is why nobody but
   ``archive.read`` reads that directory: Spark itself would fail there, loudly, not miss rows.
   The directory as a whole goes away once the sink has moved on to another segment.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
from pyarrow import ArrowException
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from penstock.errors import ConfigError, StorageDamaged
from penstock.limits import MIB
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.layout import COMPACTED, DATE, KEY, KEY_SQL, PARTITIONINGS, root_of
from penstock.spark.archived.manifest import CompactedFile, Manifest, ManifestConflict
from penstock.spark.archived.snapshot import ArchiveFile, Snapshot, take
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob

TARGET_BYTES: Final = 128 * MIB
"""How large files become; the size that Spark gives to one task."""

GRACE_S: Final = 24 * 3600.0
"""How long files that do not count any more are kept for readers that have begun."""

SAVED_FILES_MIN: Final = 8
"""Fewer files less are not worth the work."""

_ATTEMPTS: Final = 5

Say = Callable[[Mapping[str, Any]], None]


class CompactionPlan(msgspec.Struct, frozen=True):
    """What one compaction takes: files to read, and which of them compaction made before."""

    snapshot: Snapshot
    parts: tuple[ArchiveFile, ...]
    merged: frozenset[str]
    target_bytes: int = TARGET_BYTES

    @property
    def size(self) -> int:
        """Bytes of all files taken."""
        return sum(part.size for part in self.parts)


def plan(
    snapshot: Snapshot, target_bytes: int = TARGET_BYTES, saved_min: int = SAVED_FILES_MIN
) -> CompactionPlan | None:
    """Choose what to take; None if it would not make few enough files of many. Pure."""
    made = {str(snapshot.root / file.path): file for file in snapshot.manifest.files}
    live = [part for part in snapshot.parts if part.path not in made]
    directories = {_directory(part.path) for part in live}
    merged = [
        part
        for part in snapshot.parts
        if part.path in made
        and part.size < target_bytes // 2
        and _directory(part.path) in directories
    ]
    parts = (*live, *merged)
    size = sum(part.size for part in parts)
    if len(parts) - len(directories) - size // target_bytes < saved_min:
        return None
    names = frozenset(made[part.path].path for part in merged)
    return CompactionPlan(snapshot, parts, names, target_bytes)


def _directory(path: str) -> str:
    """Return the directories of topic and day that a file lies in."""
    return "/".join(part for part in path.split("/")[:-1] if "=" in part)


def rewrite(spark: SparkSession, work: CompactionPlan) -> tuple[CompactedFile, ...]:
    """Write all rows taken to a new directory; return its files, checked and durable.

    Rows are dealt to tasks by directory and by stretches of offsets, so that one large topic is the
    work of many.
    """
    root, manifest = work.snapshot.root, work.snapshot.manifest
    rows = sum(_rows(Path(part.path)) for part in work.parts)
    per_file = max(1, rows * work.target_bytes // max(1, work.size))
    tasks = max(1, min(1000, -(-work.size // work.target_bytes)))
    columns = PARTITIONINGS[manifest.partitioning]
    own = spark.newSession()
    for key, value in archive.SETTINGS.items():
        own.conf.set(key, value)
    frame = archive.files(own, [part.path for part in work.parts])
    frame = frame.selectExpr("*", f"{KEY_SQL} as {KEY}", DATE, f"offset div {per_file} as stretch")
    frame = frame.repartition(tasks, *columns, "stretch")
    frame = frame.sortWithinPartitions(*columns, "topic", "incarnation", "offset").drop("stretch")
    if KEY not in columns:
        frame = frame.drop(KEY)
    target = root / COMPACTED / uuid4().hex
    writer = frame.write.partitionBy(*columns).option("compression", "zstd")
    writer.option("maxRecordsPerFile", per_file).parquet(str(target))
    return _checked(root, target, rows)


def _checked(root: Path, target: Path, rows: int) -> tuple[CompactedFile, ...]:
    paths = sorted(target.rglob("*.parquet"))
    files = tuple(
        CompactedFile(str(p.relative_to(root)), p.stat().st_size, _rows(p)) for p in paths
    )
    written = sum(file.rows for file in files)
    if written != rows:
        raise StorageDamaged(
            f"{rows} rows were to be compacted, {written} were written to {target}",
            "The archive is as it was. Report this: it must not happen.",
        )
    for path in {*paths, *(p.parent for p in paths), *(p.parent.parent for p in paths)}:
        _flush(path)
    return files


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ArrowException) as error:
        raise StorageDamaged(
            f"{path} can not be read: {error}",
            "Restore the file. What the broker still has of it can be archived anew, elsewhere; "
            "`penstock spark run audit` tells which offsets are concerned.",
        ) from None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def conclude(work: CompactionPlan, made: tuple[CompactedFile, ...], at_ms: int) -> Manifest:
    """Put what was rewritten in the place of what was taken."""
    root, taken = work.snapshot.root, work.snapshot.manifest

    def change(newest: Manifest) -> Manifest:
        return manifests.compacted(
            newest, taken, logs=work.snapshot.logs, merged=work.merged, made=made, at_ms=at_ms
        )

    return _publish(root, change)


def _publish(root: Path, change: Callable[[Manifest], Manifest]) -> Manifest:
    for _ in range(_ATTEMPTS):
        changed = change(manifests.load(root))
        try:
            return manifests.publish(root, changed)
        except ManifestConflict:  # the archiving query began a segment just now
            continue
    raise ManifestConflict(f"the manifest of {root} changes faster than it can be written")


def vacuum(root: Path, before_ms: int) -> int:
    """Delete what does not count since before that time; return how many files.

    First the files, then their names: killed in between, it is done again.
    """
    paths, _ = manifests.vacuumed(manifests.load(root), before_ms)
    if not paths:
        return 0
    for name in paths:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _publish(root, lambda newest: manifests.vacuumed(newest, before_ms)[1])
    return len(paths)


def sweep(root: Path) -> int:
    """Delete what compactions that were killed have left; return how many directories.

    Only for who holds the lock: a directory that no manifest names may be somebody's who is at it.
    """
    manifest = manifests.load(root)
    named = [file.path for file in manifest.files]
    named += [path for retired in manifest.retired for path in retired.paths]
    known = {path.split("/")[1] for path in named if path.startswith(f"{COMPACTED}/")}
    found = [path for path in (root / COMPACTED).glob("*") if path.name not in known]
    for path in found:
        shutil.rmtree(path)
    return len(found)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Be the only compaction of this archive. Without it nothing breaks, but work is wasted."""
    descriptor = os.open(root / ".compaction", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigError(
            f"{root} is being compacted by another process", "Wait until it is done."
        ) from None
    finally:
        os.close(descriptor)


def compact(
    spark: SparkSession,
    path: str | Path,
    *,
    target_bytes: int = TARGET_BYTES,
    saved_min: int = SAVED_FILES_MIN,
    grace_s: float = GRACE_S,
) -> dict[str, int]:
    """Compact an archive, and delete what was replaced long enough ago; return figures."""
    root = root_of(path)
    manifests.load(root)  # says so if it is none
    with _alone(root):
        swept = sweep(root)
        deleted = vacuum(root, _now_ms() - int(grace_s * 1000))
        snapshot = take(root)
        work = plan(snapshot, target_bytes, saved_min)
        figures = {"files_before": len(snapshot.parts), "deleted": deleted, "swept": swept}
        if work is None:
            return {**figures, "files_after": len(snapshot.parts), "taken": 0, "made": 0, "rows": 0}
        made = rewrite(spark, work)
        conclude(work, made, _now_ms())
    return {
        **figures,
        "files_after": len(snapshot.parts) - len(work.parts) + len(made),
        "taken": len(work.parts),
        "made": len(made),
        "rows": sum(file.rows for file in made),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# ── The job ───────────────────────────────────────────────────────────────────────────────────


def run(
    spark: SparkSession,
    *,
    path: str,
    target_mib: int = TARGET_BYTES // MIB,
    grace: float = GRACE_S,
    min_files: int = SAVED_FILES_MIN,
) -> JobOutcome:
    """Make few files of many in an archive, while it is written and read."""
    figures = compact(
        spark, path, target_bytes=target_mib * MIB, saved_min=min_files, grace_s=grace
    )
    text = (
        f"{figures['files_before']} files before, {figures['files_after']} now: "
        f"{figures['taken']} with {figures['rows']} rows became {figures['made']}; "
        f"{figures['deleted']} replaced earlier were deleted"
    )
    return JobOutcome(text, figures)


def check(*, path: str, target_mib: int, **_: Any) -> None:
    """Refuse options that ``run`` would refuse."""
    manifests.load(root_of(path))
    if target_mib < 1:
        raise ConfigError("files of no size hold nothing", "give --target-mib 1 or more")


JOB: Final = PipelineJob(
    "compact",
    (
        archive.PATH,
        Option("target_mib", "How large files become, in MiB.", "integer", TARGET_BYTES // MIB),
        Option(
            "grace", "How long replaced files stay for readers that have begun.", "duration", "24h"
        ),
        Option(
            "min_files",
            "Do nothing unless there will be so many files less.",
            "integer",
            SAVED_FILES_MIN,
        ),
    ),
    run,
    check=check,
)
