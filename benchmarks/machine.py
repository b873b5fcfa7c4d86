"""The machine: its cores, its software, and the load of other processes.

The broker gets one core and the generator another, so that a figure is that of *one broker core*.
Without permission to choose, or with a single core, the measurement runs unpinned and records it.
"""

import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import NamedTuple, Self

__all__ = ["Cores", "Tenancy", "cores", "describe", "flush_us", "pinned", "raise_file_limit"]

PACKAGES = ("penstock", "uvloop", "lmdb", "msgspec", "PyNaCl")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cores(NamedTuple):
    """The cores of the broker and of the generator; ``None``: the kernel chooses."""

    broker: int | None
    generator: int | None


def cores() -> Cores:
    """Choose two cores, if there are two and they may be chosen."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return Cores(None, None)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:
        return Cores(None, None)
    return Cores(broker=allowed[-1], generator=allowed[0])


@contextmanager
def pinned(cpu: int | None) -> Iterator[None]:
    """Run processes started inside on ``cpu``: they inherit it from their start."""
    if cpu is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_file_limit() -> int:
    """Raise the limit of open files of this process and its children to the maximum."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


FLUSHES = 50
PAGE_BYTES = 4096


def flush_us(directory: Path) -> float:
    """Return the median time to append and flush one page in ``directory``."""
    spent = []
    with TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(FLUSHES):
            start = time.perf_counter()
            file.write(bytes(PAGE_BYTES))
            os.fdatasync(file.fileno())
            spent.append(time.perf_counter() - start)
    return round(median(spent) * 1e6, 1)


class Tenancy:
    """Measures the cores used by neither the broker nor the generator, inside its context.

    ``others`` is the use by other processes, ``stolen`` what the hypervisor gave to other machines;
    both in cores. Either one makes a figure worse.
    """

    def __init__(self, broker_pid: int) -> None:
        self._pid = broker_pid
        self.others = 0.0
        self.stolen = 0.0

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        wall, busy, stolen, ours = (
            now - then for now, then in zip(self._read(), self._before, strict=True)
        )
        self.others = round(max(0.0, busy - ours) / wall, 3)
        self.stolen = round(stolen / wall, 3)

    def _read(self) -> tuple[float, float, float, float]:
        user, nice, system, _, _, irq, softirq, steal, *_ = _fields("/proc/stat", first=1)
        broker = _fields(f"/proc/{self._pid}/stat", first=13)
        child = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = (broker[0] + broker[1]) / _TICKS_PER_S + child.ru_utime + child.ru_stime
        busy = (user + nice + system + irq + softirq) / _TICKS_PER_S
        return time.monotonic(), busy, steal / _TICKS_PER_S, ours


def _fields(path: str, first: int) -> list[int]:
    words = Path(path).read_text().splitlines()[0].split()
    return [int(word) for word in words[first : first + 10]]


def describe() -> dict[str, object]:
    """Return what a reader of the figures needs to know about the machine."""
    uname = os.uname()
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": f"{uname.sysname} {uname.release} {uname.machine}",
        "load_average": os.getloadavg(),
        "python": sys.version,
        "python_build": _python_build(),
        "libc": " ".join(platform.libc_ver()),
        "loopback_received_by": _steering(),
        "packages": {name: _installed(name) for name in PACKAGES},
        "revision": _revision(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _steering() -> str:
    """Return the mask of the cores that receive what the loopback device carries; 0: the sender."""
    try:
        return Path("/sys/class/net/lo/queues/rx-0/rps_cpus").read_text().strip()
    except OSError:
        return "unknown"


def _python_build() -> dict[str, bool]:
    """Return how the interpreter was compiled: PGO and LTO make a factor of 1.3."""
    asked = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return {"pgo": "--enable-optimizations" in asked, "lto": "--with-lto" in asked}


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _revision() -> str:
    """Return the commit of this checkout, marked if files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return said.stdout.strip() or "unknown"
