"""The writers as plain objects against a real broker: drivers that die, come twice, or go back."""

import logging
import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from penstock.client.errors import QueueRefusedError
from penstock.errors import PenstockError
from penstock.spark.identity import BATCH_PROPERTY, QUERY_PROPERTY
from penstock.spark.sink import batch_writer, last_epoch, stream_writer

QUERY = "0a1b2c3d-0000-4000-8000-000000000000"
OTHER = "0a1b2c3d-0000-4000-8000-000000000001"
SCHEMA = StructType([StructField("payload", StringType())])


@contextmanager
def task(partition: int = 0, query: str | None = QUERY, epoch: int = 0):
    """Be a task of some batch, of no query's if there is none."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._attemptNumber = partition, 0
    of_query = {QUERY_PROPERTY: query, BATCH_PROPERTY: str(epoch)}
    context._localProperties = of_query if query else {}
    try:
        yield
    finally:
        TaskContext._taskContext = None


def rows(*payloads: str):
    return iter([pa.RecordBatch.from_pydict({"payload": payloads})])


class Driver:
    """One run of the driver of a stream."""

    def __init__(self, servers: str, query: str = QUERY, **options: str) -> None:
        self.query = query
        self.writer = stream_writer({"servers": servers, "topic": "t", **options}, SCHEMA, False)

    def write(self, epoch: int, *payloads: str, partition: int = 0):
        with task(partition, self.query, epoch):
            return self.writer.write(rows(*payloads))

    def run(self, epoch: int, *payloads: str) -> None:
        self.writer.commit([self.write(epoch, *payloads)], epoch)


def job(servers: str, *payloads: str, query: str | None = None, **options: str) -> None:
    """Run a batch write."""
    writer = batch_writer({"servers": servers, "topic": "t", **options}, SCHEMA, False)
    with task(query=query):
        staged = writer.write(rows(*payloads))
    writer.commit([staged])


def payloads(client) -> list[str]:
    return [record.payload.decode() for record in client.messages("t")]


def nothing_stays_staged(client) -> bool:
    """What is dropped goes with the next commits."""
    deadline = time.monotonic() + 10
    while any(sink.staged_parts for sink in client.sinks()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# ── Drivers


def test_a_batch_that_runs_again_is_published_once_and_that_is_told(servers, client, caplog):
    Driver(servers).run(0, "first")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        Driver(servers).run(0, "first", "and more")
    assert payloads(client) == ["first"]
    assert "already published, with 1 messages; these 2 rows are dropped" in caplog.text


def test_a_checkpoint_that_has_gone_back_does_not_lose_its_rows_in_silence(servers, client):
    """Planned again, batch 1 may have more rows than the three that were published."""
    driver = Driver(servers)
    for epoch in range(4):
        driver.run(epoch, str(epoch))
    with pytest.raises(PenstockError, match=r"has already published epoch 3, which is after 1"):
        Driver(servers).run(1, "1", "2", "3", "4")
    assert payloads(client) == ["0", "1", "2", "3"]


def test_nor_if_it_is_asked_for_while_a_later_epoch_is_published(servers, client, monkeypatch):
    """The broker keeps it waiting then, and only says later that there is nothing to do."""
    monkeypatch.setattr("penstock.staging.sink_commits.WAIT_S", 0.001)
    driver = Driver(servers)
    early = driver.write(1, "early")
    late = driver.write(5, *map(str, range(50_000)))
    thread = threading.Thread(target=driver.writer.commit, args=([late], 5))
    thread.start()
    while thread.is_alive() and not client.sinks(early.target.sink)[0].is_committing:
        pass  # if it is too fast to be met, the answer must be the same
    with pytest.raises(PenstockError, match="nothing was published"):
        driver.writer.commit([early], 1)
    thread.join()
    assert len(payloads(client)) == 50_000


def test_of_two_drivers_of_one_batch_one_is_published_whole(servers, client):
    zombie, driver = Driver(servers), Driver(servers)
    old = [zombie.write(0, f"old {part}", partition=part) for part in range(2)]
    new = [driver.write(0, f"new {part}", partition=part) for part in range(2)]
    driver.writer.commit(new, 0)
    zombie.writer.commit(old, 0)
    zombie.writer.abort(old, 0)
    assert payloads(client) == ["new 0", "new 1"]
    assert nothing_stays_staged(client)


def test_a_driver_that_aborts_the_batch_of_another_makes_it_fail_and_nothing_worse(servers, client):
    zombie, driver = Driver(servers), Driver(servers)
    old, new = zombie.write(0, "old"), driver.write(0, "new")
    zombie.writer.abort([old], 0)
    with pytest.raises(QueueRefusedError, match="stage it again"):
        driver.writer.commit([new], 0)
    assert client.topic("t") is None
    Driver(servers).run(0, "again")
    assert payloads(client) == ["again"]


def test_a_task_thought_dead_stages_nothing_after_its_batch_is_published(servers, client):
    driver = Driver(servers)
    driver.run(0, "row")
    staged = driver.write(0, "row, from a task thought dead", partition=1)
    assert staged.blocks == 1
    assert nothing_stays_staged(client)
    driver.run(1, "next")
    assert payloads(client) == ["row", "next"]


def test_messages_of_different_batches_are_not_committed_together(servers, client):
    driver = Driver(servers)
    mixed = [driver.write(0, "a"), driver.write(1, "b", partition=1)]
    with pytest.raises(PenstockError, match="belong to different batches"):
        driver.writer.commit(mixed, 1)
    assert client.topic("t") is None


def test_partitions_without_rows_and_batches_without_partitions_are_no_trouble(servers, client):
    driver = Driver(servers)
    driver.writer.commit([driver.write(0), driver.write(0, "a", partition=1)], 0)
    driver.writer.commit([], 1)
    driver.run(2, "c")
    assert payloads(client) == ["a", "c"]


# ── Names


def test_a_sink_with_a_name_is_one_querys(servers, client):
    Driver(servers, sink="mine").run(0, "first")
    with pytest.raises(PenstockError, match="belongs to another query"):
        Driver(servers, OTHER, sink="mine").run(0, "other")
    Driver(servers, sink="mine").run(1, "second")
    assert payloads(client) == ["first", "second"]


def test_queries_that_share_a_name_by_mistake_learn_it_before_a_row_is_lost(servers, client):
    """Whichever is behind is refused, and not told that its rows were published."""
    slow, quick = Driver(servers, sink="mine"), Driver(servers, OTHER, sink="mine")
    slow.run(10, "slow 10")
    quick.run(20, "quick 20")
    with pytest.raises(PenstockError, match="belongs to another query"):
        slow.run(11, "slow 11")
    quick.run(21, "quick 21")
    assert payloads(client) == ["slow 10", "quick 20", "quick 21"]


# ── Jobs


def test_a_job_that_runs_again_is_harmless(servers, client):
    for _ in range(2):
        job(servers, "row", jobId="j")
    assert payloads(client) == ["row"]


def test_the_day_before_the_last_is_not_taken_for_published(servers, client):
    """It may never have been: days are caught up with in any order."""
    job(servers, "of the 5th", jobId="daily", epoch="20300105")
    with pytest.raises(PenstockError, match="use a new jobId"):
        job(servers, "of the 1st", jobId="daily", epoch="20300101")
    job(servers, "of the 5th", jobId="daily", epoch="20300105")
    job(servers, "of the 1st", jobId="daily-20300101")
    assert payloads(client) == ["of the 5th", "of the 1st"]


def test_batches_of_a_query_are_noted_as_its_own(servers, client):
    """As foreachBatch writes them: with another checkpoint they begin at 0 again."""
    for _ in range(2):
        job(servers, "row", query=QUERY, jobId="alerts", epoch="0")
    assert last_epoch(servers, "job/alerts") == (0, QUERY.encode())
    with pytest.raises(PenstockError, match="belongs to another query"):
        job(servers, "row of another checkpoint", query=OTHER, jobId="alerts", epoch="0")
    assert payloads(client) == ["row"]


def test_a_job_without_a_number_is_known_by_its_name_alone(servers, client):
    for query in (QUERY, OTHER, None):
        job(servers, "row", query=query, jobId="prices-2030-01-31", note="mine")
    assert payloads(client) == ["row"]
    assert last_epoch(servers, "job/prices-2030-01-31") == (0, b"mine")
