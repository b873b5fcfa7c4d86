"""The load generator: ``mqload*.c``, compiled when newer than its program, and run.

All brokers are driven by this one program. It is written in C so that it is not the bottleneck;
where it is, :attr:`Load.generator_bound` is set. The exception are workloads that measure our own
client, which is the driver there.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.shapes import CLIENT, MQLOAD

__all__ = ["GeneratorError", "Load", "compiled", "flooding", "run"]

HERE = Path(__file__).parent
PROGRAM = HERE / "build" / "mqload"

DRIVERS = {CLIENT: "benchmarks.queue_client"}
"""Drivers that are modules, with the options and output of the generator."""

EXIT_LOSS = 5
"""Exit status of a run that ended normally, but with messages missing."""

FLAWS = ("lost", "duplicated", "reordered", "damaged", "replayed")
"""Counters that must be 0 at the end of a run."""

FLOOD_BEGINS_S = 0.5
"""How long a load beside runs before the measurement begins."""

BUSY = 0.9
"""A process that used more than this share of the time was saturated."""


class GeneratorError(Exception):
    """The generator could not be built, or its run failed."""


class Load:
    """The output of one run. The figures are named as in the output."""

    def __init__(self, figures: Mapping[str, float]) -> None:
        self.figures = dict(figures)

    @classmethod
    def parse(cls, text: str) -> "Load":
        """Parse the one line of JSON that a run prints."""
        try:
            figures = json.loads(text)
        except json.JSONDecodeError as error:
            raise GeneratorError(f"mqload did not answer in JSON: {text[:200]!r}") from error
        if not isinstance(figures, dict):
            raise GeneratorError(f"mqload did not answer with an object: {text[:200]!r}")
        return cls(figures)

    def __getitem__(self, key: str) -> float:
        if key not in self.figures:
            raise GeneratorError(f"mqload's answer has no {key!r}: {sorted(self.figures)}")
        return self.figures[key]

    @property
    def generator_bound(self) -> bool:
        """Whether the generator's core was saturated and the broker's was not."""
        seconds = self.figures.get("seconds", 0.0)
        if not seconds:
            return False
        generator, broker = (self[f"{who}_cpu_s"] / seconds for who in ("generator", "broker"))
        return generator > BUSY > broker

    @property
    def flaws(self) -> list[str]:
        """What went wrong: a run with flaws has no comparable figures."""
        return [f"{name} {self[name]:,.0f}" for name in FLAWS if self.figures.get(name)]


def compiled() -> Path:
    """Return the generator's program, building it if necessary."""
    sources = sorted(HERE.glob("mqload*.[ch]"))
    changed = max(source.stat().st_mtime for source in sources)
    if PROGRAM.exists() and PROGRAM.stat().st_mtime >= changed:
        return PROGRAM
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise GeneratorError(
            "the load generator is a C program, and there is neither gcc nor cc here;\n"
            "  install one (Debian, Ubuntu: apt install gcc) and start again"
        )
    PROGRAM.parent.mkdir(exist_ok=True)
    _compile(compiler, [str(source) for source in sources if source.suffix == ".c"])
    return PROGRAM


def _compile(compiler: str, sources: list[str]) -> None:
    """Build a new file and replace the program atomically: others may be running it.

    Without OpenSSL's headers it has no TLS, which few workloads need.
    """
    fresh = PROGRAM.with_name(f"{PROGRAM.name}.{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), *sources]
    for options in (["-DWITH_TLS", "-lssl", "-lcrypto"], []):
        built = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if built.returncode == 0:
            break
    else:
        raise GeneratorError(f"{shlex.join(command)} failed:\n{built.stderr}")
    fresh.replace(PROGRAM)


@contextmanager
def flooding(load: str, *, port: int, seconds: float) -> Iterator[None]:
    """Run ``load`` beside what is measured: it has begun, and ends with the context."""
    command = [str(compiled()), "-p", str(port), "-d", f"{seconds:g}", *shlex.split(load)]
    flood = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(FLOOD_BEGINS_S)
    try:
        yield
        if flood.poll() is not None:
            raise GeneratorError(f"the load beside ended too early: {shlex.join(command)}")
    finally:
        flood.kill()
        flood.wait()


def run(load: str, *, port: int, broker_pid: int, seed: int, driver: str = MQLOAD) -> Load:
    """Run ``load`` (options of the driver) against the broker at ``port`` until it ends."""
    program = [str(compiled())] if driver == MQLOAD else [sys.executable, "-m", DRIVERS[driver]]
    command = [*program, "-p", str(port), "-B", str(broker_pid), "-e", str(seed)]
    command += shlex.split(load)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, EXIT_LOSS):
        raise GeneratorError(f"{done.stderr.strip()}\n  {shlex.join(command)}")
    return Load.parse(done.stdout)
