"""A dispatcher hands the messages of one group of one topic to its workers, each to one of them.

**Workers** come from every protocol. Some stay and are pushed messages: a subscriber of the binary
protocol, a push subscription of the queue protocol, an MQTT client with a shared subscription.
Others ask once: a poll, a PULL. All are served round-robin.

A round has four steps, and a dispatcher runs one round at a time:

1. assign: choose messages and who gets them (``core/selection``), as the topic's rate allows;
2. gather: take them from recent commits or read them from disk, up to a limit of memory;
3. lease: commit that they are handed out (``Leased``), so that a crash does not lose track;
4. deliver. What was assigned to a worker that left meanwhile goes back.

A message belongs to a worker for the time of its **lease**, or, where the protocol has none, until
the worker leaves. A dispatcher wakes when a lease ends, a delayed message becomes due or the rate
allows more, and submits a command that names the time (``Swept``). It is the time of a steady
clock: if the wall clock is set back by an hour, leases must not last an hour longer.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from penstock.commit.completion import Callback
from penstock.core.commands import Leased, Run, Settled, Swept
from penstock.core.groups import Group, GroupDelivery
from penstock.core.selection import Picker
from penstock.dispatch.backlog import Backlog
from penstock.dispatch.dead_letters import DeadLetters
from penstock.dispatch.groups import GroupOperations
from penstock.dispatch.leases import Leases
from penstock.dispatch.parts import RETRY_S, DispatchParts
from penstock.dispatch.read_ahead import ReadAhead
from penstock.dispatch.reads import ReadResult, read_messages
from penstock.dispatch.topics import TopicOperations
from penstock.dispatch.unacked import ranges_of
from penstock.model.message import Message
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.store import TopicInfo

ROUND_MAX = 1_024  # messages of one round

ROUND_BYTES_MAX = 4 << 20
"""Bytes of one round, plus at most one message: they are in memory, then with the workers."""

CONFLICT_PAUSE_S = 0.002
CONFLICTS_MAX = 16
"""Pause after conflicting rounds; it grows with their number, up to this factor."""


class LeasedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as it is delivered to a worker."""

    message: Message
    lease: int
    deliveries: int


class GroupWorker(Protocol):
    """Takes messages of a group."""

    @property
    def consumer(self) -> bytes:
        """A name that no other worker has."""

    @property
    def visibility_ms(self) -> int:
        """How long it has a message; 0: until it leaves."""

    @property
    def takes_turns(self) -> bool:
        """Whether messages must be spread one by one."""

    @property
    def settles(self) -> bool:
        """Whether a message is settled by its delivery."""

    def room(self) -> int:
        """How many more messages it can take now."""
        ...

    def work(self, jobs: list[LeasedMessage]) -> None: ...

    def idle(self) -> None:
        """The group has nothing for it now; called once."""
        ...

    def limited(self, retry_ms: int) -> None:
        """The topic's rate allows nothing yet."""
        ...

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The messages assigned to it could not be committed or read."""


class _Assignment(NamedTuple):
    """The messages of one round, and who gets them."""

    picker: Picker
    shares: list[tuple[GroupWorker, list[Run]]]
    tokens: int  # taken from the topic's rate limit; the rest is refunded
    version: int  # of the group when they were chosen
    generation: int  # of the group; a dispatcher of another node may choose at the same time

    def offsets(self) -> list[int]:
        """All offsets, in the order of delivery."""
        runs = (run for _, share in self.shares for run in share)
        return [offset for _, start, end in runs for offset in range(start, end)]


class DispatcherHost(Protocol):
    """What all dispatchers share."""

    leases: Leases
    groups: GroupOperations
    topics: TopicOperations
    dead_letters: DeadLetters

    def may_read_ahead(self, dispatcher: "Dispatcher") -> bool: ...


class Dispatcher:
    """One group of one topic, with its workers."""

    def __init__(
        self, parts: DispatchParts, host: DispatcherHost, backlog: Backlog, group: bytes
    ) -> None:
        self._parts = parts
        self._host = host
        self._backlog = backlog
        self.topic = backlog.topic
        self.group = group
        self.workers: dict[bytes, GroupWorker] = {}  # least recently served first
        self._newcomers: dict[
            bytes, GroupWorker
        ] = {}  # not told yet that there is nothing for them
        self._assignment: _Assignment | None = None  # of the round that is running
        self._messages: dict[int, Message] = {}  # of that round
        self._gone: set[bytes] = set()  # left since the assignment, even if they came back
        self._ahead = ReadAhead(parts, backlog.topic)
        self._timer: asyncio.TimerHandle | None = None
        self._is_creating = False
        self._is_sweeping = False
        # The end of the topic at the first attempt, until it is known what is too old.
        self._aged_to: int | None = None
        self._conflicts = 0  # rounds in a row whose lease was void
        self.is_closed = False

    # ── workers ───────────────────────────────────────────────────────────────────────────────

    def join(self, worker: GroupWorker) -> None:
        self.workers[worker.consumer] = self._newcomers[worker.consumer] = worker

    def leave(self, consumer: bytes) -> None:
        self.workers.pop(consumer, None)
        self._newcomers.pop(consumer, None)
        if self._assignment is not None:
            self._gone.add(consumer)

    def is_serving(self, consumer: bytes) -> bool:
        """Whether messages are on their way to this worker."""
        if self._assignment is None or consumer in self._gone:
            return False
        return any(worker.consumer == consumer for worker, _ in self._assignment.shares)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """A commit or read failed: nothing was delivered, and waiting workers must know."""
        self._end_round(0)
        self._is_creating = False
        for worker in list(self.workers.values()):
            worker.refused(reason, detail)

    def close(self) -> None:
        self.is_closed = True
        self.forget()
        if self._timer is not None:
            self._timer.cancel()

    def forget(self) -> None:
        """Drop what was read ahead: the topic was deleted, or there are no workers."""
        self._ahead.forget()

    # ── assigning ─────────────────────────────────────────────────────────────────────────────

    def dispatch(self) -> None:
        """Start a round if there are messages and workers with room."""
        if self._assignment is not None or self.is_closed or not self.workers:
            return
        if self._parts.pipeline.is_dropping(self.topic):
            return  # the topic is being deleted; a new one of this name may follow
        group = self._parts.broker.groups.get(self.topic, self.group)
        if group is None:
            self._create_group()
            return
        now_ms = self._parts.steady.now_ms()
        if self._sweeps(group, now_ms):
            return  # returned messages may have to go first
        info = self._parts.store.topic(self.topic)
        if info is not None and not self._is_aged(info):
            return  # messages that are too old must not be dispatched
        first = self._backlog.first_offset(info) if info else 0
        start = max(group.next, first)
        offsets = self._backlog.cover(start)
        picker = Picker(offsets, group.heads, group.returned.by_priority, first, now_ms)
        available = 0 if group.is_full else picker.available()
        if self._backlog.is_reading(start) and self._room(available + 1) > available:
            return  # wait: a poll must not get less than it has room for
        room = self._room(available)
        if room and available:
            self._assign(group, picker, room)
            return
        is_all = info is None or self._backlog.knows_all_of(info, start)
        if room and is_all:
            self._tell_idle()
        self._wake_at(group.wakes_ms())

    def _is_aged(self, info: TopicInfo) -> bool:
        """Whether it is known which messages are too old, as of the first attempt."""
        if self._aged_to is None:
            self._aged_to = info.next_offset
        is_aged = self._backlog.is_aged(info, self._aged_to)
        self._aged_to = None if is_aged else self._aged_to
        return is_aged

    def _create_group(self) -> None:
        if self._is_creating:
            return
        self._is_creating = True
        start = self._host.topics.earliest(self.topic)
        command = self._host.groups.create_command(self.topic, self.group, start, is_first=True)
        self._parts.pipeline.submit(command, Callback(self._created, self.refused), durable=True)

    def _created(self, _value: object) -> None:
        self._is_creating = False
        self.dispatch()

    def _room(self, available: int) -> int:
        """The room of all workers together, up to what is available.

        It asks no more workers than necessary: there may be many, and few messages.
        """
        enough = min(max(available, 1), ROUND_MAX)
        total = 0
        for worker in self.workers.values():
            total += max(worker.room(), 0)
            if total >= enough:
                return enough
        return total

    def _assign(self, group: Group, picker: Picker, want: int) -> None:
        bucket = self._backlog.bucket(self._parts.clock.monotonic())
        if bucket is not None:
            want = bucket.take(want, self._parts.clock.monotonic())
            if not want:
                self._tell_limited(bucket.retry_s(self._parts.clock.monotonic()))
                return
        shares = self._shares(group, picker, want)
        self._gone.clear()
        if shares or picker.delayed or picker.expired:
            self._assignment = _Assignment(picker, shares, want, group.version, group.generation)
            self._gather(self._assignment)
        elif bucket is not None:
            bucket.refund(want)

    def _shares(
        self, group: Group, picker: Picker, want: int
    ) -> list[tuple[GroupWorker, list[Run]]]:
        """Divide messages among the workers with room.

        Each gets its part at once, unless a worker expects messages to be spread one by one. If
        there is enough for all but not in one round, each gets what it has room for, in turn:
        larger shares cost less, and whoever gets nothing now is the first of the next round.
        """
        rooms = ((worker.consumer, worker.room()) for worker in self.workers.values())
        ready = dict(islice((pair for pair in rooms if pair[1] > 0), want))
        is_plenty = want == ROUND_MAX and picker.available() >= sum(ready.values())
        one_by_one = len(ready) > 1 and any(self.workers[n].takes_turns for n in ready)
        runs_of: dict[bytes, list[Run]] = {}
        polls = group.polls
        while want and ready:
            for place, (name, room) in enumerate(list(ready.items())):
                part = want if is_plenty else -(-want // (len(ready) - place))
                runs = picker.pick(min(room, 1 if one_by_one else part), polls) if want else []
                if not runs:
                    return self._to_shares(runs_of)
                polls += 1
                count = _count(runs)
                want -= count
                ready[name] -= count
                runs_of.setdefault(name, []).extend(runs)
            ready = {name: room for name, room in ready.items() if room} if one_by_one else {}
        return self._to_shares(runs_of)

    def _to_shares(self, runs_of: dict[bytes, list[Run]]) -> list[tuple[GroupWorker, list[Run]]]:
        """Shares by worker; these workers go to the end of the round-robin order."""
        shares = []
        for name, runs in runs_of.items():
            worker = self.workers[name] = self.workers.pop(name)
            shares.append((worker, runs))
        return shares

    def _tell_idle(self) -> None:
        newcomers, self._newcomers = self._newcomers, {}
        for worker in newcomers.values():
            worker.idle()

    def _tell_limited(self, retry_s: float) -> None:
        self._parts.counters.rate_limited_total += 1
        self._wake_in(retry_s)
        for worker in list(self.workers.values()):
            if worker.room() > 0:
                worker.limited(int(retry_s * 1000) + 1)

    # ── gathering ─────────────────────────────────────────────────────────────────────────────

    def _gather(self, assignment: _Assignment) -> None:
        offsets = assignment.offsets()
        self._messages = self._at_hand(offsets)
        missing = [offset for offset in offsets if offset not in self._messages]
        if not missing:
            self._lease(assignment)
            return
        parts, topic = self._parts, self.topic
        parts.readers.run(
            lambda: read_messages(parts.store, topic, missing, ROUND_BYTES_MAX),
            lambda result: self._gathered(assignment, result),
            lambda error: self.refused(DisconnectReason.STORAGE_FAILED, error.message),
        )

    def _at_hand(self, offsets: list[int]) -> dict[int, Message]:
        """Messages of recent commits, and those that were read ahead.

        Empty if messages of the topic were deleted: only the disk knows which remain.
        """
        info = self._parts.store.topic(self.topic)
        if info is None or info.deleted or not offsets:
            return {}
        messages = self._backlog.at_hand(offsets)
        if len(messages) == len(offsets):
            return messages
        messages |= self._ahead.take(offsets)
        is_in_order = offsets[-1] - offsets[0] == len(offsets) - 1
        if is_in_order and self._host.may_read_ahead(self):
            self._ahead.go_on(offsets[-1] + 1, info.next_offset)
        return messages

    def _gathered(self, assignment: _Assignment, result: ReadResult) -> None:
        self._messages |= result.messages
        self._lease(_cut(assignment, result.unread) if result.unread else assignment)

    # ── leasing ───────────────────────────────────────────────────────────────────────────────

    def _lease(self, assignment: _Assignment) -> None:
        group = self._parts.broker.groups.get(self.topic, self.group)
        info = self._parts.store.topic(self.topic)
        is_void = any(worker.consumer in self._gone for worker, _ in assignment.shares)
        if is_void or group is None or info is None:  # a worker left, or it was deleted, meanwhile
            self._end_round(0)
            self.dispatch()
            return
        now_ms = self._parts.steady.now_ms()
        assignment, expired = self._without_expired(assignment, now_ms)
        self._assignment = assignment
        picker = assignment.picker
        count = _count(run for _, runs in assignment.shares for run in runs)
        first = self._backlog.first_offset(info)
        if group.next < first:
            self._count_passed(group, info, first)
        leased = Leased(
            self.topic,
            self.group,
            assignment.version,
            first,
            _compact(picker.heads),
            picker.ahead,
            self._host.leases.reserve(count),
            now_ms,
            [_share(worker, runs, now_ms) for worker, runs in assignment.shares],
            picker.delayed,
            picker.expired + expired,
            assignment.generation,
        )
        self._parts.pipeline.submit(leased, self, durable=True)

    def _count_passed(self, group: Group, info: TopicInfo, first: int) -> None:
        """Count messages beyond the topic's limits that retention has not removed yet."""
        passed = group.unsettled([(info.first_offset, first)])
        counters = self._parts.counters
        counters.dropped(DropReason.RETENTION, passed, topic=self.topic, group=self.group)

    def _without_expired(
        self, assignment: _Assignment, now_ms: int
    ) -> tuple[_Assignment, list[int]]:
        """The assignment without expired messages, and their offsets.

        For a redelivery only the message itself has its expiry: the priority lists forgot it.
        """
        expired = [
            offset
            for offset, message in self._messages.items()
            if message.extras is not None and 0 < message.extras.expires_ms <= now_ms
        ]
        return (
            (_without_offsets(assignment, set(expired)), expired)
            if expired
            else (assignment, expired)
        )

    def _end_round(self, delivered: int) -> None:
        assignment, self._assignment = self._assignment, None
        self._messages = {}
        bucket = self._backlog.bucket(self._parts.clock.monotonic())
        if assignment is not None and bucket is not None:
            bucket.refund(assignment.tokens - delivered)

    # ── delivering ───────────────────────────────────────────────────────────────────────────

    def done(self, value: object) -> None:
        """The lease is committed: deliver the messages.

        The value is None if the group was moved meanwhile or a dispatcher of another node was
        faster. Then assign anew; after repeated conflicts pause, to let the others proceed.
        """
        assignment, messages = self._assignment, self._messages
        assert assignment is not None
        self._conflicts = self._conflicts + 1 if value is None else 0
        shares: list[GroupDelivery] = value if isinstance(value, list) else []
        self._end_round(sum(len(share.offsets) for share in shares))
        for (worker, _), share in zip(assignment.shares, shares, strict=False):
            self._deliver(worker, share, messages)
        self._gone.clear()
        if self._conflicts > 1:
            self._wake_in(min(self._conflicts, CONFLICTS_MAX) * CONFLICT_PAUSE_S)
        else:
            self.dispatch()

    def _deliver(
        self, worker: GroupWorker, share: GroupDelivery, messages: dict[int, Message]
    ) -> None:
        found = _leased_messages(share, messages)
        if len(found) < len(share.offsets):
            self._settle_removed([o for o in share.offsets if o not in messages])
        if worker.consumer in self._gone:
            if not share.consumer:
                self._give_back(share)
            return
        if found:
            if not worker.settles:
                self._host.leases.given(share.lease, len(share.offsets), worker.consumer)
            worker.work(found)
            if worker.settles:
                leases = [leased.lease for leased in found]
                self._host.leases.settle(self.topic, self.group, leases)

    def _settle_removed(self, offsets: list[int]) -> None:
        """Settle messages that were deleted, or removed by retention."""
        settled = Settled(self.topic, self.group, ranges_of(offsets))
        self._parts.pipeline.submit(settled, None, durable=True)

    def _give_back(self, share: GroupDelivery) -> None:
        """The worker left before the delivery. Without a lease, leaving returned its messages."""
        leases = list(range(share.lease, share.lease + len(share.offsets)))
        self._host.leases.give_back(self.topic, self.group, leases, counts=False)

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def _sweeps(self, group: Group, now_ms: int) -> bool:
        """Take back expired leases and release due messages; whether that is under way."""
        wakes_ms = group.wakes_ms()
        is_due = wakes_ms is not None and wakes_ms <= now_ms
        if is_due and not self._is_sweeping and not self._parts.connections.stalls.is_catching_up:
            self._is_sweeping = True
            swept = Swept(self.topic, self.group, now_ms)
            self._parts.pipeline.submit(swept, Callback(self._swept, self._not_swept), durable=True)
        return self._is_sweeping

    def _swept(self, _value: object) -> None:
        self._is_sweeping = False
        self._host.dead_letters.move_exhausted(self.topic, self.group)
        self.dispatch()

    def _not_swept(self, reason: DisconnectReason, detail: str = "") -> None:
        self._is_sweeping = False
        self._wake_in(RETRY_S)
        self.refused(reason, detail)

    def _wake_at(self, when_ms: int | None) -> None:
        if when_ms is not None:
            self._wake_in(max(when_ms - self._parts.steady.now_ms(), 1) / 1000)

    def _wake_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._parts.connections.loop.call_later(delay_s, self.dispatch)


def _count(runs: Iterable[Run]) -> int:
    return sum([end - start for _, start, end in runs])


def _leased_messages(share: GroupDelivery, messages: dict[int, Message]) -> list[LeasedMessage]:
    """The messages of a share, without those that are gone."""
    leases = range(share.lease, share.lease + len(share.offsets))
    rows = zip(map(messages.get, share.offsets), leases, share.deliveries, strict=True)
    return [
        LeasedMessage(message, lease, times)
        for message, lease, times in rows
        if message is not None
    ]


def _compact(heads: list[int]) -> list[int]:
    """One number if all are equal."""
    return heads[:1] if len(set(heads)) == 1 else heads


def _share(worker: GroupWorker, runs: list[Run], now_ms: int) -> tuple[bytes, int, list[Run]]:
    if worker.visibility_ms:
        return b"", now_ms + worker.visibility_ms, runs
    return worker.consumer, 0, runs


def _cut(assignment: _Assignment, unread: list[int]) -> _Assignment:
    """The assignment up to the first unread message, even if later ones were read.

    What is dispatched of each priority must be a prefix.
    """
    offsets, without_room = assignment.offsets(), set(unread)
    place = next(number for number, offset in enumerate(offsets) if offset in without_room)
    left_out = set(offsets[place:])
    assignment.picker.put_back(left_out)
    return _without_offsets(assignment, left_out)


def _without_offsets(assignment: _Assignment, left_out: set[int]) -> _Assignment:
    shares = []
    for worker, runs in assignment.shares:
        kept = [part for run in runs for part in _without(run, left_out)]
        if kept:
            shares.append((worker, kept))
    return assignment._replace(shares=shares)


def _without(run: Run, left_out: set[int]) -> Iterator[Run]:
    """The ranges of a run that are left."""
    priority, start, end = run
    offsets = [offset for offset in range(start, end) if offset not in left_out]
    for first, last in ranges_of(offsets) if offsets else ():
        yield priority, first, last
