"""The asynchronous clients: the same as ``blocking``, in terms of an ``AsyncBinaryLink``.

Several tasks may publish through one publisher at a time. A subscriber is for one task that
receives; ``Message.ack`` may be called by any, in the same loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import Self, Unpack

from penstock.client.binary.async_link import AsyncBinaryLink
from penstock.client.binary.inbox import QUEUE_PREFIX, Message
from penstock.client.binary.jobs import FailedJobs
from penstock.client.binary.manager import ConnectionManager
from penstock.client.binary.settings import (
    PublisherKeywords,
    SubscriberKeywords,
    publisher_manager,
    subscriber_manager,
)
from penstock.client.handlers import (
    HandlerMismatchError,
    as_awaitable,
    check_async_handler,
    check_callback,
)
from penstock.errors import PenstockError


class _AsyncClient:
    """Beginning and end, for all of them."""

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager
        self._session = manager.session
        self._inbox = manager.inbox
        self._link = AsyncBinaryLink(manager)

    async def open(self) -> Self:
        """Connect; the ``async with`` statement does so."""
        await self._link.open()
        return self

    async def close(self) -> None:
        """Hang up once the broker has all acknowledgements; ``async with`` does so."""
        await self._link.close()

    async def abandon(self) -> None:
        """Hang up without a word, as a crash would."""
        await self._link.abandon()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._inbox.settle()
        await self.close()


class AsyncPublisher(_AsyncClient):
    """``Publisher`` for a loop: confirmed by the broker's disk, *at least once*."""

    def __init__(self, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(publisher_manager(keywords))

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish; returns when the broker's disk has it. ``RefusedError``: it will not."""
        await self._link.answered(self._session.publish(topic, payload))

    async def publish_many(
        self, topic: str, payloads: Iterable[bytes]
    ) -> list[PenstockError | None]:
        """Publish in order, many under way at once; tell for each why it was refused, or None."""
        requests = []
        for payload in payloads:
            requests.append(self._session.try_publish(topic, payload))
            if self._manager.is_crowded:
                await self._link.until(lambda: self._manager.has_room)
        await self._link.until(lambda: all(request.is_done for request in reversed(requests)))
        return [request.refusal for request in requests]


class AsyncQueueProducer(AsyncPublisher):
    """``QueueProducer`` for a loop."""

    def __init__(self, queue: str, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(**keywords)
        self._topic = QUEUE_PREFIX + queue

    async def push(self, job: bytes) -> None:
        """Put a job into the queue; returns when the broker's disk has it."""
        await self.publish(self._topic, job)

    async def push_many(self, jobs: Iterable[bytes]) -> list[PenstockError | None]:
        """Put in jobs, many under way at once; tell for each why it was refused, or None."""
        return await self.publish_many(self._topic, jobs)


class AsyncSubscriber(_AsyncClient):
    """``Subscriber`` for a loop: exactly once, over lost connections and restarts."""

    def __init__(
        self, client_id: str, *topics: str, **keywords: Unpack[SubscriberKeywords]
    ) -> None:
        super().__init__(subscriber_manager(client_id, topics, keywords))

    @property
    def lost(self) -> int:
        """Messages that retention removed before they could be read."""
        return self._inbox.lost

    @property
    def withheld(self) -> int:
        """Messages that had to be verified and could not be."""
        return self._inbox.withheld

    async def subscribe(self, topic: str) -> None:
        """Subscribe to one more; returns when all that it holds has arrived."""
        await self._link.answered(self._session.subscribe(topic))

    async def unsubscribe(self, topic: str) -> None:
        """Get nothing more of a topic; what has arrived is still handed out."""
        await self._link.answered(self._session.unsubscribe(topic))

    async def receive(self, timeout_s: float = inf) -> Message | None:
        """Wait for a message; None after ``timeout_s``.

        With ``auto_ack`` the call says that the one before has been dealt with.
        """
        self._inbox.settle()
        if not self._inbox or self._session.acks.is_ample:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_s == inf else timeout_s):
                    await self._link.until(lambda: bool(self._inbox))
        return self._inbox.give()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.messages()

    async def messages(self, idle_s: float = inf) -> AsyncIterator[Message]:
        """Iterate over what arrives; ends when nothing has come for ``idle_s``."""
        while (message := await self.receive(idle_s)) is not None:
            yield message

    async def run(
        self, handler: Callable[[Message], Awaitable[object]], idle_s: float = inf
    ) -> None:
        """Await ``handler`` with each message; what it raises ends this, unacknowledged.

        A plain function as the handler is refused: it belongs to ``Subscriber``.
        """
        check_async_handler(handler)
        async for message in self.messages(idle_s):
            try:
                await as_awaitable(handler(message))
            except BaseException:
                self._inbox.leave()
                raise

    async def flush(self) -> None:
        """Wait until the broker's disk has all acknowledgements up to now; see ``Subscriber``."""
        await self._link.answered(self._session.barrier())


class AsyncWorker(AsyncSubscriber):
    """``Worker`` for a loop: jobs of a queue, acknowledged when done, *at least once*."""

    def __init__(self, queue: str, client_id: str, **keywords: Unpack[SubscriberKeywords]) -> None:
        super().__init__(client_id, QUEUE_PREFIX + queue, **keywords)
        self._failed_jobs = FailedJobs(self._inbox)

    @property
    def failed(self) -> int:
        """Jobs whose handler raised."""
        return self._failed_jobs.count

    async def run(
        self,
        handler: Callable[[Message], Awaitable[object]],
        idle_s: float = inf,
        on_failure: Callable[[Message, Exception], None] | None = None,
    ) -> None:
        """Await ``handler`` with each job; if it raises, report that and go on with the next.

        ``FailedJobsError`` when too many have failed to go on.
        """
        check_async_handler(handler)
        check_callback("on_failure", on_failure)
        async for job in self.messages(idle_s):
            try:
                await as_awaitable(handler(job))
            except HandlerMismatchError:
                self._inbox.leave()
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job
                self._failed_jobs.add(job, error, on_failure)
            except BaseException:
                self._inbox.leave()
                raise
