"""The blocking client of work queues: its calls, over a ``BlockingQueueLink``.

Any number of threads may use one client: their requests share a connection and do not wait for each
other. Whatever waits, waits through lost connections too, for ``timeout_s`` at most.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from penstock.client.errors import ClientError
from penstock.client.handlers import check_blocking_handler, check_callback
from penstock.client.queue import plans, requests, staging
from penstock.client.queue.columns import Record, Slice
from penstock.client.queue.link import BlockingQueueLink
from penstock.client.queue.plans import Reading
from penstock.client.queue.producer import Producer, as_bytes
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import OnError
from penstock.client.queue.server_pool import PUSH_BACKOFF, ServerPool
from penstock.client.queue.session import QueueCall, QueueSession
from penstock.client.queue.subscription import Subscription
from penstock.client.queue.values import (
    DeviceKey,
    Group,
    GroupSettings,
    Item,
    Job,
    LeaseSettings,
    MessageSettings,
    PollSettings,
    Result,
    SinkStatus,
    StageCommitted,
    Start,
    Stats,
    Topic,
    TopicSettings,
    dead_letter_topic,
)
from penstock.model.columns import ALL
from penstock.wire.queue._generated.queue_pb2 import Changed, Fetched, Located

T = TypeVar("T")


class QueueClient:
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
    ) -> None:
        self._nodes = nodes
        self._producer = Producer(producer_id)
        self._link = BlockingQueueLink(
            ServerPool(nodes), QueueSession(timeout_s, stale_reads=stale_reads)
        )

    @property
    def producer_id(self) -> str:
        """Under which the broker knows what this client produces."""
        return self._producer.producer_id

    def open(self) -> Self:
        """Connect; ``connect`` has done so."""
        self._link.open()
        return self

    def when_lost(self, tell: Callable[[ClientError], object]) -> None:
        """Have ``tell`` called, by a thread of ours, when the connection is lost.

        And again for each attempt in vain to make a new one. Calls go on waiting meanwhile.
        """
        self._link.when_lost = tell

    def close(self) -> None:
        """Hang up; subscriptions have connections of their own, and go on."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ── Producing ─────────────────────────────────────────────────────────────────────────────

    def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        seq: int | None = None,
        **settings: Unpack[MessageSettings],
    ) -> int:
        """Put a message into a topic, once; returns its offset when the broker's disk has it.

        If the connection is lost meanwhile it is sent again, and stored once. ``seq`` is for
        clients that were given a ``producer_id``, and for them only.

        >>> client.produce("mail", b"...", delay_s=60)  # doctest: +SKIP
        """
        body = as_bytes(payload)
        number = self._producer.take(topic, seq)
        call = requests.produce(topic, body, self._producer.producer_id, number, **settings)
        return self._link.call(call)

    def produce_many(
        self,
        topic: str,
        items: Iterable[bytes | Item],
        *,
        seq: int | None = None,
        **settings: Unpack[MessageSettings],
    ) -> list[Result]:
        """Put many messages into a topic; tell for each its offset, or why it has none.

        An ``Item`` has settings of its own, bytes those that are given here. ``seq`` is that of
        the first.

        >>> results = client.produce_many("images", [b"a.png", b"b.png"])  # doctest: +SKIP
        >>> [result.offset for result in results if result.error is None]  # doctest: +SKIP
        """
        return self._link.run(plans.produce_many(self._producer, topic, items, seq, settings))

    # ── Consuming ─────────────────────────────────────────────────────────────────────────────

    def poll(
        self, topic: str, group: str, *, wait_s: float = 0.0, **settings: Unpack[PollSettings]
    ) -> list[Job]:
        """Take jobs for a group; waits for the first for up to ``wait_s``.

        Each is ours for ``visibility_s``; not acknowledged by then, it is handed out again. If the
        answer is lost with the connection we ask again, and what the lost one held comes again in
        that time too. With ``ack_mode="auto"`` it would not: then ``ConnectionLostError`` is raised
        instead. ``RateLimitedError``: there is something, but the topic's rate allows none now;
        with a ``wait_s`` the client waits instead.

        >>> jobs = client.poll("images", "resize", max=100, wait_s=20)  # doctest: +SKIP
        """
        return self._link.run(plans.poll(topic, group, wait_s, settings))

    def subscribe(
        self,
        topic: str,
        group: str,
        handler: Callable[[Job], object],
        *,
        concurrency: int = 16,
        on_error: OnError | None = None,
        **settings: Unpack[LeaseSettings],
    ) -> Subscription:
        """Have ``handler`` called with each job, in ``concurrency`` threads, until it is closed.

        A job is acknowledged when the handler returns, and given back when it raises, with the
        exception's text as the reason. The subscription has a connection of its own and comes back
        for ever if that is lost; refused for good, it ends, and ``wait`` raises the error. So it
        does when a handler calls ``sys.exit``. An ``async def`` handler is refused.
        ``on_error`` is called with whatever goes wrong (see ``reports``); without it that is
        logged.

        >>> def resize(job): print(job.payload)
        >>> with client.subscribe("images", "resize", resize) as work:  # doctest: +SKIP
        ...     work.wait()
        """
        check_blocking_handler(handler)
        check_callback("on_error", on_error)
        session = PushSession(requests.subscribe(topic, group, concurrency, **settings))
        pool = ServerPool(self._nodes, PUSH_BACKOFF)
        return Subscription(pool, session, handler, concurrency, on_error)

    def ack(self, jobs: Job | Iterable[Job]) -> None:
        """Say that jobs are done. Late is not too late, as long as nobody else was given the job.

        ``LeaseLostError`` names those that somebody else has, or had; all others are done.

        >>> client.ack(jobs)  # doctest: +SKIP
        """
        self._link.run(plans.settle(jobs, requests.ack_many))

    def nack(self, jobs: Job | Iterable[Job], *, delay_s: float = 0.0, reason: str = "") -> None:
        """Give jobs back, to be handed out again, not before ``delay_s``.

        The reason is kept with a message that becomes a dead letter.

        >>> client.nack(job, delay_s=30, reason="out of paper")  # doctest: +SKIP
        """
        make = partial(requests.nack_many, delay_s=delay_s, reason=reason)
        self._link.run(plans.settle(jobs, make))

    def extend(self, jobs: Job | Iterable[Job], visibility_s: float) -> None:
        """Keep jobs for so much time from now on. ``LeaseLostError``: for some that was too late.

        >>> client.extend(job, 300)  # doctest: +SKIP
        """
        self._link.run(plans.settle(jobs, partial(requests.extend, visibility_s=visibility_s)))

    def commit(self, topic: str, group: str, offset: int) -> None:
        """Say that everything below ``offset`` is done for a group.

        >>> client.commit("images", "resize", job.offset + 1)  # doctest: +SKIP
        """
        self._link.call(requests.commit(topic, group, offset))

    # ── Topics ────────────────────────────────────────────────────────────────────────────────

    def create_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> None:
        """Make a topic with its settings, in one step; one that exists takes them on.

        >>> client.create_topic("mail", rate_per_sec=10, burst=20)  # doctest: +SKIP
        """
        self.configure_topic(topic, **settings)

    def configure_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> None:
        """Change what is given, all of it or nothing; makes the topic if need be.

        >>> client.configure_topic("mail", max_age_s=86_400, keep=True)  # doctest: +SKIP
        """
        self._link.call(requests.configure_topic(topic, **settings))

    def delete_topic(self, topic: str) -> None:
        """Remove a topic with its messages, groups and settings; no error if there is none.

        >>> client.delete_topic("mail")  # doctest: +SKIP
        """
        self._link.call(requests.delete_topic(topic))

    def set_rate_limit(self, topic: str, rate_per_sec: float, burst: int = 1) -> None:
        """Hand out so many messages a second, over all groups; 0 is without limit.

        >>> client.set_rate_limit("mail", 0.5)  # doctest: +SKIP
        """
        self._link.call(requests.set_rate_limit(topic, rate_per_sec, burst))

    def set_retention(
        self, topic: str, *, max_messages: int = 0, max_age_s: float = 0.0, max_bytes: int = 0
    ) -> None:
        """Limit what a topic keeps; 0 is without limit, and all 0 the broker's default.

        >>> client.set_retention("mail", max_messages=100_000)  # doctest: +SKIP
        """
        self._link.call(requests.set_retention(topic, max_messages, max_age_s, max_bytes))

    def topics(self, prefix: str = "") -> list[Topic]:
        """All topics whose names begin so.

        >>> {topic.name: topic.messages for topic in client.topics()}  # doctest: +SKIP
        """
        return self._link.run(plans.topics(prefix))

    def topic(self, name: str) -> Topic | None:
        """One topic, None if there is none of that name.

        >>> client.topic("mail")  # doctest: +SKIP
        """
        found, _more = self._link.call(requests.find_topic(name))
        return found[0] if found else None

    def stats(self) -> Stats:
        """What the broker says of itself.

        >>> client.stats().in_flight  # doctest: +SKIP
        """
        return self._link.call(requests.stats())

    def bootstrap(self, nodes: Mapping[int, str]) -> None:
        """Begin a cluster of these nodes, by number and address for other nodes.

        The one that is asked must be among them, and tells the others. Again: nothing.

        >>> client.bootstrap({1: "10.0.0.1:7700", 2: "10.0.0.2:7700"})  # doctest: +SKIP
        """
        self._link.call(requests.bootstrap(nodes))

    # ── Groups ────────────────────────────────────────────────────────────────────────────────

    def groups(self, topic: str | None = None) -> list[Group]:
        """The groups of a topic, or of all.

        >>> {group.name: group.lag for group in client.groups("mail")}  # doctest: +SKIP
        """
        return self._link.run(plans.groups(topic or ""))

    def create_group(
        self, topic: str, group: str, *, start: Start = "earliest", reader: bool = False
    ) -> None:
        """Make a group that begins there; one that exists stays where it is.

        A ``reader`` stands for somebody who reads by itself (``fetch``) and only says how far it
        is (``commit``): it has a lag, and what it has not read is not reclaimed.

        >>> client.create_group("mail", "archive", start="latest")  # doctest: +SKIP
        """
        self._link.call(requests.create_group(topic, group, start, reader=reader))

    def seek(self, topic: str, group: str, start: Start) -> None:
        """Move a group, forwards or backwards; made if need be.

        >>> client.seek("mail", "archive", datetime(2030, 1, 1, tzinfo=UTC))  # doctest: +SKIP
        """
        self._link.call(requests.create_group(topic, group, start, seek=True))

    def configure_group(self, topic: str, group: str, **settings: Unpack[GroupSettings]) -> None:
        """Say when messages become dead letters, and how repetitions are spaced.

        >>> client.configure_group("mail", "send", max_deliveries=5)  # doctest: +SKIP
        """
        self._link.call(requests.configure_group(topic, group, **settings))

    def delete_group(self, topic: str, group: str) -> None:
        """Forget a group and what it holds; no error if there is none.

        >>> client.delete_group("mail", "archive")  # doctest: +SKIP
        """
        self._link.call(requests.delete_group(topic, group))

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    def fetch(self, topic: str, offset: int = 0, end_offset: int | None = None) -> Iterator[Slice]:
        """Read a topic in bulk, as columns, up to where it ends now; nothing is leased.

        >>> sum(part.count for part in client.fetch("mail"))  # doctest: +SKIP
        """
        reading = Reading(topic, offset, end_offset)
        while not reading.is_done:
            yield from reading.take(self._link.call(reading.next_call()))

    def messages(
        self, topic: str, offset: int = 0, end_offset: int | None = None
    ) -> Iterator[Record]:
        """The same, message by message.

        >>> for record in client.messages("mail", 100):  # doctest: +SKIP
        ...     print(record.offset, record.payload)
        """
        for part in self.fetch(topic, offset, end_offset):
            yield from part

    def fetch_raw(
        self,
        topic: str,
        offset: int,
        end_offset: int = 0,
        max_messages: int = 0,
        max_bytes: int = 0,
        *,
        columns: int = ALL,
    ) -> Fetched:
        """Read one answer's worth of a topic, as the journal has it; go on at ``next_offset``.

        ``columns`` are bits of ``penstock.model.columns``: what is not asked for is not sent. An
        ``end_offset`` of 0 is where the topic ends, and a maximum of 0 the broker's. The broker
        gives 256 KiB of payloads at a time, if no single message has more.

        >>> client.fetch_raw("mail", 0, columns=PAYLOADS).slices[0].payloads  # doctest: +SKIP
        """
        return self.finish(
            self.begin_fetch(topic, offset, end_offset, max_messages, max_bytes, columns=columns)
        )

    def begin_fetch(
        self,
        topic: str,
        offset: int,
        end_offset: int = 0,
        max_messages: int = 0,
        max_bytes: int = 0,
        *,
        columns: int = ALL,
    ) -> QueueCall[Fetched]:
        """Ask as ``fetch_raw`` does, and do not wait: ``finish`` gives the answer.

        So the next answer is under way while this one is worked on.

        >>> pending = client.begin_fetch("mail", 0)  # doctest: +SKIP
        >>> fetched = client.finish(pending)  # doctest: +SKIP
        """
        call = requests.fetch(topic, offset, end_offset, max_messages, max_bytes, columns=columns)
        self._link.begin(call)
        return call

    def finish(self, pending: QueueCall[T]) -> T:
        """Wait for the answer to what was begun; raises what it failed with.

        >>> client.finish(client.begin_fetch("mail", 0)).next_offset  # doctest: +SKIP
        """
        return self._link.wait(pending)

    def changes(
        self,
        filters: Iterable[str],
        after_sequence: int = 0,
        wait_s: float = 0.0,
        max: int = 0,  # noqa: A002 - as in Poll
        after: str = "",
    ) -> Changed:
        """Tell which topics there are, by MQTT filters, and then which of them have changed.

        Without ``after_sequence`` it is a page of all of them, by name; while there is ``more``,
        ask with the last name as ``after``. The ``sequence`` of the first page is what to ask
        with from then on: for those written to or ``deleted`` since, waiting up to ``wait_s`` (300
        at most) for the first. ``again``: begin again, without ``after_sequence``.

        >>> known = client.changes(["sensors/#"])  # doctest: +SKIP
        >>> client.changes(["sensors/#"], known.sequence, wait_s=20).topics  # doctest: +SKIP
        """
        return self._link.call(requests.changes(filters, after_sequence, wait_s, max, after))

    def locate(
        self,
        topic: str,
        times_ms: Iterable[int] = (),
        measures: Iterable[tuple[int, int]] = (),
    ) -> Located:
        """Find the ``offsets`` of the first messages of some times, or later ones.

        A measure is an offset and a number of bytes: ``reaches`` tells how far so many bytes of
        payload reach from there, as the offset after the last message that fits, one at least.

        >>> client.locate("mail", [1_900_000_000_000]).offsets  # doctest: +SKIP
        """
        return self._link.call(requests.locate(topic, times_ms, measures))

    def keys(self) -> list[DeviceKey]:
        """The keys that devices sign with, also those that are over: the public halves.

        >>> {key.id: key.public_key for key in client.keys()}  # doctest: +SKIP
        """
        return self._link.run(plans.keys())

    def dead_letters(self, topic: str, group: str) -> Iterator[Record]:
        """What a group could not deal with, and was neither redriven nor dropped; headers tell why.

        >>> for record in client.dead_letters("mail", "send"):  # doctest: +SKIP
        ...     print(record.payload, dict(record.headers)["dlq-reason"])
        """
        letters = dead_letter_topic(topic, group)
        yield from self.messages(letters, self._link.run(plans.first_letter(letters)))

    def redrive(self, topic: str, group: str, *, max: int = 0) -> int:  # noqa: A002 - as in Poll
        """Put dead letters back into the topic they came from, all unless ``max``; tells how many.

        >>> client.redrive("mail", "send")  # doctest: +SKIP
        """
        return self._link.call(requests.redrive(topic, group, max))

    # ── Staged commits ────────────────────────────────────────────────────────────────────────

    def stage(self, sink: str, epoch: int, part: str, number: int, block: bytes) -> None:
        """Put a block of rows (a ``StagedBlock``) on disk, where nobody sees it until the commit.

        Blocks of a part are numbered from 0 and come in order; one that is sent again is stored
        once. ``begin_stage`` does not wait for the disk.

        >>> client.stage("job/7", 0, "0-0-1f", 0, block)  # doctest: +SKIP
        """
        self._link.call(staging.stage(sink, epoch, part, number, block))

    def begin_stage(
        self, sink: str, epoch: int, part: str, number: int, block: bytes
    ) -> QueueCall[None]:
        """The same, not waiting: give what comes back to ``finish``.

        >>> pending = client.begin_stage("job/7", 0, "0-0-1f", 1, block)  # doctest: +SKIP
        >>> client.finish(pending)  # doctest: +SKIP
        """
        call = staging.stage(sink, epoch, part, number, block)
        self._link.begin(call)
        return call

    def commit_stage(
        self, sink: str, epoch: int, parts: Iterable[tuple[str, int]], note: bytes = b""
    ) -> StageCommitted:
        """Publish what was staged in these parts, names and numbers of blocks, in their order.

        An epoch that is not greater than the last that was committed is left as it is. Waits for
        as long as it takes; what has begun is finished by the broker, whoever goes away meanwhile.

        >>> client.commit_stage("job/7", 0, [("0-0-1f", 2)])  # doctest: +SKIP
        """
        return self._link.run(staging.commit_stage(sink, epoch, parts, note))

    def abort_stage(self, sink: str, epoch: int, parts: Sequence[str] = ()) -> None:
        """Let go of parts that were staged, of all of the epoch if none is named.

        A commit that has begun is not undone.

        >>> client.abort_stage("job/7", 0)  # doctest: +SKIP
        """
        self._link.call(staging.abort_stage(sink, epoch, parts))

    def sinks(self, name: str | None = None) -> list[SinkStatus]:
        """All sinks, or just this one; none if there is no such.

        >>> {sink.name: sink.epoch for sink in client.sinks()}  # doctest: +SKIP
        """
        return self._link.run(staging.sinks(name))

    def forget_sink(self, name: str) -> None:
        """Forget a sink and what it has staged; no error if there is none.

        Whoever writes under this name again begins anew: the same epoch would be published again.

        >>> client.forget_sink("job/7")  # doctest: +SKIP
        """
        self._link.call(staging.forget_sink(name))
