"""The source in Spark: topics as tables, read at once and as they grow."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from penstock.client import connect
from penstock.spark.schema import DEFAULT_COLUMNS


@pytest.fixture
def client(servers):
    with connect([servers]) as client:
        yield client


def fill(client, topic: str, count: int, first: int = 0) -> None:
    results = client.produce_many(topic, [b"%d" % number for number in range(first, first + count)])
    assert all(result.error is None for result in results)


def load(spark, servers: str, subscribe: str, **options):
    reader = spark.read.format("penstock").options(servers=servers, subscribe=subscribe, **options)
    return reader.load()


def numbers(frame) -> dict[str, list[int]]:
    """Payloads as numbers, by topic, in order."""
    found: dict[str, list[int]] = {}
    for row in frame.select("topic", "offset", "payload").collect():
        found.setdefault(row.topic, []).append((row.offset, int(bytes(row.payload))))
    return {topic: [number for _, number in sorted(rows)] for topic, rows in found.items()}


class Stream:
    """A query into files, run until there is nothing more; its output is what was read."""

    def __init__(self, spark, servers: str, folder: Path, **options) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"servers": servers, **options}

    def begin(self, **changes):
        frame = self.spark.readStream.format("penstock").options(**{**self.options, **changes})
        writer = frame.load().writeStream.format("parquet")
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).option(
            "path", str(self.folder / "out")
        )

    def run(self, **changes) -> list[int]:
        """Read what there is; tell how many rows each batch had."""
        query = self.begin(**changes).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]

    def rows(self) -> dict[str, list[int]]:
        return numbers(self.spark.read.parquet(str(self.folder / "out")))


def test_a_batch_has_every_row_and_all_columns(spark, servers, client):
    fill(client, "s/1", 1000)
    client.produce("s/2", b"7", content_type="json", priority=3, headers={"k": b"v"})
    frame = load(spark, servers, "s/#", includeHeaders="true", minPartitions="3")
    assert frame.columns == [*DEFAULT_COLUMNS, "headers"]
    assert frame.rdd.getNumPartitions() == 3
    assert numbers(frame) == {"s/1": list(range(1000)), "s/2": [7]}
    row = frame.where("topic = 's/2'").first()
    assert (row.content_type, row.priority, row.signature_verdict) == ("json", 3, "unsigned")
    assert [(it.key, bytes(it.value)) for it in row.headers] == [("k", b"v")]


def test_a_batch_stays_what_it_was_when_it_was_loaded(spark, servers, client):
    fill(client, "s/1", 3)
    frame = load(spark, servers, "s/1")
    assert frame.count() == 3
    fill(client, "s/1", 2, 3)
    assert frame.count() == 3
    assert load(spark, servers, "s/1").count() == 5


def test_a_view_by_sql_reads_the_columns_that_were_chosen(spark, servers, client):
    fill(client, "s/1", 5)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW chosen USING penstock OPTIONS "
        f"(servers '{servers}', subscribe 's/1', columns 'offset,topic', endingOffsets '{{\"s/1\": 4}}')"
    )
    rows = spark.sql("SELECT * FROM chosen WHERE offset > 1 ORDER BY offset").collect()
    assert [tuple(row) for row in rows] == [(2, "s/1"), (3, "s/1")]


def test_nothing_is_an_empty_table(spark, servers):
    assert load(spark, servers, "nobody/#").count() == 0


def test_a_misspelt_option_fails_with_what_was_meant(spark, servers):
    with pytest.raises(PySparkException, match="did you mean failOnDataLoss"):
        load(spark, servers, "s/1", failOnDataLos="true").count()


def test_a_stream_goes_on_where_it_was(spark, servers, client, tmp_path):
    stream = Stream(spark, servers, tmp_path, subscribe="s/#", maxOffsetsPerTrigger=40, reader="q")
    fill(client, "s/1", 90)
    assert stream.run() == [40, 40, 10]
    fill(client, "s/1", 5, 90)
    fill(client, "s/2", 5)
    assert stream.run() == [10]
    assert stream.rows() == {"s/1": list(range(95)), "s/2": list(range(5))}
    group = next(group for group in client.groups("s/1") if group.name == "q")
    assert group.reader
