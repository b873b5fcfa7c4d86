"""Client libraries of other languages behind the interface of ``clients.py``.

Each has a **driver**: a program that does what lines of JSON on its input ask, and answers in
lines of JSON. One process serves all clients of a library.

=============  ==========================================================  =======================
``do``         asks                                                        answer
=============  ==========================================================  =======================
connect        port, id, version, clean, expiry, will, willDelay,          sessionPresent
               receiveMaximum, aliasMaximum
publish        messages                                                    acknowledged: payloads
subscribe      filter, qos, noLocal, retainAsPublished, retainHandling,    granted
               identifier
unsubscribe    filter
disconnect
=============  ==========================================================  =======================

Every line has ``call``, a number, which its answer repeats, and ``client``, a name. A refusal is
answered with ``code`` and ``reason``, a failure with ``error``. A line without ``call`` tells what
came: ``message``, or ``ended`` with ``code`` and ``reason``. Payloads and correlation data are in
base64.

No library can be told to break its connection: a client with a will connects through a relay, and
``vanish`` cuts that.
"""

import asyncio
import atexit
import contextlib
import itertools
import json
import shutil
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tests.interop.clients import (
    TIMEOUT_S,
    Client,
    Message,
    Properties,
    RefusedError,
    Subscription,
)

__all__ = [
    "DrivenClient",
    "EclipseGoClient",
    "EclipseJavaClient",
    "HiveMqClient",
    "JavaClient",
    "MqttJsClient",
]

HERE = Path(__file__).parent
PROPERTY_NAMES = {
    "content_type": "contentType",
    "response_topic": "responseTopic",
    "payload_format": "payloadFormat",
    "expiry_s": "expiry",
}


def to_json(message: Message) -> dict[str, Any]:
    sent = message.properties
    properties = {name: getattr(sent, key) for key, name in PROPERTY_NAMES.items()}
    properties["user"] = [list(pair) for pair in sent.user]
    properties["alias"] = sent.alias
    properties["correlation"] = None if sent.correlation is None else _text(sent.correlation)
    payload = _text(message.payload)
    plain = {"topic": message.topic, "payload": payload, "qos": message.qos}
    return {**plain, "retain": message.retain, "properties": properties}


def of_json(message: dict[str, Any]) -> Message:
    got = message["properties"]
    correlation = got.get("correlation")
    properties = Properties(
        user=tuple((name, value) for name, value in got["user"]),
        correlation=None if correlation is None else b64decode(correlation),
        identifiers=tuple(got.get("identifiers", ())),
        **{key: got.get(name) for key, name in PROPERTY_NAMES.items()},
    )
    payload = b64decode(message["payload"])
    return Message(message["topic"], payload, message["qos"], message["retain"], properties)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


class Driver:
    """A running program; a thread reads what it says."""

    def __init__(self, command: list[str], directory: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=directory, stdin=pipe, stdout=pipe, text=True, bufsize=1
        )
        atexit.register(self._stop)
        self._calls = itertools.count(1)
        self._waiting: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._clients: dict[str, DrivenClient] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            if "call" in said:
                self._waiting.pop(said["call"])(said)
            elif (client := self._clients.get(said["client"])) is not None:
                client.told(said)

    def add(self, client: "DrivenClient") -> str:
        name = f"c{next(self._calls)}"
        self._clients[name] = client
        return name

    def remove(self, name: str) -> None:
        self._clients.pop(name, None)

    def ask(self, line: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        call = next(self._calls)
        self._waiting[call] = answered
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, **line}) + "\n")


class Relay:
    """Passes a connection on to the broker, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, far_writer]
        self._tasks += [
            asyncio.create_task(self._copy(reader, far_writer)),
            asyncio.create_task(self._copy(far_reader, writer)),
        ]

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def finish(self) -> None:
        """Wait until both ends have closed, and have got all that was sent before."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()


class DrivenClient(Client):
    """A client in another process."""

    command: ClassVar[tuple[str, ...]]
    directory: ClassVar[Path]
    _relay: Relay | None = None

    @classmethod
    def missing(cls) -> str | None:
        """What has to be installed first, if something has."""
        raise NotImplementedError

    @classmethod
    @cache
    def driver(cls) -> Driver:
        return Driver([*cls.command], cls.directory)

    async def connect(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[RefusedError] = self._loop.create_future()
        self._name = self.driver().add(self)
        port, options = self.port, self.options
        if options.will is not None:
            self._relay = Relay(port)
            port = await self._relay.start()
        answer = await self._ask(
            "connect",
            port=port,
            id=self.client_id,
            clean=options.clean,
            expiry=options.session_expiry_s,
            will=to_json(options.will) if options.will else None,
            willDelay=options.will_delay_s,
            receiveMaximum=options.receive_maximum,
            aliasMaximum=options.alias_maximum,
        )
        self.session_present = answer["sessionPresent"]

    async def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()

        def answered(said: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the test has ended, and its loop
                self._loop.call_soon_threadsafe(answer.set_result, said)

        line = {"client": self._name, "version": self.options.version, "do": what, **more}
        self.driver().ask(line, answered)
        said = await asyncio.wait_for(answer, TIMEOUT_S)
        assert "error" not in said, said["error"]
        if "code" in said:
            raise RefusedError(said["code"], said["reason"])
        return said

    def told(self, said: dict[str, Any]) -> None:
        """Called by the driver's thread."""
        with contextlib.suppress(RuntimeError):  # the test has ended, and its loop
            self._loop.call_soon_threadsafe(self._on_told, said)

    def _on_told(self, said: dict[str, Any]) -> None:
        if "message" in said:
            self.received.put_nowait(of_json(said["message"]))
        elif not self._ended.done():
            self._ended.set_result(RefusedError(said["ended"]["code"], said["ended"]["reason"]))

    async def publish_all(self, messages: list[Message]) -> None:
        said = await self._ask("publish", messages=[to_json(message) for message in messages])
        self.acknowledged += [b64decode(payload) for payload in said["acknowledged"]]

    async def subscribe_to(self, subscription: Subscription) -> int:
        said = await self._ask(
            "subscribe",
            filter=subscription.topic_filter,
            qos=subscription.qos,
            noLocal=subscription.no_local,
            retainAsPublished=subscription.retain_as_published,
            retainHandling=subscription.retain_handling,
            identifier=subscription.identifier,
        )
        granted: int = said["granted"]
        return granted

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._ask("unsubscribe", filter=topic_filter)

    async def disconnect(self) -> None:
        if not self._ended.done():
            await self._ask("disconnect")
        self.driver().remove(self._name)
        if self._relay is not None:
            await self._relay.cut()

    async def vanish(self) -> None:
        assert self._relay is not None
        await self._relay.cut()
        await asyncio.wait_for(self._ended, TIMEOUT_S)
        self.driver().remove(self._name)

    async def dismissal(self) -> RefusedError:
        return await asyncio.wait_for(self._ended, TIMEOUT_S)


class MqttJsClient(DrivenClient):
    """MQTT.js, in Node."""

    library = "mqttjs"
    hides = frozenset({"reason of a publish"})
    command = ("node", "driver.js")
    directory = HERE / "mqtt_js"

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("node") is None:
            return "node"
        if not (cls.directory / "node_modules/mqtt").exists():
            return "MQTT.js: npm install in tests/interop/mqtt_js"
        return None


class JavaClient(DrivenClient):
    """A client of the Java driver, which ``make java-clients`` compiles."""

    directory = HERE / "java_mqtt"

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("java") is None:
            return "java"
        if not (cls.directory / "target/classes/Driver.class").exists():
            return "the Java clients: make java-clients"
        return None


def _java(library: str) -> tuple[str, ...]:
    """A small heap and the first compiler alone: it starts sooner."""
    return (
        *("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-cp", "target/classes:target/jars/*", "Driver", library),
    )


class HiveMqClient(JavaClient):
    """HiveMQ's client for Java; it uses topic aliases and subscription identifiers by itself."""

    library = "hivemq"
    hides = frozenset({"alias out", "identifiers", "order of acknowledgements"})
    command = _java("hivemq")


class EclipseJavaClient(JavaClient):
    """Eclipse Paho's client of MQTT 5 for Java; it sets topic aliases itself, and resolves none."""

    library = "paho-java"
    hides = frozenset(
        {"alias in", "alias out", "reason of a publish", "connection after a refused PUBREC"}
    )
    command = _java("paho")


class EclipseGoClient(DrivenClient):
    """Eclipse Paho's client of MQTT 5 for Go, which ``make go-client`` builds."""

    library = "paho-go"
    hides = frozenset({"alias in", "overlap", "properties of a will"})
    command = ("target/driver",)
    directory = HERE / "go_mqtt"

    @classmethod
    def missing(cls) -> str | None:
        is_built = (cls.directory / "target/driver").exists()
        return None if is_built else "the client for Go: make go-client"
