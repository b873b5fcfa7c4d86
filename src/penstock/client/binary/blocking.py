"""The blocking clients, over a ``BlockingBinaryLink``.

Whatever waits, waits through lost connections too. Each client is for one thread. The keywords are
those of ``settings``.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self, Unpack

from penstock.client.binary.inbox import QUEUE_PREFIX, Message
from penstock.client.binary.jobs import FailedJobs
from penstock.client.binary.link import BlockingBinaryLink
from penstock.client.binary.manager import ACKNOWLEDGE_DELAY_S, ConnectionManager
from penstock.client.binary.session import Request
from penstock.client.binary.settings import (
    PublisherKeywords,
    SubscriberKeywords,
    publisher_manager,
    subscriber_manager,
)
from penstock.client.handlers import (
    HandlerMismatchError,
    check_blocking_handler,
    check_callback,
    check_result,
)
from penstock.errors import PenstockError


class _Client:
    """Beginning and end, for all of them."""

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager
        self._session = manager.session
        self._inbox = manager.inbox
        self._link = BlockingBinaryLink(manager)

    def open(self) -> Self:
        """Connect; the ``with`` statement does so."""
        self._link.open()
        return self

    def close(self) -> None:
        """Hang up once the broker has all acknowledgements; the ``with`` statement does so."""
        self._link.close()

    def abandon(self) -> None:
        """Hang up without a word, as a crash would."""
        self._link.abandon()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._inbox.settle()
        self.close()

    def _answered(self, request: Request) -> None:
        self._link.run_until(lambda: request.is_done)
        request.check()


class Publisher(_Client):
    """Publishes, each message confirmed by the broker's disk; *at least once*.

    If the connection breaks, what was not confirmed is sent again on the next one; a message whose
    confirmation was lost on the way is then there twice. ``signing_key`` signs every message.
    """

    def __init__(self, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(publisher_manager(keywords))

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish; returns when the broker's disk has it. ``RefusedError``: it will not."""
        self._answered(self._session.publish(topic, payload))

    def publish_many(self, topic: str, payloads: Iterable[bytes]) -> list[PenstockError | None]:
        """Publish in order, many under way at once; tell for each why it was refused, or None."""
        requests = []
        for payload in payloads:
            requests.append(self._session.try_publish(topic, payload))
            if self._manager.is_crowded:
                self._link.run_until(lambda: self._manager.has_room)
        self._link.run_until(lambda: not self._session.unanswered)
        return [request.refusal for request in requests]


class QueueProducer(Publisher):
    """Puts jobs into a queue; what holds for ``Publisher`` holds here."""

    def __init__(self, queue: str, **keywords: Unpack[PublisherKeywords]) -> None:
        super().__init__(**keywords)
        self._topic = QUEUE_PREFIX + queue

    def push(self, job: bytes) -> None:
        """Put a job into the queue; returns when the broker's disk has it."""
        self.publish(self._topic, job)

    def push_many(self, jobs: Iterable[bytes]) -> list[PenstockError | None]:
        """Put in jobs, many under way at once; tell for each why it was refused, or None."""
        return self.publish_many(self._topic, jobs)


class Subscriber(_Client):
    """Receives messages exactly once, also over lost connections and restarts of the broker.

    ``client_id`` is the name under which the broker remembers what was acknowledged; one
    connection at a time may have it. Topics give what they hold, then what comes; filters with
    ``+`` and ``#`` only what comes.
    """

    def __init__(
        self, client_id: str, *topics: str, **keywords: Unpack[SubscriberKeywords]
    ) -> None:
        super().__init__(subscriber_manager(client_id, topics, keywords))
        self._acknowledge_at = 0.0

    @property
    def lost(self) -> int:
        """Messages that retention removed before they could be read."""
        return self._inbox.lost

    @property
    def withheld(self) -> int:
        """Messages that had to be verified and could not be."""
        return self._inbox.withheld

    def subscribe(self, topic: str) -> None:
        """Subscribe to one more; returns when all that it holds has arrived."""
        self._answered(self._session.subscribe(topic))

    def unsubscribe(self, topic: str) -> None:
        """Get nothing more of a topic; what has arrived is still handed out."""
        self._answered(self._session.unsubscribe(topic))

    def receive(self, timeout_s: float = inf) -> Message | None:
        """Wait for a message; None after ``timeout_s``.

        With ``auto_ack`` the call says that the one before has been dealt with.
        """
        self._inbox.settle()
        now = monotonic()
        if not self._inbox or now >= self._acknowledge_at or self._session.acks.is_ample:
            self._link.run_until(lambda: bool(self._inbox), now + timeout_s)
            self._acknowledge_at = monotonic() + ACKNOWLEDGE_DELAY_S
        return self._inbox.give()

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(self, idle_s: float = inf) -> Iterator[Message]:
        """Iterate over what arrives; ends when nothing has come for ``idle_s``."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def run(self, handler: Callable[[Message], object], idle_s: float = inf) -> None:
        """Call ``handler`` with each message; what it raises ends this, unacknowledged.

        An ``async def`` handler is refused: it belongs to ``AsyncSubscriber``.
        """
        check_blocking_handler(handler)
        for message in self.messages(idle_s):
            try:
                check_result(handler(message))
            except BaseException:
                self._inbox.leave()
                raise

    def flush(self) -> None:
        """Wait until the broker's disk has all acknowledgements up to now.

        While a topic's history is still arriving, the broker answers behind it: all of it is then
        read, and kept until it is handed out.
        """
        self._answered(self._session.barrier())


class Worker(Subscriber):
    """Takes jobs of a queue; each is acknowledged when it is done, and dealt anew if it is not.

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
            except HandlerMismatchError:
                self._inbox.leave()
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job
                self._failed_jobs.add(job, error, on_failure)
            except BaseException:
                self._inbox.leave()
                raise
