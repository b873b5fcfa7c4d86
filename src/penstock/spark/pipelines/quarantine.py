"""``quarantine``: what cannot be read is set aside, with a note where it came from and why.

The message itself is copied, byte for byte, to one topic, each once; its headers say ``topic``,
``offset``, ``reason``, and how many ``bytes`` it had: of a very long one only the beginning is
copied, for the sink takes 1 MiB at most, and one that it refused would stop the job. The original
stays where it is: a journal is not rewritten. So whoever repairs a payload knows what to look for,
and whoever reads the topic knows what to skip.

With a report of ``quality`` what does not fit the shape of its topic is set aside as well: a field
that was always there and is missing, or one of another type.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.limits import KIB
from penstock.spark.pipelines.quality import load_shapes
from penstock.spark.pipelines.registry import (
    CHECKPOINT,
    IGNORE_LOSS,
    READER,
    SERVERS,
    SUBSCRIBE,
    TRIGGER,
    Option,
    PipelineJob,
)
from penstock.spark.pipelines.shapes import Shape, decoded, misfit
from penstock.spark.pipelines.streams import (
    check_outputs,
    from_topics,
    to_topics,
    without_heartbeats,
)

FAULTY: Final = "topic string, offset bigint, timestamp timestamp, payload binary, reason string"

COPIED_BYTES_MAX: Final = 512 * KIB

Judge = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def faulty(messages: DataFrame, expected: Mapping[str, Shape] | None = None) -> DataFrame:
    """Return the messages that cannot be read, or do not fit, with a ``reason``.

    Each batch tells in its progress how many messages there were, and how many of them are set
    aside.
    """
    told = messages.observe("read", f.count(f.lit(1)).alias("messages"))
    found = told.select("topic", "offset", "timestamp", "payload")
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
    """Make messages of them: the payload as it was, and headers that tell about it."""
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
    """Copy messages whose payload is no JSON to a topic, with the reason.

    With --shapes, also those that do not fit what quality found in their topic.
    """
    expected = load_shapes(shapes) if shapes else None
    messages = from_topics(
        spark,
        servers=servers,
        subscribe=subscribe,
        reader=reader,
        maxOffsetsPerTrigger=max_rows,
        ignore_loss=ignore_loss,
    )
    found = faulty(without_heartbeats(messages).where(f.col("topic") != to), expected)
    more: dict[str, Any] = {"servers": servers, "checkpoint": checkpoint, "trigger": trigger}
    return to_topics(quarantine_messages(found, to), name="quarantine", **more)


def check(*, checkpoint: str, to: str, shapes: str | None, **_: Any) -> None:
    """Refuse options that ``run`` would refuse."""
    check_outputs("quarantine", checkpoint, to)
    if shapes is not None:
        load_shapes(shapes)


JOB: Final = PipelineJob(
    "quarantine",
    (
        SERVERS,
        SUBSCRIBE,
        CHECKPOINT,
        Option("to", "The topic for what is set aside.", default="quarantine", metavar="TOPIC"),
        Option("shapes", "What payloads should look like: a report of quality.", metavar="FILE"),
        READER,
        TRIGGER,
        Option("max_rows", "Take at most so many messages at a time.", "integer", metavar="COUNT"),
        IGNORE_LOSS,
    ),
    run,
    check=check,
)
