"""What payloads look like is found on Spark, and what cannot be read is set aside."""

import json

from penstock.spark.pipelines import quality, quarantine
from penstock.spark.pipelines.shapes import Shape
from tests.spark.messages import frame, message


def several(spark, *payloads, topic="pump"):
    rows = [message(topic, n, payload, offset=n) for n, payload in enumerate(payloads)]
    return frame(spark, *rows)


def test_a_report_has_every_topic_with_its_fields(spark):
    messages = several(spark, *({"t": n, "id": "a"} for n in range(100)), b"{", b"")
    messages = messages.union(several(spark, b"21.5", topic="plain")).repartition(3)
    found = quality.report(messages)
    assert list(found.topics) == ["plain", "pump"]
    pump = found.topics["pump"]
    assert (pump.messages, pump.bad) == (102, {"not JSON": 1, "empty": 1})
    assert (pump.fields["$.t"].count, pump.fields["$.t"].high) == (100, 99)
    assert found.topics["plain"].fields["$"].types == {"number": 1}
    assert "pump" in quality.as_table(found)
    assert "| pump | $.id | 100% | string |" in quality.as_markdown(found)


def test_a_report_that_was_kept_shows_what_drifted(spark, broker, servers, tmp_path):
    from penstock.client import connect

    kept = str(tmp_path / "kept.json")
    asked = {"servers": servers, "subscribe": "pump/#"}
    with connect([servers]) as client:
        client.produce("pump/1", b'{"t": 21.5}')
        assert quality.run(spark, **asked, save=kept).is_ok
        assert quality.run(spark, **asked, against=kept).is_ok
        client.produce("pump/1", b'{"t": "warm"}')
    drifted = quality.run(spark, **asked, against=kept)
    assert not drifted.is_ok
    assert "pump/1: drift: $.t has values of type string; before: number" in drifted.text
    assert json.loads(json.dumps(drifted.document))["drift"]


def test_what_cannot_be_read_is_set_aside_as_it_was(spark):
    expected = Shape()
    expected.add(b'{"t": 1.5}')
    messages = several(spark, b'{"t": 1}', b"\xff", b"{", b'{"t": "x"}', b"{}")
    found = quarantine.faulty(messages, {"pump": expected})
    sent = quarantine.quarantine_messages(found, "bad").collect()
    assert [(row.topic, row.payload) for row in sent] == [
        ("bad", b"\xff"),
        ("bad", b"{"),
        ("bad", b'{"t": "x"}'),
        ("bad", b"{}"),
    ]
    notes = [{header.key: bytes(header.value) for header in row.headers} for row in sent]
    assert [note["reason"] for note in notes] == [
        b"not UTF-8",
        b"not JSON",
        b"$.t is of type string",
        b"$.t is missing",
    ]
    assert notes[0] == {"topic": b"pump", "offset": b"1", "reason": b"not UTF-8", "bytes": b"1"}


def test_a_payload_too_long_for_the_sink_is_set_aside_in_part(spark):
    found = quarantine.faulty(several(spark, b"[" * 2_000_000))
    [sent] = quarantine.quarantine_messages(found, "bad").collect()
    assert len(sent.payload) == quarantine.COPIED_BYTES_MAX
    assert bytes(sent.headers[3].value) == b"2000000"
