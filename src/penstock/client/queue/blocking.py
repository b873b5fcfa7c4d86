"""The blocking client of work queues: the operations, over a link that blocks.

Any number of threads may use one client: their requests share a connection and do not wait for each
other. A call that waits also waits through lost connections, for ``timeout_s`` at most.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self, TypeVar, Unpack

from penstock.client.credentials import Credentials
from penstock.client.errors import ClientError
from penstock.client.handlers import check_blocking_handler, check_callback
from penstock.client.queue import requests
from penstock.client.queue.columns import Record
from penstock.client.queue.link import BlockingQueueLink
from penstock.client.queue.operations import QueueOperations
from penstock.client.queue.producer import Producer
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import OnError
from penstock.client.queue.server_pool import PUSH_BACKOFF, ServerPool
from penstock.client.queue.session import QueueSession
from penstock.client.queue.subscription import Subscription
from penstock.client.queue.values import Job, LeaseKeywords
from penstock.client.sync import BlockingFacade, blocking, blocking_iterator, forwarded
from penstock.client.tls import Tls, tls_settings

T = TypeVar("T")


class QueueClient(BlockingFacade[QueueOperations]):
    """A client of work queues, for any number of threads; made by ``connect([...])``.

    >>> from penstock.client import connect
    >>> with connect(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
    ...     client.produce("images", b"cat.png", priority=5)  # returns once the disk has it
    ...     for job in client.poll("images", "resize", wait_s=20):
    ...         client.ack(job)
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
        self._producer = Producer(producer_id)
        session = QueueSession(timeout_s, stale_reads=stale_reads)
        self._link = BlockingQueueLink(self._new_pool(), session)
        self._operations = QueueOperations(self._producer, self._link)

    @property
    def producer_id(self) -> str:
        """The id under which the broker knows what this client produces."""
        return self._producer.producer_id

    def open(self) -> Self:
        """Connect; ``connect`` has done so."""
        self._link.open()
        return self

    def when_lost(self, tell: Callable[[ClientError], object]) -> None:
        """Have a thread of the client call ``tell`` when the connection is lost.

        And again for each failed attempt to reconnect. Calls continue to wait meanwhile.
        """
        self._link.when_lost = tell

    def close(self) -> None:
        """Close the connection; subscriptions have their own, and continue."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    produce = blocking(QueueOperations.produce)
    produce_many = blocking(QueueOperations.produce_many)

    poll = blocking(QueueOperations.poll)
    ack = blocking(QueueOperations.ack)
    nack = blocking(QueueOperations.nack)
    extend = blocking(QueueOperations.extend)
    commit = blocking(QueueOperations.commit)
    commit_many = blocking(QueueOperations.commit_many)

    def subscribe(
        self,
        topic: str,
        group: str,
        handler: Callable[[Job], object],
        *,
        concurrency: int = 16,
        on_error: OnError | None = None,
        **settings: Unpack[LeaseKeywords],
    ) -> Subscription:
        """Call ``handler`` with each job, in ``concurrency`` threads, until it is closed.

        A job is acknowledged when the handler returns, and given back when it raises, with the
        exception's text as the reason. The subscription has its own connection and reconnects for
        ever; it ends when the broker refuses it for good or a handler calls ``sys.exit``, and
        ``wait`` raises the error. An ``async def`` handler is refused. ``on_error`` is called with
        every error (see ``reports``); without it errors are logged.

        >>> def resize(job): print(job.payload)
        >>> with client.subscribe("images", "resize", resize) as work:  # doctest: +SKIP
        ...     work.wait()
        """
        check_blocking_handler(handler)
        check_callback("on_error", on_error)
        session = PushSession(requests.subscribe(topic, group, concurrency, **settings))
        pool = self._new_pool(backoff=PUSH_BACKOFF)
        return Subscription(pool, session, handler, concurrency, on_error)

    create_topic = blocking(QueueOperations.create_topic)
    configure_topic = blocking(QueueOperations.configure_topic)
    delete_topic = blocking(QueueOperations.delete_topic)
    set_rate_limit = blocking(QueueOperations.set_rate_limit)
    set_retention = blocking(QueueOperations.set_retention)
    topics = blocking(QueueOperations.topics)
    topic = blocking(QueueOperations.topic)
    stats = blocking(QueueOperations.stats)
    bootstrap = blocking(QueueOperations.bootstrap)

    groups = blocking(QueueOperations.groups)
    create_group = blocking(QueueOperations.create_group)
    create_groups = blocking(QueueOperations.create_groups)
    seek = blocking(QueueOperations.seek)
    configure_group = blocking(QueueOperations.configure_group)
    delete_group = blocking(QueueOperations.delete_group)

    fetch = blocking_iterator(QueueOperations.fetch)
    fetch_raw = blocking(QueueOperations.fetch_raw)
    begin_fetch = forwarded(QueueOperations.begin_fetch)
    begin_fetch_many = forwarded(QueueOperations.begin_fetch_many)
    finish = blocking(QueueOperations.finish)
    changes = blocking(QueueOperations.changes)
    locate = blocking(QueueOperations.locate)
    keys = blocking(QueueOperations.keys)
    dead_letters = blocking_iterator(QueueOperations.dead_letters)
    redrive = blocking(QueueOperations.redrive)

    def messages(
        self, topic: str, offset: int = 0, end_offset: int | None = None
    ) -> Iterator[Record]:
        """Read as ``fetch`` does, message by message.

        >>> for record in client.messages("mail", 100):  # doctest: +SKIP
        ...     print(record.offset, record.payload)
        """
        for part in self.fetch(topic, offset, end_offset):  # no coroutine for each record
            yield from part

    stage = blocking(QueueOperations.stage)
    begin_stage = forwarded(QueueOperations.begin_stage)
    commit_stage = blocking(QueueOperations.commit_stage)
    abort_stage = blocking(QueueOperations.abort_stage)
    sinks = blocking(QueueOperations.sinks)
    forget_sink = blocking(QueueOperations.forget_sink)
