"""Retention removes messages at every moment of a read; what the archive has is read from there."""

import pytest
from tests.unit.spark.readers import payloads, remove, rows_of, source, trickle
from tests.unit.spark.small_archives import SmallArchive

from penstock.spark.data_loss import LossError
from penstock.spark.topic_watch import TopicWatch


@pytest.fixture
def archive(servers, client, tmp_path):
    return SmallArchive(servers, client, tmp_path / "a", "t")


def planned(archive, **options):
    found = source(archive.servers, subscribe="t", archive=archive.root, **options)
    reader = found.reader(found.schema())
    return reader, reader.partitions()


def test_what_goes_from_the_broker_after_planning_is_read_from_the_archive(broker, client, archive):
    trickle(client, "t", 10)
    archive.extend(6)
    reader, parts = planned(archive)
    remove(broker, client, "t", 4)  # 0 to 5, which the archive had when the read was planned
    assert payloads(rows_of(reader, parts)) == list(range(10))


def test_what_was_archived_after_planning_and_then_removed_is_read_in_order(
    broker, client, archive
):
    trickle(client, "t", 10)
    archive.extend(3)
    reader, parts = planned(archive)
    archive.extend(8)
    remove(broker, client, "t", 3)
    assert payloads(rows_of(reader, parts)) == list(range(10))


def test_what_goes_while_the_read_is_planned_is_read_from_the_archive(
    broker, client, archive, monkeypatch
):
    trickle(client, "t", 10)
    archive.extend(3)
    look = TopicWatch.refresh

    def after_retention(watch, *wait_s):
        archive.extend(8)
        remove(broker, client, "t", 4)
        look(watch, *wait_s)

    monkeypatch.setattr(TopicWatch, "refresh", after_retention)
    reader, parts = planned(archive)
    assert payloads(rows_of(reader, parts)) == list(range(10))


@pytest.mark.parametrize("limit", ["startingTimestamp", "endingTimestamp"])
def test_retention_does_not_move_a_limit_in_time(broker, client, archive, monkeypatch, limit):
    """The broker finds the time among what it still has, which is not where it was published."""
    trickle(client, "t", 5)
    broker.clock.advance(60)
    trickle(client, "t", 5, 5)
    time_ms = next(iter(client.messages("t", 5))).ts_ms
    archive.extend(9)
    look = TopicWatch.refresh

    def then_retention(watch, *wait_s):
        look(watch, *wait_s)
        remove(broker, client, "t", 2)

    monkeypatch.setattr(TopicWatch, "refresh", then_retention)
    reader, parts = planned(archive, **{limit: time_ms})
    kept = range(5, 10) if limit == "startingTimestamp" else range(5)
    assert payloads(rows_of(reader, parts)) == list(kept)


def test_a_topic_that_is_deleted_after_planning_is_read_from_the_archive(client, archive):
    trickle(client, "t", 5)
    archive.extend(3)
    reader, parts = planned(archive)
    archive.extend(5)
    client.delete_topic("t")
    assert payloads(rows_of(reader, parts)) == list(range(5))


def test_what_neither_has_is_lost_and_told(broker, client, archive):
    trickle(client, "t", 10)
    archive.extend(3)
    reader, parts = planned(archive)
    archive.extend(5)
    remove(broker, client, "t", 3)
    with pytest.raises(LossError, match="offsets from 5 to 6 of 't'"):
        rows_of(reader, parts)
    reader, parts = planned(archive, failOnDataLoss=False)
    remove(broker, client, "t", 2)
    assert payloads(rows_of(reader, parts)) == [0, 1, 2, 3, 4, 8, 9]


def test_a_broker_that_was_cut_back_gives_what_it_has_now(client, archive, monkeypatch):
    """The archive is ahead of it: what both have may differ, and the broker's counts."""
    trickle(client, "t", 6)
    archive.extend(6)
    look = TopicWatch.refresh

    def cut_back(watch, *wait_s):
        look(watch, *wait_s)
        watch.topics["t"] = watch.topics["t"]._replace(end=5)

    monkeypatch.setattr(TopicWatch, "refresh", cut_back)
    _, parts = planned(archive)
    assert [part.ranges[0][2:] for part in parts] == [(0, 5)]
