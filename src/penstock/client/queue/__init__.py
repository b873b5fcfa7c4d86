"""The client of work queues, over the queue protocol: idempotent producers, groups, leases.

>>> from penstock.client import connect
>>> with connect(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
...     client.produce("images", b"cat.png")
...     with client.subscribe("images", "resize", lambda job: print(job.payload)) as work:
...         work.wait()

It comes in two forms that do the same: ``QueueClient``, blocking, for any number of threads, and
``AsyncQueueClient`` for a loop.

**Who promises what.** A message is stored once, however often the connection is lost while it is
produced: the broker knows it by producer and number (``producer``). A job is handed to one consumer
of a group at a time, and again if it is not acknowledged in time: it is done *at least once*.

**Lost connections** are made again with the next of the addresses, or with the leader that a node
has named. A call waits through that for ``timeout_s``, a subscription for ever. Jobs in hand when a
broker dies are acknowledged to the one that comes back (``push``).

==================  =============================================================================
``values``          what goes in and comes out
``checks``          whether arguments are allowed
``columns``         messages in bulk
``requests``        every request as a ``QueueCall``: what is asked, how the answer is read
``session``         the conversation, over any number of connections; no socket, no clock
``frames``          bytes to responses
``plans``           operations of more than one request, as generators
``producer``        numbers, and batches
``server_pool``     which address next, and when
``sockets``         what all connections have in common
``link``            a socket and a thread around a session; ``blocking`` has the client
``async_link``      a transport around a session; ``asynchronous`` has the client
``push``            a subscription's conversation; no socket, no clock
``subscription``    a socket and threads around it; ``async_subscription`` streams and tasks
``reports``         what a subscription tells of trouble
==================  =============================================================================

Nothing is loaded before it is asked for: a program that speaks MQTT does not need protobuf.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.queue.async_subscription import AsyncSubscription
    from penstock.client.queue.asynchronous import AsyncQueueClient
    from penstock.client.queue.blocking import QueueClient
    from penstock.client.queue.columns import Record, Slice
    from penstock.client.queue.subscription import Subscription
    from penstock.client.queue.values import Group, Item, Job, Result, Stats, Topic

__all__ = [
    "AsyncQueueClient",
    "AsyncSubscription",
    "Group",
    "Item",
    "Job",
    "QueueClient",
    "Record",
    "Result",
    "Slice",
    "Stats",
    "Subscription",
    "Topic",
]

_MODULES = {
    "AsyncQueueClient": "asynchronous",
    "AsyncSubscription": "async_subscription",
    "QueueClient": "blocking",
    "Record": "columns",
    "Slice": "columns",
    "Subscription": "subscription",
}
"""Where things are that are not in ``values``."""


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'values')}"), name)
