"""A ``SPARK_HOME`` of links to the installed package, without the archive of its Python sources.

Where Spark finds ``python/lib/pyspark.zip`` in its home, its Python workers import PySpark from
there: an archive without bytecode, which takes each of them four times as long as the package that
pip installed. The first use of a data source starts four. YARN hands that archive to its
containers, so there the home is left as it is.
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
    """Have the folder of links; where it cannot be made, the package itself does, only slower."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise ConfigError("Spark is not installed", INSTALL)
    installed = Path(package.origin).resolve().parent
    home = cache_directory() / f"spark-{sha256(os.fsencode(installed)).hexdigest()[:12]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _link(home / part, installed / part)
    except OSError:
        return installed
    return home


def _link(link: Path, target: Path) -> None:
    """Have a link where there is a target; another process may be making it as well."""
    if target.exists() and not link.exists():
        link.unlink(missing_ok=True)
        with suppress(FileExistsError):
            link.symlink_to(target)
