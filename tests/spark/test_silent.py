"""Silent devices are found in a stream, also when no device sends anything any more."""

import json

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines.presence import PresenceTimeouts
from penstock.spark.pipelines.silent import alerts, events, sightings
from penstock.spark.pipelines.streams import without_heartbeats, without_own
from tests.spark.messages import at, frame, message, stream


def test_a_device_is_its_topic_or_a_level_of_it_or_a_field(spark):
    messages = frame(
        spark,
        message("site/pump/7", 0, {"id": "p7", "seq": 3}),
        message("short", 0, b"no JSON"),
        message("beat", 0, b""),
    )

    def devices(where, seq=None):
        found = sightings(messages, device=where, seq=seq, heartbeat="beat").collect()
        return [(row.device, row.seq) for row in found]

    assert devices("topic") == [("site/pump/7", -1), ("short", -1), (None, -1)]
    assert devices("level:2") == [("pump", -1), (None, -1)]
    assert devices("$.id", seq="$.seq") == [("p7", 3), (None, -1)]
    with pytest.raises(ConfigError, match="level:1"):
        devices("level:0")


def test_the_hearts_of_other_jobs_are_no_devices(spark):
    names = ["penstock/heartbeat/silent", "penstock/heartbeat/other", "penstock/heart", "a"]
    messages = frame(spark, *(message(name, 0, b"") for name in names))
    mine = without_heartbeats(messages, but="penstock/heartbeat/silent").collect()
    assert [row.topic for row in mine] == [names[0], "penstock/heart", "a"]
    others = without_own(messages, "a").collect()
    assert [row.topic for row in others] == ["penstock/heart", "a"]


def test_alerts_come_out_of_a_stream_each_once(spark, tmp_path):
    batches = [
        [message("a", 0, {"n": 1}), message("b", 0, {"n": 1}), message("c", 0, {"n": 1})],
        [message("a", 30, {"n": 2}), message("b", 30, {"n": 5})],
        [message("beat", 200, b"")],
        [message("a", 201, {"n": 3}), message("beat", 210, b"")],
    ]
    sighted = sightings(stream(spark, tmp_path, *batches), seq="$.n", heartbeat="beat")
    found = alerts(events(sighted, PresenceTimeouts(60_000, 86_400_000)), "alerts")
    writer = found.writeStream.queryName("told").format("memory").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(150)
    told = [json.loads(row.payload) for row in spark.table("told").collect()]
    assert sorted((each["device"], each["kind"]) for each in told) == [
        ("a", "back"),
        ("a", "silent"),
        ("b", "gap"),
        ("b", "silent"),
        ("c", "silent"),
    ]
    by_name = {(each["device"], each["kind"]): each for each in told}
    assert by_name["a", "back"]["silent_ms"] == 171_000
    assert by_name["b", "gap"] | {"first_missing": 2, "last_missing": 4} == by_name["b", "gap"]
    assert by_name["c", "silent"]["at"] == at(60).isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )


def test_to_be_forgotten_before_being_silent_is_refused(spark):
    messages = frame(spark, message("a", 0, b""))
    with pytest.raises(ConfigError, match="must be longer than --after"):
        events(sightings(messages), PresenceTimeouts(1000, 1000))
