"""The sensors, and what each sends at which tick; everything follows from the seed.

There is no state, so a test can say what must be in the archive. Even a small fleet has each fault.
"""

from enum import StrEnum
from hashlib import sha256
from math import pi, sin
from random import Random
from typing import Final

import msgspec

from penstock.errors import ConfigError

DEVICES_MIN: Final = 6  # two per protocol, one of each fault, and a steady one
DEVICES_MAX: Final = 300  # each has a topic, a key and maybe a connection

# topics under secure/ accept signed messages only
FLEET_FILTER: Final = "secure/fleet/#"


class Door(StrEnum):
    """A protocol of the broker."""

    MQTT = "mqtt"
    BINARY = "binary"
    RESP = "resp"


class SensorFault(StrEnum):
    """What is wrong with a sensor."""

    STEADY = "steady"
    SILENT = "silent"  # for a while in the middle; continues with the next number
    GONE = "gone"  # stops for good
    REPEAT = "repeat"  # sends some readings twice
    GARBAGE = "garbage"  # also sends payloads that are not JSON: accepted and archived
    JUMP = "jump"  # its numbers jump once, as if readings were lost before the broker
    IMPOSTOR = "impostor"  # signs with a key that is not registered: the broker refuses it


_DEALT: Final = (
    SensorFault.SILENT,
    SensorFault.REPEAT,
    SensorFault.GARBAGE,
    SensorFault.JUMP,
    SensorFault.GONE,
)

REPEAT_EVERY: Final = 15
GARBAGE_EVERY: Final = 12
JUMP_BY: Final = 100


class Sensor(msgspec.Struct, frozen=True):
    """One device."""

    name: str
    door: Door
    fault: SensorFault

    @property
    def topic(self) -> str:
        return f"secure/fleet/{self.door}/{self.name}"


class SensorReading(msgspec.Struct, frozen=True):
    """One message of a sensor."""

    seq: int
    payload: bytes


def make_fleet(devices: int) -> tuple[Sensor, ...]:
    if not DEVICES_MIN <= devices <= DEVICES_MAX:
        raise ConfigError(
            f"a fleet has {DEVICES_MIN} to {DEVICES_MAX} devices, not {devices}",
            f"{DEVICES_MIN} is enough to see every fault",
        )
    doors = list(Door)
    sensors = [
        Sensor(f"sensor-{number + 1:03}", doors[number % 3], _fault(number, devices))
        for number in range(devices)
    ]
    return (*sensors, *(Sensor(f"impostor-{door}", door, SensorFault.IMPOSTOR) for door in doors))


def _fault(number: int, devices: int) -> SensorFault:
    round_number, place = divmod(number, 12)
    is_first = round_number == 0
    if place < len(_DEALT) and (is_first or number < devices * 2 // 3):
        return _DEALT[place]
    return SensorFault.STEADY


def secret_seed(seed: int, name: str) -> bytes:
    return sha256(f"penstock demo {seed} {name}".encode()).digest()


class Script:
    """What all sensors send, tick by tick."""

    def __init__(self, seed: int, ticks: int) -> None:
        self._seed = seed
        self.ticks = ticks
        self._silence = ticks * 3 // 10, ticks * 6 // 10  # of silent sensors
        self._gone_at = ticks * 6 // 10
        self._jump_at = ticks // 2

    def readings(self, sensor: Sensor, tick: int) -> list[SensorReading]:
        seq = self._seq(sensor, tick)
        if seq is None:
            return []
        chance = Random(f"{self._seed}/{sensor.name}/{tick}")  # noqa: S311 - a show, no secret
        reading = SensorReading(seq, self._payload(sensor, tick, seq, chance))
        match sensor.fault:
            case SensorFault.REPEAT if tick % REPEAT_EVERY == REPEAT_EVERY - 1:
                return [reading, reading]
            case SensorFault.GARBAGE if tick % GARBAGE_EVERY == GARBAGE_EVERY - 1:
                return [reading, SensorReading(seq, b"\xff\xfe garbage " + chance.randbytes(8))]
            case _:
                return [reading]

    def _seq(self, sensor: Sensor, tick: int) -> int | None:
        begin, end = self._silence
        match sensor.fault:
            case SensorFault.GONE if tick >= self._gone_at:
                return None
            case SensorFault.SILENT if begin <= tick < end:
                return None
            case SensorFault.SILENT if tick >= end:
                return tick - (end - begin)
            case SensorFault.JUMP if tick >= self._jump_at:
                return tick + JUMP_BY
            case _:
                return tick

    def _payload(self, sensor: Sensor, tick: int, seq: int, chance: Random) -> bytes:
        place = Random(f"{self._seed}/{sensor.name}").random()  # noqa: S311 - a show, no secret
        wave = sin(2 * pi * (tick / max(1, self.ticks) * 2 + place))
        values = {
            "device": sensor.name,
            "seq": seq,
            "temperature": round(18 + 6 * place + 3 * wave + chance.gauss(0, 0.3), 2),
            "humidity": round(50 + 10 * wave + chance.gauss(0, 1), 1),
        }
        return msgspec.json.encode(values)
