"""A Spark session that suits Penstock: the settings that its jobs need, and nothing hidden.

``PYSPARK_PYTHON`` is this interpreter, or Spark would look for the data source in whatever
``python3`` the path has. Times are UTC, as Arrow batches have them. State goes to RocksDB, which
the jobs with timers need. The checkpoint's files come without a checksum file beside each: that
halves the processes that Hadoop starts for every micro-batch.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "session"]

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


def session(
    name: str = "penstock",
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make a session, or get the one that runs."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
