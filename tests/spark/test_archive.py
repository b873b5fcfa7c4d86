"""The archive and what is done with it, from a broker and back: history, audit, replay."""

import time
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.client import connect
from penstock.client.queue.blocking import QueueClient
from penstock.errors import ConfigError
from penstock.spark import history
from penstock.spark.offsets import OffsetRange
from penstock.spark.pipelines import archive, audit, compaction, replay
from penstock.testing import Broker
from tests.signing.kit import ask, now_ms, publish_signed, register
from tests.unit.spark.readers import fill, remove, trickle


@pytest.fixture
def client(servers: str):
    with connect([servers]) as client:
        yield client


def keep(
    spark: SparkSession, servers: str, path: Path, subscribe: str = "s/#", **options: str
) -> None:
    """Archive everything available."""
    query = archive.start(spark, servers, subscribe, path, trigger="available-now", options=options)
    assert query.awaitTermination(120)
    assert query.exception() is None


def numbers(frame: DataFrame, topic: str) -> list[tuple[int, int]]:
    rows = frame.where(frame.topic == topic).select("offset", "payload").collect()
    return sorted((row.offset, int(bytes(row.payload))) for row in rows)


def upto(count: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(count)]


def test_history_is_one_table_of_archive_and_broker(
    spark: SparkSession, broker: Broker, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    trickle(client, "s/1", 6)
    trickle(client, "s/2", 3)
    client.produce("s/2", b"3", headers={"k": b"v"}, priority=3)
    keep(spark, servers, tmp_path / "a")
    trickle(client, "s/1", 4, 6)
    remove(broker, client, "s/1", 5)  # 0 to 4 are in the archive, 5 in both, the rest here only
    client.delete_topic("s/2")
    compaction.compact(spark, tmp_path / "a", saved_min=0)
    both = history.read(
        spark, servers, "s/#", tmp_path / "a", includeHeaders="true", verifySignatures="true"
    )
    assert numbers(both, "s/1") == upto(10)
    assert numbers(both, "s/2") == upto(4)  # gone from the broker
    row = both.where("topic = 's/2' AND offset = 3").first()
    assert (row.priority, row.headers[0].key, row.signature_verdict) == (3, "k", None)
    fixed = history.read(spark, servers, "s/1", tmp_path / "a", startingOffsets='{"s/1": 3}')
    assert numbers(fixed, "s/1") == upto(10)[3:]

    remove(broker, client, "s/1", 2)  # 6 and 7 are in neither
    with pytest.raises(PySparkException, match="offsets from 6 to 7 of 's/1'"):
        history.read(spark, servers, "s/1", tmp_path / "a").count()
    rest = history.read(spark, servers, "s/1", tmp_path / "a", failOnDataLoss="false")
    assert numbers(rest, "s/1") == [*upto(6), *upto(10)[8:]]
    report = audit.audit(spark, tmp_path / "a", servers=servers)
    assert report.is_ok  # what the read has told of is known to be lost
    assert report.lost == [OffsetRange("s/1", report.lost[0].incarnation, 6, 8)]


def test_an_audit_asks_the_broker_what_was_deleted_and_what_waits(
    spark: SparkSession, broker: Broker, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    with redis.Redis(broker.host, broker.port, socket_timeout=10) as streams:
        ids = [streams.xadd("s/x", {"n": n}) for n in range(5)]
        assert streams.xdel("s/x", ids[2]) == 1
    fill(client, "s/1", 50)
    keep(spark, servers, tmp_path / "a", maxOffsetsPerTrigger="20")
    fill(client, "s/1", 7, 50)
    alone = audit.audit(spark, tmp_path / "a")
    assert [hole[2:] for hole in alone.holes] == [(2, 3)]
    report = audit.audit(spark, tmp_path / "a", servers=servers, subscribe="s/#")
    assert report.is_ok, report.faults()
    assert [span[2:] for span in report.deleted] == [(2, 3)]
    assert (report.rows, report.waiting) == (54, 7)
    keep(spark, servers, tmp_path / "a")
    assert numbers(archive.read(spark, tmp_path / "a"), "s/1") == upto(57)


def test_signatures_hold_from_the_device_to_the_audit_though_the_key_is_over(
    spark: SparkSession, broker: Broker, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    first, second = register(broker), register(broker)
    for number in range(6):
        signer, payload = (first, second)[number % 2], b"%d" % number
        signature = signer.sign_2(b"s/1", payload, now_ms(broker))
        assert publish_signed(broker, b"s/1", payload, signature) == ""
    with redis.Redis(broker.host, broker.port, socket_timeout=10) as streams:
        ids = [streams.xadd("s/x", {"n": n}) for n in range(3)]
        streams.xdel("s/x", ids[1])
    ask(broker.port, "POST", f"/keys/{first.key_id}/revoke")
    keep(spark, servers, tmp_path / "a")
    for path in (tmp_path / "a", None):
        report = audit.audit(spark, path, servers=servers, subscribe="s/#")
        assert report.is_ok, report.faults()
        assert (report.rows, report.signed, report.valid, report.waiting) == (8, 6, 6, 0)
        assert [span[::2] for span in report.deleted] == [("s/x", 1)]
    one_key = {first.key_id: first.public_key}
    report = audit.audit(spark, tmp_path / "a", keys=one_key, subscribe="s/1")
    assert {(one.key_id, one.verdict) for one in report.forged} == {(second.key_id, "unknown_key")}
    nothing = audit.run(spark, servers=servers, subscribe="none/#")
    assert not nothing.is_ok
    assert "no topic" in nothing.text


def test_a_lost_checkpoint_is_told_before_rows_are_passed_over(
    spark: SparkSession, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    fill(client, "s/1", 3)
    keep(spark, servers, tmp_path / "a")
    (tmp_path / "a" / "checkpoint").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="Restore the checkpoint"):
        keep(spark, servers, tmp_path / "a")


def replayed(client: QueueClient, topic: str) -> list[tuple[bytes, int]]:
    found = client.messages(topic)
    return [(record.payload, int(dict(record.headers)["time"])) for record in found]


class Late(replay._Replay):
    """Has read the progress of the job before another run finished all of it."""

    has_looked = False

    def progress(self) -> tuple[int, int]:
        was, self.has_looked = self.has_looked, True
        return super().progress() if was else (0, 0)


def test_a_replay_goes_on_where_it_was_broken_off_and_changes_nothing_when_done(
    spark: SparkSession, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    trickle(client, "s/1", 6)
    trickle(client, "s/2", 4)
    client.produce("s/2", b"4", headers={"time": b"77", "k": b"v"}, priority=2)
    keep(spark, servers, tmp_path / "a")
    root = tmp_path / "a"
    original = {t: [(r.payload, r.ts_ms) for r in client.messages(t)] for t in ("s/1", "s/2")}

    ends = replay.ends_of(archive.read(spark, root), "s/#")
    plan = replay.settle(root, "r1", lambda _: ends, subscribe="s/#")
    work = replay._Replay(lambda: replay.planned(spark, root, plan), plan, servers)
    fourth = list(client.messages("s/1"))[3].sequence
    assert work.publish(fourth, is_small=True) == 1  # and here it was killed
    assert replayed(client, "replay/s/1") == original["s/1"][:4]

    fill(client, "s/1", 3, 6)
    client.delete_topic("s/2")
    fill(client, "s/2", 2)
    keep(spark, servers, root, failOnDataLoss="false")  # later: not of this job
    assert replay.replay(spark, root, servers, "r1", subscribe="s/#", slice_rows=3)["slices"] == 3
    assert replayed(client, "replay/s/1") == original["s/1"]
    original["s/2"][4] = (b"4", 77)
    assert replayed(client, "replay/s/2") == original["s/2"]
    last = list(client.messages("replay/s/2"))[4]
    assert (last.priority, dict(last.headers)) == (2, {"time": b"77", "k": b"v"})

    assert replay.run(spark, path=str(root), servers=servers, job="r1", subscribe="s/#").text == (
        "everything was already published; 2 topics"
    )
    late = Late(lambda: replay.planned(spark, root, plan), plan, servers)
    assert late.publish(fourth, is_small=True) == 1
    assert client.topic("replay/s/1").messages == 6
    with pytest.raises(ConfigError, match="was started with"):
        replay.replay(spark, root, servers, "r1", subscribe="s/1")
    (root / "replays" / "r1.json").unlink()
    with pytest.raises(ConfigError, match="another replay"):
        replay.replay(spark, root, servers, "r1", subscribe="s/#")


def test_a_paced_replay_keeps_the_pauses_and_does_not_repeat_earlier_replays(
    spark: SparkSession, broker: Broker, servers: str, client: QueueClient, tmp_path: Path
) -> None:
    for count, first in ((3, 0), (2, 3), (1, 5)):  # pauses of an hour
        trickle(client, "s/1", count, first)
        trickle(client, "s/2", 1, first)
        broker.clock.advance(3600)
    client.produce("replay/s/1", b"of an earlier one")
    keep(spark, servers, tmp_path / "a", "#")
    said: list[dict[str, int]] = []
    began = time.monotonic()
    figures = replay.replay(
        spark, tmp_path / "a", servers, "slow", speed=7200, tick_s=0.1, say=said.append
    )
    assert time.monotonic() - began >= 1  # two hours, 7,200 times as fast
    assert (figures["slices"], figures["topics"]) == (3, 2)
    assert [step["slice"] for step in said] == [1, 2, 3]
    once = list(client.messages("s/1"))
    again = list(client.messages("replay/s/1"))[1:]
    assert [r.payload for r in again] == [r.payload for r in once] == [b"%d" % n for n in range(6)]
    assert [int(dict(r.headers)["time"]) for r in again] == [r.ts_ms for r in once]
    assert client.topic("replay/s/2").messages == 3
