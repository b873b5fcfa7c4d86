"""Dispatchers: where the messages of a group are handed out, each to one worker, in turn.

A **dispatcher** is one group of one topic that somebody wants messages from. **Workers** come by
any door. Some stay and are given messages as they come: a subscriber of the binary protocol, a push
subscription of the queue protocol, an MQTT client that shares a subscription. Others ask once: a
poll, a PULL. All stand in one circle.

A deal has four steps, and only one deal of a dispatcher is under way:

1. choose messages, and who gets them (``core/selection``; the topic's rate may allow few or none);
2. have them at hand, from the last commits or read from disk, as many as may be in memory;
3. have the disk note that they are handed out (``Leased``), so that it is known whatever crashes;
4. pass them on. What was to go to a worker that left meanwhile goes back.

A message is a worker's for the time of its **lease**, or, where the protocol has no such thing,
until the worker leaves. Time is looked at here: a dispatcher wakes when a lease ends, a delayed
message becomes due or a token has grown, and says so in a command (``Swept``). It is the time of a
steady clock: were the wall clock set back by an hour, nobody would get what a dead worker has for
an hour.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from penstock.commit.completion import Callback
from penstock.core.commands import (
    GroupMade,
    Leased,
    Run,
    Settled,
    Swept,
)
from penstock.core.groups import Group, GroupDelivery
from penstock.core.selection import Picker
from penstock.dispatch.backlog import Backlog
from penstock.dispatch.parts import DispatchParts
from penstock.dispatch.read_ahead import ReadAhead
from penstock.dispatch.unacked import ranges_of
from penstock.model.message import Message
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.store import TopicInfo

DEAL_MAX = 1_024
"""Messages dealt at a time."""

DEAL_BYTES_MAX = 4 << 20
"""Bytes dealt at a time, and one message more: so much is in memory, then with the workers."""

VOID_S = 0.002
VOIDS_MAX = 16
"""Pause before a deal that was void again, and how many times as long it may become."""

AGAIN_S = 0.5
"""Pause before something is tried again that the disk refused."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """A message as it is handed out: its lease, and how often that has happened by now."""

    message: Message
    lease: int
    deliveries: int


class Worker(Protocol):
    """Somebody who takes messages of a group."""

    @property
    def consumer(self) -> bytes:
        """A name that no other worker has."""

    @property
    def visibility_ms(self) -> int:
        """How long a message is its own; 0: until it leaves."""

    @property
    def takes_turns(self) -> bool:
        """Whether it expects messages to go around the circle one by one."""

    @property
    def settles(self) -> bool:
        """Whether a message is done when it has it, and nobody will say so."""

    def room(self) -> int:
        """How many more messages it can take now."""
        ...

    def work(self, jobs: list[Job]) -> None:
        """Take messages."""
        ...

    def idle(self) -> None:
        """There is nothing for it now; told once."""
        ...

    def limited(self, retry_ms: int) -> None:
        """There is something, but the topic's rate does not allow it yet."""
        ...

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The messages chosen for it could not be journaled or read."""


class _Deal(NamedTuple):
    """Messages that were chosen, and for whom."""

    picker: Picker
    shares: list[tuple[Worker, list[Run]]]
    tokens: int
    """How many the topic's rate was asked for; what is not dealt goes back."""
    version: int
    """That of the group when they were chosen."""
    number: int
    """How many deals it had seen by then; another node's dispatcher may be choosing, too."""

    def offsets(self) -> list[int]:
        """All offsets, in the order of dealing."""
        runs = (run for _, share in self.shares for run in share)
        return [offset for _, start, end in runs for offset in range(start, end)]


class Burial(Protocol):
    """Moves messages that failed too often to the dead letters."""

    def bury(self, topic: bytes, group: bytes) -> None: ...


class DispatcherHost(Protocol):
    """What a dispatcher asks of all of them."""

    @property
    def dead_letters(self) -> Burial: ...

    def earliest(self, topic: bytes) -> int: ...

    def group_made(
        self, topic: bytes, group: bytes, start: int, *, is_first: bool, reader: bool = False
    ) -> GroupMade: ...

    def may_read_ahead(self, dispatcher: "Dispatcher") -> bool: ...

    def next_leases(self, count: int) -> int: ...

    def settle_leases(self, topic: bytes, group: bytes, leases: list[int]) -> None: ...

    def return_leases(
        self, topic: bytes, group: bytes, leases: list[int], *, counts: bool = True
    ) -> None: ...


class Dispatcher:
    """One group of one topic, with its circle of workers."""

    def __init__(
        self, parts: DispatchParts, host: DispatcherHost, backlog: Backlog, group: bytes
    ) -> None:
        self._parts = parts
        self._host = host
        self._backlog = backlog
        self.topic = backlog.topic
        self.group = group
        self.workers: dict[bytes, Worker] = {}
        """In the order of their turns: who was given something goes to the end."""
        self._newcomers: dict[bytes, Worker] = {}
        """Workers who were not told yet that there is nothing for them."""
        self._deal: _Deal | None = None
        """What is being dealt."""
        self._messages: dict[int, Message] = {}
        """The messages of the deal."""
        self._gone: set[bytes] = set()
        """Workers who left since messages were chosen for them, even if they came back."""
        self._ahead = ReadAhead(parts, backlog.topic)
        self._timer: asyncio.TimerHandle | None = None
        self._is_making = False
        self._is_sweeping = False
        self._aged_to: int | None = None
        """Where the topic ended when somebody asked, until it is known what is too old."""
        self._voids = 0
        """How many deals in a row were void."""
        self.is_closed = False

    # ── workers ───────────────────────────────────────────────────────────────────────────────

    def join(self, worker: Worker) -> None:
        """Give a worker its place at the end of the circle."""
        self.workers[worker.consumer] = self._newcomers[worker.consumer] = worker

    def leave(self, consumer: bytes) -> None:
        """A worker takes no more messages."""
        self.workers.pop(consumer, None)
        self._newcomers.pop(consumer, None)
        if self._deal is not None:
            self._gone.add(consumer)

    def is_serving(self, consumer: bytes) -> bool:
        """Whether messages are on their way to this worker."""
        if self._deal is None or consumer in self._gone:
            return False
        return any(worker.consumer == consumer for worker, _ in self._deal.shares)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused, or failed: nobody has got anything, and those who wait must know."""
        self._end_deal(0)
        self._is_making = False
        for worker in list(self.workers.values()):
            worker.refused(reason, detail)

    def end(self) -> None:
        """Nobody wants anything here any more."""
        self.is_closed = True
        self.forget()
        if self._timer is not None:
            self._timer.cancel()

    def forget(self) -> None:
        """The topic was deleted, or nobody is here: what was read is of no use."""
        self._ahead.forget()

    # ── choosing ──────────────────────────────────────────────────────────────────────────────

    def deal(self) -> None:
        """Hand messages to workers with room, as far as both go."""
        if self._deal is not None or self.is_closed or not self.workers:
            return
        if self._parts.pipeline.is_dropping(self.topic):
            return  # what there is counts no more; dealing goes on with what comes next
        group = self._parts.broker.groups.get(self.topic, self.group)
        if group is None:
            self._make_group()
            return
        now_ms = self._parts.steady.now_ms()
        if self._sweeps(group, now_ms):
            return  # what comes back may have to go before all that is there
        info = self._parts.store.topic(self.topic)
        if info is not None and not self._is_aged(info):
            return  # what is too old must not be handed out
        first = self._backlog.first_offset(info) if info else 0
        start = max(group.next, first)
        lanes = self._backlog.cover(start)
        picker = Picker(lanes, group.heads, group.returned.by_priority, first, now_ms)
        available = 0 if group.is_full else picker.available()
        if self._backlog.is_reading(start) and self._room(available + 1) > available:
            return  # there is room for what is being read: a poll must not be told of less
        room = self._room(available)
        if room and available:
            self._choose(group, picker, room)
            return
        is_all = info is None or self._backlog.knows_all_of(info, start)
        if room and is_all:
            self._tell_idle()
        self._wake_at(group.wakes_ms())

    def _is_aged(self, info: TopicInfo) -> bool:
        """Whether it is known which messages are too old, as of when somebody asked first."""
        if self._aged_to is None:
            self._aged_to = info.next_offset
        is_aged = self._backlog.is_aged(info, self._aged_to)
        self._aged_to = None if is_aged else self._aged_to
        return is_aged

    def _make_group(self) -> None:
        if not self._is_making:
            self._is_making = True
            start = self._host.earliest(self.topic)
            made = self._host.group_made(self.topic, self.group, start, is_first=True)
            self._parts.pipeline.submit(made, Callback(self._made, self.refused), durable=True)

    def _made(self, _value: object) -> None:
        self._is_making = False
        self.deal()

    def _room(self, available: int) -> int:
        """How many messages workers can take together, as far as that matters.

        No more are asked than need be: there may be many, and few messages.
        """
        enough = min(max(available, 1), DEAL_MAX)
        total = 0
        for worker in self.workers.values():
            total += max(worker.room(), 0)
            if total >= enough:
                return enough
        return total

    def _choose(self, group: Group, picker: Picker, want: int) -> None:
        bucket = self._backlog.bucket(self._parts.clock.monotonic())
        if bucket is not None:
            want = bucket.take(want, self._parts.clock.monotonic())
            if not want:
                self._tell_limited(bucket.retry_s(self._parts.clock.monotonic()))
                return
        deal = _Deal(
            picker, self._shares(group, picker, want), want, group.version, group.generation
        )
        self._gone.clear()
        if deal.shares or picker.delayed or picker.expired:
            self._deal = deal
            self._gather(deal)
        elif bucket is not None:
            bucket.refund(want)

    def _shares(self, group: Group, picker: Picker, want: int) -> list[tuple[Worker, list[Run]]]:
        """Divide messages among those with room; whoever gets some goes to the end of the circle.

        Each gets its part at once, unless somebody expects messages to go around one by one.
        """
        rooms = ((worker.consumer, worker.room()) for worker in self.workers.values())
        ready = dict(islice((pair for pair in rooms if pair[1] > 0), want))
        goes_round = len(ready) > 1 and any(self.workers[n].takes_turns for n in ready)
        runs_of: dict[bytes, list[Run]] = {}
        polls = group.polls
        while want and ready:
            for place, (name, room) in enumerate(list(ready.items())):
                part = 1 if goes_round else -(-want // (len(ready) - place))
                runs = picker.pick(min(room, part), polls) if want else []
                if not runs:
                    return self._turned(runs_of)
                polls += 1
                count = _count(runs)
                want -= count
                ready[name] -= count
                runs_of.setdefault(name, []).extend(runs)
            ready = {name: room for name, room in ready.items() if room} if goes_round else {}
        return self._turned(runs_of)

    def _turned(self, runs_of: dict[bytes, list[Run]]) -> list[tuple[Worker, list[Run]]]:
        """Shares by worker; their turn is over."""
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

    def _gather(self, deal: _Deal) -> None:
        """Have the chosen messages at hand."""
        offsets = deal.offsets()
        self._messages = self._at_hand(offsets)
        missing = [offset for offset in offsets if offset not in self._messages]
        if not missing:
            self._lease(deal)
            return
        parts, topic = self._parts, self.topic
        parts.readers.run(
            lambda: read_messages(parts, topic, missing, DEAL_BYTES_MAX),
            lambda lot: self._gathered(deal, lot),
            lambda error: self.refused(DisconnectReason.STORAGE_FAILED, error.message),
        )

    def _at_hand(self, offsets: list[int]) -> dict[int, Message]:
        """Messages that need not be read, of the last commits or read ahead.

        If messages of the topic were deleted, only the disk knows which.
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

    def _gathered(self, deal: _Deal, lot: "Lot") -> None:
        self._messages |= lot.messages
        self._lease(deal if lot.is_whole else _cut(deal, lot.unread))

    # ── noting ────────────────────────────────────────────────────────────────────────────────

    def _lease(self, deal: _Deal) -> None:
        group = self._parts.broker.groups.get(self.topic, self.group)
        info = self._parts.store.topic(self.topic)
        is_void = any(worker.consumer in self._gone for worker, _ in deal.shares)
        if is_void or group is None or info is None:  # somebody left, or it was deleted, meanwhile
            self._end_deal(0)
            self.deal()
            return
        now_ms = self._parts.steady.now_ms()
        deal, expired = self._without_expired(deal, now_ms)
        self._deal = deal
        picker = deal.picker
        count = _count(run for _, runs in deal.shares for run in runs)
        first = self._backlog.first_offset(info)
        if group.next < first:
            self._count_passed(group, info, first)
        leased = Leased(
            self.topic,
            self.group,
            deal.version,
            first,
            _compact(picker.heads),
            picker.ahead,
            self._host.next_leases(count),
            now_ms,
            [_share(worker, runs, now_ms) for worker, runs in deal.shares],
            picker.delayed,
            picker.expired + expired,
            deal.number,
        )
        self._parts.pipeline.submit(leased, self, durable=True)

    def _count_passed(self, group: Group, info: TopicInfo, first: int) -> None:
        """The topic's own limits take messages from the group before retention finds them."""
        passed = group.unsettled([(info.first_offset, first)])
        self._parts.counters.drops[DropReason.RETENTION] += passed

    def _without_expired(self, deal: _Deal, now_ms: int) -> tuple[_Deal, list[int]]:
        """The deal without messages whose time is over, and those.

        Of what is handed out again, only the message itself tells: lanes have forgotten it.
        """
        expired = [
            offset
            for offset, message in self._messages.items()
            if message.extras is not None and 0 < message.extras.expires_ms <= now_ms
        ]
        return (_without_offsets(deal, set(expired)), expired) if expired else (deal, expired)

    def _end_deal(self, dealt: int) -> None:
        """What is left of the tokens goes back."""
        deal, self._deal = self._deal, None
        self._messages = {}
        bucket = self._backlog.bucket(self._parts.clock.monotonic())
        if deal is not None and bucket is not None:
            bucket.refund(deal.tokens - dealt)

    # ── passing on ────────────────────────────────────────────────────────────────────────────

    def done(self, value: object) -> None:
        """It is noted: pass the messages on.

        None: the group was moved meanwhile, or a dispatcher of another node was faster. Then choose
        anew; but should that happen again and again, let the others have some more of their turns.
        """
        deal, messages = self._deal, self._messages
        assert deal is not None
        self._voids = self._voids + 1 if value is None else 0
        shares: list[GroupDelivery] = value if isinstance(value, list) else []
        self._end_deal(sum(len(share.offsets) for share in shares))
        for (worker, _), share in zip(deal.shares, shares, strict=False):
            self._pass_on(worker, share, messages)
        self._gone.clear()
        if self._voids > 1:
            self._wake_in(min(self._voids, VOIDS_MAX) * VOID_S)
        else:
            self.deal()

    def _pass_on(self, worker: Worker, share: GroupDelivery, messages: dict[int, Message]) -> None:
        found = _jobs(share, messages)
        if len(found) < len(share.offsets):
            self._settle_removed([o for o in share.offsets if o not in messages])
        if worker.consumer in self._gone:
            if not share.consumer:
                self._give_back(share)
            return
        if found:
            worker.work(found)
            if worker.settles:
                leases = [job.lease for job in found]
                self._host.settle_leases(self.topic, self.group, leases)

    def _settle_removed(self, offsets: list[int]) -> None:
        """They were deleted, or retention took them: nobody needs them any more."""
        settled = Settled(self.topic, self.group, ranges_of(offsets))
        self._parts.pipeline.submit(settled, None, durable=True)

    def _give_back(self, share: GroupDelivery) -> None:
        """Their worker has left before they reached it. A worker by name has given back all."""
        leases = list(range(share.lease, share.lease + len(share.offsets)))
        self._host.return_leases(self.topic, self.group, leases, counts=False)

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def _sweeps(self, group: Group, now_ms: int) -> bool:
        """Take back leases that ran out, hand out what is due by now; whether that is under way."""
        wakes_ms = group.wakes_ms()
        is_due = wakes_ms is not None and wakes_ms <= now_ms
        if is_due and not self._is_sweeping and not self._parts.connections.stalls.is_catching_up:
            self._is_sweeping = True
            swept = Swept(self.topic, self.group, now_ms)
            self._parts.pipeline.submit(swept, Callback(self._swept, self._not_swept), durable=True)
        return self._is_sweeping

    def _swept(self, _value: object) -> None:
        self._is_sweeping = False
        self._host.dead_letters.bury(self.topic, self.group)
        self.deal()

    def _not_swept(self, reason: DisconnectReason, detail: str = "") -> None:
        self._is_sweeping = False
        self._wake_in(AGAIN_S)
        self.refused(reason, detail)

    def _wake_at(self, when_ms: int | None) -> None:
        if when_ms is not None:
            self._wake_in(max(when_ms - self._parts.steady.now_ms(), 1) / 1000)

    def _wake_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._parts.connections.loop.call_later(delay_s, self.deal)


def _count(runs: Iterable[Run]) -> int:
    return sum([end - start for _, start, end in runs])


def _jobs(share: GroupDelivery, messages: dict[int, Message]) -> list[Job]:
    """What was handed out, as far as it is there; nearly always it all is."""
    leases = range(share.lease, share.lease + len(share.offsets))
    rows = zip(map(messages.get, share.offsets), leases, share.deliveries, strict=True)
    return [Job(message, lease, times) for message, lease, times in rows if message is not None]


def _compact(heads: list[int]) -> list[int]:
    """One number, if all are the same."""
    return heads[:1] if len(set(heads)) == 1 else heads


def _share(worker: Worker, runs: list[Run], now_ms: int) -> tuple[bytes, int, list[Run]]:
    if worker.visibility_ms:
        return b"", now_ms + worker.visibility_ms, runs
    return worker.consumer, 0, runs


# ── reading ───────────────────────────────────────────────────────────────────────────────────


class Lot(NamedTuple):
    """Messages that were read, and offsets that there was no room for; others are gone."""

    messages: dict[int, Message]
    unread: list[int]

    @property
    def is_whole(self) -> bool:
        """Whether all were looked at."""
        return not self.unread


def read_messages(parts: DispatchParts, topic: bytes, offsets: list[int], bytes_max: int) -> Lot:
    """Messages of some offsets, in this order, until there are so many bytes."""
    messages: dict[int, Message] = {}
    number = size = 0
    while number < len(offsets) and size < bytes_max:
        first = offsets[number]
        count = _in_a_row(offsets, number)
        part = parts.store.read_topic(topic, first, count, bytes_max - size)
        found = [message for message in part.messages() if message.offset < first + count]
        messages.update((message.offset, message) for message in found)
        size += sum(len(message.payload) for message in found)
        # What is missing before ``next_offset`` is gone; if that says nothing, all of it is.
        end = part.next_offset if part.next_offset > first else first + count
        number += min(end - first, count)
    return Lot(messages, offsets[number:])


def _in_a_row(offsets: list[int], number: int) -> int:
    """How many offsets from this one on lie side by side."""
    end = number + 1
    while end < len(offsets) and offsets[end] == offsets[end - 1] + 1:
        end += 1
    return end - number


def _cut(deal: _Deal, unread: list[int]) -> _Deal:
    """The deal as far as there was room for it.

    It ends with the first message that there was no room for, even if later ones are at hand: of
    each priority a beginning must remain.
    """
    offsets, without_room = deal.offsets(), set(unread)
    place = next(number for number, offset in enumerate(offsets) if offset in without_room)
    left_out = set(offsets[place:])
    deal.picker.put_back(left_out)
    return _without_offsets(deal, left_out)


def _without_offsets(deal: _Deal, left_out: set[int]) -> _Deal:
    """The deal without some messages."""
    shares = []
    for worker, runs in deal.shares:
        kept = [part for run in runs for part in _without(run, left_out)]
        if kept:
            shares.append((worker, kept))
    return deal._replace(shares=shares)


def _without(run: Run, left_out: set[int]) -> Iterator[Run]:
    """The stretches of a run that are left."""
    priority, start, end = run
    offsets = [offset for offset in range(start, end) if offset not in left_out]
    for first, last in ranges_of(offsets) if offsets else ():
        yield priority, first, last
