"""What every group has finished is removed, unless another reader still needs it."""

from collections.abc import Iterator

import pytest

from penstock.client import QueueClient, connect
from penstock.retention.scan import RetentionScan
from penstock.testing import Broker
from tests.conformance_binary.wire_client import BinaryClient

TOPIC, GROUP = "jobs", "workers"
JOBS = [b"%d" % number for number in range(5)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as own:
        yield own


@pytest.fixture
def queue(broker: Broker) -> Iterator[QueueClient]:
    with connect([f"{broker.host}:{broker.port}"]) as client:
        client.create_topic(TOPIC)
        yield client


@pytest.fixture
def subscriber(broker: Broker) -> Iterator[BinaryClient]:
    with BinaryClient(broker.host, broker.port) as client:
        yield client


def work_off(queue: QueueClient) -> None:
    """Let a group finish all jobs."""
    for job in JOBS:
        queue.produce(TOPIC, job)
    queue.ack(queue.poll(TOPIC, GROUP, max=len(JOBS)))


def used_up(broker: Broker) -> int:
    """How many messages are no longer needed, whether or not retention has removed them yet."""
    server = broker.server
    topics = server.parts.dispatchers.topics
    scan = RetentionScan(server.broker, topics, lambda _scan: None)
    broker.call(scan.run)
    lows = broker.call(scan.lows)
    return lows.get(TOPIC.encode(), server.store.topic(TOPIC.encode()).first_offset)


def test_what_the_only_group_has_finished__is_reclaimed(broker, queue):
    work_off(queue)
    assert used_up(broker) == len(JOBS)


def test_a_durable_subscriber_that_is_away_finds_all_that_it_did_not_acknowledge(
    broker, queue, subscriber
):
    queue.produce(TOPIC, b"seen")
    (seen,) = subscriber.subscribe(TOPIC.encode(), b"ann")
    subscriber.acknowledge(seen)
    subscriber.close()
    work_off(queue)
    assert used_up(broker) == 1
    broker.restart(kill=True)
    assert used_up(broker) == 1
    with BinaryClient(broker.host, broker.port) as again:
        found = again.subscribe(TOPIC.encode(), b"ann")
    assert [message.payload for message in found] == JOBS


def test_a_durable_subscriber_need_not_have_acknowledged_anything(broker, queue, subscriber):
    subscriber.subscribe(TOPIC.encode(), b"ann")
    subscriber.close()
    work_off(queue)
    assert used_up(broker) == 0
    with BinaryClient(broker.host, broker.port) as again:
        again.acknowledge(*again.subscribe(TOPIC.encode(), b"ann"))
    assert used_up(broker) == len(JOBS)


def test_a_subscriber_without_a_name_keeps_nothing(broker, queue, subscriber):
    subscriber.subscribe(TOPIC.encode())
    work_off(queue)
    assert used_up(broker) == len(JOBS)
