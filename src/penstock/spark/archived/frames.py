"""DataFrames over the Parquet files of an archive, and its locks."""

import fcntl
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import ConfigError
from penstock.spark.archived.layout import SCHEMA

SETTINGS: Final = {
    # INT96, the default, has no statistics, so row groups could not be skipped by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Write up to this many topics and days side by side, without sorting the rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
}


def lock(path: Path, fault: str, advice: str) -> int:
    """Lock a file against other processes until its descriptor, which is returned, is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigError(fault, advice) from None
    return descriptor


def writing_session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    return own


def files(spark: SparkSession, paths: Collection[str]) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    # Otherwise Spark makes columns of directories, and refuses files of several segments.
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")
    return reader.parquet(*paths)
