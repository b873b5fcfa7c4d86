"""Topics to Parquet, exactly once: the ``archive`` job, and the one way to read what it wrote.

Spark's file sink writes the files of a batch, and then one file of its log that names them: from
then on they count. A driver that is killed before that leaves files which nobody counts, and runs
the batch again; after that, the batch is passed over. So each row is there once, for whoever goes
by the log. ``read`` does; listing the directory, or giving it to another program, does not.

Rows keep topic, incarnation, offset and sequence, and with them where they belong; headers and
signatures too, for ``replay`` and ``audit`` need them. They are divided by topic and day
(``layout`` says how directories are named). A batch makes a file per topic and day in it: the
trigger should be a minute or more, and ``compaction`` makes few files of many later on.

The log grows with every file, and every tenth batch Spark writes it anew as a whole. So when it has
grown long, the next start gives the sink a new directory, a *segment*, with an empty log
(``sink_log.seed``). The checkpoint goes on as if nothing had happened.
"""

import fcntl
import os
import shutil
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import ConfigError
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived import sink_log
from penstock.spark.archived.checkpoint_check import check_lineage
from penstock.spark.archived.layout import (
    CHECKPOINT,
    COLUMNS,
    DATE,
    KEY,
    KEY_SQL,
    LIVE,
    PARTITIONINGS,
    SCHEMA,
    day_of,
    root_of,
)
from penstock.spark.archived.manifest import Manifest
from penstock.spark.archived.snapshot import chosen, take
from penstock.spark.pipelines import registry, streams
from penstock.spark.pipelines.registry import FollowUp, Option, PipelineJob
from penstock.spark.pipelines.streams import from_topics

SEGMENT_ENTRIES_MAX: Final = 10_000
"""Files in the log of a segment above which the next start begins another: to write a log of so
many anew, at every tenth batch, takes Spark some tenths of a second."""

SETTINGS: Final = {
    # INT96, the default, has no statistics: nothing could be left out by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Up to so many topics and days are written side by side, without sorting the rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
}

_locks: dict[Path, int] = {}
_queries: dict[Path, StreamingQuery] = {}


def transform(rows: DataFrame) -> DataFrame:
    """Add the columns that divide rows into directories."""
    return rows.selectExpr("*", f"{KEY_SQL} as {KEY}", DATE)


def start(
    spark: SparkSession,
    servers: str,
    subscribe: str,
    path: str | Path,
    *,
    reader: str | None = None,
    trigger: str = "1m",
    partition_by: str = "topic,date",
    checkpoint: str | None = None,
    compression: str = "snappy",
    options: dict[str, str] | None = None,
) -> StreamingQuery:
    """Begin to archive, or go on; one query at a time for each archive.

    ``options`` are more options of the source, such as ``maxOffsetsPerTrigger``. The checkpoint is
    kept within the archive unless another place is given, then and always.
    """
    root = root_of(path)
    if root in _queries and _queries[root].isActive:
        raise ConfigError(f"{root} is being written by this process", "End that query first.")
    manifest = prepare(root, partition_by, checkpoint)
    own = spark.newSession()  # these settings are for this query alone
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    more: dict[str, Any] = dict(options or {})
    rows = from_topics(
        own,
        servers=servers,
        subscribe=subscribe,
        reader=reader or f"archive-{root.name}",
        columns=tuple(COLUMNS),
        **more,
    )
    writer = (
        transform(rows)
        .writeStream.format("parquet")
        .option("path", str(root / LIVE / manifest.current.name))
        .option("compression", compression)
        .partitionBy(*PARTITIONINGS[partition_by])
    )
    place = str(root / manifest.checkpoint)
    query = streams.start(writer, name=f"archive-{root.name}", checkpoint=place, trigger=trigger)
    _queries[root] = query
    return query


def prepare(
    root: Path,
    partition_by: str = "topic,date",
    checkpoint: str | None = None,
    entries_max: int = SEGMENT_ENTRIES_MAX,
) -> Manifest:
    """Make the archive if need be, keep others out, and begin another segment if it is time."""
    if partition_by not in PARTITIONINGS:
        raise ConfigError(
            f"rows can not be divided by {partition_by!r}",
            f"Choose one of: {'; '.join(PARTITIONINGS)}.",
        )
    root.mkdir(parents=True, exist_ok=True)
    _lock(root)
    place = str(root_of(checkpoint)) if checkpoint else CHECKPOINT
    manifest = manifests.create(root, partition_by, place)
    if (manifest.partitioning, manifest.checkpoint) != (partition_by, place):
        raise ConfigError(
            f"{root} is divided by {manifest.partitioning!r}, with its checkpoint in "
            f"{manifest.checkpoint!r}",
            "Go on with the same, or begin another archive.",
        )
    check_lineage(root / LIVE / manifest.current.name, root / manifest.checkpoint)
    log = sink_log.read(root / LIVE / manifest.current.name)
    return _rotate(root, manifest, log.batch) if len(log.entries) > entries_max else manifest


def _rotate(root: Path, manifest: Manifest, batch: int) -> Manifest:
    """Begin another segment: first its log, then the manifest that says so.

    Killed in between, it is not in the manifest, nobody has written to it, and it is made again.
    """
    rotated = manifests.rotated(manifest, manifest.current)
    fresh = root / LIVE / rotated.current.name
    shutil.rmtree(fresh, ignore_errors=True)
    sink_log.seed(fresh, batch)
    try:
        return manifests.publish(root, rotated)
    except manifests.ManifestConflict:  # by a compaction: the segment is as good a moment later
        return manifests.publish(root, manifests.rotated(manifests.load(root), manifest.current))


def _lock(root: Path) -> None:
    """Keep other processes from archiving here, for as long as this one lives.

    Two queries on one checkpoint would find out by themselves, but late; and two segments at once
    would not.
    """
    if root in _locks:
        return
    descriptor = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigError(
            f"another process archives to {root}",
            "End it first, or give this one a path of its own.",
        ) from None
    _locks[root] = descriptor


# ── Reading ───────────────────────────────────────────────────────────────────────────────────


def read(
    spark: SparkSession,
    path: str | Path,
    *,
    topics: Collection[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the rows of an archive, each once: all, or those of some topics or times.

    The archive may be written to and compacted meanwhile: the frame shows it as it is now. Files
    that compaction replaces stay for a day (its ``grace``): so long a frame is good for.

    ``since`` is included, ``until`` is not. Spark leaves files out by directory, and parts of files
    by their statistics.
    """
    parts = chosen(
        take(root_of(path)).parts,
        topics,
        day_of(since) if since else None,
        day_of(until) if until else None,
    )
    rows = files(spark, [part.path for part in parts])
    if topics is not None:
        rows = rows.where(f.col("topic").isin(list(topics)))
    if since is not None:
        rows = rows.where(f.col("timestamp") >= f.lit(since))
    if until is not None:
        rows = rows.where(f.col("timestamp") < f.lit(until))
    return rows.selectExpr("*", DATE)


def files(spark: SparkSession, paths: Collection[str]) -> DataFrame:
    """Return the rows of these files.

    ``recursiveFileLookup`` keeps Spark from making columns of directories' names, which it would
    refuse to do for files of several segments.
    """
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")
    return reader.parquet(*paths)


# ── The job ───────────────────────────────────────────────────────────────────────────────────


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    path: str,
    reader: str | None = None,
    trigger: str = "1m",
    partition_by: str = "topic,date",
    checkpoint: str | None = None,
    compression: str = "snappy",
    starting: str = "earliest",
    max_rows: int | None = None,
    ignore_loss: bool = False,
    compact: bool = False,
) -> StreamingQuery | FollowUp:
    """Archive topics to Parquet, each message once, and go on where the last run ended.

    With --compact it also makes few files of many: at the end of a run that ends, and else every
    hour.
    """
    options = {"startingOffsets": starting, "failOnDataLoss": str(not ignore_loss).lower()}
    if max_rows:
        options["maxOffsetsPerTrigger"] = str(max_rows)
    query = start(
        spark,
        servers,
        subscribe,
        path,
        reader=reader,
        trigger=trigger,
        partition_by=partition_by,
        checkpoint=checkpoint,
        compression=compression,
        options=options,
    )
    return _compacted(spark, path, query, trigger) if compact else query


def check(*, path: str, partition_by: str, checkpoint: str | None, **_: Any) -> None:
    """Refuse options that ``run`` would refuse: it prepares the archive, as ``run`` does again."""
    prepare(root_of(path), partition_by, checkpoint)


def _compacted(
    spark: SparkSession, path: str, query: StreamingQuery, trigger: str
) -> StreamingQuery | FollowUp:
    from penstock.spark.pipelines import compaction, upkeep  # noqa: PLC0415 - they build upon this

    if trigger == "available-now":
        return FollowUp(query, lambda: compaction.run(spark, path=path))
    upkeep.follow(spark, path, query)
    return query


PATH: Final = Option("path", "The archive's directory.", metavar="DIR", is_required=True)

JOB: Final = PipelineJob(
    "archive",
    (
        registry.SERVERS,
        registry.SUBSCRIBE,
        PATH,
        registry.READER,
        Option(
            "trigger",
            "When to work: every so often (5m), continuous, or available-now (then end).",
            default="1m",
            metavar="WHEN",
        ),
        Option(
            "partition_by",
            "Directories for each topic and day, or, with very many topics, for each day.",
            "choice",
            default="topic,date",
            choices=tuple(PARTITIONINGS),
        ),
        Option(
            "checkpoint",
            "Where the job notes how far it is, if not within the archive.",
            metavar="DIR",
        ),
        Option(
            "compression",
            "How Parquet is compressed.",
            "choice",
            default="snappy",
            choices=("snappy", "zstd", "lz4", "none"),
        ),
        Option(
            "starting",
            "Where a new archive begins.",
            "choice",
            default="earliest",
            choices=("earliest", "latest"),
        ),
        Option("max_rows", "Most rows of one batch.", "integer"),
        registry.IGNORE_LOSS,
        Option("compact", "Make few files of many: at the end, or else every hour.", "flag"),
    ),
    run,
    check=check,
)
