"""The asyncio clients: the operations, over streams.

Several tasks may publish through one publisher at a time. A subscriber is for one task that
receives; ``Message.ack`` may be called by any, in the same loop.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from math import inf
from typing import Unpack

from penstock.client.binary.async_link import AsyncBinaryLink
from penstock.client.binary.inbox import QUEUE_PREFIX, FailedJobs, Message
from penstock.client.binary.operations import PublishOperations, SubscribeOperations
from penstock.client.binary.settings import (
    PublisherKeywords,
    SubscriberKeywords,
    publisher_manager,
    subscriber_manager,
)
from penstock.client.handlers import as_awaitable, check_async_handler, check_callback
from penstock.errors import PenstockError


class AsyncPublisher(PublishOperations):
    """``Publisher`` for an event loop: confirmed by the broker's disk, stored *once*."""

    def __init__(self, **keywords: Unpack[PublisherKeywords]) -> None:
        manager = publisher_manager(**keywords)
        super().__init__(manager, AsyncBinaryLink(manager))


class AsyncQueueProducer(AsyncPublisher):
    """``QueueProducer`` for an event loop."""

    def __init__(self, queue: str, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(**keywords)
        self._topic = QUEUE_PREFIX + queue

    async def push(self, job: bytes) -> None:
        """Put a job into the queue; return when the broker's disk has it."""
        await self.publish(self._topic, job)

    async def push_many(self, jobs: Iterable[bytes]) -> list[PenstockError | None]:
        """Put in jobs, many in flight at once; return for each the refusal, or None."""
        return await self.publish_many(self._topic, jobs)


class AsyncSubscriber(SubscribeOperations):
    """``Subscriber`` for an event loop: exactly once, over lost connections and restarts."""

    def __init__(
        self, client_id: str, *topics: str, **keywords: Unpack[SubscriberKeywords]
    ) -> None:
        manager = subscriber_manager(client_id, topics, **keywords)
        super().__init__(manager, AsyncBinaryLink(manager))

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.messages()

    async def messages(self, idle_s: float = inf) -> AsyncIterator[Message]:
        """Iterate over what arrives; end when nothing has come for ``idle_s``."""
        while (message := await self.receive(idle_s)) is not None:
            yield message

    async def run(
        self, handler: Callable[[Message], Awaitable[object]], idle_s: float = inf
    ) -> None:
        """Await ``handler`` with each message; an exception ends this, unacknowledged.

        A plain function as the handler is refused: it belongs to ``Subscriber``.
        """
        check_async_handler(handler)
        async for message in self.messages(idle_s):
            try:
                await as_awaitable(handler(message))
            except BaseException:
                self._inbox.leave()
                raise


class AsyncWorker(AsyncSubscriber):
    """``Worker`` for an event loop: jobs of a queue, acknowledged when done, *at least once*."""

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
            except BaseException as error:
                if not self._failed_jobs.add(job, error, on_failure):
                    raise
