"""Batches from a real broker, read as Spark would, but without it."""

import json
from datetime import UTC, datetime

import pytest
import redis
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.signing.kit import now_ms, publish_signed, register
from tests.unit.spark.readers import fill, payloads, read, remove, scanned, source, trickle

from penstock.errors import ConfigError
from penstock.spark.columns import FetchedColumns
from penstock.spark.data_loss import LossError
from penstock.spark.signatures import Verifier


def letters(client) -> list[dict]:
    return [json.loads(record.payload) for record in client.messages("penstock/spark/loss")]


def test_rows_are_what_a_client_reads_one_by_one(broker, servers, client):
    """Through the whole way: signed and not, with headers, numbered by producers, from any door."""
    signer = register(broker)
    for number in range(40):
        payload = b"%d" % number
        match number % 4:
            case 0:
                client.produce("t", payload, headers=(("k", payload), ("k", b"")), priority=5)
            case 1:
                signature = signer.sign_2(b"t", payload, now_ms(broker))
                assert publish_signed(broker, b"t", payload, signature) == ""
            case 2:
                client.produce_many("t", [payload] * 3, content_type="json")
            case 3:
                assert publish_signed(broker, b"t", payload) == ""
    rows = read(
        servers, subscribe="t", includeHeaders=True, includeSignatures=True, minPartitions=7
    )
    expected = list(client.messages("t"))
    assert len(rows) == len(expected) == 60
    for row, record in zip(rows, expected, strict=True):
        assert row["offset"] == record.offset
        assert row["sequence"] == record.sequence
        assert row["timestamp"] == datetime.fromtimestamp(record.ts_ms / 1000, UTC)
        assert (row["payload"], row["priority"]) == (record.payload, record.priority)
        assert row["content_type"] == record.content_type
        headers = tuple((it["key"], it["value"]) for it in row["headers"] or ())
        assert headers == record.headers
        signed = record.signature
        assert row["signer"] == (signed and signed.key_id)
        assert (row["signature"] and row["signature"]["signature"]) == (signed and signed.signature)
        assert (row["signature"] and row["signature"]["nonce"]) == (signed and signed.nonce)
        assert row["signature_verdict"] == ("verified" if signed else None)


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        ({"maxOffsetsPerTrigger": 5}, "is for streams only"),
        ({"minOffsetsPerTrigger": 5}, "is for streams only"),
        ({"maxTriggerDelay": "5m"}, "is for streams only"),
        ({"maxBytesPerTrigger": 5}, "is for streams only"),
        ({"startingOffsets": "latest"}, "is empty"),
    ],
    ids=str,
)
def test_a_batch_refuses_what_only_a_stream_has(servers, option, fault):
    with pytest.raises(ConfigError, match=fault):
        read(servers, subscribe="t", **option)


def test_producers_and_their_numbers_are_columns(servers, client):
    fill(client, "t", 5)
    rows = read(servers, subscribe="t", columns="producer,producer_seq")
    expected = [
        (run[2].decode(), run[3] + place)
        for part in client.fetch("t")
        for run in part.producers
        for place in range(run[1])
    ]
    assert [(row["producer"], row["producer_seq"]) for row in rows] == expected


def test_signatures_are_verified_again_where_it_is_asked_for(broker, servers, client):
    good, other = register(broker), register(broker)
    publish_signed(broker, b"t", b"1", good.sign_1(b"t", b"1"))
    publish_signed(broker, b"t", b"2", other.sign_2(b"t", b"2", now_ms(broker)))
    client.produce("t", b"3")
    options = {"subscribe": "t", "columns": "signature_verdict", "verifySignatures": True}
    assert [row["signature_verdict"] for row in read(servers, **options)] == [
        "valid",
        "valid",
        None,
    ]


def test_a_signature_that_does_not_verify_is_told_and_so_is_one_of_nobody(broker, servers, client):
    """The broker accepts no such signature: the stored or sent bytes were changed."""
    signer = register(broker)
    publish_signed(broker, b"t", b"1", signer.sign_1(b"t", b"1"))
    fetched = client.fetch_raw("t", 0)
    forged, foreign = type(fetched)(), type(fetched)()
    forged.CopyFrom(fetched)
    forged.slices[0].payloads = b"2"
    foreign.CopyFrom(fetched)
    record = bytearray(fetched.slices[0].signatures)
    record[80:84] = (signer.key_id + 7).to_bytes(4, "little")
    foreign.slices[0].signatures = bytes(record)
    sent = [("t", fetched), ("t", forged), ("u", fetched), ("t", foreign)]
    answers = FetchedColumns(scanned([(name, it.slices) for name, it in sent]), 9)
    verdicts = Verifier(client).verdicts(answers).to_pylist()
    assert verdicts == ["valid", "invalid", "invalid", "unknown_key"]


def test_a_schema_that_is_given_is_a_choice_of_columns(servers, client):
    fill(client, "a", 2)
    found = source(servers, subscribe="a")
    reader = found.reader(StructType([StructField("offset", LongType())]))
    [batch] = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert batch.to_pylist() == [{"offset": 0}, {"offset": 1}]
    with pytest.raises(ConfigError, match="no column offset of type string"):
        found.reader(StructType([StructField("offset", StringType())]))


@pytest.mark.parametrize("partitions", [1, 4])
def test_ranges_begin_and_end_where_they_are_asked_to(servers, client, partitions):
    fill(client, "a", 100)
    fill(client, "b", 50)
    options = {"subscribe": "a,b", "minPartitions": partitions}
    rows = read(servers, startingOffsets='{"a": 90, "b": -1}', **options)
    assert payloads(rows) == list(range(90, 100))
    rows = read(servers, endingOffsets='{"a": 3, "b": 2}', **options)
    assert (payloads(rows, "a"), payloads(rows, "b")) == ([0, 1, 2], [0, 1])


def test_times_are_offsets_too(broker, servers, client):
    fill(client, "a", 3)
    broker.clock.advance(60)
    middle = broker.clock.wall_ms()
    fill(client, "a", 3, 3)
    assert payloads(read(servers, subscribe="a", startingTimestamp=middle)) == [3, 4, 5]
    assert payloads(read(servers, subscribe="a", endingTimestamp=middle)) == [0, 1, 2]
    after = f'{{"a": {middle + 1}}}'
    assert payloads(read(servers, subscribe="a", startingOffsetsByTimestamp=after)) == []


def test_an_offset_beyond_the_end_is_a_mistake(servers, client):
    fill(client, "a", 3)
    with pytest.raises(ConfigError, match="4 is beyond the end of 'a', which is 3"):
        read(servers, subscribe="a", startingOffsets='{"a": 4}')


def test_names_filters_and_patterns_choose_topics(servers, client):
    for topic in ("p/1", "p/2", "p/x", "q/1"):
        fill(client, topic, 1)

    def topics(**options):
        return sorted(row["topic"] for row in read(servers, columns="topic", **options))

    assert topics(subscribe="p/+") == ["p/1", "p/2", "p/x"]
    assert topics(subscribe="p/1,q/#") == ["p/1", "q/1"]
    assert topics(subscribePattern="p/[0-9]") == ["p/1", "p/2"]
    assert topics(assign='["q/1", "p/x"]') == ["p/x", "q/1"]


def test_many_topics_are_read_by_few_tasks_in_large_batches(servers, client):
    for number in range(60):
        fill(client, f"m/{number}", 3)
    found = source(servers, subscribe="m/#")
    reader = found.reader(found.schema())
    [part] = reader.partitions()
    [batch] = list(reader.read(part))
    assert batch.num_rows == 180


def test_rows_are_in_order_where_answers_hold_less_than_was_asked_for(servers, client):
    for _ in range(4):
        client.produce_many("a", [b"x" * 10] * 3_000)
        client.produce_many("a", [b"x" * 10_000] * 60)
    rows = read(servers, subscribe="a", columns="offset,payload", minPartitions=1)
    assert [row["offset"] for row in rows] == list(range(4 * 3_060))
    assert sum(len(row["payload"]) for row in rows) == 4 * (3_000 * 10 + 60 * 10_000)


def test_messages_that_were_deleted_on_purpose_are_no_loss(broker, servers, client):
    fill(client, "a", 10)
    with redis.Redis(port=broker.port) as store:
        ids = [entry for entry, _ in store.xrange("a")]
        store.xdel("a", ids[0], ids[4], ids[5])
    found = payloads(read(servers, subscribe="a", startingOffsets='{"a": 1}'))
    assert found == [1, 2, 3, 6, 7, 8, 9]


def test_what_retention_has_removed_fails_a_read_that_asks_for_it(broker, servers, client):
    trickle(client, "a", 11)
    remove(broker, client, "a", 4)
    assert payloads(read(servers, subscribe="a")) == [7, 8, 9, 10]
    with pytest.raises(LossError, match="offsets from 2 to 6 of 'a' were removed by retention"):
        read(servers, subscribe="a", startingOffsets='{"a": 2}')


def test_or_is_told_once_in_the_loss_topic(broker, servers, client):
    trickle(client, "a", 11)
    remove(broker, client, "a", 4)
    for _ in range(2):
        rows = read(servers, subscribe="a", startingOffsets='{"a": 2}', failOnDataLoss=False)
        assert payloads(rows) == [7, 8, 9, 10]
    [letter] = letters(client)
    assert {name: letter[name] for name in ("topic", "begin", "end", "reason")} == {
        "topic": "a",
        "begin": 2,
        "end": 7,
        "reason": "removed",
    }


def test_a_loss_between_planning_and_reading_is_found_by_the_task(broker, servers, client):
    trickle(client, "a", 11)
    found = source(servers, subscribe="a")
    reader = found.reader(found.schema())
    [part] = reader.partitions()
    remove(broker, client, "a", 4)
    with pytest.raises(LossError, match="offsets from 0 to 6"):
        list(reader.read(part))


def test_a_topic_that_was_made_anew_between_planning_and_reading_is_not_read_for_the_old(
    servers, client
):
    fill(client, "a", 10)
    found = source(servers, subscribe="a")
    reader = found.reader(found.schema())
    [part] = reader.partitions()
    client.delete_topic("a")
    with pytest.raises(LossError, match="deleted before they were read"):
        list(reader.read(part))
    fill(client, "a", 10, 100)
    with pytest.raises(LossError, match="created again"):
        list(reader.read(part))


def test_a_read_outlives_a_restart_of_the_broker(broker, servers, client):
    fill(client, "a", 30_000)
    found = source(servers, subscribe="a", maxRecordsPerPartition=1_000)
    reader = found.reader(found.schema())
    rows = []
    for number, part in enumerate(reader.partitions()):
        if number in {5, 15}:
            broker.restart(kill=number == 15)
        for batch in reader.read(part):
            rows += batch["offset"].to_pylist() if "offset" in batch.schema.names else []
    assert rows == list(range(30_000))
