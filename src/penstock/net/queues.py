"""Work queues: each job to one worker, in turn, held while there is none.

A queue is a topic whose name begins with ``q:``, and the group ``workers`` of that topic. Workers
come by any door: a subscriber of the binary protocol stays and is given jobs as they come; a PULL
asks once, for so many. All stand in one circle, and jobs are dealt to whoever has room, one each,
around it.

Dealing is a command like any other (``Taken``): journaled before a job leaves, so a job that was
handed out is known to be, whatever crashes. What a worker has not settled when it leaves goes to
the next. A broker that starts returns everything that was with workers of its last life.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from penstock.core.commands import GroupMade, Returned, Settled, Taken
from penstock.core.groups import Group, Share
from penstock.errors import StorageError
from penstock.model.message import Message
from penstock.net.hub import Hub
from penstock.net.owed import ranges_of
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import TopicInfo

__all__ = ["PREFIX", "WORKERS", "Queues", "Worker", "is_queue"]

PREFIX = b"q:"
"""How the names of queues' topics begin."""

WORKERS = b"workers"
"""The group that shares a queue's jobs."""

DEAL_MAX = 1_024
"""Jobs dealt at a time."""

RETURN_AGAIN_S = 0.5
"""Pause before jobs are given back again, if the disk refused."""

DEAL_BYTES_MAX = 4 << 20
"""Bytes of jobs dealt at a time, and one job more: so much is in memory, then with the workers."""


def is_queue(topic: bytes) -> bool:
    """Whether a topic is a queue's, and not a filter."""
    return topic.startswith(PREFIX)


class Worker(Protocol):
    """Somebody who takes jobs."""

    @property
    def consumer(self) -> bytes:
        """A name that no other worker has."""

    def room(self) -> int:
        """How many more jobs it can take now."""
        ...

    def work(self, jobs: list[Message]) -> bool:
        """Take jobs; tell whether they are done with that. If not, ``Queues.settle`` says so."""
        ...

    def idle(self) -> None:
        """There is nothing for it now."""
        ...

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused what it was to be given, or failed."""
        ...


class _Lot(NamedTuple):
    """Jobs that were read: ``offsets`` were looked at, in the order of dealing; some are gone."""

    offsets: list[int]
    jobs: dict[int, Message]


class _Queue:
    """One queue with its circle of workers.

    A deal has three steps: read the next jobs, as many as may be in memory at a time; have the disk
    note who gets which (``Taken``); pass them on. Only one deal is under way.
    """

    def __init__(self, hub: Hub, topic: bytes) -> None:
        self._hub = hub
        self.topic = topic
        self.workers: dict[bytes, Worker] = {}
        """In the order of their turns: who was given a job goes to the end."""
        self._newcomers: dict[bytes, Worker] = {}
        """Workers who were not told yet that there is nothing for them."""
        self._left: set[bytes] = set()
        """Workers who left since jobs were noted as theirs: those go back, even if they return."""
        self._lot = _Lot([], {})
        self._is_dealing = False

    def join(self, worker: Worker) -> None:
        """Give a worker its place at the end of the circle."""
        self.workers[worker.consumer] = self._newcomers[worker.consumer] = worker

    def leave(self, consumer: bytes) -> None:
        """A worker takes no more jobs."""
        self.workers.pop(consumer, None)
        self._newcomers.pop(consumer, None)
        if self._is_dealing:
            self._left.add(consumer)

    # ── dealing ───────────────────────────────────────────────────────────────────────────────

    def deal(self) -> None:
        """Hand jobs to workers with room, as far as both go."""
        if self._is_dealing or not self.workers:
            return
        info = self._hub.store.topic(self.topic)
        group = self._hub.broker.groups.get(self.topic, WORKERS)
        available = _available(info, group)
        offsets = _next_offsets(info, group, self._room()) if info and available else []
        if offsets:
            self._is_dealing = True
            self._read(offsets, self._take, self._unreadable, DEAL_BYTES_MAX)
        else:
            self._tell_idle()

    def _tell_idle(self) -> None:
        newcomers, self._newcomers = self._newcomers, {}
        for worker in newcomers.values():
            worker.idle()

    def _room(self) -> int:
        """How many jobs all workers can take together, as far as that matters."""
        total = 0
        for _, room in self._rooms():
            total += max(room, 0)
            if total >= DEAL_MAX:
                return DEAL_MAX
        return total

    def _read(
        self,
        offsets: list[int],
        deliver: Callable[[_Lot], None],
        fail: Callable[[StorageError], None],
        bytes_max: int | None,
    ) -> None:
        hub, topic = self._hub, self.topic
        hub.run_off_loop(lambda: _read(hub, topic, offsets, bytes_max), deliver, fail)

    def _take(self, lot: _Lot) -> None:
        """Have the disk note who gets the jobs that were read."""
        info = self._hub.store.topic(self.topic)
        shares = self._shares(len(lot.offsets))
        if info is None or not shares:  # whoever had room has left, or has none any more
            self._is_dealing = False
            return
        self._lot = lot
        self._left.clear()
        if self._hub.broker.groups.get(self.topic, WORKERS) is None:
            made = GroupMade(self.topic, WORKERS, 0)
            self._hub.pipeline.submit(made, None, durable=True)
        first, end, now_ms = info.first_offset, info.next_offset, self._hub.wall_ms()
        taken = Taken(self.topic, WORKERS, shares, first, end, now_ms, settle=False)
        self._hub.pipeline.submit(taken, self, durable=True)

    def _shares(self, available: int) -> list[tuple[bytes, int]]:
        """Who gets how many, around the circle; a worker alone gets all it can take at once."""
        rooms = {name: room for name, room in self._rooms() if room > 0}
        if len(rooms) == 1:
            ((name, room),) = rooms.items()
            return [(name, min(room, available))]
        shares = []
        while available and rooms:
            for name in list(rooms):
                if not available:
                    break
                available -= 1
                shares.append((name, 1))
                self.workers[name] = self.workers.pop(name)  # its turn is over
                rooms[name] -= 1
                if not rooms[name]:
                    del rooms[name]
        return shares

    def _rooms(self) -> Iterator[tuple[bytes, int]]:
        for name, worker in self.workers.items():
            yield name, worker.room()

    def outcome(self, value: object) -> None:
        """The jobs are theirs: pass them on."""
        shares: list[Share] = value if isinstance(value, list) else []
        lot, self._lot = self._lot, _Lot([], {})
        read = set(lot.offsets)
        others = [offset for share in shares for offset in share.offsets if offset not in read]
        if not others:
            self._pass_on(shares, lot.jobs)
            return
        self._read(  # given back since we looked, so they came first
            others,
            lambda more: self._pass_on(shares, lot.jobs | more.jobs),
            lambda error: self._unreadable(error, shares),
            None,
        )

    def _pass_on(self, shares: list[Share], jobs: dict[int, Message]) -> None:
        left, self._left = self._left, set()
        self._is_dealing = False
        jobs_of: dict[bytes, list[Message]] = {}
        done: list[int] = []
        for share in shares:
            mine = jobs_of.setdefault(share.consumer, [])
            mine += [jobs[offset] for offset in share.offsets if offset in jobs]
            done += [offset for offset in share.offsets if offset not in jobs]  # they are gone
        for name, mine in jobs_of.items():
            # Who has left gets nothing: its jobs were returned behind ``Taken``.
            worker = None if name in left else self.workers.get(name)
            if worker is not None and mine and worker.work(mine):
                done += [job.offset for job in mine]
        if done:
            self.settle(done)
        self.deal()

    def _unreadable(self, error: StorageError, shares: Iterable[Share] = ()) -> None:
        self._is_dealing = False
        for worker in list(self.workers.values()):
            worker.close(DisconnectReason.STORAGE_FAILED, error.message)
        for share in shares:
            _Returning(self._hub, self.topic, share.consumer).submit()

    def close(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The commit of ``Taken`` failed: nobody has got anything; those who wait must know."""
        self._is_dealing = False
        self._lot = _Lot([], {})
        for worker in list(self.workers.values()):
            worker.close(reason)

    def settle(self, offsets: list[int]) -> None:
        """Jobs are done with."""
        settled = Settled(self.topic, WORKERS, ranges_of(offsets))
        self._hub.pipeline.submit(settled, None, durable=True)


class Queues:
    """All queues that have workers."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queues: dict[bytes, _Queue] = {}
        self.holders: dict[Any, Any] = {}
        """Connections that take jobs by asking, and what each has not acknowledged."""

    def join(self, topic: bytes, worker: Worker) -> None:
        """Give jobs of a queue to this worker, too."""
        queue = self._queues.get(topic)
        if queue is None:
            queue = self._queues[topic] = _Queue(self._hub, topic)
            self._hub.feed.watch(topic, queue.deal)
        queue.join(worker)
        queue.deal()

    def leave(self, topic: bytes, consumer: bytes) -> None:
        """A worker leaves; what it has not settled goes to others."""
        self.rest(topic, consumer)
        _Returning(self._hub, topic, consumer).submit()

    def rest(self, topic: bytes, consumer: bytes) -> None:
        """A worker takes no more jobs, but keeps those it has."""
        queue = self._queues.get(topic)
        if queue is not None:
            queue.leave(consumer)
            if not queue.workers:
                del self._queues[topic]
                self._hub.feed.unwatch(topic, queue.deal)

    def settle(self, topic: bytes, offsets: list[int], outlet: Any = None) -> None:
        """Jobs are done with; there may be room for more. ``outlet`` is told when it is on disk."""
        settled = Settled(topic, WORKERS, ranges_of(offsets))
        self._hub.pipeline.submit(settled, outlet, durable=True)
        self.deal(topic)

    def deal(self, topic: bytes) -> None:
        """A worker of this queue has room again."""
        queue = self._queues.get(topic)
        if queue is not None:
            queue.deal()

    def workers(self, topic: bytes) -> int:
        """How many workers a queue has now."""
        queue = self._queues.get(topic)
        return len(queue.workers) if queue else 0

    def pending(self) -> Iterator[tuple[bytes, int]]:
        """Queues that were ever worked on, and how many jobs wait in each or are being done."""
        for group in self._groups():
            info = self._hub.store.topic(group.topic)
            end = info.next_offset if info else group.next
            yield group.topic, len(group.pending) + max(end - group.next, 0)

    def return_all(self) -> None:
        """After a start: no worker of the last life is there any more."""
        for group in self._groups():
            for consumer in group.consumers:
                _Returning(self._hub, group.topic, consumer).submit()

    def _groups(self) -> Iterator[Group]:
        return (g for g in self._hub.broker.groups if g.name == WORKERS and is_queue(g.topic))


class _Returning:
    """A worker's jobs on their way back: tried until the disk takes it, then dealt anew."""

    def __init__(self, hub: Hub, topic: bytes, consumer: bytes) -> None:
        self._hub = hub
        self._returned = Returned(topic, WORKERS, consumer)

    def submit(self) -> None:
        """Put it in the line."""
        self._hub.pipeline.submit(self._returned, self, durable=True)

    def outcome(self, _value: object) -> None:
        """They are back."""
        self._hub.queues.deal(self._returned.topic)

    def close(self, _reason: DisconnectReason, _detail: str = "") -> None:
        """The disk refused."""
        self._hub.loop.call_later(RETURN_AGAIN_S, self.submit)


def _available(info: TopicInfo | None, group: Group | None) -> int:
    """How many jobs could be handed out."""
    if info is None:
        return 0
    return group.available(info.next_offset) if group else info.next_offset


def _next_offsets(info: TopicInfo, group: Group | None, count: int) -> list[int]:
    """The jobs that are handed out next, in this order: ``Group.take`` has the same."""
    start = info.first_offset
    returned: list[int] = []
    if group is not None:
        offsets = group.returned_offsets()
        place = bisect_left(offsets, start)
        start, returned = max(start, group.next), offsets[place : place + count]
    return [*returned, *range(start, min(info.next_offset, start + count - len(returned)))]


def _read(hub: Hub, topic: bytes, offsets: list[int], bytes_max: int | None) -> _Lot:
    """Messages of some offsets, in this order, until there are so many bytes (None: all)."""
    jobs: dict[int, Message] = {}
    number = size = 0
    while number < len(offsets) and (bytes_max is None or size < bytes_max):
        first = offsets[number]
        count = _in_a_row(offsets, number)
        room = DEAL_BYTES_MAX if bytes_max is None else bytes_max - size
        part = hub.store.read_topic(topic, first, count, room)
        found = [message for message in part.messages() if message.offset < first + count]
        jobs.update((message.offset, message) for message in found)
        size += sum(len(message.payload) for message in found)
        # What is missing before ``next_offset`` is gone; if that says nothing, all of it is.
        end = part.next_offset if part.next_offset > first else first + count
        number += min(end - first, count)
    return _Lot(offsets[:number], jobs)


def _in_a_row(offsets: list[int], number: int) -> int:
    """How many offsets from this one on lie side by side."""
    end = number + 1
    while end < len(offsets) and offsets[end] == offsets[end - 1] + 1:
        end += 1
    return end - number
