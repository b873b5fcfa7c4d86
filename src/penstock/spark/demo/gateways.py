"""The three ways in, each with a thread of its own: MQTT, the binary protocol, RESP.

What each may count as acknowledged:

* **MQTT**, QoS 1: ``publish_many`` returns after every PUBACK, and the broker sends that after the
  commit.
* **Binary**: a publisher per sensor, for the key belongs to the connection; each publish is
  answered after the commit.
* **RESP**: PUBLISH takes signed envelopes, but is answered before the disk has them. XADD is
  answered after, and the journal keeps the order of a connection. So the gateway puts an entry of
  its own behind its sensors' readings, and when that is answered they are on disk too.

An impostor's word is refused differently, too: with an error by the binary protocol and by RESP;
in MQTT 3.1.1, which knows no such answer, by hanging up. There it comes with a connection of its
own, not to take the others with it.

The clock is looked at here only: a tick that is late is done at once, and the next ones follow
until the pace is kept again.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Final, Protocol, Self

from penstock.client import ClientError, ConnectionLostError, Publisher, SigningKey, connect
from penstock.client.dial import dial
from penstock.spark.demo.broker import HOST, BrokerProcess
from penstock.spark.demo.fleet import Door, Script, Sensor, SensorFault, SensorReading, secret_seed
from penstock.spark.demo.ledger import Ledger
from penstock.trust.signatures import key_pair
from penstock.wire.mqtt.envelope import sealed

ANSWER_S: Final = 30.0
"""How long a busy machine's broker may take to answer."""

TICK_S: Final = 0.2
"""One reading of each sensor."""

IMPOSTOR_EVERY: Final = 10
"""Ticks between two attempts of an impostor."""

HEARTBEAT_TOPIC: Final = "fleet/gateway"
"""Where the RESP gateway puts the entry that says: what came before is on disk."""

Said = Sequence[tuple[Sensor, Sequence[SensorReading]]]
Taken = list[tuple[Sensor, Sequence[SensorReading], int]]
"""Of each sensor what was acknowledged, and how many were refused."""


def enrolled(broker: BrokerProcess, fleet: Sequence[Sensor], seed: int) -> dict[str, SigningKey]:
    """Register a key for each sensor, for its topic only; return the secrets they sign with.

    An impostor has the id of a key that is in force, and another secret.
    """
    keys = {}
    for sensor in fleet:
        true = secret_seed(seed, sensor.name)
        key_id = broker.register_key(sensor.name, sensor.topic, key_pair(true).public_key)
        forged = secret_seed(seed + 1, sensor.name)
        keys[sensor.name] = SigningKey(
            key_id, forged if sensor.fault is SensorFault.IMPOSTOR else true
        )
    return keys


class Gateway(Protocol):
    """One door: open for as long as the ``with`` statement, used by one thread."""

    def __enter__(self) -> Self:
        """Connect."""

    def __exit__(self, *exception: object) -> None:
        """Hang up."""

    def send(self, said: Said) -> Taken:
        """Send, wait for the answers, and tell what became of each."""


def _envelope(key: SigningKey, sensor: Sensor, reading: SensorReading) -> tuple[str, bytes]:
    signature = key.sign(sensor.topic.encode(), reading.payload)
    return f"$signed/{sensor.topic}", sealed(signature, reading.payload)


class _Open:
    """What has to be closed in the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


class MqttGateway(_Open):
    """All sensors on one connection at QoS 1; see the module."""

    def __init__(self, port: int, keys: dict[str, SigningKey]) -> None:
        super().__init__()
        self._port, self._keys = port, keys

    def __enter__(self) -> Self:
        client = connect(HOST, self._port, "gateway", timeout_s=ANSWER_S)
        self._client = self._stack.enter_context(client)
        return self

    def send(self, said: Said) -> Taken:
        """Send what the true ones say together, and let each impostor try on its own."""
        true = [(s, rs) for s, rs in said if s.fault is not SensorFault.IMPOSTOR]
        self._client.publish_many(
            [_envelope(self._keys[s.name], s, r) for s, readings in true for r in readings], qos=1
        )
        taken: Taken = [(s, readings, 0) for s, readings in true]
        return taken + [self._tried(s, rs) for s, rs in said if s.fault is SensorFault.IMPOSTOR]

    def _tried(self, sensor: Sensor, readings: Sequence[SensorReading]) -> Any:
        envelopes = [_envelope(self._keys[sensor.name], sensor, r) for r in readings]
        try:
            with connect(HOST, self._port, sensor.name, timeout_s=ANSWER_S) as client:
                client.publish_many(envelopes, qos=1)
        except ConnectionLostError:
            return sensor, (), len(readings)
        return sensor, readings, 0


class BinaryGateway(_Open):
    """A connection for each sensor, which signs by itself; see the module."""

    def __init__(self, port: int, keys: dict[str, SigningKey]) -> None:
        super().__init__()
        self._port, self._keys = port, keys
        self._publishers: dict[str, Publisher] = {}

    def __enter__(self) -> Self:
        for name, key in self._keys.items():
            publisher = Publisher(host=HOST, port=self._port, signing_key=key)
            self._publishers[name] = self._stack.enter_context(publisher)
        return self

    def send(self, said: Said) -> Taken:
        """Publish for one sensor after the other."""
        return [self._published(sensor, readings) for sensor, readings in said]

    def _published(
        self, sensor: Sensor, readings: Sequence[SensorReading]
    ) -> tuple[Sensor, Sequence[SensorReading], int]:
        publisher = self._publishers[sensor.name]
        refusals = publisher.publish_many(sensor.topic, [r.payload for r in readings])
        kept = [r for r, refusal in zip(readings, refusals, strict=True) if refusal is None]
        return sensor, kept, len(readings) - len(kept)


class RespGateway(_Open):
    """Signed PUBLISHes with an XADD behind them, whose answer covers them all; see the module."""

    def __init__(self, port: int, keys: dict[str, SigningKey]) -> None:
        super().__init__()
        self._port, self._keys = port, keys

    def __enter__(self) -> Self:
        self._socket = self._stack.enter_context(dial(HOST, self._port, ANSWER_S))
        self._socket.settimeout(ANSWER_S)
        self._answers = self._stack.enter_context(self._socket.makefile("rb"))
        return self

    def send(self, said: Said) -> Taken:
        """Send all commands in one piece; read as many answers."""
        self._socket.sendall(b"".join(self._commands(said)))
        refused = [[self._is_error() for _ in readings] for _, readings in said]
        if self._is_error():
            raise ConnectionLostError(
                "the broker refused the gateway's own entry", "its log says why"
            )
        return [
            (sensor, [r for r, no in zip(readings, noes, strict=True) if not no], sum(noes))
            for (sensor, readings), noes in zip(said, refused, strict=True)
        ]

    def _commands(self, said: Said) -> list[bytes]:
        commands = [
            _command("PUBLISH", *_envelope(self._keys[sensor.name], sensor, reading))
            for sensor, readings in said
            for reading in readings
        ]
        return [*commands, _command("XADD", HEARTBEAT_TOPIC, b"*", b"payload", b"on disk")]

    def _is_error(self) -> bool:
        """Read one answer: an integer, an error, or a bulk string."""
        line = self._answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionLostError("the broker closed the connection", "its log says why")
        if line.startswith(b"$"):
            self._answers.read(int(line[1:]) + 2)
        return line.startswith(b"-")


def _command(name: str, topic: str, *arguments: bytes) -> bytes:
    words = (name.encode(), topic.encode(), *arguments)
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


GATEWAYS: Final[dict[Door, Any]] = {
    Door.MQTT: MqttGateway,
    Door.BINARY: BinaryGateway,
    Door.RESP: RespGateway,
}


class DoorThread(Thread):
    """Plays the script at one door until it is over, or ``stop`` is set."""

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
        """Start; all doors count their seconds from the same moment."""
        self._began_at = began_at
        self.start()

    def stop(self) -> None:
        """Say no more; what is on its way is still waited for."""
        self._over.set()

    def run(self) -> None:
        """Play; what goes wrong is for whoever joins."""
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
