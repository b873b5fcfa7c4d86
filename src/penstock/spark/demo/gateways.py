"""The gateways of the demo, one thread each: MQTT, the binary protocol, RESP.

An acknowledged reading is on disk: MQTT's PUBACK and the binary reply follow the commit. RESP
answers PUBLISH earlier, so the gateway sends an XADD after the readings; its reply covers them.

The binary protocol and RESP refuse an impostor with an error. MQTT 3.1.1 has no such reply and
closes the connection, so an impostor has its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event, Thread
from time import monotonic
from typing import Final, Self

from penstock.client import (
    ClientError,
    ConnectionLostError,
    Publisher,
    RefusedError,
    SigningKey,
    connect,
)
from penstock.client.dial import dial
from penstock.spark.demo.broker import HOST, BrokerProcess
from penstock.spark.demo.fleet import Door, Script, Sensor, SensorFault, SensorReading, secret_seed
from penstock.spark.demo.ledger import Ledger
from penstock.trust.signatures import key_pair
from penstock.wire.mqtt.envelope import sealed

ANSWER_S: Final = 30.0
TICK_S: Final = 0.2  # one reading of each sensor
IMPOSTOR_EVERY: Final = 10  # ticks between attempts of an impostor
HEARTBEAT_TOPIC: Final = "fleet/gateway"  # for the XADD of the RESP gateway
Said = Sequence[tuple[Sensor, Sequence[SensorReading]]]
Taken = tuple[Sensor, Sequence[SensorReading], int]  # acknowledged, and the number refused


def enrolled(broker: BrokerProcess, fleet: Sequence[Sensor], seed: int) -> dict[str, SigningKey]:
    """Register a key per sensor; an impostor signs with another secret under a valid id."""
    keys = {}
    for sensor in fleet:
        true = secret_seed(seed, sensor.name)
        key_id = broker.register_key(sensor.name, sensor.topic, key_pair(true).public_key)
        forged = secret_seed(seed + 1, sensor.name)
        keys[sensor.name] = SigningKey(
            key_id, forged if sensor.fault is SensorFault.IMPOSTOR else true
        )
    return keys


class Gateway(ABC):
    """A connection for the sensors of one protocol, open inside ``with``, used by one thread."""

    def __init__(self, port: int, keys: dict[str, SigningKey]) -> None:
        self._port, self._keys = port, keys
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def send(self, said: Said) -> list[Taken]:
        """Send readings, and wait for the replies."""

    def _envelope(self, sensor: Sensor, reading: SensorReading) -> tuple[str, bytes]:
        signature = self._keys[sensor.name].sign(sensor.topic.encode(), reading.payload)
        return f"$signed/{sensor.topic}", sealed(signature, reading.payload)


class MqttGateway(Gateway):
    """All sensors on one connection, with QoS 1; impostors have their own."""

    def _open(self) -> None:
        client = connect(HOST, self._port, "gateway", timeout_s=ANSWER_S)
        self._client = self._stack.enter_context(client)

    def send(self, said: Said) -> list[Taken]:
        true = [(s, rs) for s, rs in said if s.fault is not SensorFault.IMPOSTOR]
        self._client.publish_many([self._envelope(s, r) for s, rs in true for r in rs], qos=1)
        taken: list[Taken] = [(s, readings, 0) for s, readings in true]
        return taken + [self._tried(s, rs) for s, rs in said if s.fault is SensorFault.IMPOSTOR]

    def _tried(self, sensor: Sensor, readings: Sequence[SensorReading]) -> Taken:
        try:
            with connect(HOST, self._port, sensor.name, timeout_s=ANSWER_S) as client:
                client.publish_many([self._envelope(sensor, r) for r in readings], qos=1)
        except (ConnectionLostError, RefusedError):
            return sensor, (), len(readings)
        return sensor, readings, 0


class BinaryGateway(Gateway):
    """A connection per sensor, which signs itself."""

    def _open(self) -> None:
        self._publishers = {
            name: self._stack.enter_context(Publisher(host=HOST, port=self._port, signing_key=key))
            for name, key in self._keys.items()
        }

    def send(self, said: Said) -> list[Taken]:
        taken: list[Taken] = []
        for sensor, readings in said:
            publisher = self._publishers[sensor.name]
            refusals = publisher.publish_many(sensor.topic, [r.payload for r in readings])
            kept = [r for r, refusal in zip(readings, refusals, strict=True) if refusal is None]
            taken.append((sensor, kept, len(readings) - len(kept)))
        return taken


class RespGateway(Gateway):
    """Signed PUBLISH commands, followed by an XADD whose reply covers them all."""

    def _open(self) -> None:
        self._socket = self._stack.enter_context(dial(HOST, self._port, ANSWER_S))
        self._socket.settimeout(ANSWER_S)
        self._answers = self._stack.enter_context(self._socket.makefile("rb"))

    def send(self, said: Said) -> list[Taken]:
        commands = [
            _command("PUBLISH", *self._envelope(sensor, reading))
            for sensor, readings in said
            for reading in readings
        ]
        commands.append(_command("XADD", HEARTBEAT_TOPIC, b"*", b"payload", b"on disk"))
        self._socket.sendall(b"".join(commands))
        refused = [[self._is_error() for _ in readings] for _, readings in said]
        if self._is_error():
            raise ConnectionLostError("the broker refused the gateway's own entry", "see its log")
        return [
            (sensor, [r for r, no in zip(readings, noes, strict=True) if not no], sum(noes))
            for (sensor, readings), noes in zip(said, refused, strict=True)
        ]

    def _is_error(self) -> bool:
        line = self._answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionLostError("the broker closed the connection", "see its log")
        if line.startswith(b"$"):
            self._answers.read(int(line[1:]) + 2)
        return line.startswith(b"-")


def _command(name: str, topic: str, *arguments: bytes) -> bytes:
    words = (name.encode(), topic.encode(), *arguments)
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


GATEWAYS: Final[dict[Door, type[Gateway]]] = {
    Door.MQTT: MqttGateway,
    Door.BINARY: BinaryGateway,
    Door.RESP: RespGateway,
}


class DoorThread(Thread):
    """Plays the script at one gateway, until it is over or ``stop`` is called."""

    def __init__(
        self,
        door: Door,
        port: int,
        sensors: Sequence[Sensor],
        keys: dict[str, SigningKey],
        script: Script,
    ) -> None:
        super().__init__(name=f"door-{door}", daemon=True)
        self.door = door
        self.ledger = Ledger()
        self.error: Exception | None = None
        self._sensors = [sensor for sensor in sensors if sensor.door is door]
        own = {sensor.name: keys[sensor.name] for sensor in self._sensors}
        self._gateway: Gateway = GATEWAYS[door](port, own)
        self._script = script
        self._over = Event()
        self._began_at = monotonic()

    def begin(self, began_at: float) -> None:
        self._began_at = began_at
        self.start()

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        try:
            with self._gateway:
                for tick in range(self._script.ticks):
                    due_s = self._began_at + tick * TICK_S - monotonic()
                    if self._over.wait(max(0.0, due_s)):
                        return
                    self._play(tick)
        except (ClientError, OSError) as error:
            self.error = error

    def _play(self, tick: int) -> None:
        said = [
            (sensor, readings)
            for sensor in self._sensors
            if sensor.fault is not SensorFault.IMPOSTOR or tick % IMPOSTOR_EVERY == 0
            if (readings := self._script.readings(sensor, tick))
        ]
        taken = self._gateway.send(said)
        second = int(monotonic() - self._began_at)
        for sensor, kept, refused in taken:
            self.ledger.acknowledged(sensor.topic, kept, second)
            self.ledger.refused(sensor.topic, refused)
