"""Columns made from messages: a number of a payload, a time of an event, the name of a device.

These are expressions for Spark, which works on them without Python. What devices send is not to be
trusted: what is no JSON, no number or no time becomes null, and never an error that ends a job.

Times from the future are null as well. A watermark follows the latest time that was seen, so one
device whose clock is a year ahead would close every window, for all devices, for a year.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from penstock.errors import ConfigError

BROKER_TIME: Final = "broker"
"""The time at which the broker took the message."""

HEADER_TIME: Final = "header"
"""The header ``time``: milliseconds since 1970, in decimal. The sink of ours writes it."""

UNTIMED_DROP: Final = "drop"
UNTIMED_BROKER: Final = "broker"
"""What becomes of messages without a time: they are left out, or get the broker's."""

AHEAD_S: Final = 300
"""How far a device's clock may be ahead of the broker's."""

SECONDS_BELOW: Final = 100_000_000_000
"""A smaller number is a time in seconds. As milliseconds it would be in the spring of 1973."""

PATH_CHARACTERS_MAX: Final = 200

DEVICE_CHARACTERS_MAX: Final = 256
"""A payload that names a longer one names none. Names are kept in state, each for days."""


def check_path(path: str) -> str:
    """Accept the path of a field, as in ``$.temperature`` or ``$.engine.rpm``."""
    if not path.startswith(("$.", "$[")) or not 2 < len(path) <= PATH_CHARACTERS_MAX:
        raise ConfigError(f"{path!r} is not the path of a field", 'write it as in "$.temperature"')
    return path


def check_time(where: str) -> None:
    """Accept where a time is told."""
    if where not in {BROKER_TIME, HEADER_TIME}:
        check_path(where)


def check_device(where: str) -> None:
    """Accept what a device is."""
    if where.startswith("level:"):
        _level(where)
    elif where != "topic":
        check_path(where)


def field(path: str) -> Column:
    """A field of a JSON payload, as text; null if it is not there, or the payload is no JSON."""
    return f.get_json_object(f.col("payload").cast("string"), check_path(path))


def number(path: str | None) -> Column:
    """A number: of a field, or the whole payload. Infinity and what is no number are null."""
    text = field(path) if path else f.col("payload").cast("string")
    value = f.trim(text).try_cast("double")
    return f.when(~f.isnan(value) & (f.abs(value) < f.lit(float("inf"))), value)


def device(where: str) -> Column:
    """The name of a device: the topic, one of its levels (``level:2``), or a field (``$.id``)."""
    if where == "topic":
        return f.col("topic")
    if where.startswith("level:"):
        return f.try_element_at(f.split("topic", "/"), f.lit(_level(where)))
    name = field(where)
    return f.when(f.length(name).between(1, DEVICE_CHARACTERS_MAX), name)


def _level(where: str) -> int:
    level = where.removeprefix("level:")
    if not level.isdecimal() or not 1 <= int(level) <= 100:
        raise ConfigError(f"{where!r} is no level of a topic", 'the first one is "level:1"')
    return int(level)


def event_time(where: str) -> Column:
    """When it happened: by the broker's clock, the header ``time``, or a field of the payload.

    Null if the message does not have it, if it is no time, or if it is in the future. To take the
    broker's time for such a message has to be asked for (``timed``): in a backfill of old messages
    that time is now, and one of them would close every window.
    """
    broker = f.col("timestamp")
    if where == BROKER_TIME:
        return broker
    text = _header_time() if where == HEADER_TIME else field(where)
    time = f.coalesce(_moment(text), text.try_cast("timestamp"))
    return f.when(time <= broker + f.expr(f"INTERVAL {AHEAD_S} SECONDS"), time)


def timed(time: Column, untimed: str) -> Column:
    """Return a time, and for messages without one that of the broker, if that is asked for."""
    return f.coalesce(time, f.col("timestamp")) if untimed == UNTIMED_BROKER else time


def _header_time() -> Column:
    ours = f.filter("headers", lambda header: header["key"] == "time")
    return f.get(ours, 0)["value"].cast("string")


def _moment(text: Column) -> Column:
    """Read a number of milliseconds, or seconds, since 1970."""
    value = text.try_cast("double")
    milliseconds = f.when(value < SECONDS_BELOW, value * 1000).otherwise(value)
    is_sane = value.between(0, 253_402_300_799_000)  # the year 9999, where Spark's times end
    return f.when(is_sane, f.timestamp_millis(milliseconds.cast("bigint")))
