"""What a topic's limits and times take away is gone at once, for pollers and in the lag."""

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


@pytest.mark.parametrize("round_", range(10))
def test_a_poll_right_behind_a_produce_gets_nothing_that_is_too_old(broker, client, round_):
    client.create_topic("jobs", max_age_s=5)
    for number in range(3):
        client.produce("jobs", b"old %d" % number)
        broker.clock.advance(6)
    client.produce("jobs", b"new")
    assert [job.payload for job in client.poll("jobs", "g", max=10)] == [b"new"]


def test_what_is_produced_while_somebody_polls_makes_older_ones_go(broker, client):
    client.create_topic("jobs", max_age_s=5)
    client.produce_many("jobs", [b"a", b"b"])
    assert len(client.poll("jobs", "g", max=1)) == 1
    broker.clock.advance(6)
    client.produce("jobs", b"c")
    assert [job.payload for job in client.poll("jobs", "g", max=10)] == [b"c"]


def test_the_lag_knows_of_the_limits_at_once(broker, client):
    client.create_topic("jobs")
    client.produce_many("jobs", [b"x"] * 10)
    client.nack(client.poll("jobs", "g", max=4))
    client.set_retention("jobs", max_messages=3)
    assert client.groups("jobs")[0].lag == 3


def test_what_a_worker_has_counts_although_it_is_gone(broker, client):
    client.produce_many("jobs", [b"x"] * 10)
    client.poll("jobs", "g", max=2)
    client.set_retention("jobs", max_messages=3)
    assert client.groups("jobs")[0].lag == 5


def test_the_lag_knows_of_messages_whose_time_is_over(broker, client):
    client.produce_many("jobs", [b"x"] * 5, ttl_s=10)
    client.produce("jobs", b"stays")
    assert len(client.poll("jobs", "g", max=1)) == 1
    broker.clock.advance(11)
    group = client.groups("jobs")[0]
    assert group.lag == 2, "what a worker has, and the one without an end"
