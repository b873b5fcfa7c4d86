"""zmqtt behind the interface of ``clients.py``.

It hands over a message only to a subscription of this process: one that resumes its session has to
subscribe again, and gets what was missed then. So does this client, by itself.
"""

import asyncio
from typing import Any

import zmqtt

from tests.interop.clients import TIMEOUT_S, Client, Message, Properties, RefusedError, Subscription
from tests.interop.driven_clients import Relay

__all__ = ["ZmqttClient"]

VERSIONS = {4: "3.1.1", 5: "5.0"}
NAMES = {
    "content_type": "content_type",
    "response_topic": "response_topic",
    "correlation": "correlation_data",
    "payload_format": "payload_format_indicator",
    "expiry_s": "message_expiry_interval",
}


def named(message: Message) -> dict[str, Any]:
    sent = message.properties
    return {name: getattr(sent, key) for key, name in NAMES.items()} | {
        "user_properties": sent.user
    }


class ZmqttClient(Client):
    """zmqtt, in the test's own loop."""

    library = "zmqtt"
    hides = frozenset({"alias in", "alias out", "dismissal", "overlap"})
    _relay: Relay | None = None
    _known: dict[str, dict[str, Subscription]] = {}

    async def connect(self) -> None:
        self._queue: asyncio.Queue[zmqtt.Message] = asyncio.Queue()
        self._subscriptions: dict[str, zmqtt.Subscription] = {}
        options, port = self.options, self.port
        if options.will is not None:
            self._relay = Relay(port)
            port = await self._relay.start()
        own: dict[str, Any] = {}
        if options.version == 5:
            own["receive_maximum"] = options.receive_maximum
        self._client = zmqtt.MQTTClient(
            "127.0.0.1",
            port,
            client_id=self.client_id,
            clean_session=options.clean,
            will=self._will(),
            reconnect=zmqtt.ReconnectConfig(enabled=False),
            version=VERSIONS[options.version],
            session_expiry_interval=options.session_expiry_s if options.version == 5 else 0,
            **own,
        )
        try:
            await asyncio.wait_for(self._client.connect(), TIMEOUT_S)
        except zmqtt.MQTTConnectError as refusal:
            raise RefusedError(refusal.return_code, refusal.reason_string) from refusal
        self.session_present = self._client.connection_info.session_present
        self._pump = asyncio.create_task(self._receive())
        known = self._known.setdefault(self.client_id, {})
        if not self.session_present:
            known.clear()
        for subscription in [*known.values()]:
            await self.subscribe_to(subscription._replace(retain_handling=2))

    def _will(self) -> zmqtt.Will | None:
        if (will := self.options.will) is None:
            return None
        properties = None
        if self.options.version == 5:
            delay = self.options.will_delay_s
            properties = zmqtt.WillProperties(will_delay_interval=delay, **named(will))
        return zmqtt.Will(
            topic=will.topic,
            payload=will.payload,
            qos=zmqtt.QoS(will.qos),
            retain=will.retain,
            properties=properties,
        )

    async def _receive(self) -> None:
        while True:
            message = await self._queue.get()
            properties = Properties()
            if (got := message.properties) is not None:
                number = got.subscription_identifier
                properties = Properties(
                    user=tuple(got.user_properties),
                    identifiers=() if number is None else (number,),
                    **{key: getattr(got, name) for key, name in NAMES.items()},
                )
            told = Message(
                message.topic, message.payload, message.qos.value, message.retain, properties
            )
            self.received.put_nowait(told)

    async def publish_all(self, messages: list[Message]) -> None:
        await asyncio.gather(*(self._publish_one(message) for message in messages))

    async def _publish_one(self, message: Message) -> None:
        own = {}
        if self.options.version == 5:
            own["properties"] = zmqtt.PublishProperties(**named(message))
        qos, retain = zmqtt.QoS(message.qos), message.retain
        try:
            await self._client.publish(
                message.topic, message.payload, qos=qos, retain=retain, **own
            )
        except zmqtt.MQTTPublishError as refusal:
            raise RefusedError(refusal.reason_code, refusal.reason_string) from refusal
        if message.qos:
            self.acknowledged.append(message.payload)

    async def subscribe_to(self, subscription: Subscription) -> int:
        own: dict[str, Any] = {}
        if self.options.version == 5:
            own = {
                "no_local": subscription.no_local,
                "retain_as_published": subscription.retain_as_published,
                "retain_handling": zmqtt.RetainHandling(subscription.retain_handling),
                "subscription_identifier": subscription.identifier,
            }
        name = subscription.topic_filter
        made = self._client.subscribe(name, qos=zmqtt.QoS(subscription.qos), **own)
        made._queue = self._queue  # one queue of all, or their order would be lost
        try:
            await asyncio.wait_for(made.start(), TIMEOUT_S)
        except zmqtt.MQTTSubscribeError as refusal:
            (code,) = refusal.failures.values()
            raise RefusedError(code) from refusal
        self._subscriptions[name] = made
        self._known[self.client_id][name] = subscription
        return min(subscription.qos, 1) if name.startswith("$share/") else subscription.qos

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._subscriptions.pop(topic_filter).stop()
        del self._known[self.client_id][topic_filter]

    async def disconnect(self) -> None:
        self._pump.cancel()
        await self._client.disconnect()
        if self._relay is not None:
            await self._relay.finish()  # DISCONNECT may be on its way
            await self._relay.cut()

    async def vanish(self) -> None:
        assert self._relay is not None
        await self._relay.cut()
        await self.disconnect()

    async def dismissal(self) -> RefusedError:
        raise NotImplementedError
