"""The asyncio client of work queues: the operations, over a link of an event loop.

Any number of tasks of one loop may use one client. A task that is cancelled while it waits takes
nothing back: a message that it was producing may or may not be stored.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self, Unpack

from penstock.client.credentials import Credentials
from penstock.client.handlers import check_async_handler, check_callback
from penstock.client.queue import requests
from penstock.client.queue.async_link import AsyncQueueLink
from penstock.client.queue.async_subscription import AsyncSubscription
from penstock.client.queue.operations import QueueOperations
from penstock.client.queue.producer import Producer
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import OnError
from penstock.client.queue.server_pool import PUSH_BACKOFF, ServerPool
from penstock.client.queue.session import QueueSession
from penstock.client.queue.values import Job, LeaseKeywords
from penstock.client.tls import Tls, tls_settings


class AsyncQueueClient(QueueOperations):
    """A client of work queues, for any number of tasks; made by ``connect_async([...])``.

    >>> from penstock.client import connect_async
    >>> async with connect_async(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
    ...     await client.produce("images", b"cat.png", priority=5)  # returns once the disk has it
    ...     for job in await client.poll("images", "resize", wait_s=20):
    ...         await client.ack(job)
    """

    def __init__(
        self,
        nodes: str | Sequence[str],
        *,
        producer_id: str | None = None,
        timeout_s: float = 10.0,
        stale_reads: bool = False,
        tls: Tls = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._new_pool = partial(ServerPool, nodes, tls=tls_settings(tls), credentials=credentials)
        session = QueueSession(timeout_s, stale_reads=stale_reads)
        self._connection = AsyncQueueLink(self._new_pool(), session)
        super().__init__(Producer(producer_id), self._connection)

    @property
    def producer_id(self) -> str:
        """The id under which the broker knows what this client produces."""
        return self._producer.producer_id

    async def open(self) -> Self:
        """Connect; the ``async with`` statement does so."""
        await self._connection.open()
        return self

    async def close(self) -> None:
        """Close the connection; subscriptions have their own, and continue."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def subscribe(
        self,
        topic: str,
        group: str,
        handler: Callable[[Job], Awaitable[object]],
        *,
        concurrency: int = 16,
        on_error: OnError | None = None,
        **settings: Unpack[LeaseKeywords],
    ) -> AsyncSubscription:
        """Await ``handler`` with each job, ``concurrency`` at a time, until it is closed.

        A job is acknowledged when the handler returns, and given back when it raises, with the
        exception's text as the reason. The subscription has its own connection and reconnects for
        ever; it ends when the broker refuses it for good or a handler calls ``sys.exit``, and
        ``wait`` raises the error. A plain function as the handler is refused. ``on_error`` is
        called with every error (see ``reports``); without it errors are logged.

        >>> async def resize(job): print(job.payload)
        >>> async with client.subscribe("images", "resize", resize) as work:  # doctest: +SKIP
        ...     await work.wait()
        """
        check_async_handler(handler)
        check_callback("on_error", on_error)
        session = PushSession(requests.subscribe(topic, group, concurrency, **settings))
        pool = self._new_pool(backoff=PUSH_BACKOFF)
        return AsyncSubscription(pool, session, handler, concurrency, on_error)
