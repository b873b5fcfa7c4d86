"""A ``SPARK_HOME`` of symlinks to the installed PySpark, without ``python/lib/pyspark.zip``.

Workers would import PySpark from that archive, which has no bytecode and starts four times slower.
YARN ships the archive to its containers, so it keeps the normal home.
"""

import os
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.cache import cache_directory
from penstock.spark.requirements import INSTALL

_PARTS = ("bin", "conf", "data", "jars", "sbin")


def linked_home() -> Path:
    """Create the links; if that fails, return the installed package, which is only slower."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise ConfigError("Spark is not installed", INSTALL)
    installed = Path(package.origin).resolve().parent
    home = cache_directory() / f"spark-{sha256(os.fsencode(installed)).hexdigest()[:12]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            link, target = home / part, installed / part
            if target.exists() and not link.exists():
                link.unlink(missing_ok=True)
                with suppress(FileExistsError):  # another process was faster
                    link.symlink_to(target)
    except OSError:
        return installed
    return home
