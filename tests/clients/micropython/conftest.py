"""A broker per file, and machines that are gone when their test is."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker
from tests.clients.micropython.machines import DRIVERS, Machine
from tests.e2e.process import BrokerProcess

START_OF_2027_S = 1_800_000_000 - 1_700_000_000
"""A signature of version 2 needs a clock that was set; the broker's virtual one stands in 2023."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as own:
        own.clock.advance(START_OF_2027_S)
        own.restart()  # a signature from before the start is refused
        yield own


@pytest.fixture
def topic() -> str:
    """A unique one."""
    return f"u{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=DRIVERS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Each machine in turn."""
    with Machine(request.param) as own:
        yield own


@pytest.fixture
def another(machine: Machine) -> Iterator[Callable[[], Machine]]:
    """More machines of the same kind."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Machine(machine.name))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker as a process, on the test's directory."""
    with contextlib.ExitStack() as stack:

        def start_process(*arguments: str, **options: Any) -> BrokerProcess:
            return stack.enter_context(BrokerProcess(tmp_path / "data", *arguments, **options))

        yield start_process
