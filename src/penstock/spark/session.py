"""A Spark session that suits Penstock: on this machine unless told otherwise, and nothing hidden.

Three have a say about a setting: whoever calls :func:`session`, then whoever set Spark up
(``spark-submit``, ``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS``), and last we. Ours are:

* Times are UTC, as Arrow batches have them.
* State goes to RocksDB, which the jobs with timers need.
* The checkpoint's files come without a checksum file beside each: that halves the processes that
  Hadoop starts for every micro-batch.
* Progress is shown by our own display, not by Spark's bar.
* On this machine, a shuffle makes one part per core and not 200, for every part of a stream's state
  costs files at every batch; and Spark listens on the loopback only.

The environment is prepared before the JVM starts, and only what nobody has set:
``PYSPARK_PYTHON`` is this interpreter, or Spark would look for the data source in whatever
``python3`` the path has; ``JAVA_HOME`` as :mod:`penstock.spark.java` finds it; ``SPARK_HOME`` as
:mod:`penstock.spark.spark_home` makes it. Importing this module does nothing.
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
"""Ours, on every master."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOOPBACK: Final = "127.0.0.1"


def session(
    name: str = "penstock",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make a session, or get the one that runs. Without ``master`` it is on this machine.

    ``settings`` are Spark's own, by their full names; they come before all others.
    """
    asked = dict(settings or {}) | ({"spark.master": master} if master else {})
    if SparkSession.getActiveSession() is not None:
        return _built(asked)
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001 - no other way to tell
        return _built({"spark.app.name": name, **choose(asked, _given_to_the_running())})
    given = settings_from_files(os.environ)
    chosen = choose(asked, given)
    options = log_flag({**given, **chosen}.get(_JAVA_OPTIONS, ""), os.environ)
    _prepare({**given, **chosen})
    return _built({"spark.app.name": name, **chosen, _JAVA_OPTIONS: options})


def _built(settings: Mapping[str, str]) -> SparkSession:
    """Build a session with these settings; one that runs takes those of SQL, and leaves others."""
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def choose(asked: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return what we have to tell Spark: what was asked for, and ours where nobody has a wish."""
    master = asked.get("spark.master") or given.get("spark.master") or "local[*]"
    ours = {"spark.master": master, **SETTINGS, **_here(master)}
    return {key: value for key, value in ours.items() if key not in given} | dict(asked)


def _here(master: str) -> dict[str, str]:
    """Ours, where the master is in this process."""
    cores = re.match(r"local(?:\[(\d+|\*))?", master)
    if not cores:
        return {}
    count = (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1] or 1)
    return {
        "spark.sql.shuffle.partitions": str(count),
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
    }


def _given_to_the_running() -> dict[str, str]:
    """What the JVM was started with, by ``spark-submit`` or by an earlier session."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the one that spark-submit started
    return dict(SparkConf().getAll())


def _prepare(settings: Mapping[str, str]) -> None:
    """Set what the JVM and the Python workers take from the environment."""
    python = settings.get("spark.pyspark.python") or sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    ensure_java()
    master = settings["spark.master"]
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if master.startswith(("local", "spark:")):
        os.environ.setdefault("SPARK_HOME", str(linked_home()))
