"""A broker for tests of readers, without Spark: its calls are made by hand."""

from collections.abc import Iterator

import pytest

from penstock.client import connect
from penstock.client.queue.blocking import QueueClient
from penstock.spark import broker as connections
from penstock.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running
        for client in connections._clients.values():
            client.close()
        connections._clients.clear()


@pytest.fixture
def servers(broker: Broker) -> str:
    return f"{broker.host}:{broker.port}"


@pytest.fixture
def client(servers: str) -> Iterator[QueueClient]:
    with connect([servers]) as client:
        yield client
