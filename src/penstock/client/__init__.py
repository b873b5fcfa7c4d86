"""Clients in plain Python for MQTT 5 and 3.1.1, the binary protocol and work queues.

**MQTT** (``mqtt``), blocking:

>>> from penstock.client import connect
>>> with connect("127.0.0.1", 1883) as client:  # doctest: +SKIP
...     client.publish("pump/7/pressure", b"4.2", qos=1)  # returns once the broker has it
...     client.subscribe([("pump/#", 1)])
...     for delivery in client.messages():
...         print(delivery.topic, delivery.payload)

**The binary protocol** (``binary``), blocking and asyncio: ``Publisher``, ``Subscriber``,
``QueueProducer``, ``Worker``, and the same with ``Async`` in front.

**Work queues** (``queue``), blocking and asyncio, when ``connect`` is given a *list* of addresses:

>>> with connect(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
...     client.produce("images", b"cat.png", priority=5)
...     for job in client.poll("images", "resize", wait_s=20):
...         client.ack(job)

All of them share ``errors``, ``dial`` (opens connections), ``handlers`` (checks callbacks) and
``sync`` (derives blocking clients from asyncio ones). The broker and its libraries are never
loaded, asyncio, ssl and protobuf only on first use, so that a producer on a small machine starts
fast.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, overload

from penstock.client.binary.blocking import Publisher, QueueProducer, Subscriber, Worker
from penstock.client.binary.inbox import Message
from penstock.client.binary.session import Lost
from penstock.client.binary.signing import SigningKey
from penstock.client.binary.timing import Backoff
from penstock.client.credentials import Credentials
from penstock.client.errors import (
    ArgumentError,
    BadRequestError,
    BootstrapFailedError,
    BrokerFailedError,
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    FailedJobsError,
    LeaseLostError,
    LoginFailedError,
    NoQuorumError,
    NotAuthorizedError,
    NotLeaderError,
    PayloadTooLargeError,
    QueueRefusedError,
    RateLimitedError,
    RefusedError,
    ReplyTimeoutError,
    TakenOverError,
    TlsFailedError,
    UnauthenticatedError,
    UnreachableError,
)
from penstock.client.mqtt.client import Client
from penstock.client.mqtt.client import connect as connect_to_mqtt
from penstock.client.mqtt.properties import PublishProperties, Will
from penstock.client.mqtt.session import Delivery
from penstock.client.tls import Tls, TlsOptions

if TYPE_CHECKING:
    from penstock.client.binary.asynchronous import (
        AsyncPublisher,
        AsyncQueueProducer,
        AsyncSubscriber,
        AsyncWorker,
    )
    from penstock.client.queue.async_subscription import AsyncSubscription
    from penstock.client.queue.asynchronous import AsyncQueueClient
    from penstock.client.queue.blocking import QueueClient
    from penstock.client.queue.columns import Record, Slice
    from penstock.client.queue.subscription import Subscription
    from penstock.client.queue.values import (
        DeadLetter,
        Group,
        Item,
        Job,
        Result,
        Retry,
        Stats,
        Topic,
    )

__all__ = [
    "ArgumentError",
    "AsyncPublisher",
    "AsyncQueueClient",
    "AsyncQueueProducer",
    "AsyncSubscriber",
    "AsyncSubscription",
    "AsyncWorker",
    "Backoff",
    "BadRequestError",
    "BootstrapFailedError",
    "BrokerFailedError",
    "BrokerProtocolError",
    "Client",
    "ClientError",
    "ConnectionLostError",
    "Credentials",
    "DeadLetter",
    "Delivery",
    "FailedJobsError",
    "Group",
    "Item",
    "Job",
    "LeaseLostError",
    "LoginFailedError",
    "Lost",
    "Message",
    "NoQuorumError",
    "NotAuthorizedError",
    "NotLeaderError",
    "PayloadTooLargeError",
    "PublishProperties",
    "Publisher",
    "QueueClient",
    "QueueProducer",
    "QueueRefusedError",
    "RateLimitedError",
    "Record",
    "RefusedError",
    "ReplyTimeoutError",
    "Result",
    "Retry",
    "SigningKey",
    "Slice",
    "Stats",
    "Subscriber",
    "Subscription",
    "TakenOverError",
    "TlsFailedError",
    "TlsOptions",
    "Topic",
    "UnauthenticatedError",
    "UnreachableError",
    "Will",
    "Worker",
    "connect",
    "connect_async",
]


@overload
def connect(
    host: str = "127.0.0.1",
    port: int = 1883,
    client_id: str = "",
    *,
    clean_session: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: str | None = None,
    password: bytes | None = None,
    timeout_s: float = 10.0,
    tls: Tls = None,
    credentials: Credentials | None = None,
    version: int | None = None,
    websocket: str | None = None,
    session_expiry_s: int | None = None,
    receive_maximum: int | None = None,
    packet_bytes_max: int | None = None,
    topic_aliases: bool = False,
    scram: bool = False,
    user_properties: Sequence[tuple[str, str]] = (),
) -> Client: ...


@overload
def connect(
    nodes: list[str] | tuple[str, ...],
    /,
    *,
    producer_id: str | None = None,
    timeout_s: float = 10.0,
    stale_reads: bool = False,
    tls: Tls = None,
    credentials: Credentials | None = None,
) -> "QueueClient": ...


def connect(
    host: str | list[str] | tuple[str, ...] = "127.0.0.1", *arguments: Any, **keywords: Any
) -> "Client | QueueClient":
    """Open a connection, to be used in a ``with`` statement.

    To a **host**: for MQTT, see ``mqtt.client.connect``; also as ``mqtt://host:port`` or
    ``ws://host:port/mqtt``, and with TLS ``mqtts://`` or ``wss://``.

    To a **list of addresses** such as ``["127.0.0.1:1883"]``: for work queues, see ``QueueClient``.
    Name some nodes of a cluster; the client finds the leader. ``timeout_s`` then limits a call,
    lost connections and elections included. With a ``producer_id`` the broker recognises repeated
    messages even after a restart of the client, by the ``seq`` that each message must then have.
    With ``stale_reads`` any node of a cluster answers reads (lists, statistics, messages in bulk),
    also without a quorum; the answers may be old.

    ``tls`` is True, ``TlsOptions`` or an ``ssl.SSLContext``: the connection is encrypted, and the
    broker's certificate verified. ``credentials`` is who we are, see ``Credentials``; they are sent
    on every connection, but to no server that was not named here, unless its certificate proves it.
    """
    if isinstance(host, str):
        if "://" in host:
            from penstock.client.mqtt.url import connect_to_url  # noqa: PLC0415 - rarely needed

            return connect_to_url(host, *arguments, **keywords)
        _check_host(host)
        return connect_to_mqtt(host, *arguments, **keywords)
    from penstock.client.queue.blocking import QueueClient  # noqa: PLC0415 - see the module

    return QueueClient(host, *arguments, **keywords).open()


def _check_host(host: str) -> None:
    """Refuse a host with a port, and several addresses: the list was most likely forgotten.

    A type checker cannot look into the text, and would take the result for a client of MQTT.
    """
    if "," in host:
        nodes = ", ".join(f'"{node.strip()}"' for node in host.split(","))
        raise ArgumentError(f"{host!r} is no host", f"write connect([{nodes}]) for work queues")
    name, _, port = host.rpartition(":")
    if port.isdecimal() and (":" not in name or name.endswith("]")):
        raise ArgumentError(
            f"{host!r} is no host",
            f'write connect(["{host}"]) for work queues, connect("{name}", {port}) for MQTT',
        )


def connect_async(
    nodes: str | list[str] | tuple[str, ...],
    *,
    producer_id: str | None = None,
    timeout_s: float = 10.0,
    stale_reads: bool = False,
    tls: Tls = None,
    credentials: Credentials | None = None,
) -> "AsyncQueueClient":
    """Make an asyncio client of work queues, to be used in an ``async with`` statement.

    >>> async with connect_async(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
    ...     await client.produce("images", b"cat.png")
    """
    from penstock.client.queue.asynchronous import AsyncQueueClient  # noqa: PLC0415 - as above

    return AsyncQueueClient(
        nodes,
        producer_id=producer_id,
        timeout_s=timeout_s,
        stale_reads=stale_reads,
        tls=tls,
        credentials=credentials,
    )


_MODULES: Final = {
    "AsyncPublisher": "binary.asynchronous",
    "AsyncQueueProducer": "binary.asynchronous",
    "AsyncSubscriber": "binary.asynchronous",
    "AsyncWorker": "binary.asynchronous",
    "AsyncSubscription": "queue.async_subscription",
    "AsyncQueueClient": "queue.asynchronous",
    "QueueClient": "queue.blocking",
    "Record": "queue.columns",
    "Slice": "queue.columns",
    "Subscription": "queue.subscription",
}  # loaded on first use; others of ``__all__`` are in ``queue.values``


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'queue.values')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
