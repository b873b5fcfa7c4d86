"""Queues over a restart of the broker, as their clients see it."""

import threading
from collections.abc import Iterator

import pytest

from penstock.client import LeaseLostError, QueueClient, connect
from penstock.testing import Broker

TIMEOUT_S = 30


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


def down_for(broker: Broker, seconds: float) -> None:
    """Kill the broker, and start it again so much later."""
    broker.stop(kill=True)
    broker.clock.advance(seconds)
    broker.start()


@pytest.mark.parametrize("count", [1, 20])
def test_a_broker_that_was_down_for_longer_than_a_lease_does_not_repeat_what_is_done(
    broker, client, count
):
    """Handlers finish while it is away, and tell it when it is back."""
    handled, begun, may_end = [], threading.Semaphore(0), threading.Event()

    def handle(job):
        handled.append(job.offset)
        begun.release()
        assert may_end.wait(TIMEOUT_S)

    client.produce_many("jobs", [b"work"] * count)
    with client.subscribe("jobs", "g", handle, concurrency=count, visibility_s=5):
        for _ in range(count):
            assert begun.acquire(timeout=TIMEOUT_S)
        broker.stop(kill=True)
        may_end.set()
        broker.clock.advance(3600)
        broker.start()
        while client.groups("jobs")[0].lag:
            broker.clock.advance(0)
    assert sorted(handled) == list(range(count))


def test_nobody_else_is_given_a_job_because_the_broker_was_down(broker, client):
    client.produce("jobs", b"work")
    [job] = client.poll("jobs", "g", visibility_s=5)
    down_for(broker, 3600)
    assert client.poll("jobs", "g") == []
    client.ack(job)
    broker.clock.advance(6)
    assert client.poll("jobs", "g") == []


def test_a_lease_ends_after_a_restart_if_nobody_comes_back(broker, client):
    client.produce("jobs", b"work")
    client.poll("jobs", "g", visibility_s=5)
    down_for(broker, 3600)
    broker.clock.advance(4)
    assert client.poll("jobs", "g") == []
    broker.clock.advance(2)
    assert len(client.poll("jobs", "g")) == 1


def test_a_late_acknowledgement_counts_if_nobody_else_has_the_job(broker, client):
    client.produce("jobs", b"work")
    [job] = client.poll("jobs", "g", visibility_s=5)
    broker.clock.advance(6)
    while not client.groups("jobs")[0].returned:
        broker.clock.advance(1)
    client.ack(job)
    assert client.groups("jobs")[0].lag == 0


def test_an_acknowledgement_that_does_not_count_says_so(broker, client):
    client.produce_many("jobs", [b"a", b"b"])
    late, other = client.poll("jobs", "g", max=1, visibility_s=5) + client.poll("jobs", "g", max=1)
    broker.clock.advance(6)
    [again] = client.poll("jobs", "g")
    assert again.offset == late.offset
    with pytest.raises(LeaseLostError, match="another consumer") as lost:
        client.ack([late, other])
    assert lost.value.jobs == [late]
    with pytest.raises(LeaseLostError):
        client.extend(late, 60)
    client.ack(again)
    assert client.groups("jobs")[0].lag == 0, "the other was acknowledged all the same"
    with pytest.raises(LeaseLostError):
        client.ack(again)
    client.nack(again)  # it was to be handed out again, and that is over
