"""Spark expressions on messages: numbers of payloads, event times, device names.

Payloads are untrusted: what is not JSON, a number or a time becomes null, never an error that ends
the job. Future times are null as well: a single device whose clock is a year ahead would move the
watermark and close all windows, for all devices, for a year.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.errors import ConfigError

BROKER_TIME: Final = "broker"  # when the broker accepted the message
HEADER_TIME: Final = "header"  # the header time: milliseconds since 1970; our sink writes it
UNTIMED_DROP: Final = "drop"
UNTIMED_BROKER: Final = "broker"  # for messages without a time
AHEAD_S: Final = 300  # how far a device's clock may be ahead

# a smaller number is in seconds (as milliseconds it would be before 1973)
SECONDS_BELOW: Final = 100_000_000_000
PATH_CHARACTERS_MAX: Final = 200

# longer names are ignored, because names are kept in state for days
DEVICE_CHARACTERS_MAX: Final = 256


def check_path(path: str) -> str:
    if not path.startswith(("$.", "$[")) or not 2 < len(path) <= PATH_CHARACTERS_MAX:
        raise ConfigError(f"{path!r} is not the path of a field", 'write it as in "$.temperature"')
    return path


def check_time(where: str) -> None:
    if where not in {BROKER_TIME, HEADER_TIME}:
        check_path(where)


def check_device(where: str) -> None:
    if where.startswith("level:"):
        _level(where)
    elif where != "topic":
        check_path(where)


def field(path: str) -> Column:
    return f.get_json_object(f.col("payload").cast("string"), check_path(path))


def number(path: str | None) -> Column:
    text = field(path) if path else f.col("payload").cast("string")
    value = f.trim(text).try_cast("double")
    return f.when(~f.isnan(value) & (f.abs(value) < f.lit(float("inf"))), value)


def device(where: str) -> Column:
    if where == "topic":
        return f.col("topic")
    if where.startswith("level:"):
        return f.try_element_at(f.split("topic", "/"), f.lit(_level(where)))
    name = field(where)
    return f.when(f.length(name).between(1, DEVICE_CHARACTERS_MAX), name)


def _level(where: str) -> int:
    level = where.removeprefix("level:")
    if not level.isdecimal() or not 1 <= int(level) <= 100:
        raise ConfigError(f"{where!r} is not a topic level", 'the first one is "level:1"')
    return int(level)


def event_time(where: str) -> Column:
    """Null if it is missing, invalid, or in the future.

    Using the broker's time instead is opt-in (``timed``): when old messages are loaded, that time
    is now, and would close every window.
    """
    broker = f.col("timestamp")
    if where == BROKER_TIME:
        return broker
    if where == HEADER_TIME:
        ours = f.filter("headers", lambda header: header["key"] == "time")
        text = f.get(ours, 0)["value"].cast("string")
    else:
        text = field(where)
    time = f.coalesce(_moment(text), text.try_cast("timestamp"))
    return f.when(time <= broker + f.expr(f"INTERVAL {AHEAD_S} SECONDS"), time)


def timed(messages: DataFrame, is_bad: Column, untimed: str) -> DataFrame:
    """Count messages, bad ones and those without a time, which may get the broker's."""
    has_no_time = f.col("time").isNull()
    counted = messages.observe(
        "payloads",
        f.count(f.lit(1)).alias("messages"),
        f.count_if(is_bad).alias("bad"),
        f.count_if(has_no_time).alias("untimed"),
    )
    if untimed != UNTIMED_BROKER:
        return counted
    return counted.withColumn("time", f.coalesce("time", "timestamp"))


def _moment(text: Column) -> Column:
    value = text.try_cast("double")
    milliseconds = f.when(value < SECONDS_BELOW, value * 1000).otherwise(value)
    is_sane = value.between(0, 253_402_300_799_000)  # the year 9999, where Spark's times end
    return f.when(is_sane, f.timestamp_millis(milliseconds.cast("bigint")))
