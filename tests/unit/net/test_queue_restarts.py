"""Queues over a restart of the broker, as their clients see it."""

from collections.abc import Iterator

import pytest

from penstock.client import QueueClient, connect
from penstock.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as own:
        yield own


@pytest.fixture
def client(broker: Broker) -> Iterator[QueueClient]:
    with connect([f"127.0.0.1:{broker.port}"]) as own:
        yield own


@pytest.mark.parametrize("kill", [False, True])
def test_the_first_poll_after_a_restart_gets_all_that_there_is(broker, client, kill):
    """What comes back is known at once, and the rest has to be read from the journal."""
    client.produce_many("jobs", [b"%d" % number for number in range(33)])
    client.nack(client.poll("jobs", "g", max=1))
    broker.restart(kill=kill)
    jobs = client.poll("jobs", "g", max=100)
    assert [job.payload for job in jobs] == [b"%d" % number for number in range(33)]
