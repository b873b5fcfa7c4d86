"""What jobs that stream have in common: topics in, topics and Parquet out, when to work.

**Two outputs, each exactly once.** A job may write its rows to topics, to Parquet, or both. One
query has one sink that is exactly once, so both take two queries. They are chained: the first
writes to topics, the second copies those topics to Parquet. To compute everything twice instead
would let the two differ: a late row is dropped by the watermark, which follows from how the input
was cut into batches, and each query cuts for itself. (``foreachBatch`` could write both from one,
but has no transaction over the two, and its files are seen before their batch is done.) So the
topics hold each row once, by the sink's staged commit; and the Parquet directory holds each message
of the topics once, by the file sink's manifest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from penstock.config.units import without_unit
from penstock.errors import ConfigError
from penstock.limits import TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX
from penstock.model.topic import topic_fault
from penstock.spark.archived.checkpoint_check import check_ahead
from penstock.spark.pipelines.heartbeat import HEARTBEATS

FORMAT: Final = "penstock"

_checkpoints: dict[str, str] = {}
"""By run; a process starts a few."""

SPARKS_SHUFFLE_PARTITIONS: Final = "200"
"""Spark's own default: right for a cluster, and two hundred small files a batch on a laptop."""


def from_topics(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    reader: str | None = None,
    columns: Sequence[str] = ("topic", "offset", "timestamp", "payload"),
    ignore_loss: bool = False,
    **options: Any,
) -> DataFrame:
    """Read topics as a stream; options of None are left to the source."""
    given = {"servers": servers, "subscribe": subscribe, "reader": reader, **options}
    if ignore_loss:
        given["failOnDataLoss"] = "false"
    given["columns"] = ",".join(columns)
    stream = spark.readStream.format(FORMAT)
    for name, value in given.items():
        if value is not None:
            stream = stream.option(name, value)
    return stream.load()


def prepare(spark: SparkSession) -> None:
    """Have as many partitions of state as there are cores, unless the user has said how many.

    Each writes files for each batch. The number is noted in the checkpoint, and stays.
    """
    key = "spark.sql.shuffle.partitions"
    if spark.conf.get(key) == SPARKS_SHUFFLE_PARTITIONS:
        spark.conf.set(key, str(max(spark.sparkContext.defaultParallelism, 1)))


def trigger_of(when: str) -> dict[str, Any]:
    """Read the option ``trigger``, as arguments of ``DataStreamWriter.trigger``."""
    if when == "available-now":
        return {"availableNow": True}
    if when == "continuous":
        return {"processingTime": "0 seconds"}
    try:
        seconds = without_unit(when, "s")
    except ValueError as error:
        advice = "it may also be continuous or available-now"
        raise ConfigError(f"trigger {when!r} {error}", advice) from None
    return {"processingTime": f"{round(seconds * 1000)} milliseconds"}


def to_topics(
    rows: DataFrame, *, name: str, servers: str, checkpoint: str, trigger: str
) -> StreamingQuery:
    """Publish rows (``topic``, ``payload``, and what else the sink takes), each once."""
    writer = rows.writeStream.format(FORMAT).option("servers", servers)
    return start(writer, name=name, checkpoint=checkpoint, trigger=trigger)


def to_parquet(
    rows: DataFrame, *, name: str, path: str, by: Sequence[str], checkpoint: str, trigger: str
) -> StreamingQuery:
    """Append rows to a directory of Parquet files, each once for whoever reads it with Spark."""
    writer = rows.writeStream.format("parquet").option("path", path).partitionBy(*by)
    return start(writer, name=name, checkpoint=checkpoint, trigger=trigger)


def start(writer: DataStreamWriter, *, name: str, checkpoint: str, trigger: str) -> StreamingQuery:
    """Start a query that appends."""
    named = writer.queryName(name).outputMode("append").option("checkpointLocation", checkpoint)
    query = named.trigger(**trigger_of(trigger)).start()
    _checkpoints[query.runId] = checkpoint
    return query


def checkpoint_of(query: StreamingQuery) -> str | None:
    """Return where a query that was started here keeps its checkpoint."""
    return _checkpoints.get(query.runId)


def to_both(
    rows: DataFrame,
    *,
    name: str,
    servers: str,
    to: str | None,
    path: str | None,
    checkpoint: str,
    trigger: str,
    about: str = "topic",
    ignore_loss: bool = False,
) -> list[StreamingQuery]:
    """Write rows to topics below ``to``, to Parquet in ``path``, or to both (see above).

    Rows have ``start``, the time that they are dated by. A message is the row as JSON, in the topic
    ``to/<about>``, where ``about`` is a column.
    """
    if to is None and path is None:
        raise ConfigError(f"{name} has nowhere to write to", "give --to TOPIC, --path DIR or both")
    check_outputs(name, checkpoint, to, path)
    queries = []
    if to is not None:
        copied = from_topics(
            rows.sparkSession, servers=servers, subscribe=f"{to}/#", ignore_loss=ignore_loss
        )
        more = {"servers": servers, "checkpoint": f"{checkpoint}/topics", "trigger": trigger}
        queries.append(to_topics(as_messages(rows, to, about), name=name, **more))
        rows = from_messages(copied, rows.schema)
        if path is not None and trigger == "available-now":
            queries[0].awaitTermination()  # what it has written is there to be copied now
    if path is not None:
        dated = rows.withColumn("date", f.to_date("start"))
        more = {"path": path, "checkpoint": f"{checkpoint}/parquet", "trigger": trigger}
        queries.append(to_parquet(dated, name=f"{name}-parquet", by=["date"], **more))
    return queries


def check_outputs(
    name: str, checkpoint: str, to: str | None = None, path: str | None = None
) -> None:
    """Refuse a topic that is none, and a directory that another checkpoint has written to."""
    fault = topic_fault(to.encode()) if to is not None else ""
    if fault:
        raise ConfigError(f"{to!r} is no topic for {name}: {fault}", "give another --to")
    if path is not None and "://" not in f"{path}{checkpoint}":
        check_ahead(Path(path), Path(checkpoint, "parquet"))


def without_own(messages: DataFrame, to: str | None) -> DataFrame:
    """Leave out what a job itself writes: with a filter such as ``#`` it would feed on itself.

    And heartbeats, which are no messages of anybody's.
    """
    others = without_heartbeats(messages)
    return others if to is None else others.where(~f.col("topic").startswith(f"{to}/"))


def without_heartbeats(messages: DataFrame, but: str = "") -> DataFrame:
    """Leave out the heartbeats of jobs, which a filter such as ``#`` brings, ``but`` one."""
    is_one = f.col("topic").startswith(f"{HEARTBEATS}/")
    return messages.where(~is_one | (f.col("topic") == but))


def as_messages(rows: DataFrame, to: str, about: str = "topic") -> DataFrame:
    """Make a message of each row: JSON, in the topic ``to/<about>``, dated by ``start``.

    A name may come from a payload, and be no name for a topic, or too long a one. The sink would
    refuse it, with the batch, for ever. So what is unlawful in a name is replaced, and what is too
    long is cut; the row itself says what it is about.
    """
    return rows.select(
        _lawful(f.concat(f.lit(f"{to}/"), f.regexp_replace(about, r"[+#\x00]", "_"))).alias(
            "topic"
        ),
        f.to_json(f.struct(*rows.columns)).alias("payload"),
        f.col("start").alias("timestamp"),
        f.lit("json").alias("content_type"),
    )


def _lawful(topic: Column) -> Column:
    is_short = f.octet_length(topic) <= TOPIC_BYTES_MAX
    is_flat = f.size(f.split(topic, "/")) <= TOPIC_LEVELS_MAX
    cut = f.translate(f.substring(topic, 1, TOPIC_BYTES_MAX // 4), "/", "_")
    return f.when(is_short & is_flat, topic).otherwise(cut)


def from_messages(messages: DataFrame, schema: StructType) -> DataFrame:
    """Make rows of such messages again; what is not of that form is left out."""
    row = f.from_json(f.col("payload").cast("string"), schema)
    return messages.select(row.alias("row")).select("row.*").where("start IS NOT NULL")
