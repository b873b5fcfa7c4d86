"""Options and columns of the sink: errors are reported at the start, with advice."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.errors import ConfigError
from penstock.spark.sink_options import BatchJob, SinkOptions, batch_job, read_options
from penstock.spark.sink_schema import Layout, layout_of

HERE = {"servers": "127.0.0.1:1883"}


def options(is_stream: bool = False, **given: str) -> SinkOptions:
    return read_options({**HERE, **given}, is_stream=is_stream)


TEXT, BYTES, INT, TIME = StringType(), BinaryType(), IntegerType(), TimestampType()


def pairs(value: DataType) -> DataType:
    return ArrayType(StructType().add("key", TEXT).add("value", value))


def layout(*, has_topic: bool = False, **columns: DataType) -> Layout:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return layout_of(schema, has_topic=has_topic)


def test_options_are_read_without_regard_to_case():
    read = options(TOPIC="t", CONTENTTYPE="JSON", timeoutms="500")
    assert read == SinkOptions(("127.0.0.1:1883",), "t", 2, 0.5)


def test_servers_are_a_list_and_may_be_called_as_kafkas_are():
    read = read_options({"Kafka.Bootstrap.Servers": "a:1, b:2,"}, is_stream=True)
    assert read.servers == ("a:1", "b:2")


def test_what_spark_adds_is_passed_over():
    assert options(path="/x", checkpointLocation="/y", queryName="z").topic is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topc": "t"}, "did you mean topic?"),
        ({"compression": "x"}, "compression: no such option"),
        ({"servers": " , "}, "the broker's address"),
        ({"topic": "a/#"}, "wildcard"),
        ({"contentType": "xml"}, "raw, text, json, msgpack"),
        ({"timeoutMs": "soon"}, "whole number"),
        ({"sink": "s"}, "for streaming writes only"),
    ],
)
def test_what_is_wrong_with_an_option_is_told(given, says):
    with pytest.raises(ConfigError) as caught:
        options(**given)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["jobId", "epoch", "note"])
def test_a_stream_is_known_by_its_checkpoint_and_not_by_a_job(name):
    with pytest.raises(ConfigError, match="for batch writes only"):
        options(is_stream=True, **{name: "1"})


@pytest.mark.parametrize("name", ["", "a//b", "/a", "a/", "a+", "#", "x" * 201])
def test_a_sinks_name_must_fit_into_a_topics(name):
    with pytest.raises(ConfigError, match="sink"):
        options(is_stream=True, sink=name)


def test_a_job_is_a_sink_of_its_own_with_one_epoch():
    assert batch_job({"jobId": "a"}) == BatchJob("job/a", 0, b"")
    seventh = BatchJob("job/a", 7, "é".encode(), is_numbered=True)
    assert batch_job({"jobid": "a", "epoch": "7", "note": "é"}) == seventh


def test_without_a_job_id_it_is_told_what_that_is_for():
    with pytest.raises(ConfigError, match="prices-2030-01-31"):
        batch_job(HERE)


def test_a_random_job_is_another_each_time():
    one, other = batch_job({"jobId": "random"}), batch_job({"jobId": "random"})
    assert one.is_random
    assert one.sink != other.sink


@pytest.mark.parametrize("given", [{"epoch": "-1"}, {"epoch": str(2**63)}, {"note": "x" * 16_385}])
def test_bounds_of_a_job(given):
    with pytest.raises(ConfigError):
        batch_job({"jobId": "a", **given})


def test_columns_are_found_by_name_in_any_order_and_case():
    found = layout(Timestamp=TIME, VALUE=TEXT, topic=TEXT, priority=LongType())
    assert found == Layout(payload=1, topic=2, priority=3, timestamp=0)


@pytest.mark.parametrize(
    "kind", [pairs(BYTES), pairs(TEXT), MapType(TEXT, BYTES), MapType(TEXT, TEXT)]
)
def test_forms_of_headers(kind):
    assert layout(topic=TEXT, payload=BYTES, headers=kind).headers == 2


def test_the_option_wins_over_a_column_as_with_kafkas_sink():
    assert layout(topic=TEXT, payload=BYTES, has_topic=True).topic is None
    assert layout(payload=BYTES, has_topic=True).topic is None


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"topic": TEXT}, 'no column "payload"'),
        ({"payload": BYTES}, "no topic given"),
        ({"topic": TEXT, "payload": BYTES, "offset": INT}, 'unknown column "offset"'),
        ({"topic": TEXT, "payload": BYTES, "value": BYTES}, "both the payload"),
        ({"topic": TEXT, "payload": StructType().add("a", INT)}, "to_json"),
        ({"topic": TEXT, "payload": DoubleType()}, 'cast("string")'),
        ({"topic": INT, "payload": BYTES}, "must be string"),
        ({"topic": TEXT, "payload": BYTES, "priority": TEXT}, "must be int"),
        ({"topic": TEXT, "payload": BYTES, "timestamp": INT}, "timestamp_millis"),
        ({"topic": TEXT, "payload": BYTES, "timestamp": TimestampNTZType()}, "must be timestamp"),
        ({"topic": TEXT, "payload": BYTES, "headers": MapType(INT, BYTES)}, "must be array"),
        ({"topic": TEXT, "payload": BYTES, "headers": ArrayType(TEXT)}, "must be array"),
        ({"topic": TEXT, "payload": BYTES, "content_type": INT}, "must be string"),
    ],
)
def test_what_is_wrong_with_a_column_is_told(columns, says):
    with pytest.raises(ConfigError) as caught:
        layout(**columns)
    assert says in str(caught.value)
