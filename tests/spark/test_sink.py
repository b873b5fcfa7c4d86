"""Tables become messages: what Spark writes is what a client reads, once."""

from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException

from penstock.client import connect
from penstock.spark.identity import BATCH_PROPERTY, QUERY_PROPERTY
from penstock.spark.sink import last_epoch


@pytest.fixture
def client(servers):
    with connect([servers]) as client:
        yield client


@pytest.fixture
def write(servers):
    """Write a table under a job's name."""

    def write(table, job="job", mode="append", **options):
        given = {"servers": servers, "jobId": job, **options}
        table.write.format("penstock").options(**given).mode(mode).save()

    return write


def payloads(client, topic):
    return [record.payload for record in client.messages(topic)]


def test_each_column_becomes_its_part_of_a_message(spark, client, write):
    table = spark.sql(
        """
        SELECT 'a/1' AS topic, X'00ff' AS payload, 5 AS priority, 'json' AS content_type,
               array(named_struct('key', 'k', 'value', X'01')) AS headers,
               timestamp '2030-01-31 12:00:00.123 UTC' AS timestamp
        UNION ALL SELECT 'a/2', X'', NULL, NULL, NULL, NULL
        """
    )
    write(table, contentType="text")
    (one,) = client.messages("a/1")
    (other,) = client.messages("a/2")
    time_ms = round(datetime(2030, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC).timestamp() * 1000)
    assert (one.payload, one.priority, one.content_type) == (b"\0\xff", 5, "json")
    assert one.headers == (("k", b"\1"), ("time", b"%d" % time_ms))
    assert (other.payload, other.priority, other.content_type) == (b"", 0, "text")
    assert other.headers == ()


def test_rows_keep_the_order_of_the_table_within_a_topic(spark, client, write):
    table = spark.range(30_000, numPartitions=3).selectExpr(
        "concat('t/', id % 3) AS topic", "cast(id AS string) AS value"
    )
    write(table)
    for number in range(3):
        found = payloads(client, f"t/{number}")
        assert found == [b"%d" % n for n in range(number, 30_000, 3)]


def test_a_job_that_runs_again_publishes_nothing(spark, client, servers, write):
    table = spark.range(10).selectExpr("cast(id AS string) AS payload")
    for _ in range(2):
        write(table, "once", topic="t", note="the note")
    assert len(payloads(client, "t")) == 10
    assert last_epoch(servers, "job/once") == (0, b"the note")
    assert last_epoch(servers, "job/never") == (None, b"")


def test_epochs_of_a_job_only_rise(spark, client, write):
    for epoch in (0, 7, 7, 3, 8):
        table = spark.range(1).selectExpr(f"'{epoch}' AS payload")
        refused = pytest.raises(PySparkException, match="which is after 3")
        with refused if epoch == 3 else nullcontext():
            write(table, "rising", topic="t", epoch=epoch)
    assert payloads(client, "t") == [b"0", b"7", b"8"]


def test_batches_of_foreach_batch_are_noted_as_those_of_the_query(spark, servers, write, tmp_path):
    """So that those of another checkpoint, which begin at 0 again, are not taken for them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("x")

    def publish(batch, number):
        write(batch.withColumnRenamed("value", "payload"), "alerts", topic="t", epoch=number)

    def run(checkpoint):
        lines = spark.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(publish)
        place = str(tmp_path / checkpoint)
        query = lines.option("checkpointLocation", place).trigger(availableNow=True).start()
        query.awaitTermination()
        return query.id

    query = run("one")
    assert last_epoch(servers, "job/alerts") == (0, query.encode())
    with pytest.raises(PySparkException, match="belongs to another query"):
        run("another")


def test_a_random_job_publishes_each_time_and_leaves_no_sink(spark, client, write):
    table = spark.range(2).selectExpr("cast(id AS string) AS payload")
    for _ in range(2):
        write(table, "random", topic="t")
    assert len(payloads(client, "t")) == 4
    assert client.sinks() == []


def test_an_empty_table_is_published_too(spark, client, servers, write):
    write(spark.range(0).selectExpr("cast(id AS string) AS payload"), "empty", topic="t")
    assert client.topic("t") is None
    assert last_epoch(servers, "job/empty") == (0, b"")


def test_one_bad_row_fails_the_job_with_nothing_visible_or_staged(spark, client, write):
    table = spark.range(1000, numPartitions=2).selectExpr(
        "if(id = 990, 'no/+', 't') AS topic", "cast(id AS string) AS payload"
    )
    with pytest.raises(PySparkException) as caught:
        write(table)
    assert "row 490 of this task has an invalid topic 'no/+'" in str(caught.value)
    assert client.topic("t") is None
    assert not any(sink.staged_parts for sink in client.sinks())


@pytest.mark.parametrize(
    ("given", "payload", "says"),
    [
        ({"job": ""}, "'x'", "a batch write needs a jobId"),
        ({"mode": "overwrite"}, "'x'", 'write with mode("append")'),
        ({"mode": "error"}, "'x'", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
        ({"topc": "u"}, "'x'", "did you mean topic?"),
        ({}, "struct(1)", "to_json"),
    ],
)
def test_what_cannot_be_written_is_refused_at_the_start(spark, write, given, payload, says):
    table = spark.range(1).selectExpr(f"{payload} AS payload")
    with pytest.raises(PySparkException) as caught:
        write(table, topic="t", **given)
    assert says in str(caught.value)


class Stream:
    """Lines of files to a topic, batch by batch."""

    def __init__(self, spark, servers, path):
        self._spark, self._servers, self._path = spark, servers, path
        (path / "lines").mkdir()

    def add(self, *lines):
        count = len(list((self._path / "lines").iterdir()))
        (self._path / "lines" / f"{count:05}").write_text("\n".join(lines))

    def run(self, checkpoint="checkpoint", **options):
        """Write what is there, a batch for each file; tells the query's id."""
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(
            str(self._path / "lines")
        )
        query = (
            lines.writeStream.format("penstock")
            .options(servers=self._servers, topic="t", **options)
            .option("checkpointLocation", str(self._path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query.id


@pytest.fixture
def stream(spark, servers, tmp_path):
    return Stream(spark, servers, tmp_path)


def test_a_stream_is_a_sink_with_an_epoch_for_each_batch(stream, client, servers):
    stream.add("1", "2")
    stream.add("3")
    query = stream.run()
    assert last_epoch(servers, f"spark/{query}") == (1, query.encode())
    stream.add("4")
    assert stream.run() == query
    assert last_epoch(servers, f"spark/{query}") == (2, query.encode())
    assert payloads(client, "t") == [b"1", b"2", b"3", b"4"]
    assert [sink.staged_parts for sink in client.sinks()] == [0]


def test_another_checkpoint_does_not_pass_for_the_query_that_had_its_sink(stream, client):
    stream.add("1")
    stream.run(sink="mine")
    with pytest.raises(PySparkException) as caught:
        stream.run("another", sink="mine")
    assert "belongs to another query" in str(caught.value)
    client.forget_sink("mine")
    stream.run("third", sink="mine")
    assert payloads(client, "t") == [b"1", b"1"]


def test_tasks_of_a_stream_still_say_who_they_are(spark, tmp_path):
    """The names are internal to Spark: if they disappear, this test fails."""

    def who(batches):
        import pandas as pd
        from pyspark import TaskContext

        context = TaskContext.get()
        for _ in batches:
            names = (QUERY_PROPERTY, BATCH_PROPERTY)
            yield pd.DataFrame({"who": [",".join(map(str, map(context.getLocalProperty, names)))]})

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("x")
    rows = spark.readStream.text(str(tmp_path / "in")).mapInPandas(who, "who string")
    query = rows.writeStream.format("memory").queryName("who").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row.who for row in spark.table("who").collect()] == [f"{query.id},0"]
