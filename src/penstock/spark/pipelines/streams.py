"""Shared by the streaming jobs: topics in, topics and Parquet out, triggers.

A query has one exactly-once sink, so writing to topics and to Parquet needs two, chained: the
second copies the topics to Parquet. Independent queries could differ in which rows are too late.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
_checkpoints: dict[str, str] = {}  # by run id

# Spark's default: two hundred small files per batch on a laptop
SPARKS_SHUFFLE_PARTITIONS: Final = "200"


class Output(NamedTuple):
    """Where a job writes its rows: to Parquet, and as JSON to the topic ``to/<about>``."""

    name: str
    servers: str
    to: str | None
    path: str | None
    checkpoint: str
    trigger: str
    about: str = "topic"
    ignore_loss: bool = False


def from_topics(
    spark: SparkSession,
    servers: str,
    subscribe: str,
    reader: str | None = None,
    columns: Sequence[str] = ("topic", "offset", "timestamp", "payload"),
    *,
    ignore_loss: bool = False,
    options: Mapping[str, str | int | None] | None = None,
) -> DataFrame:
    given = {"servers": servers, "subscribe": subscribe, "reader": reader, **(options or {})}
    if ignore_loss:
        given["failOnDataLoss"] = "false"
    given["columns"] = ",".join(columns)
    stream = spark.readStream.format(FORMAT)
    for name, value in given.items():
        if value is not None:
            stream = stream.option(name, value)
    return stream.load()


def prepare(spark: SparkSession) -> None:
    """Use one shuffle partition per core, unless the user chose: each writes files per batch."""
    key = "spark.sql.shuffle.partitions"
    if spark.conf.get(key) == SPARKS_SHUFFLE_PARTITIONS:
        spark.conf.set(key, str(max(spark.sparkContext.defaultParallelism, 1)))


def trigger_of(when: str) -> str | None:
    if when == "available-now":
        return None
    if when == "continuous":
        return "0 seconds"
    try:
        seconds = without_unit(when, "s")
    except ValueError as error:
        advice = "use an interval, continuous or available-now"
        raise ConfigError(f"trigger {when!r} {error}", advice) from None
    return f"{round(seconds * 1000)} milliseconds"


def to_topics(
    rows: DataFrame, *, name: str, servers: str, checkpoint: str, trigger: str
) -> StreamingQuery:
    writer = rows.writeStream.format(FORMAT).option("servers", servers)
    return start(writer, name=name, checkpoint=checkpoint, trigger=trigger)


def start(writer: DataStreamWriter, *, name: str, checkpoint: str, trigger: str) -> StreamingQuery:
    named = writer.queryName(name).outputMode("append").option("checkpointLocation", checkpoint)
    interval = trigger_of(trigger)
    if interval is None:
        query = named.trigger(availableNow=True).start()
    else:
        query = named.trigger(processingTime=interval).start()
    _checkpoints[query.runId] = checkpoint
    return query


def checkpoint_of(query: StreamingQuery) -> str | None:
    return _checkpoints.get(query.runId)


def to_both(rows: DataFrame, output: Output) -> list[StreamingQuery]:
    name, servers, to, path, checkpoint, trigger, about, ignore_loss = output
    if to is None and path is None:
        raise ConfigError(f"{name} has no output", "give --to TOPIC, --path DIR or both")
    check_outputs(name, checkpoint, to, path)
    queries = []
    if to is not None:
        copied = from_topics(rows.sparkSession, servers, f"{to}/#", ignore_loss=ignore_loss)
        messages, own = as_messages(rows, to, about), f"{checkpoint}/topics"
        queries.append(
            to_topics(messages, name=name, servers=servers, checkpoint=own, trigger=trigger)
        )
        rows = from_messages(copied, rows.schema)
        if path is not None and trigger == "available-now":
            queries[0].awaitTermination()  # the second query copies what it has written
    if path is not None:
        dated = rows.withColumn("date", f.to_date("start")).writeStream.format("parquet")
        writer = dated.option("path", path).partitionBy("date")
        parquet = f"{checkpoint}/parquet"
        queries.append(start(writer, name=f"{name}-parquet", checkpoint=parquet, trigger=trigger))
    return queries


def check_outputs(
    name: str, checkpoint: str, to: str | None = None, path: str | None = None
) -> None:
    fault = topic_fault(to.encode()) if to is not None else ""
    if fault:
        raise ConfigError(f"{to!r} is not a valid topic for {name}: {fault}", "give another --to")
    if path is not None and "://" not in f"{path}{checkpoint}":
        check_ahead(Path(path), Path(checkpoint, "parquet"))


def below(to: str | None, path: str | None, default: str) -> str | None:
    """Return the topic above the output; None if it goes to Parquet only."""
    return None if to is None and path is not None else (to or default).rstrip("/")


def without_own(messages: DataFrame, to: str | None) -> DataFrame:
    """Drop heartbeats, and what the job itself writes: ``#`` would feed it back."""
    others = without_heartbeats(messages)
    return others if to is None else others.where(~f.col("topic").startswith(f"{to}/"))


def without_heartbeats(messages: DataFrame, but: str = "") -> DataFrame:
    is_one = f.col("topic").startswith(f"{HEARTBEATS}/")
    return messages.where(~is_one | (f.col("topic") == but))


def as_messages(rows: DataFrame, to: str, about: str = "topic") -> DataFrame:
    """Make a JSON message of each row, in the topic ``to/<about>``, dated by ``start``.

    The sink would refuse an invalid topic forever, so characters are replaced and long names cut.
    """
    topic = f.concat(f.lit(f"{to}/"), f.regexp_replace(about, r"[+#\x00]", "_"))
    return rows.select(
        _valid_topic(topic).alias("topic"),
        f.to_json(f.struct(*rows.columns)).alias("payload"),
        f.col("start").alias("timestamp"),
        f.lit("json").alias("content_type"),
    )


def _valid_topic(topic: Column) -> Column:
    is_short = f.octet_length(topic) <= TOPIC_BYTES_MAX
    is_flat = f.size(f.split(topic, "/")) <= TOPIC_LEVELS_MAX
    cut = f.translate(f.substring(topic, 1, TOPIC_BYTES_MAX // 4), "/", "_")
    return f.when(is_short & is_flat, topic).otherwise(cut)


def from_messages(messages: DataFrame, schema: StructType) -> DataFrame:
    row = f.from_json(f.col("payload").cast("string"), schema)
    return messages.select(row.alias("row")).select("row.*").where("start IS NOT NULL")
