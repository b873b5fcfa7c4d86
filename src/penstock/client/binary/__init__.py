"""Clients of the binary protocol: publishers, exactly-once subscribers, queues; signed or not.

>>> from penstock.client.binary import Publisher, Subscriber
>>> with Publisher(port=1883) as publisher:  # doctest: +SKIP
...     publisher.publish("pump/7/pressure", b"4.2")  # returns once the broker's disk has it
>>> with Subscriber("billing", "pump/7/pressure", port=1883) as subscriber:  # doctest: +SKIP
...     for message in subscriber:  # each is acknowledged when the next is asked for
...         print(message.topic, message.payload)

Each comes in two forms that do the same: blocking, and with ``Async`` in front for a loop.

**Who promises what.** A publisher sends again what was not confirmed: *at least once*. A subscriber
has a client id under which the broker remembers, on its disk, what was acknowledged; with what this
process remembers of messages it has in hand, each is handed out *exactly once* for as long as the
process lives. One that dies between dealing with a message and acknowledging it gets it again: only
the application can make these two one. A job of a queue is done *at least once*.

**Lost connections** are made again, at growing and jittered intervals, and everything resumes; the
application notices a pause. Only what cannot get better by trying again is raised.

=================  =============================================================================
``session``        the conversation, over any number of connections; no socket, no clock
``ack_tracker``    which messages are in hand, handled, acknowledged, confirmed
``inbox``          verifying, withholding and handing out
``timing``         when to ping, when to give up, when to try again; time is a parameter
``manager``        all of these from connection to connection: what both drivers do alike
``link``           a socket around it; ``blocking`` has the clients
``async_link``     streams around it; ``asynchronous`` has the clients
``signing``        key files, signing, local verification
``settings``       the keywords of all clients
=================  =============================================================================
"""

from typing import TYPE_CHECKING, Any

from penstock.client.binary.blocking import Publisher, QueueProducer, Subscriber, Worker
from penstock.client.binary.inbox import Message
from penstock.client.binary.session import Lost
from penstock.client.binary.signing import SigningKey
from penstock.client.binary.timing import Backoff

if TYPE_CHECKING:
    from penstock.client.binary.asynchronous import (
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
    "Lost",
    "Message",
    "Publisher",
    "QueueProducer",
    "SigningKey",
    "Subscriber",
    "Worker",
]


def __getattr__(name: str) -> Any:
    """Load asyncio for those who ask for it: a blocking program starts without."""
    if not name.startswith("Async"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.client.binary import asynchronous  # noqa: PLC0415 - see above

    return getattr(asynchronous, name)
