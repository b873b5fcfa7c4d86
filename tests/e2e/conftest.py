"""Fixtures for broker processes."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.process import BrokerProcess


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker on the test's own directory: ``start("--durability", "interval")``."""
    with contextlib.ExitStack() as stack:

        def start_process(*arguments: str, **options: object) -> BrokerProcess:
            data = tmp_path / "data"
            return stack.enter_context(BrokerProcess(data, *arguments, **options))  # type: ignore[arg-type]

        yield start_process
