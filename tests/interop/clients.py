"""Three client libraries behind one interface, so that each claim is tested with all of them.

The interface is asynchronous and has what every MQTT client can do: connect, publish until
acknowledged, subscribe, disconnect, vanish. Received messages wait in ``received``.
None of them reconnects by itself here: a connection that ends when it should not is a failure.
"""

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
from gmqtt.storage import PersistentStorage
from paho.mqtt.enums import CallbackAPIVersion

__all__ = ["LIBRARIES", "AiomqttClient", "Client", "GmqttClient", "Message", "PahoClient"]

TIMEOUT_S = 15.0
"""How long a library may wait for the broker; only a failing test waits this long."""


class Message(NamedTuple):
    """A message, sent or received."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Client(ABC):
    """One connection through one library."""

    library: ClassVar[str]

    def __init__(
        self, port: int, client_id: str, *, clean: bool = True, will: Message | None = None
    ) -> None:
        self.port = port
        self.client_id = client_id
        self.clean = clean
        self.will = will
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.acknowledged: list[bytes] = []
        """Payloads of QoS 1 and 2, in the order in which their acknowledgements came."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect; raises the library's error when refused."""

    @abstractmethod
    async def publish_all(self, messages: list[Message]) -> None:
        """Publish without waiting in between, then wait for the last acknowledgement."""

    @abstractmethod
    async def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe, and wait for SUBACK."""

    @abstractmethod
    async def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe, and wait for UNSUBACK."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Send DISCONNECT."""

    @abstractmethod
    async def vanish(self) -> None:
        """End the connection without DISCONNECT."""

    async def publish(
        self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False
    ) -> None:
        await self.publish_all([Message(topic, payload, qos, retain)])

    async def next(self) -> Message:
        """The next message that arrives."""
        return await asyncio.wait_for(self.received.get(), TIMEOUT_S)


class PahoClient(Client):
    """paho-mqtt, callback API 2, with its network loop in a thread of its own."""

    library = "paho"

    async def connect(self, protocol: int = paho.MQTTv311) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._sent: dict[int, bytes] = {}
        self._connected: asyncio.Future[Any] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._paho = self._make(protocol)
        self._paho.connect("127.0.0.1", self.port)
        self._paho.loop_start()
        refusal = await asyncio.wait_for(self._connected, TIMEOUT_S)
        if refusal is not None:
            await asyncio.to_thread(self._paho.loop_stop)
            raise ConnectionRefusedError(str(refusal))

    def _make(self, protocol: int) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            self.client_id,
            clean_session=self.clean if protocol == paho.MQTTv311 else None,
            protocol=protocol,
            reconnect_on_failure=False,
        )
        client.max_inflight_messages_set(0)  # no limit, so that a burst is sent at once
        if self.will is not None:
            client.will_set(*self.will)
        client.on_connect = lambda _c, _u, _flags, code, _p: self._later(self._on_connect, code)
        client.on_disconnect = lambda *_arguments: self._later(self._on_disconnect)
        client.on_message = lambda _c, _u, message: self._later(self._on_message, message)
        client.on_publish = lambda _c, _u, mid, *_rest: self._later(self._on_publish, mid)
        client.on_subscribe = lambda _c, _u, mid, *_rest: self._later(self._done, "subscribe", mid)
        client.on_unsubscribe = lambda _c, _u, mid, *_rest: self._later(
            self._done, "unsubscribe", mid
        )
        return client

    def _later(self, function: Any, *arguments: Any) -> None:
        """Callbacks come in paho's thread; what they change belongs to the test's loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def _on_connect(self, code: Any) -> None:
        if not self._connected.done():
            self._connected.set_result(code if code.is_failure else None)

    def _on_disconnect(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _on_message(self, message: paho.MQTTMessage) -> None:
        self.received.put_nowait(
            Message(message.topic, message.payload, message.qos, message.retain)
        )

    def _on_publish(self, mid: int) -> None:
        if mid in self._sent:
            self.acknowledged.append(self._sent.pop(mid))
        self._done("publish", mid)

    def _done(self, kind: str, mid: int) -> None:
        self._waiting.pop((kind, mid)).set_result(None)

    def _expect(self, kind: str, mid: int | None) -> "asyncio.Future[None]":
        assert mid is not None
        return self._waiting.setdefault((kind, mid), self._loop.create_future())

    async def publish_all(self, messages: list[Message]) -> None:
        waiting = []
        for message in messages:
            info = self._paho.publish(*message)
            if message.qos:
                self._sent[info.mid] = message.payload
            waiting.append(self._expect("publish", info.mid))
        await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        _, mid = self._paho.subscribe(topic_filter, qos)
        await asyncio.wait_for(self._expect("subscribe", mid), TIMEOUT_S)

    async def unsubscribe(self, topic_filter: str) -> None:
        _, mid = self._paho.unsubscribe(topic_filter)
        await asyncio.wait_for(self._expect("unsubscribe", mid), TIMEOUT_S)

    async def disconnect(self) -> None:
        self._paho.disconnect()
        await self._end()

    async def vanish(self) -> None:
        self._paho.socket().shutdown(socket.SHUT_RDWR)
        await self._end()

    async def _end(self) -> None:
        await asyncio.wait_for(self._ended, TIMEOUT_S)
        await asyncio.to_thread(self._paho.loop_stop)


class AiomqttClient(Client):
    """aiomqtt, in the test's own loop."""

    library = "aiomqtt"

    async def connect(
        self, protocol: aiomqtt.ProtocolVersion = aiomqtt.ProtocolVersion.V311
    ) -> None:
        is_311 = protocol == aiomqtt.ProtocolVersion.V311
        self._client = aiomqtt.Client(
            "127.0.0.1",
            self.port,
            identifier=self.client_id,
            clean_session=self.clean if is_311 else None,
            protocol=protocol,
            will=aiomqtt.Will(*self.will) if self.will else None,
            max_inflight_messages=0,
            timeout=TIMEOUT_S,
        )
        await self._client.__aenter__()
        self._pump = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):  # how it reports a lost connection
            async for message in self._client.messages:
                assert isinstance(message.payload, bytes)
                topic = str(message.topic)
                self.received.put_nowait(
                    Message(topic, message.payload, message.qos, message.retain)
                )

    async def publish_all(self, messages: list[Message]) -> None:
        await asyncio.gather(*(self._publish_one(message) for message in messages))

    async def _publish_one(self, message: Message) -> None:
        await self._client.publish(*message)
        if message.qos:
            self.acknowledged.append(message.payload)

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        await self._client.subscribe(topic_filter, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._client.unsubscribe(topic_filter)

    async def disconnect(self) -> None:
        self._pump.cancel()
        await self._client.__aexit__(None, None, None)

    async def vanish(self) -> None:
        self._client._client.socket().shutdown(socket.SHUT_RDWR)
        await asyncio.wait_for(self._pump, TIMEOUT_S)
        await self._client.__aexit__(None, None, None)


class _Acknowledgements(PersistentStorage):
    """Where gmqtt keeps unacknowledged messages; it exposes nothing else."""

    def __init__(self, acknowledged: list[int]) -> None:
        super().__init__()
        self._acknowledged = acknowledged

    def remove_message_by_mid(self, mid: int) -> None:
        self._acknowledged.append(mid)
        super().remove_message_by_mid(mid)


class GmqttClient(Client):
    """gmqtt, in the test's own loop."""

    library = "gmqtt"

    async def connect(self, version: int = gmqtt.constants.MQTTv311) -> None:
        self._acknowledged_ids: list[int] = []
        self._storage = _Acknowledgements(self._acknowledged_ids)
        self._answers: dict[str, asyncio.Event] = {}
        self._ended = asyncio.Event()
        self._client = gmqtt.Client(
            self.client_id,
            clean_session=self.clean,
            will_message=gmqtt.Message(*self.will) if self.will else None,
            persistent_storage=self._storage,
        )
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_arguments: self._answers["subscribe"].set()
        self._client.on_unsubscribe = lambda *_arguments: self._answers["unsubscribe"].set()
        self._client.on_disconnect = lambda *_arguments: self._ended.set()
        self._client.set_config({"reconnect_retries": 1, "reconnect_delay": 0})
        await asyncio.wait_for(
            self._client.connect("127.0.0.1", self.port, version=version), TIMEOUT_S
        )

    def _on_message(
        self, _client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]
    ) -> int:
        self.received.put_nowait(Message(topic, bytes(payload), qos, bool(properties["retain"])))
        return 0

    async def publish_all(self, messages: list[Message]) -> None:
        sent = {}
        for message in messages:
            self._client.publish(*message)
            if message.qos:
                sent[next(reversed(self._storage._messages))] = message.payload
        await asyncio.wait_for(self._storage.wait_empty(), TIMEOUT_S)
        self.acknowledged += [sent[mid] for mid in self._acknowledged_ids]
        self._acknowledged_ids.clear()

    async def _answer(self, kind: str) -> None:
        await asyncio.wait_for(self._answers[kind].wait(), TIMEOUT_S)

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        self._answers["subscribe"] = asyncio.Event()
        self._client.subscribe(topic_filter, qos)
        await self._answer("subscribe")

    async def unsubscribe(self, topic_filter: str) -> None:
        self._answers["unsubscribe"] = asyncio.Event()
        self._client.unsubscribe(topic_filter)
        await self._answer("unsubscribe")

    async def disconnect(self) -> None:
        await self._client.disconnect()

    async def vanish(self) -> None:
        self._client._is_active = False  # or it would reconnect
        self._client._connection._transport.abort()
        await asyncio.wait_for(self._ended.wait(), TIMEOUT_S)


LIBRARIES: tuple[type[Client], ...] = (PahoClient, AiomqttClient, GmqttClient)
