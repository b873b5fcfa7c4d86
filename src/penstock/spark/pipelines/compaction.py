"""``compact``: merges the small files of an archive, while it is written and read.

A compaction takes what the file sink has written since the last one and small compacted files in
the same directories, rewrites them below ``compacted/`` and checks the number of rows. One new
manifest then replaces the old files, atomically; the archiving query keeps writing beyond the
manifest's mark. Files that were replaced a day ago (``grace``) are deleted; Spark's log still names
them, so only ``archive.read`` may read that directory. Every step is safe to repeat after a crash.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
from py4j.protocol import Py4JError
from pyarrow import ArrowException
from pyarrow import parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import ConfigError, PenstockError, StorageDamaged
from penstock.limits import MIB
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.frames import files as rows_of
from penstock.spark.archived.frames import lock, writing_session
from penstock.spark.archived.layout import COMPACTED, DATE, KEY, KEY_SQL, PARTITIONINGS, root_of
from penstock.spark.archived.manifest import CompactedFile, Manifest, ManifestConflict
from penstock.spark.archived.snapshot import ArchiveFile, Snapshot, take
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob, duration

TARGET_BYTES: Final = 128 * MIB  # the size that Spark gives to one task
GRACE_S: Final = 24 * 3600.0  # keep replaced files this long for running readers
SAVED_FILES_MIN: Final = 8  # do not compact to save fewer files
EVERY_S: Final = 3600.0
_LOOK_S: Final = 0.5
_ATTEMPTS: Final = 5
_LOG: Final = logging.getLogger("penstock.spark")


class CompactionPlan(msgspec.Struct, frozen=True):
    """The files that one compaction reads, and which of them are compacted ones."""

    snapshot: Snapshot
    parts: tuple[ArchiveFile, ...]
    merged: frozenset[str]
    target_bytes: int = TARGET_BYTES

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def plan(
    snapshot: Snapshot, target_bytes: int = TARGET_BYTES, saved_min: int = SAVED_FILES_MIN
) -> CompactionPlan | None:
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
    return "/".join(part for part in path.split("/")[:-1] if "=" in part)


def rewrite(spark: SparkSession, work: CompactionPlan) -> tuple[CompactedFile, ...]:
    root, manifest = work.snapshot.root, work.snapshot.manifest
    rows = sum(_rows(Path(part.path)) for part in work.parts)
    per_file = max(1, rows * work.target_bytes // max(1, work.size))
    tasks = max(1, min(1000, -(-work.size // work.target_bytes)))
    columns = PARTITIONINGS[manifest.partitioning]
    frame = rows_of(writing_session(spark), [part.path for part in work.parts])
    frame = frame.selectExpr("*", f"{KEY_SQL} as {KEY}", DATE, f"offset div {per_file} as chunk")
    frame = frame.repartition(tasks, *columns, "chunk")
    frame = frame.sortWithinPartitions(*columns, "topic", "incarnation", "offset").drop("chunk")
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
            f"{rows} rows were read, but {written} written to {target}",
            "The archive is unchanged. Please report this as a bug.",
        )
    for path in {*paths, *(p.parent for p in paths), *(p.parent.parent for p in paths)}:
        manifests.sync(path)
    return files


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ArrowException) as error:
        raise StorageDamaged(
            f"{path} cannot be read: {error}",
            "Restore the file. `penstock spark run audit` lists the affected offsets; archive "
            "those that the broker still has to another directory.",
        ) from None


def conclude(work: CompactionPlan, made: tuple[CompactedFile, ...], at_ms: int) -> Manifest:
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
        except ManifestConflict:  # the archiving query started a segment
            continue
    raise ManifestConflict(f"the manifest of {root} changes faster than it can be written")


def vacuum(root: Path, before_ms: int) -> int:
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
    """Delete the leftovers of killed compactions; call it with the lock held."""
    manifest = manifests.load(root)
    named = [file.path for file in manifest.files]
    named += [path for retired in manifest.retired for path in retired.paths]
    known = {path.split("/")[1] for path in named if path.startswith(f"{COMPACTED}/")}
    found = [path for path in (root / COMPACTED).glob("*") if path.name not in known]
    for path in found:
        shutil.rmtree(path)
    return len(found)


def compact(
    spark: SparkSession,
    path: str | Path,
    *,
    target_bytes: int = TARGET_BYTES,
    saved_min: int = SAVED_FILES_MIN,
    grace_s: float = GRACE_S,
) -> dict[str, int]:
    root = root_of(path)
    manifests.load(root)  # raises if it is not an archive
    fault = f"{root} is being compacted by another process"
    descriptor = lock(root / ".compaction", fault, "Wait until it has finished.")
    try:  # two compactions would be safe, but waste work
        swept = sweep(root)
        deleted = vacuum(root, _now_ms() - int(grace_s * 1000))
        snapshot = take(root)
        work = plan(snapshot, target_bytes, saved_min)
        figures = {"files_before": len(snapshot.parts), "deleted": deleted, "swept": swept}
        if work is None:
            return {**figures, "files_after": len(snapshot.parts), "taken": 0, "made": 0, "rows": 0}
        made = rewrite(spark, work)
        conclude(work, made, _now_ms())
    finally:
        os.close(descriptor)
    return {
        **figures,
        "files_after": len(snapshot.parts) - len(work.parts) + len(made),
        "taken": len(work.parts),
        "made": len(made),
        "rows": sum(file.rows for file in made),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def compact_periodically(
    spark: SparkSession, path: str | Path, query: StreamingQuery, every_s: float = EVERY_S
) -> threading.Thread:
    arguments = (spark, path, query, every_s)
    thread = threading.Thread(target=_follow, args=arguments, name="compaction", daemon=True)
    thread.start()
    return thread


def _follow(spark: SparkSession, path: str | Path, query: StreamingQuery, every_s: float) -> None:
    try:
        while not _has_ended(query, every_s):
            try:
                figures = compact(spark, path)
            except (PenstockError, PySparkException) as error:
                _LOG.warning("could not compact %s, will try again: %s", path, error)
            else:
                if figures["taken"]:
                    _LOG.info("compacted %s: %s", path, figures)
    except (Py4JError, OSError):  # the session is gone, and the query with it
        return


def _has_ended(query: StreamingQuery, within_s: float) -> bool:
    for _ in range(max(1, round(within_s / _LOOK_S))):
        if not query.isActive:
            return True
        time.sleep(_LOOK_S)
    return not query.isActive


def run(
    spark: SparkSession,
    *,
    path: str,
    target_mib: int = TARGET_BYTES // MIB,
    grace: float = GRACE_S,
    min_files: int = SAVED_FILES_MIN,
) -> JobOutcome:
    """Merge the small files of an archive, while it is written and read."""
    figures = compact(
        spark, path, target_bytes=target_mib * MIB, saved_min=min_files, grace_s=grace
    )
    text = (
        f"{figures['files_before']} files before, {figures['files_after']} now: "
        f"{figures['taken']} with {figures['rows']} rows became {figures['made']}; "
        f"{figures['deleted']} files replaced earlier were deleted"
    )
    return JobOutcome(text, figures)


def check(*, path: str, target_mib: int, **_: object) -> None:
    manifests.load(root_of(path))
    if target_mib < 1:
        raise ConfigError("--target-mib must be positive", "give --target-mib 1 or more")


PATH: Final = Option("path", "Directory of the archive.", metavar="DIR", is_required=True)

JOB: Final = PipelineJob(
    "compact",
    (
        PATH,
        Option("target_mib", "File size to aim for, in MiB.", "integer", TARGET_BYTES // MIB),
        duration("grace", "Keep replaced files this long, for running readers.", "24h"),
        Option(
            "min_files", "Do nothing unless it saves this many files.", "integer", SAVED_FILES_MIN
        ),
    ),
    run,
    check=check,
)
