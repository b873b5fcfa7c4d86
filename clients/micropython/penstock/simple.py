"""A blocking client with the names of ``umqtt.simple``, for programs without asyncio.

It is the asyncio client, run while a method is called: connections are replaced and subscriptions
restored in there. Between two calls nothing happens, so call something every keep-alive.

What differs from MQTT: ``publish`` returns when the message is on the broker's disk, whatever
``qos`` says. The broker remembers what a client id has acknowledged, so ``subscribe`` brings all
that was missed. There is no will.
"""

import asyncio

from penstock.client import Client

try:
    from asyncio import sleep_ms
except ImportError:
    from penstock._cpython import sleep_ms


class MQTTClient:
    """See the module. Other keywords are those of ``penstock.Client``."""

    def __init__(
        self,
        client_id: str,
        server: object,
        port: int = 1883,
        user: str = "",
        password: str = "",
        keepalive: int = 60,
        **options: object,
    ) -> None:
        # asyncio of CPython takes the loop that its objects are made in
        self._loop = asyncio.new_event_loop()
        self._client = Client(
            server,
            port or 1883,
            client_id,
            user=user or "",
            password=password or "",
            keep_alive=keepalive or 60,
            **options,
        )
        self.cb = None

    def _run(self, task: object) -> object:
        return self._loop.run_until_complete(task)

    def set_callback(self, f: object) -> None:
        """Set what is called with the topic and the payload of a message, both bytes."""
        self.cb = f

    def connect(self, clean_session: bool = False) -> bool:
        """Connect; true if the broker has stored acknowledgements of the client id, as it does."""
        self._run(self._client.connect())
        return not clean_session

    def disconnect(self) -> None:
        self._run(self._client.close())

    def ping(self) -> None:
        """Return when everything that was sent is on the broker's disk."""
        self._run(self._client.flush())

    def publish(self, topic: object, msg: object, retain: bool = False, qos: int = 0) -> None:  # noqa: ARG002 - a name of umqtt
        """Publish; return when the broker has it on disk, or raise."""
        self._run(self._client.publish(_text(topic), msg, retain=retain))

    def subscribe(self, topic: object, qos: int = 0) -> None:  # noqa: ARG002 - a name of umqtt
        self._run(self._client.subscribe(_text(topic)))

    def wait_msg(self) -> None:
        """Wait for a message, call the callback, and acknowledge the message."""
        self._deliver(self._run(self._client.receive()))

    def check_msg(self) -> None:
        """Do the same if there is a message; return at once if there is none."""
        message = self._run(self._glance())
        if message:
            self._deliver(message)

    async def _turn(self) -> None:
        for _ in range(3):  # each task of the client gets its turn
            await sleep_ms(1)

    async def _glance(self) -> object:
        await self._turn()
        try:
            return await self._client.receive(0)
        except asyncio.TimeoutError:
            return None

    def _deliver(self, message: object) -> None:
        if self.cb:
            self.cb(message.topic.encode(), message.payload)
        message.ack()
        self._run(self._turn())  # the acknowledgement leaves


def _text(topic: object) -> str:
    return topic if isinstance(topic, str) else topic.decode()
