"""Sockets behave differently on the two event loops that there are: test on both."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import uvloop

from tests.cluster.cluster_bench import Bench

ON_BOTH_LOOPS = {
    "test_transport.py",
    "test_peer_tls.py",
    "test_snapshot_stream.py",
    "test_snapshot_whole_way.py",
}


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(config, item):
    factories = {"asyncio": asyncio.new_event_loop}
    if item.path.name in ON_BOTH_LOOPS:
        factories["uvloop"] = uvloop.new_event_loop
    return factories


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty cluster; whatever was started in it is ended."""
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture(autouse=True)
def _all_lines_are_logged():
    """Other tests set the level for the whole process."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)
