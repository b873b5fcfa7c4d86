"""Operations that take more than one request, written once for both drivers.

A **plan** is a generator that yields what it needs and is sent what came of it. It knows no socket,
no thread and no loop: the driver of the blocking client runs it by waiting, that of the other by
awaiting.

===============  ================================================================================
``yield call``   wait for the answer, asking first if that was not done; raises what the call does
``yield Begin``  ask, and do not wait
``yield Pause``  sleep, but not beyond a point in time; the time it is then is the answer
===============  ================================================================================
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from penstock.client.errors import ClientError, LeaseLostError, RateLimitedError
from penstock.client.queue import requests
from penstock.client.queue.checks import wrong_type
from penstock.client.queue.columns import Slice
from penstock.client.queue.producer import Producer, batches
from penstock.client.queue.session import QueueCall
from penstock.client.queue.values import (
    DeviceKey,
    Group,
    Item,
    Job,
    MessageSettings,
    PollSettings,
    Result,
    Topic,
)
from penstock.limits import LEASES_MAX, MIB
from penstock.model.dead_letters import REDRIVE
from penstock.wire.queue._generated.queue_pb2 import Fetched
from penstock.wire.queue.slices import columns_of

T = TypeVar("T")

WAIT_MAX_S: Final = 300.0
"""How long the broker lets a poll wait."""

WINDOW: Final = 8
"""Batches under way at once. The broker commits those that came together in one go."""

FETCH_MESSAGES_MAX: Final = 65_536
FETCH_BYTES_MAX: Final = 4 * MIB
"""What one answer to a fetch holds, unless a single message is larger."""


JOBS_FORM: Final = "a Job, as poll gives them, or several"


class Begin(NamedTuple):
    """Ask, and do not wait."""

    call: QueueCall[Any]


class Pause(NamedTuple):
    """Sleep for so long, but not beyond ``until``; what comes back is the time."""

    seconds: float = 0.0
    until: float = inf


Plan: TypeAlias = Generator[QueueCall[Any] | Begin | Pause, Any, T]


def poll(topic: str, group: str, wait_s: float, settings: PollSettings) -> Plan[list[Job]]:
    """Poll for as long as ``wait_s``, also through times when the topic's rate allows nothing."""
    until = (yield Pause()) + wait_s
    left_s = wait_s
    while True:
        pause_s = 0.0
        try:
            jobs: list[Job] = yield requests.poll(topic, group, min(left_s, WAIT_MAX_S), **settings)
        except RateLimitedError as error:
            if not wait_s:
                raise
            jobs, pause_s = [], error.retry_after_s
        left_s = until - (yield Pause(pause_s, until))
        if jobs or left_s <= 0:
            return jobs


def produce_many(
    producer: Producer,
    topic: str,
    items: Iterable[bytes | Item],
    seq: int | None,
    settings: MessageSettings,
) -> Plan[list[Result]]:
    """Produce in batches, some of them under way at once; a result for each message."""
    results: list[Result] = []
    under_way: deque[tuple[QueueCall[list[Result]], int]] = deque()
    for batch in batches(items, settings):
        count = len(batch.payloads)
        first = producer.take(topic, seq, count)
        seq = None if seq is None else seq + count
        call = requests.produce_many(
            topic, batch.payloads, producer.producer_id, first, **batch.settings
        )
        yield Begin(call)
        under_way.append((call, count))
        if len(under_way) == WINDOW:
            results += yield from _results(*under_way.popleft())
    while under_way:
        results += yield from _results(*under_way.popleft())
    return results


def _results(call: QueueCall[list[Result]], count: int) -> Plan[list[Result]]:
    try:
        results: list[Result] = yield call
    except ClientError as error:
        return [Result(None, error)] * count
    return results


def settle(
    jobs: Job | Iterable[Job], make: Callable[[str, str, list[int]], QueueCall[list[int]]]
) -> Plan[None]:
    """Say something of leases: requests for each group of each topic, all at once.

    ``LeaseLostError``: some were over. Of a request that had to be sent twice nobody can tell: the
    first may have been the end of them.
    """
    named = [jobs] if isinstance(jobs, Job) else list(_jobs(jobs))
    leases: dict[tuple[str, str], list[int]] = {}
    for job in named:
        leases.setdefault((job.topic, job.group), []).append(job.lease_id)
    calls = {
        (place, first): make(*place, lease_ids[first : first + LEASES_MAX])
        for place, lease_ids in leases.items()
        for first in range(0, len(lease_ids), LEASES_MAX)
    }
    for call in calls.values():
        yield Begin(call)
    lost: set[tuple[str, str, int]] = set()
    for (place, _), call in calls.items():
        lapsed = yield call
        if not call.is_repeated:
            lost |= {(*place, lease) for lease in lapsed}
    if lost:
        raise LeaseLostError([j for j in named if (j.topic, j.group, j.lease_id) in lost])


def _jobs(jobs: Iterable[Job]) -> Iterator[Job]:
    """One by one, for as long as they are jobs."""
    if not isinstance(jobs, Iterable):
        raise wrong_type("jobs", JOBS_FORM, jobs)
    for job in jobs:
        if not isinstance(job, Job):
            raise wrong_type("jobs", JOBS_FORM, job)
        yield job


def topics(prefix: str) -> Plan[list[Topic]]:
    """All pages of a list of topics."""
    found: list[Topic] = []
    more = True
    while more:
        page, more = yield requests.list_topics(prefix, found[-1].name if found else "")
        found += page
    return found


def groups(topic: str) -> Plan[list[Group]]:
    """All pages of a list of groups."""
    found: list[Group] = []
    more = True
    while more:
        page, more = yield requests.list_groups(topic, found[-1] if found else None)
        found += page
    return found


def first_letter(letters: str) -> Plan[int]:
    """The oldest dead letter of a topic that was neither sent back nor dropped."""
    found = yield from groups(letters)
    return next((group.position for group in found if group.name == REDRIVE.decode()), 0)


def keys() -> Plan[list[DeviceKey]]:
    """All pages of the list of keys."""
    found: list[DeviceKey] = []
    more = True
    while more:
        page, more = yield requests.list_keys(found[-1].id if found else 0)
        found += page
    return found


class Reading:
    """One reading of a topic, answer by answer: up to where the topic ended when it began."""

    def __init__(self, topic: str, offset: int, end_offset: int | None) -> None:
        self.is_done = False
        self._topic = topic
        self._offset = offset
        self._end_offset = end_offset
        self._incarnation: int | None = None

    def next_call(self) -> QueueCall[Fetched]:
        """What to ask for now."""
        return requests.fetch(
            self._topic, self._offset, self._end_offset or 0, FETCH_MESSAGES_MAX, FETCH_BYTES_MAX
        )

    def take(self, answer: Fetched) -> list[Slice]:
        """Note where to go on, and give what came."""
        if self._incarnation not in {None, answer.incarnation}:
            raise ClientError(
                f"{self._topic} was deleted while it was read, and perhaps made anew",
                "begin again at its first offset",
            )
        self._incarnation = answer.incarnation
        if self._end_offset is None:
            self._end_offset = answer.end_offset
        is_stuck = answer.next_offset <= self._offset
        self._offset = answer.next_offset
        self.is_done = is_stuck or self._offset >= self._end_offset
        return [Slice(self._topic, columns_of(received)) for received in answer.slices]
