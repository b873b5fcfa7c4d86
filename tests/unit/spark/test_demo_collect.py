"""From what was written down to a story: what is counted, and what is found wrong."""

import json
from collections import Counter

import pytest

from penstock.spark.demo import collect
from penstock.spark.demo.fleet import Door, Sensor, SensorFault, SensorReading
from penstock.spark.demo.ledger import Account, Ledger
from penstock.spark.demo.results import Alert, BatchTiming, Window
from penstock.spark.offsets import OffsetRange
from penstock.spark.pipelines.audit_report import AuditReport

BEGAN_MS = 1_900_000_000_000
AT_5_S = "2030-03-17T17:46:45.000Z"

SENSOR = Sensor("sensor-001", Door.MQTT, SensorFault.STEADY)


def progress(query: str, rows: int, time: str = AT_5_S) -> str:
    return json.dumps({"query": query, "rows": rows, "duration_ms": 1500, "time": time})


def window(start: str, field: str = "temperature", low: float = 1.0) -> bytes:
    said = {"field": field, "start": start, "count": 3, "min": low, "mean": 2.0, "max": 3.0}
    return json.dumps(said).encode()


def test_times_are_seconds_since_the_beginning():
    assert collect.seconds_of(AT_5_S, BEGAN_MS) == pytest.approx(5)
    assert collect.seconds_of("2030-03-17T18:46:45+01:00", BEGAN_MS) == pytest.approx(5)


def test_what_was_acknowledged_after_the_end_counts_in_the_last_second():
    ledger = Ledger()
    ledger.acknowledged("a", [SensorReading(0, b""), SensorReading(1, b"")], 0)
    ledger.acknowledged("a", [SensorReading(2, b"")], 4)
    assert collect.traffic_of({"mqtt": ledger}, 3.0) == {"mqtt": [2, 0, 1]}


def test_a_batch_is_dated_by_its_end_and_one_without_rows_or_end_is_left_out():
    lines = [progress("rollup", 7), progress("archive-fleet", 9), progress("rollup", 0), '{"que']
    assert collect.batches_of(lines, BEGAN_MS) == {
        "archive": [BatchTiming(6.5, 1.5, 9)],
        "rollup": [BatchTiming(6.5, 1.5, 7)],
    }


def test_batches_after_the_show_are_left_out():
    batches = {"a": [BatchTiming(9.9, 1.0, 1), BatchTiming(10.1, 1.0, 1)], "b": []}
    assert collect.until(batches, 10.0) == {"a": [BatchTiming(9.9, 1.0, 1)], "b": []}


def test_windows_are_in_the_order_of_time_and_of_one_field():
    payloads = [
        window("2030-03-17T17:46:50.000Z"),
        window(AT_5_S),
        window(AT_5_S, "humidity"),
        b"x",
    ]
    assert collect.rollups_of(payloads, BEGAN_MS, "temperature") == [
        Window(5.0, 3, 1.0, 2.0, 3.0),
        Window(10.0, 3, 1.0, 2.0, 3.0),
    ]


def test_a_window_that_came_twice_is_counted_though_its_figures_differ():
    keys = collect.keys_of({"a": [window(AT_5_S), window(AT_5_S, low=0.5)], "b": [window(AT_5_S)]})
    assert keys == {("a", "temperature", AT_5_S): 2, ("b", "temperature", AT_5_S): 1}


@pytest.mark.parametrize(
    ("tally", "is_same"), [((3, 30), True), ((2, 30), False), ((4, 30), False), ((3, 31), False)]
)
def test_number_and_checksum_must_both_agree(tally, is_same):
    account = Account(acknowledged=3, checksum=30)
    (line,) = collect.lines_of([SENSOR], {SENSOR.topic: account}, {SENSOR.topic: tally})
    assert line.is_same is is_same


def test_an_impostor_that_got_something_in_is_found():
    impostor = Sensor("impostor-mqtt", Door.MQTT, SensorFault.IMPOSTOR)
    (line,) = collect.lines_of([impostor], {}, {impostor.topic: (1, 5)})
    assert not line.is_same


def alert(kind: str, **more: object) -> bytes:
    said = {"kind": kind, "device": "a", "at": "2030-03-17T17:46:50.000Z", "last_seen": AT_5_S}
    return json.dumps(said | more).encode()


def test_a_silence_is_dated_by_when_the_device_was_last_heard():
    gap = alert("gap", first_missing=7, last_missing=9)
    assert collect.alerts_of([alert("back"), gap, alert("silent"), b"?"], BEGAN_MS, 20.0) == [
        Alert("a", "silent", 5.0),
        Alert("a", "back", 10.0),
        Alert("a", "gap", 10.0, "7 to 9 are missing"),
    ]


def test_who_was_heard_until_the_end_did_not_fall_silent():
    assert not collect.alerts_of([alert("silent")], BEGAN_MS, 6.0)


# ── The verdict

GOOD = {"what": "archive", "rows": 3, "signed": 3, "valid": 3}
ONCE = Counter({("a", "temperature", AT_5_S): 1})


def wrong(
    audit: dict | None = None,
    tally: tuple[int, int] = (3, 30),
    windows: Counter = ONCE,
    sensor: Sensor = SENSOR,
    alerts: tuple[Alert, ...] = (),
) -> list[str]:
    """The claims that do not hold."""
    report = AuditReport(**GOOD | (audit or {}))
    accounts = {sensor.topic: Account(acknowledged=3, checksum=30)}
    lines = collect.lines_of([sensor], accounts, {sensor.topic: tally})
    checks = collect.checks_of(lines, report, windows, alerts)
    return [check.claim for check in checks if not check.is_good]


def test_where_everything_adds_up_nothing_is_wrong():
    assert not wrong()


def test_a_hole_is_found_and_counted_as_expected():
    faults = {"rows": 2, "signed": 2, "valid": 2, "holes": [OffsetRange("a", 1, 5, 6)]}
    assert wrong(faults) == ["audit of the archive", "offsets in the archive, each once"]


def test_what_the_audit_alone_has_found_is_wrong_too():
    assert wrong({"damaged": ["a file"]}) == ["audit of the archive"]


@pytest.mark.parametrize(
    ("faults", "claim"),
    [
        ({"audit": {"doubled": 1}}, "offsets in the archive, each once"),
        ({"audit": {"waiting": 1}}, "messages that only the broker has"),
        ({"audit": {"valid": 2}}, "signatures that verify"),
        ({"tally": (3, 31)}, "sensors whose checksum matches"),
        ({"tally": (2, 30)}, "acknowledged readings in the archive"),
        ({"windows": ONCE + ONCE}, "windows that came twice"),
        ({"windows": Counter()}, "windows that came twice"),
    ],
)
def test_each_fault_is_found(faults, claim):
    assert claim in wrong(**faults)


def test_a_forged_reading_in_the_archive_is_found():
    impostor = Sensor("impostor-mqtt", Door.MQTT, SensorFault.IMPOSTOR)
    assert wrong(sensor=impostor) == ["forged readings in the archive"]


def test_an_archive_without_anything_proves_nothing():
    assert wrong({"rows": 0, "signed": 0, "valid": 0}, tally=(0, 0))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(SensorFault.SILENT, "silent"), (SensorFault.GONE, "silent"), (SensorFault.JUMP, "gap")],
)
def test_a_fault_that_nobody_was_told_of_is_found(fault, kind):
    sensor = Sensor("sensor-001", Door.MQTT, fault)
    claim = "silences and gaps that were reported"
    assert wrong(sensor=sensor) == [claim]
    assert wrong(sensor=sensor, alerts=(Alert("sensor-002", kind, 1.0),)) == [claim]
    assert not wrong(sensor=sensor, alerts=(Alert("sensor-001", kind, 1.0),))
