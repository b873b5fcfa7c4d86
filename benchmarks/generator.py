"""The load generator: ``mqload*.c``, compiled when newer than its program, and run.

All brokers are driven by this one program. It is written in C so that the generator is not what is
measured; where it is the limit all the same, :attr:`Load.generator_bound` says so. The exception
are workloads that ask what our own client can do: there it is the driver.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.workloads import CLIENT, MQLOAD

__all__ = ["GeneratorError", "Load", "compiled", "run"]

HERE = Path(__file__).parent
PROGRAM = HERE / "build" / "mqload"

DRIVERS = {CLIENT: "benchmarks.queue_client"}
"""Drivers that are modules. They take the generator's options, and answer as it does."""

EXIT_LOSS = 5
"""The exit status of a run that ended as it should, but with messages missing."""

FLAWS = ("lost", "duplicated", "reordered", "damaged", "replayed")
"""What must be 0 at the end of a run."""

BUSY = 0.9
"""A process that used more than this part of the time had no time left."""


class GeneratorError(Exception):
    """The generator could not be built, or did not get through its run."""


class Load:
    """What one run of the generator said. The figures are named as in its answer."""

    def __init__(self, figures: Mapping[str, float]) -> None:
        self.figures = dict(figures)

    @classmethod
    def parse(cls, text: str) -> "Load":
        """Read the one line of JSON that a run prints."""
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
        """Whether the generator's core was full and the broker's was not."""
        seconds = self.figures.get("seconds", 0.0)
        if not seconds:
            return False
        generator, broker = (self[f"{who}_cpu_s"] / seconds for who in ("generator", "broker"))
        return generator > BUSY > broker

    @property
    def flaws(self) -> list[str]:
        """What should not have happened: a run with flaws has no figures worth comparing."""
        return [f"{name} {self[name]:,.0f}" for name in FLAWS if self.figures.get(name)]


def compiled() -> Path:
    """The generator's program, built first if need be."""
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
    """Build beside the old program and put it in its place at once: others may be running it."""
    fresh = PROGRAM.with_name(f"{PROGRAM.name}.{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), *sources]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise GeneratorError(f"{shlex.join(command)} failed:\n{built.stderr}")
    fresh.replace(PROGRAM)


def run(load: str, *, port: int, broker_pid: int, seed: int, driver: str = MQLOAD) -> Load:
    """Put ``load`` (options of the driver) on the broker at ``port``; returns when it is over."""
    program = [str(compiled())] if driver == MQLOAD else [sys.executable, "-m", DRIVERS[driver]]
    command = [*program, "-p", str(port), "-B", str(broker_pid), "-e", str(seed)]
    command += shlex.split(load)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, EXIT_LOSS):
        raise GeneratorError(f"{done.stderr.strip()}\n  {shlex.join(command)}")
    return Load.parse(done.stdout)
