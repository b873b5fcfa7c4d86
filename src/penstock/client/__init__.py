"""Clients in plain Python: a small one for MQTT 3.1.1, and those of the binary protocol.

**MQTT**, blocking:

>>> from penstock.client import connect
>>> with connect("127.0.0.1", 1883) as client:  # doctest: +SKIP
...     client.publish("pump/7/pressure", b"4.2", qos=1)  # returns once the broker has it
...     client.subscribe([("pump/#", 1)])
...     for delivery in client.messages():
...         print(delivery.topic, delivery.payload)

==============  ================================================================================
``session``     the conversation: what to send, what happened; no socket, no clock
``keep_alive``  when to ping, and when to give up; time is a parameter
``blocking``    a socket and a clock around the two: :class:`Client`
==============  ================================================================================

**The binary protocol**, blocking and asynchronous: ``Publisher``, ``Subscriber``,
``QueueProducer``, ``Worker``, and the same with ``Async`` in front; see ``edge``. For both
``errors`` has what can go wrong, and what to do about it, and ``dial`` opens connections.

Nothing here loads the broker or its libraries, and asyncio only for those who ask for it, so that a
producer on a small machine starts fast.
"""

from typing import TYPE_CHECKING, Any

from penstock.client.blocking import Client, connect
from penstock.client.edge import (
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
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    FailedJobsError,
    RefusedError,
    ReplyTimeoutError,
    TakenOverError,
    UnreachableError,
)
from penstock.client.session import Delivery
from penstock.wire.mqtt.events import Will

if TYPE_CHECKING:
    from penstock.client.edge import (
        AsyncPublisher,
        AsyncQueueProducer,
        AsyncSubscriber,
        AsyncWorker,
    )

__all__ = [
    "AsyncPublisher",
    "AsyncQueueProducer",
    "AsyncSubscriber",
    "AsyncWorker",
    "Backoff",
    "BrokerProtocolError",
    "Client",
    "ClientError",
    "ConnectionLostError",
    "Delivery",
    "FailedJobsError",
    "Lost",
    "Message",
    "Publisher",
    "QueueProducer",
    "RefusedError",
    "ReplyTimeoutError",
    "SigningKey",
    "Subscriber",
    "TakenOverError",
    "UnreachableError",
    "Will",
    "Worker",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Load asyncio for those who ask for it."""
    if not name.startswith("Async"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.client.edge import asynchronous  # noqa: PLC0415 - see above

    return getattr(asynchronous, name)
