"""The source in Spark: topics as tables, read at once and as they grow.

What does not need Spark is in ``tests/unit/spark``, where it takes milliseconds.
"""

import json
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from penstock.client import connect
from penstock.spark.schema import DEFAULT_COLUMNS
from tests.unit.spark.readers import fill, remove, trickle

WAIT_S_MAX = 60
PAGE = Path(__file__).parents[2] / "docs" / "spark" / "source.md"


@pytest.fixture
def client(servers):
    with connect([servers]) as client:
        yield client


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
        return writer.options(
            checkpointLocation=str(self.folder / "checkpoint"), path=str(self.folder / "out")
        )

    def run(self, **changes) -> list[int]:
        """Read everything available; return the number of rows of each batch."""
        query = self.begin(**changes).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]

    def run_until(self, query, expected: dict[str, list[int]]) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while self.rows() != expected:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, self.rows()
            time.sleep(0.1)

    def rows(self) -> dict[str, list[int]]:
        if not (self.folder / "out" / "_spark_metadata").exists():
            return {}
        schema = "topic string, offset bigint, payload binary"
        return numbers(self.spark.read.schema(schema).parquet(str(self.folder / "out")))


def test_a_batch_has_every_row_and_all_columns(spark, servers, client):
    fill(client, "s/1", 1000)
    client.produce("s/2", b"7", content_type="json", priority=3, headers={"k": b"v"}, ttl_s=60)
    frame = load(spark, servers, "s/#", includeHeaders="true", minPartitions="3")
    assert frame.columns == [*DEFAULT_COLUMNS, "headers", "expires"]
    assert frame.rdd.getNumPartitions() == 3
    assert numbers(frame) == {"s/1": list(range(1000)), "s/2": [7]}
    row = frame.where("topic = 's/2'").first()
    assert (row.content_type, row.priority, row.signature_verdict) == ("json", 3, None)
    assert [(it.key, bytes(it.value)) for it in row.headers] == [("k", b"v")]
    assert row.expires - row.timestamp == timedelta(seconds=60)
    assert frame.where("topic = 's/1' AND expires IS NOT NULL").count() == 0


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
    with pytest.raises(PySparkException, match="did you mean failOnDataLoss") as raised:
        load(spark, servers, "s/1", failOnDataLos="true").count()
    assert "Traceback" not in str(raised.value)


def test_a_stream_goes_on_where_it_was(spark, servers, client, tmp_path):
    stream = Stream(spark, servers, tmp_path, subscribe="s/#", maxOffsetsPerTrigger=40, reader="q")
    fill(client, "s/1", 90)
    assert stream.run() == [40, 40, 10]
    fill(client, "s/1", 5, 90)
    fill(client, "s/2", 5)
    assert stream.run() == [10]
    assert stream.rows() == {"s/1": list(range(95)), "s/2": list(range(5))}
    [group] = client.groups("s/1")
    assert (group.name, group.reader) == ("q", True)
    assert group.position >= 80  # Spark tells a batch late, and not at all of the last


def test_latest_holds_though_batch_0_fails(spark, servers, client, tmp_path):
    """Spark forgets the initial offset until batch 0 is committed, and asks again."""
    stream = Stream(
        spark,
        servers,
        tmp_path,
        subscribe="s/#",
        startingOffsets="latest",
        columns="topic,offset,payload",
    )
    fill(client, "s/1", 5)

    def fail(_frame, _batch) -> None:
        raise ValueError("batch 0 fails")

    query = stream.begin().foreachBatch(fail).start()
    with pytest.raises(StreamingQueryException, match="batch 0 fails"):
        query.awaitTermination(120)
    fill(client, "s/1", 3, 5)
    stream.run()
    assert stream.rows() == {"s/1": [5, 6, 7]}


def test_a_stream_that_retention_overtakes_fails_until_it_is_told_to_go_on(
    spark, broker, servers, client, tmp_path
):
    stream = Stream(spark, servers, tmp_path, subscribe="s/1")
    trickle(client, "s/1", 3)
    stream.run()
    trickle(client, "s/1", 6, 3)
    remove(broker, client, "s/1", 2)
    with pytest.raises(StreamingQueryException, match="offsets from 3 to 6 of 's/1'") as raised:
        stream.run()
    assert "Traceback" not in str(raised.value)
    assert stream.run(failOnDataLoss="false") == [2]
    assert stream.rows() == {"s/1": [0, 1, 2, 7, 8]}
    assert client.topic("penstock/spark/loss").messages == 1


def test_a_running_query_outlives_the_broker_and_finds_new_topics_and_topics_made_anew(
    spark, broker, servers, client, tmp_path
):
    stream = Stream(spark, servers, tmp_path, subscribe="s/#", reader="q")
    fill(client, "s/1", 5)
    query = stream.begin().trigger(processingTime="0 seconds").start()
    try:
        stream.run_until(query, {"s/1": [0, 1, 2, 3, 4]})
        broker.restart(kill=True)
        fill(client, "s/1", 1, 5)
        fill(client, "s/2", 2)
        stream.run_until(query, {"s/1": [0, 1, 2, 3, 4, 5], "s/2": [0, 1]})
        client.delete_topic("s/2")
        fill(client, "s/2", 2, 7)
        stream.run_until(query, {"s/1": [0, 1, 2, 3, 4, 5], "s/2": [0, 7, 1, 8]})
        latest = json.loads(query.lastProgress["sources"][0]["latestOffset"])
        assert latest["topics"]["s/1"][1] == 6
    finally:
        query.stop()


def test_the_examples_on_the_page_run(spark, servers, client, tmp_path, capsys):
    fill(client, "pump/7", 3)
    page = PAGE.read_text().replace("127.0.0.1:1883", servers)
    page = page.replace('"pumps', f'"{tmp_path}/pumps')
    [python] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(python.replace("spark = session()", ""), {"spark": spark})
    assert "pump/7|    3" in capsys.readouterr().out
    assert spark.read.parquet(f"{tmp_path}/pumps").count() == 3
    [sql] = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    create, select = sql.strip().rstrip(";").split(";")
    spark.sql(create)
    assert [row.topic for row in spark.sql(select).collect()] == ["pump/7"]
