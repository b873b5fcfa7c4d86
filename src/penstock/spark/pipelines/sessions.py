"""``sessions``: when devices were active, and how many messages they sent.

A session is a run of messages of one device without a pause of ``gap`` or more. It is written once,
when the watermark says that it is complete (:mod:`penstock.spark.pipelines.rollup`).
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import ConfigError
from penstock.spark.pipelines import payloads, registry, streams
from penstock.spark.pipelines.registry import Option, PipelineJob, duration


def sessions(
    messages: DataFrame,
    *,
    gap_s: float = 300,
    late_s: float = 60,
    device: str = "topic",
    time: str = payloads.BROKER_TIME,
    untimed: str = payloads.UNTIMED_DROP,
) -> DataFrame:
    """Return ``device``, ``start``, ``end``, ``seconds``, ``count``: a row per session."""
    named = messages.select(
        "timestamp",
        payloads.device(device).alias("device"),
        payloads.event_time(time).alias("time"),
    )
    with_time = payloads.timed(named, f.col("device").isNull(), untimed)
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
    time: str = payloads.BROKER_TIME,
    untimed: str = payloads.UNTIMED_DROP,
    to: str | None = None,
    path: str | None = None,
    reader: str | None = None,
    trigger: str = "continuous",
    ignore_loss: bool = False,
) -> list[StreamingQuery]:
    """Find when devices were active: runs of messages without a long pause.

    Each session is written once, when it is over: to topics (sessions/DEVICE, or below --to), to
    Parquet (--path), or to both.
    """
    streams.prepare(spark)
    below = streams.below(to, path, "sessions")
    columns = ["topic", "timestamp"]
    columns += ["payload"] if "$" in {device[:1], time[:1]} else []
    columns += ["headers"] if time == payloads.HEADER_TIME else []
    messages = streams.from_topics(
        spark, servers, subscribe, reader, columns, ignore_loss=ignore_loss
    )
    messages = streams.without_own(messages, below)
    found = sessions(messages, gap_s=gap, late_s=late, device=device, time=time, untimed=untimed)
    output = streams.Output(
        "sessions", servers, below, path, checkpoint, trigger, "device", ignore_loss
    )
    return streams.to_both(found, output)


def check(
    *,
    checkpoint: str,
    device: str,
    gap: float,
    time: str,
    to: str | None,
    path: str | None,
    **_: object,
) -> None:
    payloads.check_device(device)
    payloads.check_time(time)
    if gap <= 0:
        raise ConfigError("--gap must be positive", "for example --gap 5m")
    streams.check_outputs("sessions", checkpoint, streams.below(to, path, "sessions"), path)


JOB: Final = PipelineJob(
    "sessions",
    (
        *registry.INPUT,
        registry.DEVICE,
        duration("gap", "The pause that ends a session.", "5m"),
        duration("late", "How late a message may arrive.", "1m"),
        registry.EVENT_TIME,
        registry.UNTIMED,
        Option("to", "Topic above the output; default sessions.", metavar="TOPIC"),
        registry.PARQUET,
        *registry.CONTROL,
    ),
    run,
    check=check,
)
