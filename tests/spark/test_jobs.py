"""Jobs as they are run: a broker, the source, the sinks, and what is on the way."""

import json

import pytest

from penstock.client import connect
from penstock.spark.pipelines import quarantine, rollup, silent


@pytest.fixture
def client(servers):
    with connect([servers]) as client:
        yield client


@pytest.fixture
def common(servers, tmp_path):
    return {"servers": servers, "checkpoint": str(tmp_path / "c"), "trigger": "available-now"}


def ended(queries):
    for query in queries:
        assert query.awaitTermination(150)
        assert query.exception() is None
    return queries


def test_a_rollup_to_parquet_goes_on_where_it_ended(spark, broker, client, common, tmp_path):
    """The clock of the broker begins twenty seconds after a full minute."""
    path = str(tmp_path / "out")
    for pauses in ((0, 10, 51), (1, 138)):
        for pause in pauses:
            broker.clock.advance(pause)
            client.produce("pump/1", b'{"t": %d}' % pause)
        ended(rollup.run(spark, subscribe="pump/#", field=["$.t"], late=0, path=path, **common))
    rows = spark.read.parquet(path).selectExpr("count", "max", "unix_seconds(start) s").collect()
    found = sorted((row.s - 1_699_999_980, row["count"], row.max) for row in rows)
    assert found == [(0, 2, 10.0), (60, 2, 51.0)]


def payloads(spark, servers, topic):
    reader = spark.read.format("penstock").options(servers=servers, subscribe=topic)
    rows = reader.option("includeHeaders", "true").load().orderBy("topic", "offset").collect()
    return [(row.topic, json.loads(bytes(row.payload))) for row in rows]


def test_a_rollup_to_both_has_each_window_once_in_each(spark, broker, client, common, tmp_path):
    path = str(tmp_path / "out")
    for pauses in ((0, 10, 51), (1, 138)):
        for pause in pauses:
            broker.clock.advance(pause)
            client.produce("pump/1", b"%d" % pause)
        ended(rollup.run(spark, subscribe="#", late=0, path=path, to="rollup/1m", **common))
    told = payloads(spark, common["servers"], "rollup/#")
    assert [(topic, each["count"], each["max"]) for topic, each in told] == [
        ("rollup/1m/pump/1", 2, 10.0),
        ("rollup/1m/pump/1", 2, 51.0),
    ]
    rows = spark.read.parquet(path).select("topic", "count", "max").collect()
    assert sorted(map(tuple, rows)) == [("pump/1", 2, 10.0), ("pump/1", 2, 51.0)]


def test_silence_is_told_even_if_nobody_says_anything_any_more(spark, broker, client, common):
    client.produce("pump/1", b'{"n": 1}')
    client.produce("pump/2", b'{"n": 1}')
    broker.clock.advance(30)
    client.produce("pump/2", b'{"n": 4}')
    for _ in range(2):
        broker.clock.advance(50)
        ended([silent.run(spark, subscribe="#", seq="$.n", after=60, **common)])
    told = [each for _, each in payloads(spark, common["servers"], "alerts/devices")]
    assert sorted((each["device"], each["kind"]) for each in told) == [
        ("pump/1", "silent"),
        ("pump/2", "gap"),
        ("pump/2", "silent"),
    ]


def test_what_cannot_be_read_is_set_aside_once(spark, client, common):
    for payload in (b'{"t": 1}', b"{"):
        client.produce("pump/1", payload)
        ended([quarantine.run(spark, subscribe="#", **common)])
    reader = spark.read.format("penstock").options(
        servers=common["servers"], subscribe="quarantine"
    )
    [row] = reader.option("includeHeaders", "true").load().collect()
    note = {header.key: bytes(header.value) for header in row.headers}
    assert (bytes(row.payload), note["offset"], note["reason"]) == (b"{", b"1", b"not JSON")
