"""The drivers that there are, and why one is not there.

To add a client: a program that keeps the contract of ``driver_process``, and a line here. A driver
that cannot run is skipped with its reason; in continuous integration (``CI=true``) that is a
failure, for a suite that is skipped proves nothing.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.driver_process import DriverProcess

__all__ = ["BINARY", "QUEUE", "Kind", "started"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class Kind(NamedTuple):
    """A client, and how its driver is started."""

    name: str
    command: Callable[[], Sequence[str]]
    missing: Callable[[], str] = lambda: ""  # what it lacks; empty: nothing
    environment: Callable[[], dict[str, str]] = dict


def _python(program: str) -> Callable[[], Sequence[str]]:
    return lambda: [sys.executable, str(HERE / program)]


BINARY = [
    Kind("python", _python("python_driver.py"), lambda: "", lambda: {"PYTHONPATH": str(ROOT)})
]
"""Clients of the binary protocol."""

QUEUE: list[Kind] = []
"""Clients of the queue protocol."""


def started(kind: Kind) -> DriverProcess:
    """Start a driver, or skip with the reason."""
    if lacks := kind.missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{kind.name}: {lacks}")
        pytest.skip(f"{kind.name}: {lacks}")
    return DriverProcess(kind.name, kind.command(), {**os.environ, **kind.environment()})
