"""What the tests ask of every client library, so that each claim is tested with all of them.

The interface is asynchronous and has what every MQTT client can do: connect, publish until
acknowledged, subscribe, disconnect, vanish. Received messages wait in ``received``.
None of them reconnects by itself here: a connection that ends when it should not is a failure.
The libraries themselves: ``python_clients.py``, and ``driven_clients.py`` for other languages.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

__all__ = [
    "NO_PROPERTIES",
    "TIMEOUT_S",
    "Client",
    "Library",
    "Message",
    "Options",
    "Properties",
    "RefusedError",
    "Subscription",
]

TIMEOUT_S = 15.0
"""How long a library may wait for the broker; only a failing test waits this long."""
FAILED = 0x80
"""Reason codes from here on are refusals."""


class Properties(NamedTuple):
    """The properties of a message of MQTT 5."""

    user: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    payload_format: int | None = None
    expiry_s: int | None = None
    identifiers: tuple[int, ...] = ()
    """Of the subscriptions it was received by."""
    alias: int | None = None
    """Of the topic, when sent; libraries resolve what they receive."""


NO_PROPERTIES = Properties()


class Message(NamedTuple):
    """A message, sent or received."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Options(NamedTuple):
    """How a client connects."""

    version: int = 4
    clean: bool = True
    expiry_s: int | None = None
    """Of the session, in version 5; by default 0 if clean, else an hour."""
    will: Message | None = None
    will_delay_s: int = 0
    receive_maximum: int | None = None
    alias_maximum: int | None = None

    @property
    def session_expiry_s(self) -> int:
        return (0 if self.clean else 3600) if self.expiry_s is None else self.expiry_s


class Subscription(NamedTuple):
    """A filter with the options of MQTT 5."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int | None = None


class RefusedError(Exception):
    """The broker said no; ``code`` and ``reason`` as far as the library tells them."""

    def __init__(self, code: int, reason: str | None = None) -> None:
        super().__init__(f"0x{code:02X} {reason}")
        self.code = code
        self.reason = reason


class Client(ABC):
    """One connection through one library."""

    library: ClassVar[str]
    hides: ClassVar[frozenset[str]] = frozenset()
    """What the library does not tell its user, or cannot do; tests of that are skipped for it."""
    session_present = False

    def __init__(self, port: int, client_id: str, options: Options) -> None:
        self.port = port
        self.client_id = client_id
        self.options = options
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.acknowledged: list[bytes] = []
        """Payloads of QoS 1 and 2, in the order in which their acknowledgements came."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect, and set ``session_present``; raises RefusedError."""

    @abstractmethod
    async def publish_all(self, messages: list[Message]) -> None:
        """Publish without waiting in between, wait for the last acknowledgement; raises RefusedError."""

    @abstractmethod
    async def subscribe_to(self, subscription: Subscription) -> int:
        """Subscribe, wait for SUBACK and return the QoS granted; raises RefusedError."""

    @abstractmethod
    async def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe, and wait for UNSUBACK."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Send DISCONNECT, unless the connection has ended."""

    @abstractmethod
    async def vanish(self) -> None:
        """End the connection without DISCONNECT."""

    @abstractmethod
    async def dismissal(self) -> RefusedError:
        """Wait until the broker ends the connection: what its DISCONNECT says."""

    async def subscribe(self, topic_filter: str, qos: int) -> int:
        return await self.subscribe_to(Subscription(topic_filter, qos))

    async def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        await self.publish_all([Message(topic, payload, qos, retain, properties)])

    async def next(self) -> Message:
        """The next message that arrives."""
        return await asyncio.wait_for(self.received.get(), TIMEOUT_S)


class Library(NamedTuple):
    """A library, and the version of MQTT that it is to speak."""

    client: type[Client]
    version: int

    def __str__(self) -> str:
        return f"{self.client.library}-{self.version}"
