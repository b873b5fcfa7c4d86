"""The fleet of the demo: every fault is there, and all of it follows from the seed."""

import json
from itertools import pairwise
from zlib import crc32

import pytest

from penstock.errors import ConfigError
from penstock.spark.demo.fleet import (
    DEVICES_MAX,
    DEVICES_MIN,
    GARBAGE_EVERY,
    JUMP_BY,
    REPEAT_EVERY,
    Door,
    Script,
    Sensor,
    SensorFault,
    SensorReading,
    make_fleet,
    secret_seed,
)
from penstock.spark.demo.ledger import Ledger

TICKS = 100


def said(fault: SensorFault, seed: int = 1) -> list[tuple[int, SensorReading]]:
    script, sensor = Script(seed, TICKS), Sensor("sensor-001", Door.MQTT, fault)
    return [(tick, r) for tick in range(TICKS) for r in script.readings(sensor, tick)]


@pytest.mark.parametrize("devices", [DEVICES_MIN, 7, 24, 60])
def test_a_fleet_has_every_fault_at_once_and_an_impostor_at_each_door(devices):
    fleet = make_fleet(devices)
    assert {sensor.fault for sensor in fleet} == set(SensorFault)
    impostors = [sensor for sensor in fleet if sensor.fault is SensorFault.IMPOSTOR]
    assert {sensor.door for sensor in impostors} == set(Door)
    assert len(fleet) - len(impostors) == devices


def test_every_door_has_its_third_of_the_fleet():
    doors = [sensor.door for sensor in make_fleet(30) if sensor.fault is not SensorFault.IMPOSTOR]
    assert [doors.count(door) for door in Door] == [10, 10, 10]


def test_a_third_of_a_large_fleet_at_least_is_steady():
    faults = [sensor.fault for sensor in make_fleet(120)]
    assert faults.count(SensorFault.STEADY) >= 40


@pytest.mark.parametrize("devices", [0, DEVICES_MIN - 1, DEVICES_MAX + 1])
def test_a_fleet_that_is_too_small_or_too_large_is_refused(devices):
    with pytest.raises(ConfigError, match="a fleet has 6 to 300 devices"):
        make_fleet(devices)


def test_names_and_topics_are_unique():
    fleet = make_fleet(DEVICES_MAX)
    assert len({sensor.topic for sensor in fleet}) == len({s.name for s in fleet}) == len(fleet)


def test_the_same_seed_says_the_same_and_another_does_not():
    assert said(SensorFault.STEADY) == said(SensorFault.STEADY)
    assert said(SensorFault.STEADY) != said(SensorFault.STEADY, seed=2)
    assert secret_seed(1, "a") != secret_seed(2, "a") != secret_seed(2, "b")


def test_a_steady_sensor_counts_without_a_gap_and_its_readings_are_json():
    readings = [reading for _, reading in said(SensorFault.STEADY)]
    assert [reading.seq for reading in readings] == list(range(TICKS))
    decoded = [json.loads(reading.payload) for reading in readings]
    assert [each["seq"] for each in decoded] == list(range(TICKS))
    assert all(10 < each["temperature"] < 35 for each in decoded)


def test_a_silent_sensor_comes_back_with_the_next_number():
    spoken = said(SensorFault.SILENT)
    assert not [tick for tick, _ in spoken if 30 <= tick < 60]
    assert [reading.seq for _, reading in spoken] == list(range(TICKS - 30))


def test_a_sensor_that_is_gone_stays_so():
    assert [tick for tick, _ in said(SensorFault.GONE)] == list(range(60))


def test_a_repeated_reading_has_the_same_bytes():
    spoken = said(SensorFault.REPEAT)
    assert len(spoken) == TICKS + TICKS // REPEAT_EVERY
    (_, first), (_, second) = [pair for pair in spoken if pair[0] == REPEAT_EVERY - 1]
    assert first == second


def test_garbage_is_no_json_and_takes_no_readings_place():
    garbage = []
    for tick, reading in said(SensorFault.GARBAGE):
        try:
            json.loads(reading.payload)
        except ValueError:
            garbage.append(tick)
    assert garbage == list(range(GARBAGE_EVERY - 1, TICKS, GARBAGE_EVERY))
    assert len(said(SensorFault.GARBAGE)) == TICKS + len(garbage)


def test_numbers_jump_once():
    numbers = [reading.seq for _, reading in said(SensorFault.JUMP)]
    steps = [after - before for before, after in pairwise(numbers)]
    assert steps.count(1) == TICKS - 2
    assert steps.count(1 + JUMP_BY) == 1


def test_a_ledger_adds_up_what_was_acknowledged_and_what_was_refused():
    ledger = Ledger()
    ledger.acknowledged("a", [SensorReading(4, b"x"), SensorReading(5, b"y")], 0)
    ledger.acknowledged("a", [SensorReading(3, b"x")], 2)
    ledger.refused("a", 7)
    account = ledger.accounts["a"]
    assert (account.acknowledged, account.last_seq, account.refused) == (3, 5, 7)
    assert account.checksum == 2 * crc32(b"x") + crc32(b"y")
    assert dict(ledger.by_second) == {0: 2, 2: 1}
