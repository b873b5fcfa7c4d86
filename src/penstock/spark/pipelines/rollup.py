"""``rollup``: aggregates measurements in windows of event time.

A window is written once, when the watermark has passed its end. Later readings are dropped and
counted (:mod:`penstock.spark.pipelines.lateness`). All topics share one watermark: if a backlog is
read in pieces, a topic that is ahead closes the windows of one that is behind. So by default a
batch takes everything; with ``max_rows``, ``late`` must cover the difference.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.config.units import with_unit
from penstock.errors import ConfigError
from penstock.spark.pipelines import payloads, registry, streams
from penstock.spark.pipelines.lateness import ENDS, WINDOWS_MAX
from penstock.spark.pipelines.registry import Option, PipelineJob, duration

QUANTILES: Final = (0.5, 0.95, 0.99)

# A quantile's rank is off by at most 1/1000 of the count; a window's sketch has about as many
# numbers.
ACCURACY: Final = 1000
FIELDS_MAX: Final = 50


def readings(
    messages: DataFrame,
    *,
    fields: Sequence[str] = (),
    time: str = payloads.BROKER_TIME,
    untimed: str = payloads.UNTIMED_DROP,
) -> DataFrame:
    """Return a row per number; without ``fields`` a payload is a number itself."""
    check_fields(fields)
    values = f.array(*(_value(path) for path in fields or ("",)))
    found = messages.select(
        "topic",
        "timestamp",
        payloads.event_time(time).alias("time"),
        f.filter(values, lambda each: each["value"].isNotNull()).alias("values"),
    )
    known = payloads.timed(found, f.size("values") == 0, untimed).where("time IS NOT NULL")
    exploded = known.select("topic", "time", f.explode("values"))
    return exploded.select("topic", "col.field", "col.value", "time")


def check_fields(fields: Sequence[str]) -> None:
    if len(fields) > FIELDS_MAX:
        raise ConfigError(f"{len(fields)} fields are too many", f"use at most {FIELDS_MAX}")
    for path in fields:
        payloads.check_path(path)


def _value(path: str) -> Column:
    name = path.removeprefix("$").removeprefix(".") or "value"
    return f.struct(f.lit(name).alias("field"), payloads.number(path or None).alias("value"))


def windows(
    measured: DataFrame,
    *,
    every_s: float = 60,
    late_s: float = 60,
    quantiles: Sequence[float] = QUANTILES,
) -> DataFrame:
    """Return a row per topic, field and window, with its aggregates and quantiles (``p95``)."""
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
        raise ConfigError(f"{quantile} is not a quantile", "use a number from 0 to 1, as in 0.95")
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
    time: str = payloads.BROKER_TIME,
    untimed: str = payloads.UNTIMED_DROP,
    quantiles: str = "0.5,0.95,0.99",
    to: str | None = None,
    path: str | None = None,
    reader: str | None = None,
    trigger: str = "continuous",
    max_rows: int | None = None,
    ignore_loss: bool = False,
) -> list[StreamingQuery]:
    """Compute count, minimum, maximum, mean and quantiles of measurements in time windows.

    Payloads are JSON objects, with the fields that --field names, or plain numbers. Each window is
    written once, when it is complete: to topics (rollup/1m/TOPIC, or below --to), to Parquet
    (--path), or to both.
    """
    streams.prepare(spark)
    below = _below(to, path, every)
    columns = ["topic", "timestamp", "payload"]
    columns += ["headers"] if time == payloads.HEADER_TIME else []
    options = {"maxOffsetsPerTrigger": max_rows}
    messages = streams.from_topics(
        spark, servers, subscribe, reader, columns, ignore_loss=ignore_loss, options=options
    )
    measured = readings(
        streams.without_own(messages, below), fields=field, time=time, untimed=untimed
    )
    rows = windows(measured, every_s=every, late_s=late, quantiles=_numbers(quantiles))
    output = streams.Output(
        "rollup", servers, below, path, checkpoint, trigger, "topic", ignore_loss
    )
    return streams.to_both(rows, output)


def check(
    *,
    checkpoint: str,
    field: Sequence[str],
    every: float,
    time: str,
    quantiles: str,
    to: str | None,
    path: str | None,
    **_: object,
) -> None:
    check_fields(field)
    payloads.check_time(time)
    for quantile in _numbers(quantiles):
        quantile_name(quantile)
    if every <= 0:
        raise ConfigError("--every must be positive", "for example --every 1m")
    streams.check_outputs("rollup", checkpoint, _below(to, path, every), path)


def _below(to: str | None, path: str | None, every: float) -> str | None:
    return streams.below(to, path, f"rollup/{with_unit(every, 's')}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"quantiles {text!r} are not numbers", "write them as in 0.5,0.95,0.99"
        ) from None


JOB: Final = PipelineJob(
    "rollup",
    (
        *registry.INPUT,
        Option(
            "field",
            "Field of JSON payloads, as in $.temperature; may be repeated.",
            metavar="PATH",
            repeats=True,
        ),
        duration("every", "Length of a window.", "1m"),
        duration("late", "How late a measurement may arrive.", "1m"),
        registry.EVENT_TIME,
        registry.UNTIMED,
        Option("quantiles", "Quantiles to compute.", default="0.5,0.95,0.99", metavar="NUMBERS"),
        Option(
            "to", "Topic above the output; default rollup/1m, with the window.", metavar="TOPIC"
        ),
        registry.PARQUET,
        registry.MAX_ROWS,
        *registry.CONTROL,
    ),
    run,
    check=check,
)
