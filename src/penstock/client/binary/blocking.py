"""The blocking clients: the operations, over a link that blocks.

A call that waits also waits through lost connections. Each client is for one thread. The keywords
are those of ``settings``.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Self, TypeVar, Unpack

from penstock.client.binary.inbox import QUEUE_PREFIX, FailedJobs, Message
from penstock.client.binary.link import BlockingBinaryLink
from penstock.client.binary.operations import (
    BinaryOperations,
    PublishOperations,
    SubscribeOperations,
)
from penstock.client.binary.settings import (
    PublisherKeywords,
    SubscriberKeywords,
    publisher_manager,
    subscriber_manager,
)
from penstock.client.handlers import check_blocking_handler, check_callback, check_result
from penstock.client.sync import BlockingFacade, blocking, run
from penstock.errors import PenstockError

O_co = TypeVar("O_co", bound=BinaryOperations, covariant=True)


class _BlockingClient(BlockingFacade[O_co]):
    """Beginning and end, for all of them."""

    def open(self) -> Self:
        """Connect; the ``with`` statement does so."""
        run(self._operations.open())
        return self

    close = blocking(BinaryOperations.close)
    abandon = blocking(BinaryOperations.abandon)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        run(self._operations.__aexit__(None, error, None))


class Publisher(_BlockingClient[PublishOperations]):
    """Publishes, each message confirmed by the broker's disk; stored *once*.

    If the connection breaks, what was not confirmed is sent again on the next one, with the same
    number, by which the broker recognises it (an older one does not). ``signing_key`` signs every
    message.
    """

    def __init__(self, **keywords: Unpack[PublisherKeywords]) -> None:
        manager = publisher_manager(**keywords)
        self._operations = PublishOperations(manager, BlockingBinaryLink(manager))

    publish = blocking(PublishOperations.publish)
    publish_many = blocking(PublishOperations.publish_many)


class QueueProducer(Publisher):
    """Puts jobs into a queue, with the guarantees of ``Publisher``."""

    def __init__(self, queue: str, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(**keywords)
        self._topic = QUEUE_PREFIX + queue

    def push(self, job: bytes) -> None:
        """Put a job into the queue; return when the broker's disk has it."""
        self.publish(self._topic, job)

    def push_many(self, jobs: Iterable[bytes]) -> list[PenstockError | None]:
        """Put in jobs, many in flight at once; return for each the refusal, or None."""
        return self.publish_many(self._topic, jobs)


class Subscriber(_BlockingClient[SubscribeOperations]):
    """Receives messages exactly once, also over lost connections and restarts of the broker.

    ``client_id`` is the name under which the broker remembers what was acknowledged; one
    connection at a time may have it. Topics give their history, then what comes; filters with
    ``+`` and ``#`` only what comes.
    """

    def __init__(
        self, client_id: str, *topics: str, **keywords: Unpack[SubscriberKeywords]
    ) -> None:
        manager = subscriber_manager(client_id, topics, **keywords)
        self._inbox = manager.inbox
        self._link = BlockingBinaryLink(manager)
        self._operations = SubscribeOperations(manager, self._link)

    @property
    def lost(self) -> int:
        """Messages that retention removed before they could be read."""
        return self._inbox.lost

    @property
    def withheld(self) -> int:
        """Messages that had to be verified and could not be."""
        return self._inbox.withheld

    subscribe = blocking(SubscribeOperations.subscribe)
    unsubscribe = blocking(SubscribeOperations.unsubscribe)
    flush = blocking(SubscribeOperations.flush)

    def receive(self, timeout_s: float = inf) -> Message | None:
        """Wait for a message; return None after ``timeout_s``.

        With ``auto_ack`` the call acknowledges the message before.
        """
        self._inbox.settle()
        message = None if self._link.is_turn_due() else self._inbox.give()
        if message is None:  # else there is no need for a coroutine
            message = run(self._operations.receive(timeout_s))
        return message

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(self, idle_s: float = inf) -> Iterator[Message]:
        """Iterate over what arrives; end when nothing has come for ``idle_s``."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def run(self, handler: Callable[[Message], object], idle_s: float = inf) -> None:
        """Call ``handler`` with each message; an exception ends this, unacknowledged.

        An ``async def`` handler is refused: it belongs to ``AsyncSubscriber``.
        """
        check_blocking_handler(handler)
        for message in self.messages(idle_s):
            try:
                check_result(handler(message))
            except BaseException:
                self._inbox.leave()
                raise


class Worker(Subscriber):
    """Takes jobs of a queue; each is acknowledged when it is done, and else delivered again.

    The broker gives a worker some jobs ahead. Those that are not acknowledged when it leaves go to
    the others, so a job is done *at least once*. The protocol has no way to reject a job: one that
    failed, or was withheld, stays with this worker until it leaves.
    """

    def __init__(self, queue: str, client_id: str, **keywords: Unpack[SubscriberKeywords]) -> None:
        super().__init__(client_id, QUEUE_PREFIX + queue, **keywords)
        self._failed_jobs = FailedJobs(self._inbox)

    @property
    def failed(self) -> int:
        """Jobs whose handler raised."""
        return self._failed_jobs.count

    def run(
        self,
        handler: Callable[[Message], object],
        idle_s: float = inf,
        on_failure: Callable[[Message, Exception], None] | None = None,
    ) -> None:
        """Call ``handler`` with each job; if it raises, report that and go on with the next.

        ``FailedJobsError`` when too many have failed to go on.
        """
        check_blocking_handler(handler)
        check_callback("on_failure", on_failure)
        for job in self.messages(idle_s):
            try:
                check_result(handler(job))
            except BaseException as error:
                if not self._failed_jobs.add(job, error, on_failure):
                    raise
