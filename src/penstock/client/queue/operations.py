"""Every operation of a client of work queues, once for both clients.

Operations are coroutines over a ``QueueLink``. ``AsyncQueueClient`` awaits them; ``QueueClient``
gives them a link that blocks, and so runs them without an event loop (``sync``).
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, Unpack

from penstock.client.errors import ClientError, LeaseLostError, RateLimitedError
from penstock.client.queue import requests
from penstock.client.queue.checks import wrong_type
from penstock.client.queue.columns import Record, Slice
from penstock.client.queue.producer import Producer, as_bytes, batches
from penstock.client.queue.session import QueueCall
from penstock.client.queue.values import (
    Group,
    GroupKeywords,
    Item,
    Job,
    MessageKeywords,
    PollKeywords,
    RegisteredKey,
    Result,
    ScanRange,
    SinkStatus,
    StageCommitted,
    Start,
    Stats,
    Topic,
    TopicKeywords,
    dead_letter_topic,
)
from penstock.limits import LEASES_MAX, MIB
from penstock.model.columns import ALL
from penstock.model.dead_letters import REDRIVE
from penstock.wire.queue._generated.queue_pb2 import Changed, Fetched, FetchedMany, Located
from penstock.wire.queue.slices import columns_of

T = TypeVar("T")

POLL_WAIT_MAX_S: Final = 300.0  # the longest wait of a poll that the broker accepts
PRODUCE_WINDOW: Final = 8  # batches in flight at once; the broker commits them together
FETCH_MESSAGES_MAX: Final = 65_536
FETCH_BYTES_MAX: Final = 4 * MIB  # of one answer, unless a single message is larger
CALLS_AHEAD: Final = 256  # in flight of many alike; the broker reads no more than 1,024
JOBS_FORM: Final = "a Job, as poll gives them, or several"

Settle = Callable[[str, str, list[int]], QueueCall[list[int]]]
"""Makes a request about leases of a group; the answer names those that had expired."""


class QueueLink(Protocol):
    """The connection of a client, or the next one, with a clock."""

    def begin(self, call: QueueCall[object], /) -> None:
        """Send a request; do not wait."""

    async def wait(self, call: QueueCall[T], /) -> T:
        """Wait for the answer; raise the error if there is one."""

    async def sleep(self, seconds: float, /) -> None: ...

    def now(self) -> float: ...


class QueueOperations:
    """What both clients offer; see the module."""

    def __init__(self, producer: Producer, link: QueueLink) -> None:
        self._producer = producer
        self._link = link

    async def _ask_all(self, calls: Iterable[QueueCall[object]]) -> None:
        """Ask many at once; wait for all, and raise the first error."""
        asked: deque[QueueCall[object]] = deque()
        for call in calls:
            self._link.begin(call)
            asked.append(call)
            if len(asked) >= CALLS_AHEAD:
                await self._link.wait(asked.popleft())
        while asked:
            await self._link.wait(asked.popleft())

    async def _ask(self, call: QueueCall[T]) -> T:
        self._link.begin(call)
        return await self._link.wait(call)

    # ── Producing ─────────────────────────────────────────────────────────────────────────────

    async def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        seq: int | None = None,
        **settings: Unpack[MessageKeywords],
    ) -> int:
        """Store a message once; return its offset when the broker's disk has it.

        If the connection is lost meanwhile the message is sent again, and still stored once.
        ``seq`` is required for clients with a ``producer_id``, and refused for others.

        >>> await client.produce("mail", b"...", delay_s=60)  # doctest: +SKIP
        """
        body = as_bytes(payload)
        number = self._producer.take(topic, seq)
        call = requests.produce(topic, body, self._producer.producer_id, number, **settings)
        self._link.begin(call)
        return await self._link.wait(call)

    async def produce_many(
        self,
        topic: str,
        items: Iterable[bytes | Item],
        *,
        seq: int | None = None,
        **settings: Unpack[MessageKeywords],
    ) -> list[Result]:
        """Store many messages; return for each its offset, or the error.

        An ``Item`` has its own settings, bytes have those given here. ``seq`` is that of the first
        message.

        >>> results = await client.produce_many("images", [b"a.png", b"b.png"])  # doctest: +SKIP
        >>> [result.offset for result in results if result.error is None]  # doctest: +SKIP
        """
        results: list[Result] = []
        in_flight: deque[tuple[QueueCall[list[Result]], int]] = deque()
        for batch in batches(items, settings):
            count = len(batch.payloads)
            first = self._producer.take(topic, seq, count)
            seq = None if seq is None else seq + count
            call = requests.produce_many(
                topic, batch.payloads, self._producer.producer_id, first, **batch.settings
            )
            self._link.begin(call)
            in_flight.append((call, count))
            if len(in_flight) == PRODUCE_WINDOW:
                results += await self._results(*in_flight.popleft())
        while in_flight:
            results += await self._results(*in_flight.popleft())
        return results

    async def _results(self, call: QueueCall[list[Result]], count: int) -> list[Result]:
        try:
            return await self._link.wait(call)
        except ClientError as error:
            return [Result(None, error)] * count

    # ── Consuming ─────────────────────────────────────────────────────────────────────────────

    async def poll(
        self, topic: str, group: str, *, wait_s: float = 0.0, **settings: Unpack[PollKeywords]
    ) -> list[Job]:
        """Lease jobs for a group; wait up to ``wait_s`` for the first.

        Each is leased for ``visibility_s``; if it is not acknowledged in time, it is delivered
        again. If the answer is lost with the connection the client asks again, and the lost jobs
        are delivered again when their leases expire. With ``ack_mode="auto"`` they would be lost:
        then ``ConnectionLostError`` is raised instead. ``RateLimitedError``: there are jobs, but
        the rate limit of the topic allows none now; with a ``wait_s`` the client waits instead.

        >>> jobs = await client.poll("images", "resize", max=100, wait_s=20)  # doctest: +SKIP
        """
        until = self._link.now() + wait_s
        left_s = wait_s
        while True:
            try:
                call = requests.poll(topic, group, min(left_s, POLL_WAIT_MAX_S), **settings)
                jobs = await self._ask(call)
            except RateLimitedError as error:
                if not wait_s:
                    raise
                jobs = []
                await self._link.sleep(min(error.retry_after_s, until - self._link.now()))
            left_s = until - self._link.now()
            if jobs or left_s <= 0:
                return jobs

    async def ack(self, jobs: Job | Iterable[Job]) -> None:
        """Acknowledge jobs. After the lease it still counts if the job was not delivered again.

        ``LeaseLostError`` names the jobs that were delivered again; all others are acknowledged.
        """
        await self._settle(jobs, requests.ack_many)

    async def nack(
        self,
        jobs: Job | Iterable[Job],
        *,
        delay_s: float = 0.0,
        reason: str = "",
        dead_letter: bool = False,
    ) -> None:
        """Give jobs back, to be delivered again, not before ``delay_s``.

        The reason is kept with a message that becomes a dead letter. With ``dead_letter`` it
        becomes one now: it can never succeed.
        """
        make = partial(requests.nack_many, delay_s=delay_s, reason=reason, dead_letter=dead_letter)
        await self._settle(jobs, make)

    async def extend(self, jobs: Job | Iterable[Job], visibility_s: float) -> None:
        """Lease jobs for ``visibility_s`` from now. ``LeaseLostError``: too late for some."""
        await self._settle(jobs, partial(requests.extend, visibility_s=visibility_s))

    async def _settle(self, jobs: Job | Iterable[Job], make: Settle) -> None:
        """Send requests for each group of each topic, all at once.

        After a request that was sent twice the expired leases tell nothing: the first may have
        settled them.
        """
        named = [jobs] if isinstance(jobs, Job) else list(_checked(jobs))
        leases: dict[tuple[str, str], list[int]] = {}
        for job in named:
            leases.setdefault((job.topic, job.group), []).append(job.lease_id)
        calls = [
            (group, make(*group, lease_ids[first : first + LEASES_MAX]))
            for group, lease_ids in leases.items()
            for first in range(0, len(lease_ids), LEASES_MAX)
        ]
        for _, call in calls:
            self._link.begin(call)
        lost: set[tuple[str, str, int]] = set()
        for group, call in calls:
            expired = await self._link.wait(call)
            if not call.is_repeated:
                lost |= {(*group, lease) for lease in expired}
        if lost:
            raise LeaseLostError([j for j in named if (j.topic, j.group, j.lease_id) in lost])

    async def commit(self, topic: str, group: str, offset: int) -> None:
        """Acknowledge everything below ``offset`` for a group."""
        await self._ask(requests.commit(topic, group, offset))

    async def commit_many(self, group: str, offsets: Mapping[str, int]) -> None:
        """Do as ``commit`` does for a group of many topics; they share round trips and commits.

        If it fails, some may be done: repeat it.
        """
        await self._ask_all(requests.commit(topic, group, at) for topic, at in offsets.items())

    # ── Topics ────────────────────────────────────────────────────────────────────────────────

    async def create_topic(self, topic: str, **settings: Unpack[TopicKeywords]) -> None:
        """Create a topic with its settings, in one step; change the settings of one that exists."""
        await self.configure_topic(topic, **settings)

    async def configure_topic(self, topic: str, **settings: Unpack[TopicKeywords]) -> None:
        """Change the given settings, all or none; create the topic if there is none."""
        await self._ask(requests.configure_topic(topic, **settings))

    async def delete_topic(self, topic: str) -> None:
        """Remove a topic with its messages, groups and settings; no error if there is none."""
        await self._ask(requests.delete_topic(topic))

    async def set_rate_limit(self, topic: str, rate_per_sec: float, burst: int = 1) -> None:
        """Limit deliveries per second, over all groups; 0 removes the limit."""
        await self._ask(requests.set_rate_limit(topic, rate_per_sec, burst))

    async def set_retention(
        self, topic: str, *, max_messages: int = 0, max_age_s: float = 0.0, max_bytes: int = 0
    ) -> None:
        """Limit what a topic keeps; 0 is no limit, and all 0 the broker's default."""
        await self._ask(requests.set_retention(topic, max_messages, max_age_s, max_bytes))

    async def topics(self, prefix: str = "") -> list[Topic]:
        """List the topics whose names start with ``prefix``.

        >>> {topic.name: topic.messages for topic in await client.topics()}  # doctest: +SKIP
        """
        return await self._pages(
            lambda last: requests.list_topics(prefix, "" if last is None else last.name)
        )

    async def topic(self, name: str) -> Topic | None:
        """Return one topic, or None."""
        found, _more = await self._ask(requests.find_topic(name))
        return found[0] if found else None

    async def stats(self) -> Stats:
        """Return the broker's figures about itself."""
        return await self._ask(requests.stats())

    async def bootstrap(self, nodes: Mapping[int, str]) -> None:
        """Start a cluster of these nodes, by node id and peer address; repeated, it does nothing.

        The node that is asked must be among them.
        """
        await self._ask(requests.bootstrap(nodes))

    async def _pages(self, make: Callable[[T | None], QueueCall[tuple[list[T], bool]]]) -> list[T]:
        """Collect all pages of a list; each is asked for with the last entry of the one before."""
        found: list[T] = []
        more = True
        while more:
            page, more = await self._ask(make(found[-1] if found else None))
            found += page
        return found

    # ── Groups ────────────────────────────────────────────────────────────────────────────────

    async def groups(self, topic: str | None = None) -> list[Group]:
        """List the groups of a topic, or of all topics.

        >>> {group.name: group.lag for group in await client.groups("mail")}  # doctest: +SKIP
        """
        return await self._pages(partial(requests.list_groups, topic or ""))

    async def create_group(
        self, topic: str, group: str, *, start: Start = "earliest", reader: bool = False
    ) -> None:
        """Create a group that begins at ``start``; one that exists stays where it is.

        A ``reader`` stands for a consumer that reads with ``fetch`` and reports its position with
        ``commit``: it has a lag, and what it has not read is not reclaimed.
        """
        await self._ask(requests.create_group(topic, group, start, reader=reader))

    async def create_groups(
        self, group: str, starts: Mapping[str, int], *, reader: bool = False
    ) -> None:
        """Do as ``create_group`` does for many topics, each with an offset as its start."""
        await self._ask_all(
            requests.create_group(topic, group, start, reader=reader)
            for topic, start in starts.items()
        )

    async def seek(self, topic: str, group: str, start: Start) -> None:
        """Move a group forwards or backwards; create it if there is none."""
        await self._ask(requests.create_group(topic, group, start, seek=True))

    async def configure_group(
        self, topic: str, group: str, **settings: Unpack[GroupKeywords]
    ) -> None:
        """Set when messages become dead letters, and the backoff between deliveries."""
        await self._ask(requests.configure_group(topic, group, **settings))

    async def delete_group(self, topic: str, group: str) -> None:
        """Remove a group and its state; no error if there is none."""
        await self._ask(requests.delete_group(topic, group))

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def fetch(
        self, topic: str, offset: int = 0, end_offset: int | None = None
    ) -> AsyncIterator[Slice]:
        """Read a topic in bulk, as columns, up to its present end; nothing is leased.

        >>> sum([part.count async for part in client.fetch("mail")])  # doctest: +SKIP
        """
        incarnation: int | None = None
        while True:
            answer = await self._ask(
                requests.fetch(topic, offset, end_offset or 0, FETCH_MESSAGES_MAX, FETCH_BYTES_MAX)
            )
            if incarnation not in {None, answer.incarnation}:
                raise ClientError(
                    f"{topic} was deleted while it was read, and perhaps created again",
                    "start again at its first offset",
                )
            incarnation = answer.incarnation
            end_offset = answer.end_offset if end_offset is None else end_offset
            for received in answer.slices:
                yield Slice(topic, columns_of(received))
            if answer.next_offset <= offset or answer.next_offset >= end_offset:
                return
            offset = answer.next_offset

    async def messages(
        self, topic: str, offset: int = 0, end_offset: int | None = None
    ) -> AsyncIterator[Record]:
        """Read as ``fetch`` does, message by message.

        >>> async for record in client.messages("mail", 100):  # doctest: +SKIP
        ...     print(record.offset, record.payload)
        """
        async for part in self.fetch(topic, offset, end_offset):
            for record in part:
                yield record

    async def fetch_raw(
        self,
        topic: str,
        offset: int,
        end_offset: int = 0,
        max_messages: int = 0,
        max_bytes: int = 0,
        *,
        columns: int = ALL,
    ) -> Fetched:
        """Read one answer of a topic, as the journal has it; continue at ``next_offset``.

        ``columns`` are bits of ``penstock.model.columns``; other columns are not sent. An
        ``end_offset`` of 0 is the end of the topic, a maximum of 0 that of the broker. An answer
        holds 256 KiB of payloads, unless a single message is larger.

        >>> (await client.fetch_raw("mail", 0, columns=PAYLOADS)).next_offset  # doctest: +SKIP
        """
        return await self.finish(
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
        """Start a ``fetch_raw`` without waiting: ``finish`` returns the answer.

        So the next answer is under way while this one is processed.

        >>> pending = client.begin_fetch("mail", 0)  # doctest: +SKIP
        >>> fetched = await client.finish(pending)  # doctest: +SKIP
        """
        call = requests.fetch(topic, offset, end_offset, max_messages, max_bytes, columns=columns)
        self._link.begin(call)
        return call

    def begin_fetch_many(
        self,
        ranges: Iterable[ScanRange] = (),
        scan: int = 0,
        max_messages: int = 0,
        max_bytes: int = 0,
        *,
        columns: int = ALL,
    ) -> QueueCall[FetchedMany]:
        """Start to read many topics as ``begin_fetch`` reads one, with one request.

        Each range is a topic, an offset, an end (0: that of the topic) and an incarnation (0: any).
        To go on, ask with the same ``scan``, a number of your choice, and without ranges, until an
        answer is the ``last``. You may ask ahead. If the scan is ``unknown``, because another
        connection was made, begin another where you are.

        >>> pending = client.begin_fetch_many([("a", 0, 0, 0), ("b", 0, 0, 0)])  # doctest: +SKIP
        >>> (await client.finish(pending)).slices  # doctest: +SKIP
        """
        call = requests.fetch_many(ranges, scan, max_messages, max_bytes, columns=columns)
        self._link.begin(call)
        return call

    async def finish(self, pending: QueueCall[T]) -> T:
        """Wait for the answer to a request that was begun; raise the error if there is one.

        >>> (await client.finish(client.begin_fetch("mail", 0))).next_offset  # doctest: +SKIP
        """
        return await self._link.wait(pending)

    async def changes(
        self,
        filters: Iterable[str],
        after_sequence: int = 0,
        wait_s: float = 0.0,
        max: int = 0,  # noqa: A002 - as in Poll
        after: str = "",
    ) -> Changed:
        """List topics by MQTT filters, and then those that have changed.

        Without ``after_sequence`` the answer is a page of all topics, by name; while there is
        ``more``, ask with the last name as ``after``. The ``sequence`` of the first page is the
        ``after_sequence`` to ask with from then on: the answer is the topics written to or
        ``deleted`` since, after waiting up to ``wait_s`` (300 at most) for the first. ``again``:
        start again, without ``after_sequence``.

        >>> known = await client.changes(["sensors/#"])  # doctest: +SKIP
        >>> await client.changes(["sensors/#"], known.sequence, wait_s=20)  # doctest: +SKIP
        """
        return await self._ask(requests.changes(filters, after_sequence, wait_s, max, after))

    async def locate(
        self,
        topic: str,
        times_ms: Iterable[int] = (),
        measures: Iterable[tuple[int, int]] = (),
    ) -> Located:
        """Find the ``offsets`` of the first messages at or after some times.

        A measure is an offset and a number of bytes: ``reaches`` has the offset after the last
        message that fits into that many bytes of payload, at least one message further.

        >>> (await client.locate("mail", [1_900_000_000_000])).offsets  # doctest: +SKIP
        """
        return await self._ask(requests.locate(topic, times_ms, measures))

    async def keys(self) -> list[RegisteredKey]:
        """List the keys that devices sign with, expired and revoked ones too: the public halves.

        >>> {key.id: key.public_key for key in await client.keys()}  # doctest: +SKIP
        """
        return await self._pages(lambda last: requests.list_keys(0 if last is None else last.id))

    async def dead_letters(self, topic: str, group: str) -> AsyncIterator[Record]:
        """Iterate over a group's dead letters, neither redriven nor dropped; headers tell why.

        >>> async for record in client.dead_letters("mail", "send"):  # doctest: +SKIP
        ...     print(record.payload, dict(record.headers)["dlq-reason"])
        """
        letters = dead_letter_topic(topic, group)
        groups = await self.groups(letters)
        first = next((found.position for found in groups if found.name == REDRIVE.decode()), 0)
        async for record in self.messages(letters, first):
            yield record

    async def redrive(self, topic: str, group: str, *, max: int = 0) -> int:  # noqa: A002 - as in Poll
        """Return dead letters to their topic, all unless ``max``; return how many."""
        return await self._ask(requests.redrive(topic, group, max))

    # ── Staged commits ────────────────────────────────────────────────────────────────────────

    async def stage(self, sink: str, epoch: int, part: str, number: int, block: bytes) -> None:
        """Put a block of rows (a ``StagedBlock``) on disk, invisible until the commit.

        Blocks of a part are numbered from 0 and sent in order; a block that is sent again is stored
        once. ``begin_stage`` does not wait for the disk.
        """
        await self._ask(requests.stage(sink, epoch, part, number, block))

    def begin_stage(
        self, sink: str, epoch: int, part: str, number: int, block: bytes
    ) -> QueueCall[None]:
        """Start a ``stage`` without waiting; give the returned call to ``finish``.

        >>> pending = client.begin_stage("job/7", 0, "0-0-1f", 1, block)  # doctest: +SKIP
        >>> await client.finish(pending)  # doctest: +SKIP
        """
        call = requests.stage(sink, epoch, part, number, block)
        self._link.begin(call)
        return call

    async def commit_stage(
        self, sink: str, epoch: int, parts: Iterable[tuple[str, int]], note: bytes = b""
    ) -> StageCommitted:
        """Publish the staged blocks of these parts, names and numbers of blocks, in this order.

        An epoch that is not greater than the last committed one changes nothing. Waits as long as
        it takes; the broker finishes a commit that has started even if the client goes away.

        >>> await client.commit_stage("job/7", 0, [("0-0-1f", 2)])  # doctest: +SKIP
        """
        named = list(parts)
        answer = await self._ask(requests.commit_stage(sink, epoch, named, note))
        is_repetition = answer.is_repetition and not answer.is_under_way
        while answer.is_under_way:
            answer = await self._ask(requests.commit_stage(sink, epoch, named, note))
        return StageCommitted(answer.epoch, is_repetition, answer.messages)

    async def abort_stage(self, sink: str, epoch: int, parts: Sequence[str] = ()) -> None:
        """Drop staged parts, all of the epoch if none is named.

        A commit that has started is not undone.
        """
        await self._ask(requests.abort_stage(sink, epoch, parts))

    async def sinks(self, name: str | None = None) -> list[SinkStatus]:
        """List all sinks, or the one of this name if there is one.

        >>> {sink.name: sink.epoch for sink in await client.sinks()}  # doctest: +SKIP
        """
        return await self._pages(partial(requests.list_sinks, name))

    async def forget_sink(self, name: str) -> None:
        """Forget a sink and what it has staged; no error if there is none.

        A later writer under this name starts over: the same epoch would be published again.
        """
        await self._ask(requests.forget_sink(name))


def _checked(jobs: Iterable[Job]) -> Iterator[Job]:
    if not isinstance(jobs, Iterable):
        raise wrong_type("jobs", JOBS_FORM, jobs)
    for job in jobs:
        if not isinstance(job, Job):
            raise wrong_type("jobs", JOBS_FORM, job)
        yield job
