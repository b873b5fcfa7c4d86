"""Blocks reach a real broker in order and once, also one that is killed meanwhile; and who sends."""

import threading

import pytest
from pyspark import TaskContext

from penstock.client import connect
from penstock.client.errors import QueueRefusedError
from penstock.errors import PenstockError
from penstock.spark.identity import (
    BATCH_PROPERTY,
    QUERY_PROPERTY,
    MicroBatch,
    TaskAttempt,
    batch_of_task,
    this_task,
)
from penstock.spark.options import RetryPolicy
from penstock.spark.staging import SinkEpoch, StagedPart, stage
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import StagedBlock, StagedLot

PLACE = SinkEpoch("s", 0)
QUERY = "0a1b2c3d-0000-4000-8000-000000000000"


def block(number: int, topic: str = "t") -> bytes:
    lot = StagedLot(topic=topic, payloads=[b"%d.%d" % (number, row) for row in range(3)])
    return StagedBlock(lots=[lot]).SerializeToString()


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker):
    with connect([f"{broker.host}:{broker.port}"]) as client:
        yield client


def test_blocks_are_published_in_the_order_they_were_sent(client):
    count = stage(client, RetryPolicy(), StagedPart(PLACE, "0-0-a"), map(block, range(50)))
    assert count == 50
    assert client.topic("t") is None
    client.commit_stage(*PLACE, [("0-0-a", count)])
    found = [record.payload for record in client.messages("t")]
    assert found == [b"%d.%d" % (number, row) for number in range(50) for row in range(3)]


def test_no_rows_are_no_blocks(client):
    assert stage(client, RetryPolicy(), StagedPart(PLACE, "0-0-a"), []) == 0


def test_a_broker_that_is_killed_meanwhile_has_each_block_once(broker, client):
    """Time and again, while blocks are under way."""
    begun, killed = threading.Event(), threading.Event()

    def blocks():
        for number in range(400):
            if number == 20:
                begun.set()
            if number == 380:
                killed.wait(30)
            yield block(number)

    def kill():
        begun.wait(30)
        for _ in range(3):
            broker.restart(kill=True)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    count = stage(client, RetryPolicy(3, 0.1), StagedPart(PLACE, "0-0-a"), blocks())
    killer.join()
    client.commit_stage(*PLACE, [("0-0-a", count)])
    found = [record.payload for record in client.messages("t")]
    assert found == [b"%d.%d" % (number, row) for number in range(400) for row in range(3)]


def test_a_broker_that_is_away_for_longer_than_a_call_may_take_is_waited_for(broker):
    """Calls fail then, all that are under way; each block is sent again, in order."""
    back = threading.Timer(1.5, broker.start)

    def blocks():
        for number in range(40):
            if number == 20:
                broker.stop(kill=True)
                back.start()
            yield block(number)

    with connect([f"{broker.host}:{broker.port}"], timeout_s=0.4) as client:
        count = stage(client, RetryPolicy(30, 0.1), StagedPart(PLACE, "0-0-a"), blocks())
        back.join()
        client.commit_stage(*PLACE, [("0-0-a", count)])
        found = [record.payload for record in client.messages("t")]
    assert found == [b"%d.%d" % (number, row) for number in range(40) for row in range(3)]


def test_what_the_broker_refuses_for_good_is_not_sent_again(client):
    blocks = [block(0), block(1, "no/#"), *map(block, range(2, 40))]
    with pytest.raises(QueueRefusedError, match="no/#"):
        stage(client, RetryPolicy(10, 10), StagedPart(PLACE, "0-0-a"), blocks)


# ── Who sends ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def context():
    """The context that a worker would have."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._attemptNumber = 3, 1
    context._localProperties = {QUERY_PROPERTY: QUERY, BATCH_PROPERTY: "7"}
    yield context
    TaskContext._taskContext = None


def test_a_task_knows_its_partition_attempt_and_batch(context):
    assert this_task() == TaskAttempt(3, 1)
    assert batch_of_task() == MicroBatch(QUERY, 7)


@pytest.mark.parametrize("name", [QUERY_PROPERTY, BATCH_PROPERTY])
@pytest.mark.parametrize("value", [None, "", "none", "-1"])
def test_a_task_that_does_not_know_its_batch_fails_loudly(context, name, value):
    context._localProperties[name] = value
    with pytest.raises(PenstockError, match="batch and query of this task are unknown"):
        batch_of_task()


def test_outside_of_a_task_nobody_writes():
    with pytest.raises(PenstockError, match="not inside a Spark task"):
        this_task()
