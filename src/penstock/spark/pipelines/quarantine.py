"""``quarantine``: copies unreadable messages to a topic, with their origin and the reason.

Of a very long message only the beginning is copied, because the sink takes 1 MiB at most and a
refused message would stop the job; the header ``bytes`` has the original size. With a report of
``quality``, messages that do not fit the shape of their topic are copied too.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.limits import KIB
from penstock.spark.pipelines import registry, streams
from penstock.spark.pipelines.quality import load_shapes
from penstock.spark.pipelines.registry import Option, PipelineJob
from penstock.spark.pipelines.shapes import Shape, decoded, misfit

FAULTY: Final = "topic string, offset bigint, timestamp timestamp, payload binary, reason string"
COPIED_BYTES_MAX: Final = 512 * KIB
Judge = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def faulty(messages: DataFrame, expected: Mapping[str, Shape] | None = None) -> DataFrame:
    counted = messages.observe("read", f.count(f.lit(1)).alias("messages"))
    found = counted.select("topic", "offset", "timestamp", "payload")
    judged = found.mapInArrow(_judge(dict(expected or {})), FAULTY)
    return judged.observe("quarantine", f.count(f.lit(1)).alias("messages"))


def _judge(expected: dict[str, Shape]) -> Judge:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics = batch.column("topic").to_pylist()
            payloads = batch.column("payload").to_pylist()
            pairs = zip(topics, payloads, strict=True)
            reasons = [_reason(expected.get(topic), payload) for topic, payload in pairs]
            judged = batch.append_column("reason", pa.array(reasons, pa.string()))
            yield judged.filter(pa.array([bool(reason) for reason in reasons]))

    return judge


def _reason(expected: Shape | None, payload: bytes | None) -> str:
    document, reason = decoded(payload)
    return reason or (misfit(expected, document) if expected is not None else "")


def quarantine_messages(found: DataFrame, to: str) -> DataFrame:
    headers = f.array(
        _header("topic", f.col("topic")),
        _header("offset", f.col("offset").cast("string")),
        _header("reason", f.col("reason")),
        _header("bytes", f.octet_length("payload").cast("string")),
    )
    payload = f.coalesce(f.substring("payload", 1, COPIED_BYTES_MAX), f.lit(b""))
    return found.select(
        f.lit(to).alias("topic"), payload.alias("payload"), headers.alias("headers"), "timestamp"
    )


def _header(key: str, value: Column) -> Column:
    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    checkpoint: str,
    to: str = "quarantine",
    shapes: str | None = None,
    reader: str | None = None,
    trigger: str = "continuous",
    max_rows: int | None = None,
    ignore_loss: bool = False,
) -> StreamingQuery:
    """Copy messages whose payload is not JSON to a topic, with the reason.

    With --shapes, also those that do not fit the shape that quality found in their topic.
    """
    expected = load_shapes(shapes) if shapes else None
    options = {"maxOffsetsPerTrigger": max_rows}
    messages = streams.from_topics(
        spark, servers, subscribe, reader, ignore_loss=ignore_loss, options=options
    )
    found = faulty(streams.without_heartbeats(messages).where(f.col("topic") != to), expected)
    copies = quarantine_messages(found, to)
    return streams.to_topics(
        copies, name="quarantine", servers=servers, checkpoint=checkpoint, trigger=trigger
    )


def check(*, checkpoint: str, to: str, shapes: str | None, **_: object) -> None:
    streams.check_outputs("quarantine", checkpoint, to)
    if shapes is not None:
        load_shapes(shapes)


JOB: Final = PipelineJob(
    "quarantine",
    (
        *registry.INPUT,
        Option("to", "Topic for the copies.", default="quarantine", metavar="TOPIC"),
        Option("shapes", "Expected shapes: a saved report of quality.", metavar="FILE"),
        registry.MAX_ROWS,
        *registry.CONTROL,
    ),
    run,
    check=check,
)
