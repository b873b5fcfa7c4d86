"""``rollup``: measurements, in windows of the time when they were taken.

::

    messages ─► readings (topic, field, value, time) ─► windows (count, min, max, mean, quantiles)
                    │                                        │
                    └ what has no number or no time          ├─► topics rollup/1m/<topic>, as JSON
                      is counted, and left to ``quality``    └─► Parquet

A window is written once, when the watermark has passed its end: the latest time that was seen, less
what is allowed for being late. What comes later than that is dropped, and counted
(:mod:`penstock.spark.pipelines.lateness`).

**Catching up.** The watermark is one for all topics. Were a backlog read in pieces, a topic that is
read ahead would close the windows of one that is behind. So by default a batch takes all there is:
only what the windows hold is kept in memory, not the messages. ``max_rows`` cuts batches smaller;
the source then takes of each topic in proportion to what waits, and ``late`` must cover the
difference.
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.config.units import with_unit
from penstock.errors import ConfigError
from penstock.spark.pipelines.lateness import ENDS, WINDOWS_MAX
from penstock.spark.pipelines.payloads import (
    BROKER_TIME,
    HEADER_TIME,
    UNTIMED_DROP,
    check_path,
    check_time,
    event_time,
    number,
    timed,
)
from penstock.spark.pipelines.registry import (
    CHECKPOINT,
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

QUANTILES: Final = (0.5, 0.95, 0.99)

ACCURACY: Final = 1000
"""A quantile is that of a rank which is off by 1/1000 of the count at most; a window's sketch has
about as many numbers, whatever the count."""

FIELDS_MAX: Final = 50


def readings(
    messages: DataFrame,
    *,
    fields: Sequence[str] = (),
    time: str = BROKER_TIME,
    untimed: str = UNTIMED_DROP,
) -> DataFrame:
    """Return ``topic``, ``field``, ``value``, ``time``: a row per number that was found.

    Without ``fields`` a payload is a number itself. Each batch tells in its progress, under
    ``payloads``, how many messages there were, how many had none of the fields as a number
    (``bad``), and how many had no usable time (``untimed``), which are dropped or have the
    broker's.
    """
    check_fields(fields)
    values = f.array(*(_value(path) for path in fields or ("",)))
    found = messages.select(
        "topic",
        "timestamp",
        event_time(time).alias("time"),
        f.filter(values, lambda each: each["value"].isNotNull()).alias("values"),
    )
    counted = found.observe(
        "payloads",
        f.count(f.lit(1)).alias("messages"),
        f.count_if(f.size("values") == 0).alias("bad"),
        f.count_if(f.col("time").isNull()).alias("untimed"),
    )
    known = counted.withColumn("time", timed(f.col("time"), untimed)).where("time IS NOT NULL")
    exploded = known.select("topic", "time", f.explode("values"))
    return exploded.select("topic", "col.field", "col.value", "time")


def check_fields(fields: Sequence[str]) -> None:
    """Refuse what is no path of a field, and too many of them."""
    if len(fields) > FIELDS_MAX:
        raise ConfigError(f"{len(fields)} fields are too many", f"take {FIELDS_MAX} at most")
    for path in fields:
        check_path(path)


def _value(path: str) -> Column:
    name = path.removeprefix("$").removeprefix(".") or "value"
    return f.struct(f.lit(name).alias("field"), number(path or None).alias("value"))


def windows(
    measured: DataFrame,
    *,
    every_s: float = 60,
    late_s: float = 60,
    quantiles: Sequence[float] = QUANTILES,
) -> DataFrame:
    """Return a row per topic, field and window: its times, its figures, its quantiles (``p95``).

    Each batch tells in its progress, under ``windows``, how many readings each window got
    (:mod:`penstock.spark.pipelines.lateness`).
    """
    window = f.window("time", f"{round(every_s * 1000)} milliseconds")
    ends = f.histogram_numeric(f.unix_millis(window["end"]), f.lit(WINDOWS_MAX)).alias(ENDS)
    counted = measured.observe("windows", ends)
    late = counted.withWatermark("time", f"{round(late_s * 1000)} milliseconds")
    grouped = late.groupBy("topic", "field", window).agg(
        f.count("value").alias("count"),
        f.min("value").alias("min"),
        f.max("value").alias("max"),
        f.avg("value").alias("mean"),
        f.percentile_approx("value", list(quantiles), ACCURACY).alias("quantiles"),
    )
    named = [f.col("quantiles")[i].alias(quantile_name(q)) for i, q in enumerate(quantiles)]
    times = (f.col("window.start").alias("start"), f.col("window.end").alias("end"))
    return grouped.select("topic", "field", *times, "count", "min", "max", "mean", *named)


def quantile_name(quantile: float) -> str:
    """Name a column: 0.5 is ``p50``, 0.999 is ``p99_9``."""
    if not 0 <= quantile <= 1:
        raise ConfigError(f"{quantile} is no quantile", "it is between 0 and 1, as in 0.95")
    return f"p{quantile * 100:.6g}".replace(".", "_")


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    checkpoint: str,
    field: Sequence[str] = (),
    every: float = 60,
    late: float = 60,
    time: str = BROKER_TIME,
    untimed: str = UNTIMED_DROP,
    quantiles: str = "0.5,0.95,0.99",
    to: str | None = None,
    path: str | None = None,
    reader: str | None = None,
    trigger: str = "continuous",
    max_rows: int | None = None,
    ignore_loss: bool = False,
) -> list[StreamingQuery]:
    """Count, and find minimum, maximum, mean and quantiles of measurements in windows of time.

    Payloads are JSON objects, whose fields --field names, or plain numbers. Each window is written
    once, when no more is expected of it: to topics (rollup/1m/TOPIC, unless --to says where), to
    Parquet (--path), or to both.
    """
    prepare(spark)
    below = _below(to, path, every)
    columns = ["topic", "timestamp", "payload"]
    messages = from_topics(
        spark,
        servers=servers,
        subscribe=subscribe,
        reader=reader,
        columns=[*columns, "headers"] if time == HEADER_TIME else columns,
        maxOffsetsPerTrigger=max_rows,
        ignore_loss=ignore_loss,
    )
    measured = readings(without_own(messages, below), fields=field, time=time, untimed=untimed)
    rows = windows(measured, every_s=every, late_s=late, quantiles=_numbers(quantiles))
    more: dict[str, Any] = {
        "checkpoint": checkpoint,
        "trigger": trigger,
        "ignore_loss": ignore_loss,
    }
    return to_both(rows, name="rollup", servers=servers, to=below, path=path, **more)


def check(
    *,
    checkpoint: str,
    field: Sequence[str],
    every: float,
    time: str,
    quantiles: str,
    to: str | None,
    path: str | None,
    **_: Any,
) -> None:
    """Refuse options that ``run`` would refuse."""
    check_fields(field)
    check_time(time)
    for quantile in _numbers(quantiles):
        quantile_name(quantile)
    if every <= 0:
        raise ConfigError("a window of no time holds nothing", "give a longer --every")
    check_outputs("rollup", checkpoint, _below(to, path, every), path)


def _below(to: str | None, path: str | None, every: float) -> str | None:
    """Return the topic above what is written; None, if only Parquet is wanted."""
    if to is None and path is not None:
        return None
    return (to or f"rollup/{with_unit(every, 's')}").rstrip("/")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"quantiles {text!r} are no numbers", "as in 0.5,0.95,0.99") from None


JOB: Final = PipelineJob(
    "rollup",
    (
        SERVERS,
        SUBSCRIBE,
        CHECKPOINT,
        Option(
            "field",
            "A field of JSON payloads, as in $.temperature; may be repeated.",
            metavar="PATH",
            repeats=True,
        ),
        Option("every", "How long a window is.", "duration", default="1m", metavar="DURATION"),
        Option(
            "late", "How late a measurement may come.", "duration", default="1m", metavar="DURATION"
        ),
        Option(
            "time",
            "When it was measured: broker, header (its header time), or a field as in $.at.",
            default=BROKER_TIME,
            metavar="WHERE",
        ),
        UNTIMED,
        Option("quantiles", "Which quantiles.", default="0.5,0.95,0.99", metavar="NUMBERS"),
        Option(
            "to",
            "The topic above what is written; else rollup/1m, as long as a window is.",
            metavar="TOPIC",
        ),
        Option("path", "A directory of Parquet files to write to.", metavar="DIR"),
        READER,
        TRIGGER,
        Option("max_rows", "Take at most so many messages at a time.", "integer", metavar="COUNT"),
        IGNORE_LOSS,
    ),
    run,
    check=check,
)
