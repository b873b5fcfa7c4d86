"""The drivers that there are, and why one is not there.

To add a client: a program that keeps the contract of ``driver_process``, and a line here. A driver
that cannot run is skipped with its reason; in continuous integration (``CI=true``) that is a
failure, for a suite that is skipped proves nothing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.driver_process import DriverProcess
from tests.clients.micropython import machines
from tests.clients.node.build import build_node_client, node_missing

__all__ = ["BINARY", "QUEUE", "Kind", "started"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class Kind(NamedTuple):
    """A client, and how its driver is started."""

    name: str
    command: Callable[[], Sequence[str]]
    missing: Callable[[], str] = lambda: ""  # what it lacks; empty: nothing
    environment: Callable[[], dict[str, str]] = dict
    is_required: bool = True  # in continuous integration


def _python(program: str) -> Callable[[], Sequence[str]]:
    return lambda: [sys.executable, str(HERE / program)]


# ── Arduino ───────────────────────────────────────────────────────────────────────────────────

ARDUINO = ROOT / "clients/arduino/test"


def _no_compiler() -> str:
    lacks = [tool for tool in ("g++", "gcc", "make", "flock") if shutil.which(tool) is None]
    return f"to build the library: {', '.join(lacks)}" if lacks else ""


@cache
def _arduino() -> Sequence[str]:
    """Build the library for this machine, with sanitizers; one process at a time."""
    (ARDUINO / "build").mkdir(exist_ok=True)
    command = ["flock", "build/lock", "make", "--silent", "build/driver"]
    done = subprocess.run(command, cwd=ARDUINO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [str(ARDUINO / "driver")]


# ── MicroPython: in CPython, in its own VM, and with sockets ──────────────────────────────────


def _micropython(machine: str) -> Kind:
    return Kind(
        f"micropython-{machine}",
        lambda: machines.command(machine),
        lambda: machines.missing(machine),
        machines.environment,
        is_required=machine != "native",  # no distribution that we know has it
    )


# ── Node ──────────────────────────────────────────────────────────────────────────────────────


@cache
def _node() -> Sequence[str]:
    build_node_client()
    return ["node", str(HERE / "node/driver.mjs")]


BINARY = [
    Kind("python", _python("python_driver.py"), environment=lambda: {"PYTHONPATH": str(ROOT)}),
    Kind("arduino", _arduino, _no_compiler),
    *(_micropython(machine) for machine in machines.DRIVERS),
]
"""Clients of the binary protocol."""

QUEUE = [
    Kind(
        "python", _python("python_queue_driver.py"), environment=lambda: {"PYTHONPATH": str(ROOT)}
    ),
    Kind("node", _node, node_missing),
]
"""Clients of the queue protocol."""


def started(kind: Kind) -> DriverProcess:
    """Start a driver, or skip with the reason."""
    if lacks := kind.missing():
        if os.environ.get("CI") == "true" and kind.is_required:
            pytest.fail(f"{kind.name}: {lacks}")
        pytest.skip(f"{kind.name}: {lacks}")
    return DriverProcess(kind.name, kind.command(), {**os.environ, **kind.environment()})
