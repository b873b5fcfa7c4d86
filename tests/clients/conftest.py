"""Brokers, drivers of each kind in turn, and the ways from the one to the other."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker
from tests.clients.driver_process import DriverProcess
from tests.clients.drivers import BINARY, QUEUE, Kind, started
from tests.e2e.process import BrokerProcess

NEW_YEAR_2027_MS = 1_798_761_600_000
"""Devices do not believe clocks that stand before 2025; those of tests stand in 2023."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(retention={"age_s_max": 0}) as own:
        own.clock.advance(NEW_YEAR_2027_MS / 1000 - own.clock.wall_ms() / 1000)
        own.restart()  # a signature from before the start is refused
        yield own


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker as a process, on the test's own directory, and again."""
    with contextlib.ExitStack() as stack:

        def start_process(*arguments: str, **options: Any) -> BrokerProcess:
            return stack.enter_context(BrokerProcess(tmp_path / "data", *arguments, **options))

        yield start_process


@pytest.fixture(params=BINARY, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each client of the binary protocol in turn."""
    return request.param


@pytest.fixture(params=QUEUE, ids=lambda kind: kind.name)
def queue_kind(request: pytest.FixtureRequest) -> Kind:
    """Each client of the queue protocol in turn."""
    return request.param


@pytest.fixture
def outlived(request: pytest.FixtureRequest) -> None:
    """Brokers start before drivers and end after them: to leave one that is gone takes seconds."""
    for name in {"broker", "start"} & set(request.fixturenames):
        request.getfixturevalue(name)


@pytest.fixture
def drive(kind: Kind, outlived: None) -> Iterator[Callable[..., DriverProcess]]:
    """Start a driver that has these abilities: ``drive("signed")``; else skip."""
    with contextlib.ExitStack() as stack:

        def make(*abilities: str) -> DriverProcess:
            made = stack.enter_context(started(kind))
            lacks = sorted(set(abilities) - made.abilities)
            if lacks:
                pytest.skip(f"{kind.name} has no {', '.join(lacks)}")
            return made

        yield make
