"""Streams from a real broker, driven as Spark would, but without it."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.unit.spark.readers import Stream, fill, payloads, remove, trickle

from penstock.errors import ConfigError
from penstock.spark import stream as stream_module
from penstock.spark import topic_watch
from penstock.spark.data_loss import LossError


def test_a_stream_reads_what_comes(servers, client):
    stream = Stream(servers, subscribe="s/#")
    fill(client, "s/1", 5)
    assert payloads(stream.next()) == [0, 1, 2, 3, 4]
    assert stream.next() == []
    fill(client, "s/1", 2, 5)
    fill(client, "s/2", 1)
    rows = stream.next()
    assert (payloads(rows, "s/1"), payloads(rows, "s/2")) == ([5, 6], [0])


def test_without_anything_new_the_offset_is_the_same_text(servers, client):
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#")
    stream.next()
    before = json.dumps(stream.offset)
    after = stream.reader.latestOffset(json.loads(before), ReadAllAvailable())
    assert json.dumps(after) == before


def test_options_that_were_changed_make_no_batch_of_nothing(servers, client):
    fill(client, "s/1", 5)
    before = Stream(servers, subscribe="s/#")
    before.next()
    after = Stream(servers, subscribe="s/#", minPartitions=7)
    after.offset = before.offset
    assert not after.log()


def test_latest_is_pinned_by_the_log_of_batch_0(servers, client):
    """Spark asks for the initial offset again after a kill; the log says where it began."""
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", startingOffsets="latest")
    stream.reader.initialOffset()
    fill(client, "s/1", 3, 5)
    assert stream.log()
    stream.restart()
    fill(client, "s/1", 1, 8)
    assert payloads(stream.run()) == [5, 6, 7]
    assert payloads(stream.next()) == [8]


def test_latest_is_pinned_by_the_name_before_there_is_a_log(servers, client):
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", startingOffsets="latest", reader="q")
    stream.reader.initialOffset()
    fill(client, "s/1", 3, 5)
    stream.restart()
    assert payloads(stream.next()) == [5, 6, 7]


def test_a_new_checkpoint_under_an_old_name_begins_anew(servers, client):
    fill(client, "s/1", 5)
    first = Stream(servers, subscribe="s/#", reader="q")
    assert len(first.next()) == 5
    first.commit()
    fill(client, "s/1", 2, 5)
    second = Stream(servers, subscribe="s/#", reader="q", startingOffsets="latest")
    assert second.next() == []
    [group] = client.groups("s/1")
    assert (group.reader, group.position, group.start) == (True, 7, 7)
    fill(client, "s/1", 1, 7)
    assert payloads(second.next()) == [7]


def test_a_number_to_begin_at_needs_no_pin_and_minds_none(servers, client):
    fill(client, "s/1", 5)
    Stream(servers, subscribe="s/#", reader="q", startingOffsets="latest").reader.initialOffset()
    stream = Stream(servers, subscribe="s/#", reader="q", startingOffsets='{"s/1": 2}')
    assert payloads(stream.next()) == [2, 3, 4]


@pytest.mark.parametrize(
    "option",
    [
        {"endingOffsets": '{"s/1": 2}'},
        {"endingOffsets": "latest"},
        {"endingOffsetsByTimestamp": "{}"},
        {"endingTimestamp": "5"},
        {"archive": "/a"},
    ],
    ids=lambda option: next(iter(option.items())),
)
def test_a_stream_refuses_what_only_a_batch_has(servers, option):
    with pytest.raises(ConfigError, match="is for batch reads only"):
        Stream(servers, subscribe="s/#", **option)


def test_to_subscribe_to_less_and_more_again_loses_nothing_and_reads_nothing_twice(servers, client):
    wide = Stream(servers, subscribe="s/#")
    fill(client, "s/1", 5)
    fill(client, "s/2", 5)
    wide.next()
    narrow = Stream(servers, subscribe="s/1")
    narrow.offset = wide.offset
    fill(client, "s/1", 1, 5)
    fill(client, "s/2", 1, 5)
    assert payloads(narrow.next()) == [5]
    other = Stream(servers, subscribePattern="s/[3-9]")
    other.offset = narrow.offset
    fill(client, "s/3", 1)
    assert payloads(other.next()) == [0]
    wide.restart()
    wide.offset = other.offset
    assert payloads(wide.next()) == [5]  # of s/2
    client.delete_topic("s/3")
    fill(client, "s/1", 1, 6)
    narrow.offset = wide.offset
    assert payloads(narrow.next()) == [6]


def test_the_broker_shows_a_named_reader_and_its_lag(servers, client):
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", reader="q", maxOffsetsPerTrigger=3)
    stream.next()
    [group] = client.groups("s/1")
    assert (group.name, group.reader, group.lag) == ("q", True, 5)
    stream.commit()
    [group] = client.groups("s/1")
    assert (group.position, group.lag) == (3, 2)
    fill(client, "s/2", 4)
    stream.next()
    stream.next()
    stream.commit()
    assert {group.topic: group.lag for group in client.groups()} == {"s/1": 0, "s/2": 0}


def test_the_lag_of_a_reader_is_gone_once_there_is_no_more_to_read(servers, client):
    """Spark calls no commit for the last batch; that it asks for the next says as much."""
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", reader="q")
    stream.next()
    assert [group.lag for group in client.groups("s/1")] == [5]
    assert stream.next() == []
    assert [group.lag for group in client.groups("s/1")] == [0]


def test_a_commit_to_a_broker_that_is_away_does_not_matter(broker, servers, client, monkeypatch):
    monkeypatch.setattr("penstock.spark.broker.CALL_S", 0.5)
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", reader="q")
    stream.next()
    broker.stop()
    stream.commit()
    broker.start()
    stream.commit()
    [group] = client.groups("s/1")
    assert group.lag == 0


# ── Limits


def test_a_batch_takes_no_more_than_it_may_and_leaves_nothing_out(servers, client):
    fill(client, "s/1", 90)
    fill(client, "s/2", 10)
    stream = Stream(servers, subscribe="s/#", maxOffsetsPerTrigger=40)
    batches = [stream.next() for _ in range(3)]
    assert [len(rows) for rows in batches] == [40, 40, 20]
    assert all(payloads(rows, "s/2") for rows in batches)
    assert payloads([row for rows in batches for row in rows], "s/1") == list(range(90))


def test_trigger_once_takes_all_whatever_the_limit(servers, client):
    fill(client, "s/1", 90)
    stream = Stream(servers, subscribe="s/#", maxOffsetsPerTrigger=40)
    assert len(stream.next(ReadAllAvailable())) == 90


def test_available_now_ends_where_it_began_to(servers, client):
    fill(client, "s/1", 90)
    stream = Stream(servers, subscribe="s/#", maxOffsetsPerTrigger=40)
    stream.prepare()
    assert len(stream.next()) == 40
    fill(client, "s/1", 50, 90)
    fill(client, "s/2", 50)
    assert [len(stream.next()) for _ in range(3)] == [40, 10, 0]


def test_bytes_limit_a_batch_as_the_broker_measures_them(servers, client):
    for size in (10, 1_000):
        client.produce_many("s/1", [bytes(size)] * 100)
    stream = Stream(servers, subscribe="s/#", maxBytesPerTrigger=20_000)
    sizes = []
    while rows := stream.next():
        sizes.append(sum(len(row["payload"]) for row in rows))
    assert sum(sizes) == 101_000
    assert max(sizes) <= 20_000
    assert len(sizes) <= 8


def test_a_message_larger_than_the_limit_is_read_all_the_same(servers, client):
    client.produce_many("s/1", [bytes(5_000)] * 3)
    stream = Stream(servers, subscribe="s/#", maxBytesPerTrigger=1_000)
    assert [len(stream.next()) for _ in range(4)] == [1, 1, 1, 0]


def test_too_few_rows_are_waited_for_but_not_for_ever(servers, client, monkeypatch):
    passed_s = 0.0
    monkeypatch.setattr(stream_module, "monotonic", lambda: passed_s)
    fill(client, "s/1", 10)
    stream = Stream(servers, subscribe="s/#", minOffsetsPerTrigger=10, maxTriggerDelay="300ms")
    assert len(stream.next()) == 10
    fill(client, "s/1", 9, 10)
    assert stream.next() == []
    fill(client, "s/1", 1, 19)
    assert len(stream.next()) == 10
    fill(client, "s/1", 1, 20)
    assert stream.next() == []
    passed_s = 0.3
    assert len(stream.next()) == 1


def test_something_new_ends_the_wait_at_once(servers, client):
    fill(client, "s/1", 1)
    stream = Stream(servers, subscribe="s/#", pollTimeoutMs=60_000)
    stream.next()
    reader, offset, is_waiting = stream.reader, stream.offset, Event()
    look = reader._watch.refresh

    def look_and_tell(*wait_s):
        if wait_s:
            is_waiting.set()
        return look(*wait_s)

    reader._watch.refresh = look_and_tell
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reader.latestOffset, offset, ReadAllAvailable())
        assert is_waiting.wait(30)
        fill(client, "s/1", 1, 1)
        assert waiting.result(30) != offset


# ── Loss


def overtaken(broker, servers, client, **options) -> Stream:
    stream = Stream(servers, subscribe="s/#", **options)
    fill(client, "s/1", 5)
    stream.next()
    trickle(client, "s/1", 6, 5)
    remove(broker, client, "s/1", 2)
    return stream


def test_a_reader_that_retention_overtakes_fails_and_fails_again(broker, servers, client):
    stream = overtaken(broker, servers, client)
    assert stream.log()
    for _ in range(2):
        with pytest.raises(LossError, match="offsets from 5 to 8 of 's/1'"):
            stream.run()
        stream.restart()


def test_or_goes_on_and_tells(broker, servers, client):
    stream = overtaken(
        broker, servers, client, failOnDataLoss=False, lossTopic="losses", reader="q"
    )
    assert payloads(stream.next()) == [9, 10]
    [letter] = [json.loads(record.payload) for record in client.messages("losses")]
    assert (letter["topic"], letter["begin"], letter["end"]) == ("s/1", 5, 9)
    assert letter["reader"] == "q"


def test_a_topic_deleted_after_it_was_read_is_no_loss_and_is_read_anew(servers, client):
    stream = Stream(servers, subscribe="s/#")
    fill(client, "s/1", 5)
    assert len(stream.next()) == 5
    client.delete_topic("s/1")
    assert stream.next() == []
    fill(client, "s/1", 3, 50)
    assert payloads(stream.next()) == [50, 51, 52]


def test_a_topic_deleted_before_it_was_read_is(servers, client):
    stream = Stream(servers, subscribe="s/#", maxOffsetsPerTrigger=2)
    fill(client, "s/1", 5)
    assert len(stream.next()) == 2
    client.delete_topic("s/1")
    fill(client, "s/1", 3, 50)
    assert stream.log()
    with pytest.raises(LossError, match=r"offsets from 2 to 4 of 's/1'.*created again"):
        stream.run()


def test_a_topic_made_anew_while_the_query_was_down_is_a_loss_of_unknown_size(servers, client):
    stream = Stream(servers, subscribe="s/#", failOnDataLoss=False)
    fill(client, "s/1", 5)
    stream.next()
    client.delete_topic("s/1")
    fill(client, "s/1", 3, 50)
    stream.restart()
    assert payloads(stream.next()) == [50, 51, 52]
    [letter] = [json.loads(it.payload) for it in client.messages("penstock/spark/loss")]
    assert (letter["begin"], letter["end"], letter["reason"]) == (5, None, "made anew")


def test_a_stream_outlives_restarts_of_the_broker(broker, servers, client):
    stream = Stream(servers, subscribe="s/#", maxOffsetsPerTrigger=30, reader="q")
    fill(client, "s/1", 100)
    found = payloads(stream.next())
    broker.restart()
    found += payloads(stream.next())
    broker.restart(kill=True)
    assert stream.log()
    broker.restart()
    found += payloads(stream.run())
    fill(client, "s/1", 10, 100)
    while rows := stream.next():
        found += payloads(rows)
    assert found == list(range(110))


def test_a_reader_of_very_many_topics_is_pinned_and_told_of_with_few_requests(
    servers, client, monkeypatch
):
    monkeypatch.setattr(topic_watch, "SINGLE_MAX", 3)
    names = [f"many/{number}" for number in range(9)]
    for name in names:
        fill(client, name, 4)
    client.create_group("many/5", "archive", start=2, reader=True)
    stream = Stream(servers, subscribe="many/#", reader="archive", startingOffsets="latest")
    assert payloads(stream.next(), "many/5") == [2, 3]
    assert stream.next() == []
    starts = {name: 2 if name == "many/5" else 4 for name in names}
    groups = client.groups()
    assert {group.topic: group.start for group in groups} == starts
    assert {group.lag for group in groups} == {0}
