"""``sessions``: when devices were at work, and how much they said.

A session is a stretch of messages of one device in which no pause is as long as ``gap``. It is
written once, when the watermark says that nothing more can belong to it: start, end (of the last
message, not of the pause after it), how long, how many messages. It goes to topics, to Parquet or
to both, as windows do (:mod:`penstock.spark.pipelines.rollup` tells about watermarks).

``silent`` tells at once that a device is gone. This tells, later and for good, when it was there.
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import ConfigError
from penstock.spark.pipelines.payloads import (
    BROKER_TIME,
    HEADER_TIME,
    UNTIMED_DROP,
    check_device,
    check_time,
    event_time,
    timed,
)
from penstock.spark.pipelines.payloads import device as device_of
from penstock.spark.pipelines.registry import (
    CHECKPOINT,
    DEVICE,
    IGNORE_LOSS,
    READER,
    SERVERS,
    SUBSCRIBE,
    TRIGGER,
    UNTIMED,
    Option,
    PipelineJob,
)
from penstock.spark.pipelines.streams import (
    check_outputs,
    from_topics,
    prepare,
    to_both,
    without_own,
)


def sessions(
    messages: DataFrame,
    *,
    gap_s: float = 300,
    late_s: float = 60,
    device: str = "topic",
    time: str = BROKER_TIME,
    untimed: str = UNTIMED_DROP,
) -> DataFrame:
    """Return ``device``, ``start``, ``end``, ``seconds``, ``count``: a row per session.

    Each batch tells in its progress, under ``payloads``, how many messages there were, how many
    named no device (``bad``), and how many had no usable time (``untimed``).
    """
    named = messages.select(
        "timestamp", device_of(device).alias("device"), event_time(time).alias("time")
    )
    counted = named.observe(
        "payloads",
        f.count(f.lit(1)).alias("messages"),
        f.count_if(f.col("device").isNull()).alias("bad"),
        f.count_if(f.col("time").isNull()).alias("untimed"),
    )
    with_time = counted.withColumn("time", timed(f.col("time"), untimed))
    known = with_time.where("device IS NOT NULL AND time IS NOT NULL")
    marked = known.withWatermark("time", f"{round(late_s * 1000)} milliseconds")
    session = f.session_window("time", f"{round(gap_s * 1000)} milliseconds")
    grouped = marked.groupBy("device", session).agg(
        f.min("time").alias("start"), f.max("time").alias("end"), f.count("time").alias("count")
    )
    seconds = f.expr("(unix_millis(end) - unix_millis(start)) / 1000D").alias("seconds")
    return grouped.select("device", "start", "end", seconds, "count")


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    checkpoint: str,
    device: str = "topic",
    gap: float = 300,
    late: float = 60,
    time: str = BROKER_TIME,
    untimed: str = UNTIMED_DROP,
    to: str | None = None,
    path: str | None = None,
    reader: str | None = None,
    trigger: str = "continuous",
    ignore_loss: bool = False,
) -> list[StreamingQuery]:
    """Find when devices were at work: stretches of messages without a long pause.

    Each session is written once, when it is over: to topics (sessions/DEVICE, unless --to says
    where), to Parquet (--path), or to both.
    """
    prepare(spark)
    below = _below(to, path)
    columns = ["topic", "timestamp"]
    columns += ["payload"] if "$" in {device[:1], time[:1]} else []
    columns += ["headers"] if time == HEADER_TIME else []
    messages = from_topics(
        spark,
        servers=servers,
        subscribe=subscribe,
        reader=reader,
        columns=columns,
        ignore_loss=ignore_loss,
    )
    found = sessions(
        without_own(messages, below),
        gap_s=gap,
        late_s=late,
        device=device,
        time=time,
        untimed=untimed,
    )
    more: dict[str, Any] = {"checkpoint": checkpoint, "trigger": trigger, "about": "device"}
    more["ignore_loss"] = ignore_loss
    return to_both(found, name="sessions", servers=servers, to=below, path=path, **more)


def _below(to: str | None, path: str | None) -> str | None:
    """Return the topic above what is written; None, if only Parquet is wanted."""
    return None if to is None and path is not None else (to or "sessions").rstrip("/")


def check(
    *,
    checkpoint: str,
    device: str,
    gap: float,
    time: str,
    to: str | None,
    path: str | None,
    **_: Any,
) -> None:
    """Refuse options that ``run`` would refuse."""
    check_device(device)
    check_time(time)
    if gap <= 0:
        raise ConfigError("a pause of no time ends no session", "give a longer --gap")
    check_outputs("sessions", checkpoint, _below(to, path), path)


JOB: Final = PipelineJob(
    "sessions",
    (
        SERVERS,
        SUBSCRIBE,
        CHECKPOINT,
        DEVICE,
        Option("gap", "Which pause ends a session.", "duration", default="5m", metavar="DURATION"),
        Option(
            "late", "How late a message may come.", "duration", default="1m", metavar="DURATION"
        ),
        Option(
            "time",
            "When it happened: broker, header (its header time), or a field as in $.at.",
            default=BROKER_TIME,
            metavar="WHERE",
        ),
        UNTIMED,
        Option("to", "The topic above what is written; else sessions.", metavar="TOPIC"),
        Option("path", "A directory of Parquet files to write to.", metavar="DIR"),
        READER,
        TRIGGER,
        IGNORE_LOSS,
    ),
    run,
    check=check,
)
