"""The queries of a job are watched to their end, and end together."""

import threading

import pytest

from penstock.spark.pipelines.monitor import JobFailedError, monitor

BATCHES = 3


class Shown(list):
    show = list.append


class ShownUntil(Shown):
    """Requests the end after this many batches."""

    def __init__(self, count, stop):
        super().__init__()
        self._count, self._stop = count, stop

    def show(self, batch):
        self.append(batch)
        if len(self) == self._count:
            self._stop.set()


def started(spark, folder, name, expression="value", **trigger):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    writer = rows.selectExpr(expression).writeStream.format("noop").queryName(name)
    writer = writer.option("checkpointLocation", str(folder / name))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def test_where_one_query_fails_the_job_fails_and_the_others_are_ended(spark, tmp_path):
    sound = started(spark, tmp_path, "sound")
    failing = started(spark, tmp_path, "failing", "raise_error('no such luck')")
    with pytest.raises(
        JobFailedError, match=r"(?s)failing failed: .*no such luck.*run the same command again"
    ):
        monitor([sound, failing], Shown(), threading.Event())
    assert not sound.isActive
    assert sound.exception() is None


def test_every_batch_is_shown_once_and_an_end_is_between_two(spark, tmp_path):
    query, stop = started(spark, tmp_path, "watched"), threading.Event()
    shown = ShownUntil(BATCHES, stop)
    monitor([query], shown, stop)
    assert len(shown) >= BATCHES
    assert not query.isActive
    reported = [progress["batchId"] for progress in query.recentProgress]
    assert [batch.batch for batch in shown] == reported
    done = {int(file.name) for file in (tmp_path / "watched" / "commits").glob("[0-9]*")}
    assert done == set(range(max(done) + 1))
    assert max(reported) <= max(done)


def test_batches_of_all_queries_are_shown_while_they_run(spark, tmp_path):
    queries = [started(spark, tmp_path, name) for name in ("first", "second")]
    stop, shown = threading.Event(), set()

    class StopsWhenBothWereShown:
        def show(self, batch):
            shown.add(batch.query)
            if len(shown) == 2:
                stop.set()

    given_up = threading.Timer(60, stop.set)
    given_up.start()
    monitor(queries, StopsWhenBothWereShown(), stop)
    assert given_up.is_alive()
    given_up.cancel()
