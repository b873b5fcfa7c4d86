# ruff: noqa: A005 - only ever imported as benchmarks.profile
"""``python -m benchmarks.profile M``: where Penstock spends its time under one workload.

Three tools, each with its own blind spot:

* ``sample`` (the default; see :mod:`benchmarks.sampler`) sees every thread's Python lines at little
  cost, and nothing inside C.
* ``cprofile`` counts every call, in the thread of the event loop only. It makes calls more
  expensive; trust its counts more than its times.
* ``perf`` sees C and the kernel, and no Python names before Python 3.12.

The rate printed is that of the profiled broker: never compare it with one from ``benchmarks``.
"""

import argparse
import json
import pstats
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks import generator, machine
from benchmarks.brokers import BrokerError, PenstockBroker
from benchmarks.generator import GeneratorError
from benchmarks.rounds import Bench, measure
from benchmarks.shapes import Workload
from benchmarks.table import compact
from benchmarks.workloads import UnknownWorkloadError, select

SCAFFOLD = ("runpy>", "benchmarks/sampler", "click/", "penstock:<module>", "threading.py:Thread.")
BUILD = Path(__file__).parent / "build"


class Tool(NamedTuple):
    """How to start the broker under a profiler, and how to print the result."""

    launcher: Callable[[Path], tuple[str, ...]]
    show: Callable[[Path, int], None]


def show_samples(path: Path, top: int) -> None:
    """Two lists: lines by own time, functions by cumulative time."""
    found = json.loads(path.read_text())
    for title, counts in (("on this line", found["own"]), ("in or below", found["within"])):
        print(f"\n{title} ({found['samples']} samples)")
        told = [(count, name) for name, count in counts.items() if not is_scaffold(name)]
        for count, name in sorted(told, reverse=True)[:top]:
            print(f"  {count / found['samples']:6.1%}  {name}")


def is_scaffold(name: str) -> bool:
    """Whether a function is only part of the start of a process or thread."""
    return any(part in name for part in SCAFFOLD)


def show_calls(path: Path, top: int) -> None:
    """Print the functions with the most own time."""
    pstats.Stats(str(path)).strip_dirs().sort_stats("tottime").print_stats(top)


def show_symbols(path: Path, top: int) -> None:
    """Print the symbols with the most samples."""
    command = ["perf", "report", "-i", str(path), "--stdio", "--no-children", "-g", "none"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in said.stdout.splitlines() if line and not line.startswith("#")]
    print("\n".join(lines[:top]) or said.stderr)


TOOLS = {
    "sample": Tool(
        lambda out: (sys.executable, "-m", "benchmarks.sampler", str(out)), show_samples
    ),
    "cprofile": Tool(lambda out: (sys.executable, "-m", "cProfile", "-o", str(out)), show_calls),
    "perf": Tool(
        lambda out: ("perf", "record", "-q", "-F", "999", "-o", str(out), "--"), show_symbols
    ),
}


def profile(workload: Workload, tool: Tool, seconds: float) -> Path:
    """Run ``workload`` once on a profiled Penstock; return the file of the result."""
    out = BUILD / "profile.out"
    out.unlink(missing_ok=True)
    BUILD.mkdir(exist_ok=True)
    profiled = type("Profiled", (PenstockBroker,), {"launcher": tool.launcher(out)})
    bench = Bench(profiled, {}, 1, seconds, 1, machine.cores(), BUILD / "data")
    measurement = measure(workload, profiled, bench, side="ours", round_=1)
    if measurement.load is None:
        raise BrokerError("\n".join(measurement.flaws))
    said = "; ".join(measurement.flaws) or compact(measurement.value(workload.figure.key))
    print(f"{workload.id}, profiled: {said} {workload.figure.unit}")
    if not out.exists():
        raise BrokerError("the broker left no profile: it did not end by itself when asked to")
    return out


def main(arguments: list[str]) -> int:
    """Profile one workload and print the top of the list."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile")
    parser.add_argument("workload", nargs="?", default="M")
    parser.add_argument("--tool", choices=TOOLS, default="sample")
    parser.add_argument("--load", help="options to use instead of the workload's load")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--top", type=int, default=25)
    options = parser.parse_args(arguments)
    if options.tool == "perf" and shutil.which("perf") is None:
        parser.error("perf is not installed")
    try:
        generator.compiled()
        (workload,) = select([options.workload])[:1]
        workload = replace(workload, load=options.load or workload.load)
        path = profile(workload, TOOLS[options.tool], options.seconds)
    except (BrokerError, GeneratorError, UnknownWorkloadError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    TOOLS[options.tool].show(path, options.top)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
