"""The client libraries for Python behind the interface of ``clients.py``."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
from gmqtt.storage import PersistentStorage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.interop.clients import (
    FAILED,
    TIMEOUT_S,
    Client,
    Message,
    Options,
    Properties,
    RefusedError,
    Subscription,
)

__all__ = ["AiomqttClient", "GmqttClient", "PahoClient"]

# ── paho-mqtt, and aiomqtt, which is built on it ──────────────────────────────────────────────

PAHO_NAMES = {
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation": "CorrelationData",
    "payload_format": "PayloadFormatIndicator",
    "expiry_s": "MessageExpiryInterval",
    "alias": "TopicAlias",
}
IN_FLIGHT = 1_000
"""paho-mqtt does not look at the broker's Receive Maximum, 1,024: in version 5 it needs a limit."""


def paho_properties(packet: int, **values: Any) -> PahoProperties:
    properties = PahoProperties(packet)
    for name, value in values.items():
        if value is not None:
            setattr(properties, name, value)
    return properties


def of_message(message: Message, packet: int, **more: Any) -> PahoProperties:
    named = {name: getattr(message.properties, key) for key, name in PAHO_NAMES.items()}
    return paho_properties(
        packet, UserProperty=list(message.properties.user) or None, **named, **more
    )


def of_connect(options: Options) -> PahoProperties | None:
    if options.version == paho.MQTTv311:
        return None
    return paho_properties(
        PacketTypes.CONNECT,
        SessionExpiryInterval=options.session_expiry_s,
        ReceiveMaximum=options.receive_maximum,
        TopicAliasMaximum=options.alias_maximum,
    )


def of_will(options: Options) -> tuple[Any, ...]:
    assert options.will is not None
    if options.version == paho.MQTTv311:
        return options.will[:4]
    delay = options.will_delay_s or None
    return (
        *options.will[:4],
        of_message(options.will, PacketTypes.WILLMESSAGE, WillDelayInterval=delay),
    )


def of_publish(message: Message, version: int) -> tuple[Any, ...]:
    if version == paho.MQTTv311:
        return message[:4]
    return (*message[:4], of_message(message, PacketTypes.PUBLISH))


def of_subscription(subscription: Subscription, version: int) -> tuple[Any, ...]:
    if version == paho.MQTTv311:
        return subscription[:2]
    options = SubscribeOptions(
        subscription.qos,
        subscription.no_local,
        subscription.retain_as_published,
        subscription.retain_handling,
    )
    identifier = subscription.identifier
    properties = paho_properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=identifier)
    return subscription.topic_filter, 0, options, properties


def message_of_paho(message: Any) -> Message:
    sent = message.properties
    values = {key: getattr(sent, name, None) for key, name in PAHO_NAMES.items() if key != "alias"}
    properties = Properties(
        user=tuple(getattr(sent, "UserProperty", ())),
        identifiers=tuple(getattr(sent, "SubscriptionIdentifier", ())),
        **values,
    )
    topic = str(message.topic)
    return Message(topic, message.payload, message.qos, message.retain, properties)


def granted(codes: list[ReasonCode] | tuple[int, ...]) -> int:
    """What SUBACK says, of one filter."""
    (code,) = [one.value if isinstance(one, ReasonCode) else one for one in codes]
    if code >= FAILED:
        raise RefusedError(code)
    return code


class PahoClient(Client):
    """paho-mqtt, callback API 2, with its network loop in a thread of its own."""

    library = "paho"
    hides = frozenset({"alias in", "refused PUBREC"})
    transport = "tcp"

    async def connect(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], asyncio.Future[Any]] = {}
        self._sent: dict[int, bytes] = {}
        self._connected: asyncio.Future[Any] = self._loop.create_future()
        self._ended: asyncio.Future[RefusedError] = self._loop.create_future()
        self._paho = self._make()
        start = {} if self.options.version == paho.MQTTv311 else {"clean_start": self.options.clean}
        self._paho.connect("127.0.0.1", self.port, properties=of_connect(self.options), **start)
        self._paho.loop_start()
        refusal = await asyncio.wait_for(self._connected, TIMEOUT_S)
        if refusal is not None:
            await asyncio.to_thread(self._paho.loop_stop)
            raise refusal

    def _make(self) -> paho.Client:
        version = self.options.version
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            self.client_id,
            clean_session=self.options.clean if version == paho.MQTTv311 else None,
            protocol=version,
            transport=self.transport,
            reconnect_on_failure=False,
        )
        client.max_queued_messages_set(0)
        client.max_inflight_messages_set(0 if version == paho.MQTTv311 else IN_FLIGHT)
        if self.options.will is not None:
            client.will_set(*of_will(self.options))
        client.on_connect = self._later(self._on_connect)
        client.on_disconnect = self._later(self._on_disconnect)
        client.on_message = self._later(self._on_message)
        client.on_publish = self._later(self._on_publish)
        client.on_subscribe = self._later(self._on_subscribe)
        client.on_unsubscribe = self._later(self._on_unsubscribe)
        return client

    def _later(self, function: Callable[..., None]) -> Callable[..., None]:
        """Callbacks come in paho's thread; what they change belongs to the test's loop."""

        def call(_client: Any, _data: Any, *arguments: Any) -> None:
            self._loop.call_soon_threadsafe(function, *arguments)

        return call

    def _on_connect(self, flags: Any, code: ReasonCode, properties: Any) -> None:
        self.session_present = flags.session_present
        if not self._connected.done():
            reason = getattr(properties, "ReasonString", None)
            self._connected.set_result(
                RefusedError(code.value, reason) if code.is_failure else None
            )

    def _on_disconnect(self, _flags: Any, code: ReasonCode, properties: Any) -> None:
        if not self._ended.done():
            self._ended.set_result(
                RefusedError(code.value, getattr(properties, "ReasonString", None))
            )

    def _on_message(self, message: paho.MQTTMessage) -> None:
        self.received.put_nowait(message_of_paho(message))

    def _on_publish(self, mid: int, code: ReasonCode, properties: Any) -> None:
        if mid in self._sent:
            self.acknowledged.append(self._sent.pop(mid))
        waiting = self._waiting.pop(("publish", mid))
        if code.is_failure:
            waiting.set_exception(
                RefusedError(code.value, getattr(properties, "ReasonString", None))
            )
        else:
            waiting.set_result(None)

    def _on_subscribe(self, mid: int, codes: list[ReasonCode], _properties: Any) -> None:
        self._waiting.pop(("subscribe", mid)).set_result(codes)

    def _on_unsubscribe(self, mid: int, codes: list[ReasonCode], _properties: Any) -> None:
        self._waiting.pop(("unsubscribe", mid)).set_result(codes)

    def _expect(self, kind: str, mid: int | None) -> "asyncio.Future[Any]":
        assert mid is not None
        return self._waiting.setdefault((kind, mid), self._loop.create_future())

    async def publish_all(self, messages: list[Message]) -> None:
        waiting = []
        for message in messages:
            info = self._paho.publish(*of_publish(message, self.options.version))
            if message.qos:
                self._sent[info.mid] = message.payload
            waiting.append(self._expect("publish", info.mid))
        await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)

    async def subscribe_to(self, subscription: Subscription) -> int:
        _, mid = self._paho.subscribe(*of_subscription(subscription, self.options.version))
        return granted(await asyncio.wait_for(self._expect("subscribe", mid), TIMEOUT_S))

    async def unsubscribe(self, topic_filter: str) -> None:
        _, mid = self._paho.unsubscribe(topic_filter)
        await asyncio.wait_for(self._expect("unsubscribe", mid), TIMEOUT_S)

    async def disconnect(self) -> None:
        self._paho.disconnect()
        await self._end()

    async def vanish(self) -> None:
        self._paho.socket().shutdown(socket.SHUT_RDWR)
        await self._end()

    async def dismissal(self) -> RefusedError:
        return await asyncio.wait_for(self._ended, TIMEOUT_S)

    async def _end(self) -> None:
        await asyncio.wait_for(self._ended, TIMEOUT_S)
        await asyncio.to_thread(self._paho.loop_stop)


class AiomqttClient(Client):
    """aiomqtt, in the test's own loop."""

    library = "aiomqtt"
    hides = frozenset(
        {"alias in", "session present", "refused publish", "reason string", "dismissal"}
    )

    async def connect(self) -> None:
        version = self.options.version
        is_311 = version == paho.MQTTv311
        self._client = aiomqtt.Client(
            "127.0.0.1",
            self.port,
            identifier=self.client_id,
            clean_session=self.options.clean if is_311 else None,
            clean_start=paho.MQTT_CLEAN_START_FIRST_ONLY if is_311 else self.options.clean,
            properties=of_connect(self.options),
            protocol=aiomqtt.ProtocolVersion(version),
            will=aiomqtt.Will(*of_will(self.options)) if self.options.will else None,
            max_inflight_messages=0 if is_311 else IN_FLIGHT,
            timeout=TIMEOUT_S,
        )
        try:
            await self._client.__aenter__()
        except aiomqtt.MqttCodeError as refusal:
            code = refusal.rc.value if isinstance(refusal.rc, ReasonCode) else refusal.rc
            raise RefusedError(code or 0) from refusal
        self._pump = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):  # how it reports a lost connection
            async for message in self._client.messages:
                self.received.put_nowait(message_of_paho(message))

    async def publish_all(self, messages: list[Message]) -> None:
        await asyncio.gather(*(self._publish_one(message) for message in messages))

    async def _publish_one(self, message: Message) -> None:
        await self._client.publish(*of_publish(message, self.options.version))
        if message.qos:
            self.acknowledged.append(message.payload)

    async def subscribe_to(self, subscription: Subscription) -> int:
        asked = of_subscription(subscription, self.options.version)
        return granted(await self._client.subscribe(*asked))

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._client.unsubscribe(topic_filter)

    async def disconnect(self) -> None:
        self._pump.cancel()
        await self._client.__aexit__(None, None, None)

    async def vanish(self) -> None:
        self._client._client.socket().shutdown(socket.SHUT_RDWR)
        await asyncio.wait_for(self._pump, TIMEOUT_S)
        await self._client.__aexit__(None, None, None)

    async def dismissal(self) -> RefusedError:
        raise NotImplementedError


# ── gmqtt ─────────────────────────────────────────────────────────────────────────────────────

GMQTT_NAMES = {
    "content_type": "content_type",
    "response_topic": "response_topic",
    "correlation": "correlation_data",
    "payload_format": "payload_format_id",
    "expiry_s": "message_expiry_interval",
    "alias": "topic_alias",
}


def gmqtt_message(message: Message, **more: Any) -> gmqtt.Message:
    """For gmqtt a property is absent if it is not named at all."""
    sent = message.properties
    named = {name: getattr(sent, key) for key, name in GMQTT_NAMES.items()}
    named |= {"user_property": list(sent.user) or None, **more}
    return gmqtt.Message(*message[:4], **{k: v for k, v in named.items() if v is not None})


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
    hides = frozenset({"refused publish"})

    async def connect(self) -> None:
        self._acknowledged_ids: list[int] = []
        self._storage = _Acknowledgements(self._acknowledged_ids)
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._ended: asyncio.Future[RefusedError] = asyncio.get_running_loop().create_future()
        self._client = self._make()
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.on_unsubscribe = lambda *_arguments: self._answer("unsubscribe", None)
        self._client.on_disconnect = self._on_disconnect
        self._client.set_config({"reconnect_retries": 1, "reconnect_delay": 0})
        connecting = self._client.connect("127.0.0.1", self.port, version=self.options.version)
        try:
            await asyncio.wait_for(connecting, TIMEOUT_S)
        except gmqtt.mqtt.handler.MQTTConnectError as refusal:
            raise RefusedError(refusal._code) from refusal
        self._client._is_active = False  # or it would reconnect

    def _make(self) -> gmqtt.Client:
        will, properties = self.options.will, {}
        if self.options.version != gmqtt.constants.MQTTv311:
            asked = {
                "session_expiry_interval": self.options.session_expiry_s,
                "receive_maximum": self.options.receive_maximum,
                "topic_alias_maximum": self.options.alias_maximum,
            }
            properties = {name: value for name, value in asked.items() if value is not None}
        delay = self.options.will_delay_s or None
        return gmqtt.Client(
            self.client_id,
            clean_session=self.options.clean,
            will_message=gmqtt_message(will, will_delay_interval=delay) if will else None,
            persistent_storage=self._storage,
            **properties,
        )

    def _on_connect(self, _client: Any, flags: int, _code: int, _properties: Any) -> None:
        self.session_present = bool(flags)

    def _on_disconnect(self, _client: Any, packet: Any, *_rest: Any) -> None:
        if self._ended.done():
            return
        if not isinstance(packet, bytes) or not packet or self.options.version == 4:
            self._ended.set_result(RefusedError(0))
            return
        properties, _ = self._client._package_handler._parse_properties(packet[1:] or b"\0")
        self._ended.set_result(RefusedError(packet[0], *properties.get("reason_string", [])))

    def _on_message(
        self, _client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]
    ) -> int:
        values = {
            key: properties[name][0] for key, name in GMQTT_NAMES.items() if name in properties
        }
        values.pop("alias", None)
        known = Properties(
            user=tuple(properties.get("user_property", ())),
            identifiers=tuple(properties.get("subscription_identifier", ())),
            **values,
        )
        retain = bool(properties["retain"])
        self.received.put_nowait(Message(topic, bytes(payload), qos, retain, known))
        return 0

    async def publish_all(self, messages: list[Message]) -> None:
        sent = {}
        for message in messages:
            self._client.publish(gmqtt_message(message))
            if message.qos:
                sent[next(reversed(self._storage._messages))] = message.payload
        await asyncio.wait_for(self._storage.wait_empty(), TIMEOUT_S)
        self.acknowledged += [sent[mid] for mid in self._acknowledged_ids]
        self._acknowledged_ids.clear()

    def _on_subscribe(self, _client: Any, _mid: int, codes: tuple[int, ...], _more: Any) -> None:
        self._answer("subscribe", codes)

    def _answer(self, kind: str, value: Any) -> None:
        self._answers[kind].set_result(value)

    def _expect(self, kind: str) -> "asyncio.Future[Any]":
        self._answers[kind] = asyncio.get_running_loop().create_future()
        return self._answers[kind]

    async def subscribe_to(self, subscription: Subscription) -> int:
        answer = self._expect("subscribe")
        asked = (
            {}
            if subscription.identifier is None
            else {"subscription_identifier": subscription.identifier}
        )
        self._client.subscribe(gmqtt.Subscription(*subscription[:5], **asked), **asked)
        return granted(await asyncio.wait_for(answer, TIMEOUT_S))

    async def unsubscribe(self, topic_filter: str) -> None:
        answer = self._expect("unsubscribe")
        self._client.unsubscribe(topic_filter)
        await asyncio.wait_for(answer, TIMEOUT_S)

    async def disconnect(self) -> None:
        await self._client.disconnect()

    async def vanish(self) -> None:
        self._client._connection._transport.abort()
        await asyncio.wait_for(self._ended, TIMEOUT_S)

    async def dismissal(self) -> RefusedError:
        return await asyncio.wait_for(self._ended, TIMEOUT_S)
