"""The Spark settings of this machine, read before there is a JVM: ours must not override them."""

import re
import shlex
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Final

_LOG: Final = "log4j2.properties"
_PAIR: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")


def settings_from_files(environ: Mapping[str, str]) -> dict[str, str]:
    arguments = dict(_submitted(environ.get("PYSPARK_SUBMIT_ARGS", "")))
    named = arguments.pop("--properties-file", None)
    file = Path(named) if named else _conf_folder(environ) / "spark-defaults.conf"
    return {**_properties(file), **arguments}


def log_flag(options: str, environ: Mapping[str, str]) -> str:
    if "log4j" in options or (_conf_folder(environ) / _LOG).exists():
        return options
    ours = f'"-Dlog4j2.configurationFile={Path(__file__).with_name(_LOG).as_uri()}"'
    return f"{options} {ours}".strip()


def _conf_folder(environ: Mapping[str, str]) -> Path:
    if environ.get("SPARK_CONF_DIR"):
        return Path(environ["SPARK_CONF_DIR"])
    if environ.get("SPARK_HOME"):
        return Path(environ["SPARK_HOME"], "conf")
    package = find_spec("pyspark")
    return Path(package.origin if package and package.origin else "pyspark").with_name("conf")


def _submitted(text: str) -> Iterator[tuple[str, str]]:
    for word, following in pairwise([*shlex.split(text), ""]):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if option in _OPTIONS:
            yield _OPTIONS[option], value
        elif option in {"--conf", "-c"}:
            key, _, setting = value.partition("=")
            yield key.strip(), setting.strip()


_OPTIONS: Final = {
    "--properties-file": "--properties-file",
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
}


def _properties(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (
        _PAIR.fullmatch(line.strip()) for line in lines if not line.lstrip().startswith(("#", "!"))
    )
    return {pair[1]: pair[2].strip() for pair in pairs if pair}
