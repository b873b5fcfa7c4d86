"""Sessions are found and written once; and rows become messages that any broker takes."""

import json

from penstock.model.topic import topic_fault
from penstock.spark.pipelines.sessions import sessions
from penstock.spark.pipelines.streams import as_messages, from_messages
from tests.spark.messages import at, frame, message, stream


def test_a_session_ends_with_a_pause_and_is_written_once(spark, tmp_path):
    batches = [
        [message("a", 0, b""), message("a", 50, b""), message("b", 20, b"")],
        [message("a", 100, b""), message("a", 400, b"")],
        [message("b", 1000, b"")],
    ]
    found = sessions(stream(spark, tmp_path, *batches), gap_s=60, late_s=30)
    writer = found.writeStream.queryName("found").format("memory").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "c"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    rows = spark.table("found").collect()
    assert sorted((row.device, row.seconds, row["count"]) for row in rows) == [
        ("a", 0.0, 1),
        ("a", 100.0, 3),
        ("b", 0.0, 1),
    ]


def test_rows_come_back_from_their_messages_as_they_were(spark):
    found = sessions(frame(spark, message("a/b", 0, b""), message("a/b", 1.5, b"")))
    messages = as_messages(found, "sessions", "device")
    [sent] = messages.collect()
    assert (sent.topic, sent.timestamp) == ("sessions/a/b", at(0).replace(tzinfo=None))
    assert json.loads(sent.payload)["seconds"] == 1.5
    assert from_messages(messages, found.schema).collect() == found.collect()


def test_no_name_from_a_payload_makes_a_topic_that_is_refused(spark):
    """One such row would stop the job forever."""
    names = ["+", "a#b", "\0", "/" * 250, "ü" * 250, "\N{GRINNING FACE}" * 250, "$x", " "]
    messages = frame(spark, *(message("t", 0, {"id": name}) for name in names))
    sent = as_messages(sessions(messages, device="$.id"), "x/" * 40 + "s", "device").collect()
    assert len(sent) == len(names)
    assert [fault for row in sent if (fault := topic_fault(row.topic.encode()))] == []
