"""A Spark that starts fast enough to be tested with, for this process and for drivers it starts.

The driver compiles in one tier and collects garbage in one thread. And its classes come from an
archive of the JVM's own (CDS): that halves the time from nothing to the first rows, also for each of
the drivers that are started only to be killed. The first run of the tests on a machine writes the
archive as it leaves, which takes some seconds.

Everything is kept in the virtual environment, so that ``make test`` touches nothing outside.
A driver begins with::

    prepare()
    spark = session("driver", MASTER, quick())
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pyspark

from penstock.spark.cache import cache_directory
from penstock.spark.java import search
from penstock.spark.spark_home import linked_home

__all__ = ["MASTER", "Archive", "prepare", "quick"]

MASTER = "local[2]"

_SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
}

_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"


def prepare() -> None:
    """Say where things are kept: before the first session of a process."""
    os.environ["XDG_CACHE_HOME"] = str(Path(sys.prefix).resolve() / "cache")


def quick(archive: "Archive | None" = None) -> dict[str, str]:
    """The settings for :func:`penstock.spark.session.session`."""
    flags = (archive or Archive()).flags()
    return {**_SETTINGS, "spark.driver.extraJavaOptions": f"{_FLAGS} {flags}"}


class Archive:
    """The classes that Spark loads, as the JVM has them in memory; fits one Java and one Spark.

    ``is_wanted``: where there is none, the JVM writes one as it leaves. Another that did so
    meanwhile does not matter: whole files are put in place.
    """

    def __init__(self, *, is_wanted: bool = False) -> None:
        what = f"{search().java} {linked_home()} {pyspark.__version__}"
        self._path = cache_directory() / f"classes-{sha256(what.encode()).hexdigest()[:16]}.jsa"
        self._fresh = self._path.with_suffix(f".{os.getpid()}")
        self._is_wanted = is_wanted and not self._path.exists()

    def flags(self) -> str:
        if self._is_wanted:
            return f"-XX:ArchiveClassesAtExit={self._fresh}"
        return f"-XX:SharedArchiveFile={self._path}" if self._path.exists() else ""

    def keep(self) -> None:
        """Keep what the JVM has written, if it has; call it when the JVM is gone."""
        if self._is_wanted and self._fresh.exists():
            self._fresh.replace(self._path)
