"""Messages as the source gives them, made by hand: as a table, and as a stream of batches."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

__all__ = ["SCHEMA", "at", "frame", "message", "stream"]

SCHEMA = (
    "topic string, offset bigint, timestamp timestamp, payload binary,"
    "headers array<struct<key:string,value:binary>>"
)


def at(seconds: float) -> datetime:
    """A time: seconds after noon on a day in 2026."""
    return datetime.fromtimestamp(1_780_000_000 // 86400 * 86400 + 43200 + seconds, UTC)


def message(topic: str, seconds: float, payload: Any, offset: int = 0, **headers: str) -> tuple:
    """A row; a payload that is not bytes is written as JSON."""
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    pairs = [(key, value.encode()) for key, value in headers.items()]
    return (topic, offset, at(seconds), body, pairs)


def frame(spark: SparkSession, *rows: tuple) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def stream(spark: SparkSession, folder: Path, *batches: list[tuple]) -> DataFrame:
    """A stream whose batches are these: a file each, read one at a time, in order."""
    for number, rows in enumerate(batches):
        path = str(folder / "in" / f"{number:04}")
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(path)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "in" / "*"))
