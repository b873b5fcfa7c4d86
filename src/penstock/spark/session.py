"""Creates a Spark session with suitable settings, on this machine by default.

The caller's settings win, then those of the Spark installation, then ours. In local mode a shuffle
has one partition per core instead of 200, because each partition of streaming state costs files at
every batch. Checkpoints have no checksum files: they double the processes that Hadoop starts.
``PYSPARK_PYTHON`` is set to this interpreter, because another may lack the data source.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.spark.java import ensure_java
from penstock.spark.spark_defaults import log_flag, settings_from_files
from penstock.spark.spark_home import linked_home

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOOPBACK: Final = "127.0.0.1"


def session(
    name: str = "penstock", master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Create a session, or return the active one; ``settings`` override all others."""
    asked = dict(settings or {}) | ({"spark.master": master} if master else {})
    if SparkSession.getActiveSession() is not None:
        return _built(asked)
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001 - no other way to tell
        SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the JVM of spark-submit
        running = dict(SparkConf().getAll())
        return _built({"spark.app.name": name, **choose(asked, running)})
    given = settings_from_files(os.environ)
    chosen = choose(asked, given)
    options = log_flag({**given, **chosen}.get(_JAVA_OPTIONS, ""), os.environ)
    _prepare({**given, **chosen})
    return _built({"spark.app.name": name, **chosen, _JAVA_OPTIONS: options})


def _built(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def choose(asked: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    master = asked.get("spark.master") or given.get("spark.master") or "local[*]"
    ours = {"spark.master": master, **SETTINGS, **_local_settings(master)}
    return {key: value for key, value in ours.items() if key not in given} | dict(asked)


def _local_settings(master: str) -> dict[str, str]:
    cores = re.match(r"local(?:\[(\d+|\*))?", master)
    if not cores:
        return {}
    count = (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1] or 1)
    return {
        "spark.sql.shuffle.partitions": str(count),
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
    }


def _prepare(settings: Mapping[str, str]) -> None:
    python = settings.get("spark.pyspark.python") or sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    ensure_java()
    master = settings["spark.master"]
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if master.startswith(("local", "spark:")):
        os.environ.setdefault("SPARK_HOME", str(linked_home()))
