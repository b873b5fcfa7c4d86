"""Clients in plain Python: for MQTT 3.1.1, for the binary protocol, and for work queues.

**MQTT**, blocking:

>>> from penstock.client import connect
>>> with connect("127.0.0.1", 1883) as client:  # doctest: +SKIP
...     client.publish("pump/7/pressure", b"4.2", qos=1)  # returns once the broker has it
...     client.subscribe([("pump/#", 1)])
...     for delivery in client.messages():
...         print(delivery.topic, delivery.payload)

**The binary protocol**, blocking and asynchronous: ``Publisher``, ``Subscriber``,
``QueueProducer``, ``Worker``, and the same with ``Async`` in front; see ``binary``.

**Work queues**, blocking and asynchronous, when ``connect`` is given a *list* of addresses; see
``queue``:

>>> with connect(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
...     client.produce("images", b"cat.png", priority=5)
...     for job in client.poll("images", "resize", wait_s=20):
...         client.ack(job)

For all of them ``errors`` has what can go wrong, and what to do about it, ``dial`` opens
connections, and ``handlers`` checks what applications give to be called.

Nothing here loads the broker or its libraries, and asyncio and protobuf only for those who ask for
them, so that a producer on a small machine starts fast.
"""

from typing import TYPE_CHECKING, Any, overload

from penstock.client.binary import (
    Backoff,
    Lost,
    Message,
    Publisher,
    QueueProducer,
    SigningKey,
    Subscriber,
    Worker,
)
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
    NoQuorumError,
    NotLeaderError,
    PayloadTooLargeError,
    QueueRefusedError,
    RateLimitedError,
    RefusedError,
    ReplyTimeoutError,
    TakenOverError,
    UnreachableError,
)
from penstock.client.mqtt.client import Client
from penstock.client.mqtt.client import connect as connect_to_mqtt
from penstock.client.mqtt.session import Delivery
from penstock.wire.mqtt.events import Will

if TYPE_CHECKING:
    from penstock.client.binary import (
        AsyncPublisher,
        AsyncQueueProducer,
        AsyncSubscriber,
        AsyncWorker,
    )
    from penstock.client.queue import (
        AsyncQueueClient,
        AsyncSubscription,
        Group,
        Item,
        Job,
        QueueClient,
        Record,
        Result,
        Slice,
        Stats,
        Subscription,
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
    "Delivery",
    "FailedJobsError",
    "Group",
    "Item",
    "Job",
    "LeaseLostError",
    "Lost",
    "Message",
    "NoQuorumError",
    "NotLeaderError",
    "PayloadTooLargeError",
    "Publisher",
    "QueueClient",
    "QueueProducer",
    "QueueRefusedError",
    "RateLimitedError",
    "Record",
    "RefusedError",
    "ReplyTimeoutError",
    "Result",
    "SigningKey",
    "Slice",
    "Stats",
    "Subscriber",
    "Subscription",
    "TakenOverError",
    "Topic",
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
) -> Client: ...


@overload
def connect(
    nodes: list[str] | tuple[str, ...],
    /,
    *,
    producer_id: str | None = None,
    timeout_s: float = 10.0,
    stale_reads: bool = False,
) -> "QueueClient": ...


def connect(
    host: str | list[str] | tuple[str, ...] = "127.0.0.1", *arguments: Any, **keywords: Any
) -> "Client | QueueClient":
    """Open a connection, to be used in a ``with`` statement.

    To a **host**: for MQTT, see ``mqtt.client.connect``. To a **list of addresses** such as
    ``["127.0.0.1:1883"]``: for work queues, see ``QueueClient``. Name some nodes of a cluster; the
    client finds the one that leads. ``timeout_s`` is then how long a call may take, lost
    connections and elections included. With a ``producer_id`` the broker recognises what this
    client produces also over its restarts, by the ``seq`` that each message must then be given.
    With ``stale_reads`` any node of a cluster answers what is read (lists, statistics, messages in
    bulk) from what it has, which may be old, also without a quorum.
    """
    if isinstance(host, str):
        _check_host(host)
        return connect_to_mqtt(host, *arguments, **keywords)
    from penstock.client.queue.blocking import QueueClient  # noqa: PLC0415 - see above

    return QueueClient(host, *arguments, **keywords).open()


def _check_host(host: str) -> None:
    """Somebody who gives the port with the host has most likely forgotten the list.

    So has somebody who writes several addresses in one text. That is refused as well: a type
    checker cannot look into the text, and would take the result for a client of MQTT.
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
) -> "AsyncQueueClient":
    """Make a client of work queues for a loop, to be used in an ``async with`` statement.

    >>> async with connect_async(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
    ...     await client.produce("images", b"cat.png")
    """
    from penstock.client.queue.asynchronous import AsyncQueueClient  # noqa: PLC0415 - see above

    return AsyncQueueClient(
        nodes, producer_id=producer_id, timeout_s=timeout_s, stale_reads=stale_reads
    )


def __getattr__(name: str) -> Any:
    """Load asyncio and protobuf for those who ask for them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.client import queue  # noqa: PLC0415 - see above

    if name in queue.__all__:
        return getattr(queue, name)
    from penstock.client.binary import asynchronous  # noqa: PLC0415 - see above

    return getattr(asynchronous, name)


def __dir__() -> list[str]:
    return __all__
