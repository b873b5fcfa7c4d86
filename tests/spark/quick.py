"""A Spark that starts fast enough to be tested with, for this process and for drivers it starts.

Three levers, all measured. Python workers take PySpark from its folder, not from a zip without
bytecode: a ``SPARK_HOME`` of symbolic links says so. The driver compiles in one tier and collects
garbage in one thread. And its classes come from an archive of the JVM's own (CDS): that halves the
time from nothing to the first rows, for each of the drivers that are started only to be killed. The
first run of the tests on a machine writes the archive as it leaves, which takes some seconds.

Everything is kept in the virtual environment, so that ``make test`` touches nothing outside.
A driver begins with::

    prepare()
    spark = session("driver", MASTER, quick())
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["MASTER", "Archive", "prepare", "quick"]

MASTER = "local[2]"

_SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"


def prepare() -> None:
    """Say where Spark and its Python are: before the first session of a process."""
    os.environ.setdefault("XDG_CACHE_HOME", str(Path(sys.prefix).resolve() / "cache"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_HOME", str(_home()))


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
        java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
        mark = hashlib.sha256(f"{asked.stderr}{os.environ['SPARK_HOME']}".encode()).hexdigest()
        self._path = _cache() / f"classes-{mark[:16]}.jsa"
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


def _cache() -> Path:
    path = Path(os.environ["XDG_CACHE_HOME"], "penstock-tests")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _home() -> Path:
    """Links to all of the package but its Python; a stable path, for the archive remembers it."""
    import pyspark

    package = Path(pyspark.__file__).resolve().parent
    home = _cache() / f"spark-{pyspark.__version__}"
    home.mkdir(exist_ok=True)
    for name in ("bin", "data", "jars", "sbin"):
        if not (home / name).exists():
            (home / name).unlink(missing_ok=True)
            (home / name).symlink_to(package / name)
    return home
