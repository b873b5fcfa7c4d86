"""``archive``: topics to Parquet, exactly once, and the way to read the archive.

Spark's file sink writes the files of a batch, then a log file that names them; only then do they
count. So each row is there once for readers of the log, such as ``read``.

Every tenth batch Spark rewrites the whole log. When it has grown long, the next start gives the
sink a new directory, a *segment*, with an empty log (``sink_log.seed``); the checkpoint goes on.
"""

import shutil
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import ConfigError
from penstock.spark.archived import layout, sink_log
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.checkpoint_check import check_lineage
from penstock.spark.archived.frames import files, lock, writing_session
from penstock.spark.archived.manifest import Manifest
from penstock.spark.archived.snapshot import chosen, take
from penstock.spark.pipelines import compaction, registry, streams
from penstock.spark.pipelines.registry import Option, PipelineJob, QueryFollowUp, choice
from penstock.spark.pipelines.streams import from_topics

# log entries after which the next start begins a segment; rewriting a longer log takes too long
SEGMENT_ENTRIES_MAX: Final = 10_000
_locks: dict[Path, int] = {}
_queries: dict[Path, StreamingQuery] = {}


def transform(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", f"{layout.KEY_SQL} as {layout.KEY}", layout.DATE)


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
    options: Mapping[str, str | int | None] | None = None,
) -> StreamingQuery:
    """Start archiving, or resume; ``options`` are further options of the source."""
    root = layout.root_of(path)
    if root in _queries and _queries[root].isActive:
        raise ConfigError(f"{root} is being written by this process", "Stop that query first.")
    manifest = prepare(root, partition_by, checkpoint)
    session, name = writing_session(spark), f"archive-{root.name}"
    columns = tuple(layout.COLUMNS)
    rows = from_topics(session, servers, subscribe, reader or name, columns, options=options)
    writer = (
        transform(rows)
        .writeStream.format("parquet")
        .option("path", str(root / layout.LIVE / manifest.current.name))
        .option("compression", compression)
        .partitionBy(*layout.PARTITIONINGS[partition_by])
    )
    directory = str(root / manifest.checkpoint)
    query = streams.start(writer, name=name, checkpoint=directory, trigger=trigger)
    _queries[root] = query
    return query


def prepare(
    root: Path,
    partition_by: str = "topic,date",
    checkpoint: str | None = None,
    entries_max: int = SEGMENT_ENTRIES_MAX,
) -> Manifest:
    if partition_by not in layout.PARTITIONINGS:
        raise ConfigError(
            f"cannot partition by {partition_by!r}",
            f"Choose one of: {'; '.join(layout.PARTITIONINGS)}.",
        )
    root.mkdir(parents=True, exist_ok=True)
    if root not in _locks:  # held for as long as this process lives
        fault = f"another process is archiving to {root}"
        _locks[root] = lock(root / ".lock", fault, "Stop it first, or use another --path.")
    directory = str(layout.root_of(checkpoint)) if checkpoint else layout.CHECKPOINT
    manifest = manifests.create(root, partition_by, directory)
    if (manifest.partitioning, manifest.checkpoint) != (partition_by, directory):
        raise ConfigError(
            f"{root} is partitioned by {manifest.partitioning!r}, with its checkpoint in "
            f"{manifest.checkpoint!r}",
            "Use the same options, or start another archive.",
        )
    check_lineage(root / layout.LIVE / manifest.current.name, root / manifest.checkpoint)
    log = sink_log.read(root / layout.LIVE / manifest.current.name)
    return _rotate(root, manifest, log.batch) if len(log.entries) > entries_max else manifest


def _rotate(root: Path, manifest: Manifest, batch: int) -> Manifest:
    """Start a segment: first its log, then the manifest, so a crash leaves nothing in use."""
    rotated = manifests.rotated(manifest, manifest.current)
    fresh = root / layout.LIVE / rotated.current.name
    shutil.rmtree(fresh, ignore_errors=True)
    sink_log.seed(fresh, batch)
    try:
        return manifests.publish(root, rotated)
    except manifests.ManifestConflict:  # by a compaction; just try again
        return manifests.publish(root, manifests.rotated(manifests.load(root), manifest.current))


def read(
    spark: SparkSession,
    path: str | Path,
    *,
    topics: Collection[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the rows of an archive, each once, optionally of some topics or times.

    The DataFrame shows the archive as it is now, and is valid while compaction keeps replaced files
    (a day). ``since`` is inclusive, ``until`` exclusive.
    """
    parts = chosen(
        take(layout.root_of(path)).parts,
        topics,
        layout.day_of(since) if since else None,
        layout.day_of(until) if until else None,
    )
    rows = files(spark, [part.path for part in parts])
    if topics is not None:
        rows = rows.where(f.col("topic").isin(list(topics)))
    if since is not None:
        rows = rows.where(f.col("timestamp") >= f.lit(since))
    if until is not None:
        rows = rows.where(f.col("timestamp") < f.lit(until))
    return rows.selectExpr("*", layout.DATE)


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
) -> StreamingQuery | QueryFollowUp:
    """Archive topics as Parquet, each message exactly once; resume where the last run ended.

    With --compact, also merge small files: when the run ends, or every hour.
    """
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
        options={
            "startingOffsets": starting,
            "failOnDataLoss": str(not ignore_loss).lower(),
            "maxOffsetsPerTrigger": max_rows,
        },
    )
    if compact and trigger == "available-now":
        return QueryFollowUp(query, lambda: compaction.run(spark, path=path))
    if compact:
        compaction.compact_periodically(spark, path, query)
    return query


def check(*, path: str, partition_by: str, checkpoint: str | None, **_: object) -> None:
    prepare(layout.root_of(path), partition_by, checkpoint)


JOB: Final = PipelineJob(
    "archive",
    (
        registry.SERVERS,
        registry.SUBSCRIBE,
        compaction.PATH,
        registry.READER,
        Option("trigger", registry.TRIGGER.help, default="1m", metavar="WHEN"),
        choice(
            "partition_by",
            "Directories per topic and day, or per day for very many topics.",
            *layout.PARTITIONINGS,
        ),
        Option("checkpoint", "Directory for progress, if not inside the archive.", metavar="DIR"),
        choice("compression", "Parquet compression.", "snappy", "zstd", "lz4", "none"),
        choice("starting", "Where a new archive starts.", "earliest", "latest"),
        registry.MAX_ROWS,
        registry.IGNORE_LOSS,
        Option("compact", "Merge small files, when the run ends or every hour.", "flag"),
    ),
    run,
    check=check,
)
