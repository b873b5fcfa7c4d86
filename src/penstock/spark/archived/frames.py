"""DataFrames over the Parquet files of an archive."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.archived.layout import SCHEMA

SETTINGS: Final = {
    # INT96, the default, has no statistics, so row groups could not be skipped by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Write up to this many topics and days side by side, without sorting the rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
}


def writing_session(spark: SparkSession) -> SparkSession:
    """Return a session with the settings to write archive files, which leaves ``spark`` alone."""
    own = spark.newSession()
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    return own


def files(spark: SparkSession, paths: Collection[str]) -> DataFrame:
    """Return the rows of these files."""
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    # Otherwise Spark makes columns of directories, and refuses files of several segments.
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")
    return reader.parquet(*paths)
