"""Fixtures for brokers with signing."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker
from tests.e2e.process import BrokerProcess


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for all tests of a file, which therefore never reuse a name or move its clock."""
    with Broker() as own:
        yield own


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """Start a broker for this test alone: ``own_broker(signing={...})``."""
    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker as a process, on the test's directory."""
    with contextlib.ExitStack() as stack:

        def start_process(*arguments: str, **options: Any) -> BrokerProcess:
            return stack.enter_context(BrokerProcess(tmp_path / "data", *arguments, **options))

        yield start_process


@pytest.fixture
def topic() -> bytes:
    """A unique topic below ``secure/``."""
    return f"secure/u{uuid.uuid4().hex[:12]}".encode()
