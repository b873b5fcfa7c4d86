"""Compaction of an archive by the very job that writes it: ``archive --compact``.

A run that takes what is there and ends compacts after that. One that goes on compacts every hour,
in a thread of its own, *beside* its batches and not between them: compaction was made to be safe
while the archive is written (:mod:`penstock.spark.pipelines.compaction` argues it), and an archive
that stood still meanwhile would fall behind the topics, for minutes where much is to be rewritten.
What it costs is its share of the cores.

A compaction that fails does not end the archive, whose rows are safe without; it is logged, and
tried again. One that is broken off when the job ends has changed nothing.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError
from penstock.spark.pipelines import compaction

EVERY_S: Final = 3600.0

_LOOK_S: Final = 0.5

_LOG = logging.getLogger("penstock.spark")


def follow(
    spark: SparkSession, path: str | Path, query: StreamingQuery, every_s: float = EVERY_S
) -> threading.Thread:
    """Compact every so often, for as long as a query runs."""
    arguments = (spark, path, query, every_s)
    thread = threading.Thread(target=_run, args=arguments, name="compaction", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession, path: str | Path, query: StreamingQuery, every_s: float) -> None:
    try:
        while not _has_ended(query, every_s):
            _compact(spark, path)
    except (Py4JError, OSError):  # the session is gone, and the query with it
        return


def _has_ended(query: StreamingQuery, within_s: float) -> bool:
    """Wait for the end of a query, but not longer than that."""
    for _ in range(max(1, round(within_s / _LOOK_S))):
        if not query.isActive:
            return True
        time.sleep(_LOOK_S)
    return not query.isActive


def _compact(spark: SparkSession, path: str | Path) -> None:
    try:
        figures = compaction.compact(spark, path)
    except (PenstockError, PySparkException) as error:
        _LOG.warning("%s was not compacted, and will be tried again: %s", path, error)
    else:
        if figures["taken"]:
            _LOG.info("%s was compacted: %s", path, figures)
