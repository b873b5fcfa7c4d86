"""One Spark session for all these tests, and a broker for each.

A session takes seconds to start, so there is one: the scheduler in ``tests/conftest.py`` gives all
files of this folder to one worker. What a test needs to kill, it starts as a process of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.session import session
from penstock.testing import Broker
from tests.spark.quick import MASTER, Archive, prepare, quick

HERE = Path(__file__).parent
TIMEOUT_S = 180
"""The first test waits for the session, a stream starts and stops in seconds, and machines are busy."""
LEAVES_S_MAX = 150
"""A JVM leaves at once, except the first of all: it writes the archive of classes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the time they need (the hook is called with all there are)."""
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session. Its JVM is gone when the tests are over."""
    prepare()
    archive = Archive(is_wanted=True)
    started = session("penstock-tests", MASTER, quick(archive))
    gateway = started.sparkContext._gateway
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the sign for it to leave
    gateway.proc.wait(LEAVES_S_MAX)
    archive.keep()


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker in this process."""
    with Broker() as running:
        yield running


@pytest.fixture
def servers(broker: Broker) -> str:
    """Where that broker is, as the option ``servers`` has it."""
    return f"{broker.host}:{broker.port}"
