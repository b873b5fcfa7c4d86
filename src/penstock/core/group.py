"""One group: a named set of consumers that share the messages of one topic.

A group hands out each message once; what was handed out is **pending** until it is settled. It
goes out in order of offsets, or highest priority first, and so there is one **head** per priority:
every message of priority *p* below ``heads[p]`` was handed out. Nothing is stored per message that
is done or not yet handed out::

    priority 7      ✓         ✓  heads[7] = 900: there is no other
    priority 0   ✓    ✓  ✓       heads[0] = 45
    offsets      0 …  42 43 44   45 …

A pending message is in one of four places:

=============  ===========================================================================
with somebody  a consumer by name, until it leaves; or whoever has its lease, until that ends
returned       to be handed out again, before anything newer of its priority
waiting        to be returned, but not before some time
exhausted      handed out as often as the group allows: to be put with the dead letters
=============  ===========================================================================

The queues of the binary protocol, PULL, the queue protocol and the groups of Redis Streams are all
this. Every verb returns what the one who asked wants to know; ``Broker`` makes an effect of it.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import itemgetter

import msgspec

from penstock.core.commands import (
    Claimed,
    DeadLettered,
    GroupCommitted,
    GroupConfigured,
    Leased,
    LeasesExtended,
    LeasesReturned,
    Scheduled,
    Swept,
    Taken,
)
from penstock.core.group_row import GroupRow
from penstock.core.lapsed_leases import LapsedLeases
from penstock.core.lease_deadlines import VOID_MAX, LeaseDeadlines
from penstock.core.pending import (
    NO_LEASE,
    Consumer,
    GroupDelivery,
    Pending,
    contains,
    leases,
    living,
    lowest,
    may_claim,
)
from penstock.core.priority_offsets import PRIORITIES
from penstock.limits import PENDING_MAX

__all__ = ["Consumer", "Group", "GroupDelivery", "Pending"]

SWEPT_AT_ONCE = 2_048
"""Leases that one ``Swept`` takes back; the rest is left to the next: others have a turn."""

CHUNK_BITS = 10
"""Pending messages are written down by so many offsets at a time, and only where they changed."""


_decoder = msgspec.msgpack.Decoder(GroupRow)
_chunk_decoder = msgspec.msgpack.Decoder(list[tuple[int, Pending]])
_encoder = msgspec.msgpack.Encoder()


class Group:
    """One group of one topic."""

    def __init__(self, topic: bytes, name: bytes, start: int, *, reader: bool = False) -> None:
        self.topic = topic
        self.name = name
        self.start = start
        """Where it was made, or moved to the last time."""
        self.since = 0
        """Messages before are left to other groups: this one was made to start later."""
        self.reader = reader
        """Whether it stands for somebody who reads by itself, and only says how far."""
        self.heads = [start] * PRIORITIES
        """Per priority, the offset of the next message to be handed out for the first time."""
        self.ahead = 0
        """How many messages at or above the lowest head were handed out already."""
        self.polls = 0
        """How often messages were asked for: every fourth time the oldest has precedence."""
        self.version = 0
        """Counts the times that it was moved: what was chosen before is void."""
        self.generation = 0
        """Counts the times that messages were handed out, or done with before they were: in a
        cluster several dispatchers choose from the same ones, and only one of them can be right."""
        self.pending: dict[int, Pending] = {}
        self.leases: dict[int, int] = {}
        self.returned: list[list[int]] = [[] for _ in range(PRIORITIES)]
        """Per priority, offsets to be handed out again: negated, ascending, so the lowest is last.

        Taking the lowest is what happens most, and at the end of a list that is cheap.
        """
        self.waiting: dict[int, int] = {}
        """Offsets that are not to be handed out before some time."""
        self._dues: list[tuple[int, int]] = []
        """Heap of times and offsets; void where the message is not waiting for that time."""
        self._deadlines = LeaseDeadlines(self.leases, self.pending)
        self.lapsed = LapsedLeases(self.pending)
        self.exhausted: dict[int, None] = {}
        self.consumers: dict[bytes, Consumer] = {}
        self.max_deliveries = 0
        """How often a message is handed out before it is a dead letter; 0: as often as it takes."""
        self.backoff_ms = 0
        self.backoff_max_ms = 0
        self.is_backoff_chosen = True
        """Whether somebody has said how failures are repeated; else the first time is at once."""
        self.dead_letters = 0
        self.redeliveries = 0
        self.applied = 0
        """Index of the last journal entry that this state contains; replay skips up to it."""
        self._low = 0
        self.changed: set[int] = set()
        """Chunks of pending messages that differ from their rows on disk."""
        self._unchunked: list[int] = []
        """Offsets that were read from the row of a former version, which had no chunks."""

    # ── what there is ─────────────────────────────────────────────────────────────────────────

    @property
    def next(self) -> int:
        """The lowest offset that was not handed out."""
        return min(self.heads)

    @property
    def returned_count(self) -> int:
        """How many messages are to be handed out again."""
        return sum(map(len, self.returned))

    def returned_offsets(self) -> list[int]:
        """Messages that are to be handed out again, ascending."""
        return sorted(-number for queue in self.returned for number in queue)

    @property
    def in_hand(self) -> int:
        nobodys = self.returned_count + len(self.exhausted) + len(self.waiting)
        return len(self.pending) - nobodys

    @property
    def is_full(self) -> bool:
        """Whether so much is with somebody, or waits, that no more may be."""
        pending = len(self.pending)
        return pending >= PENDING_MAX and pending - self.returned_count >= PENDING_MAX

    def unhanded(self, end: int, first: int = 0) -> int:
        """How many messages were never handed out, if the topic has ``first … end - 1``."""
        return max(end - max(self.next, first) - self.ahead, 0)

    def available(self, end: int) -> int:
        """How many messages could be handed out, if the topic ends at ``end``."""
        return self.returned_count + self.unhanded(end)

    def lag(self, end: int, first: int = 0) -> int:
        """How many messages are not done, if the topic has ``first … end - 1``.

        What somebody has counts although it is gone; what nobody has will not be handed out again.
        """
        gone = 0
        if self.oldest_unsettled < first:
            gone = sum(len(queue) - bisect_right(queue, -first) for queue in self.returned)
            gone += sum(offset < first for offset in (*self.waiting, *self.exhausted))
        return self.unhanded(end, first) + len(self.pending) - gone

    @property
    def oldest_unsettled(self) -> int:
        """The lowest offset that is pending or not handed out; all before it is done."""
        self._low = lowest(self.pending, self._low, self.next)
        return self._low

    def unsettled(self, stretches: list[tuple[int, int]]) -> int:
        """How many of these offsets are pending or not handed out."""
        start_of_new = self.next
        ahead = sum(max(end - max(start, start_of_new), 0) for start, end in stretches)
        handed_out = (offset for offset in self.pending if offset < start_of_new)
        return ahead + sum(contains(stretches, offset) for offset in handed_out)

    def wakes_ms(self) -> int | None:
        """When a lease ends next or a message becomes due; None: nothing depends on time."""
        self._tidy_dues()
        while self._dues and self.waiting.get(self._dues[0][1]) != self._dues[0][0]:
            heappop(self._dues)
        times = (self._deadlines.next_ms(), self._dues[0][0] if self._dues else None)
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def consumer(self, name: bytes, now_ms: int) -> Consumer:
        """A consumer by name, made on first use."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = self.consumers[name] = Consumer(now_ms, now_ms, set())
        return consumer

    # ── handing out in order of offsets ───────────────────────────────────────────────────────

    def take(self, command: Taken) -> list[GroupDelivery]:
        """Hand out messages, returned ones first; offsets below ``first`` are no longer there."""
        self._drop_removed(command.first)
        shares = []
        for name, count in command.shares:
            consumer = self.consumer(name, command.now_ms)
            consumer.seen_ms = command.now_ms
            offsets = self._next_offsets(count, command)
            if offsets:
                consumer.active_ms = command.now_ms
                shares.append(self._hand_out(name, offsets, command))
        self.generation += bool(shares)
        if command.settle and shares:
            self.version += (
                1  # nothing else would tell what a dispatcher has chosen that it is done
            )
        return shares

    def _drop_removed(self, first: int) -> None:
        """Forget returned messages that retention has taken since; skip what it took before."""
        for offsets in self.returned:
            while offsets and -offsets[-1] < first:
                self._drop(-offsets.pop())
        if min(self.heads) < first:
            self.heads = [max(head, first) for head in self.heads]

    def _drop(self, offset: int) -> Pending:
        """A message is pending no more."""
        self.changed.add(offset >> CHUNK_BITS)
        return self.pending.pop(offset)

    def _set_aside(self, aside: Iterable[Scheduled], now_ms: int) -> None:
        """Keep messages that the heads passed until their time comes."""
        for offset, due_ms, priority in aside:
            if offset not in self.pending:
                pending = Pending(None, now_ms, 0, until_ms=due_ms, priority=priority)
                self.pending[offset] = pending
                self.changed.add(offset >> CHUNK_BITS)
                self._wait(offset, due_ms)

    def _wait(self, offset: int, until_ms: int) -> None:
        self.waiting[offset] = until_ms
        heappush(self._dues, (until_ms, offset))
        self._tidy_dues()

    def _tidy_dues(self) -> None:
        """Void entries must not pile up, and to pass one by one takes longer than to sort."""
        if len(self._dues) > 2 * len(self.waiting) + VOID_MAX:
            self._dues = sorted((due_ms, number) for number, due_ms in self.waiting.items())

    def _next_offsets(self, count: int, command: Taken) -> list[int]:
        offsets = self._take_returned(count)
        start_of_new = self.next
        for start, end in living(start_of_new, command.end, command.gone):
            if len(offsets) == count:
                break
            start_of_new = min(end, start + count - len(offsets))
            offsets += range(start, start_of_new)
        self._pass(start_of_new, command.gone)
        return offsets

    def _pass(self, start_of_new: int, gone: list[tuple[int, int]]) -> None:
        """Move all heads on; of what was handed out ahead of them, less is ahead now."""
        if self.ahead:
            start = self.next
            passed = (min(end, start_of_new) - max(first, start) for first, end in gone)
            self.ahead = max(self.ahead - sum(max(count, 0) for count in passed), 0)
        self.heads = [max(head, start_of_new) for head in self.heads]

    def _take_returned(self, count: int) -> list[int]:
        """The oldest of those that were returned, whatever their priority."""
        offsets: list[int] = []
        while len(offsets) < count:
            queues = [queue for queue in self.returned if queue]
            if not queues:
                break
            offsets.append(-max(queues, key=itemgetter(-1)).pop())
        return offsets

    def _hand_out(self, name: bytes, offsets: list[int], command: Taken) -> GroupDelivery:
        deliveries = []
        for offset in offsets:
            known = self.pending.get(offset)
            is_returned = known is not None and known.consumer is None
            times = known.deliveries + 1 if known and is_returned else 1
            deliveries.append(times)
            self.redeliveries += times > 1
            if not command.settle:
                priority = known.priority if known else 0
                pending = Pending(name, command.now_ms, times, priority=priority)
                self._assign(offset, known, pending)
            elif is_returned:
                self._drop(offset)
        return GroupDelivery(name, offsets, deliveries)

    def _assign(self, offset: int, known: Pending | None, pending: Pending) -> None:
        """Let a consumer have a message, whoever had it before (the group was moved back)."""
        if known is not None and known.consumer is not None:
            self._take_from(known, offset)
        assert pending.consumer
        self.consumers[pending.consumer].pending.add(offset)
        self.pending[offset] = pending
        self.changed.add(offset >> CHUNK_BITS)

    def _take_from(self, pending: Pending, offset: int) -> None:
        """Take a message from whoever has it."""
        if pending.lease != NO_LEASE:
            self.leases.pop(pending.lease, None)
        if pending.consumer:
            consumer = self.consumers.get(pending.consumer)
            if consumer is not None:
                consumer.pending.discard(offset)
                if not consumer.pending and pending.lease != NO_LEASE:
                    del self.consumers[pending.consumer]  # a worker: it is here by what it has

    # ── handing out by lease ──────────────────────────────────────────────────────────────────

    def lease(self, command: Leased) -> list[GroupDelivery] | None:
        """Hand out what was chosen; None if the group was moved since, or others had a turn."""
        if command.version != self.version or command.generation not in {-1, self.generation}:
            return None
        self.generation += 1
        self._drop_removed(command.first)
        heads = command.heads if len(command.heads) > 1 else command.heads * PRIORITIES
        self.heads = list(map(max, self.heads, heads))
        self.ahead = command.ahead
        self.polls += len(command.shares)
        taken: defaultdict[int, set[int]] = defaultdict(set)
        shares = []
        lease = command.first_lease
        for share in command.shares:
            shares.append(self._lease_share(share, lease, command, taken))
            lease += sum([end - start for _, start, end in share[2]])
        self._drop_expired(command.expired, taken)
        for priority, offsets in taken.items():
            self._remove_returned(priority, offsets)
        self._set_aside(command.aside, command.now_ms)
        return shares

    def _lease_share(
        self,
        share: tuple[bytes, int, list[tuple[int, int, int]]],
        lease: int,
        command: Leased,
        taken: defaultdict[int, set[int]],
    ) -> GroupDelivery:
        name, until_ms, runs = share
        pending_by_offset, leases = self.pending, self.leases
        now_ms, changed = command.now_ms, self.changed
        holds = self.consumer(name, now_ms).pending if name else None
        offsets: list[int] = []
        deliveries: list[int] = []
        number = lease
        for priority, start, end in runs:
            changed.add(start >> CHUNK_BITS)
            if end - start > 1:
                changed.update(range(start >> CHUNK_BITS, (end - 1 >> CHUNK_BITS) + 1))
            for offset in range(start, end):
                known = pending_by_offset.get(offset)
                times, reason = 1, b""
                if known is not None:
                    if not self._is_returned(offset, known):
                        continue  # the group was moved back, or changed since this was chosen
                    times, reason = known.deliveries + 1, known.reason
                    self.redeliveries += times > 1
                    taken[priority].add(offset)
                offsets.append(offset)
                deliveries.append(times)
                pending_by_offset[offset] = Pending(
                    name, now_ms, times, number, until_ms, priority, reason
                )
                leases[number] = offset
                if holds is not None:
                    holds.add(offset)
                number += 1
        if until_ms:
            self._deadlines.add(until_ms, lease, number)
        return GroupDelivery(name, offsets, deliveries, lease)

    def _drop_expired(self, offsets: list[int], taken: defaultdict[int, set[int]]) -> None:
        for offset in offsets:
            known = self.pending.get(offset)
            if known is not None and self._is_returned(offset, known):
                self._drop(offset)
                taken[known.priority].add(offset)

    def _is_returned(self, offset: int, pending: Pending) -> bool:
        """Whether a message is to be handed out again: nobody has it, and nothing else is due."""
        is_filed = offset in self.waiting or offset in self.exhausted
        return pending.consumer is None and not is_filed

    def _remove_returned(self, priority: int, offsets: set[int]) -> None:
        """These were returned and are not any more: nearly always the oldest."""
        queue = self.returned[priority]
        count = len(offsets)
        if {-number for number in queue[-count:]} == offsets:
            del queue[-count:]
        else:
            self.returned[priority] = [number for number in queue if -number not in offsets]

    # ── taking back ───────────────────────────────────────────────────────────────────────────

    def settle(self, ranges: Iterable[tuple[int, int]]) -> int:
        """These offsets are done with; return how many of them were pending."""
        settled = 0
        for start, end in ranges:
            if end - start > len(self.pending):  # a wide range costs what is there, not its width
                offsets = [offset for offset in self.pending if start <= offset < end]
            else:
                offsets = [offset for offset in range(start, end) if offset in self.pending]
            settled += len(offsets)
            self._let_go(offsets)
        return settled

    def _let_go(self, offsets: list[int]) -> None:
        """Messages are pending no more: take them from wherever they are."""
        returned: list[set[int]] = [set() for _ in range(PRIORITIES)]
        for offset in offsets:
            pending = self._drop(offset)
            if pending.consumer is not None:
                self._take_from(pending, offset)
            elif offset in self.exhausted:
                del self.exhausted[offset]
            elif self.waiting.pop(offset, None) is None:
                returned[pending.priority].add(offset)
        for priority, those in enumerate(returned):
            if those:
                self.generation += 1  # a dispatcher may have chosen them
                self._remove_returned(priority, those)

    def settle_leases(self, stretches: list[tuple[int, int]]) -> int:
        """Messages under these leases are done with; return how many there were.

        So are those whose lease has run out and that nobody was given since.
        """
        pop_lease, pop_pending = self.leases.pop, self.pending.pop
        changed = self.changed.add
        settled = 0
        for lease in leases(stretches, self.leases):
            offset = pop_lease(lease, None)
            if offset is None:
                continue
            settled += 1
            changed(offset >> CHUNK_BITS)
            pending = pop_pending(offset)
            if pending.consumer:
                self._take_from(pending, offset)
        late = self.lapsed.take(stretches)
        self._let_go(late)
        return settled + len(late)

    def return_leases(self, command: LeasesReturned) -> int:
        """Messages under these leases are to be handed out again; return how many there were."""
        back: list[int] = []
        for lease in leases(command.leases, self.leases):
            offset = self.leases.pop(lease, None)
            if offset is None:
                continue
            pending = self.pending[offset]
            self._take_from(pending, offset)
            delay_ms = command.delay_ms
            if command.counts:
                pending.reason = command.reason
                if command.is_failure:
                    delay_ms = max(delay_ms, self._backoff_ms(pending.deliveries))
            else:
                pending.deliveries -= 1
            pending.until_ms = command.now_ms + delay_ms if delay_ms else 0
            back.append(offset)
        self._place(back)
        return len(back)

    def _backoff_ms(self, deliveries: int) -> int:
        """The pause after so many deliveries: it doubles each time."""
        doublings = deliveries - (1 if self.is_backoff_chosen else 2)
        if not self.backoff_ms or doublings < 0:
            return 0
        pause_ms = self.backoff_ms << min(doublings, 40)
        return min(pause_ms, self.backoff_max_ms) if self.backoff_max_ms else pause_ms

    def extend_leases(self, command: LeasesExtended) -> int:
        """These leases run until another time; return how many there were."""
        extended = 0
        for lease in leases(command.leases, self.leases):
            offset = self.leases.get(lease)
            if offset is None:
                continue
            extended += 1
            self.pending[offset].until_ms = command.deadline_ms
            self.changed.add(offset >> CHUNK_BITS)
            self._deadlines.add(command.deadline_ms, lease, lease + 1)
        return extended

    def sweep(self, command: Swept) -> int:
        """Leases that ran out are void, messages whose time has come are due; how many in all."""
        now_ms = command.now_ms
        back = list(map(self._end_lease, self._deadlines.take(now_ms, SWEPT_AT_ONCE)))
        while self._dues and self._dues[0][0] <= now_ms and len(back) < SWEPT_AT_ONCE:
            until_ms, offset = heappop(self._dues)
            if self.waiting.get(offset) == until_ms:
                del self.waiting[offset]
                self.pending[offset].until_ms = 0
                back.append(offset)
        self._place(back, keeps_lease=True)
        return len(back)

    def resume(self, now_ms: int) -> bool:
        """The broker was away: give leases more time. Tell whether there are any."""
        self.changed |= {offset >> CHUNK_BITS for offset in self._deadlines.resume(now_ms)}
        return bool(self.leases)

    def _end_lease(self, lease: int) -> int:
        """A lease ran out; return the offset of its message."""
        offset = self.leases[lease]
        pending = self.pending[offset]
        self._take_from(pending, offset)
        pending.consumer, pending.until_ms, pending.reason = None, 0, b"lease expired"
        self.lapsed.add(lease, offset)
        return offset

    def _place(self, offsets: Iterable[int], *, keeps_lease: bool = False) -> None:
        """File messages that nobody has under what is to happen to them."""
        returned: list[list[int]] = [[] for _ in range(PRIORITIES)]
        for offset in offsets:
            pending = self.pending[offset]
            pending.consumer = None
            pending.lease = pending.lease if keeps_lease else NO_LEASE
            self.changed.add(offset >> CHUNK_BITS)
            if 0 < self.max_deliveries <= pending.deliveries:
                self.exhausted[offset] = None
            elif pending.until_ms:
                self._wait(offset, pending.until_ms)
            else:
                returned[pending.priority].append(-offset)
        for queue, more in zip(self.returned, returned, strict=True):
            if len(more) == 1:
                insort(queue, more[0])
            elif more:
                queue.extend(more)
                queue.sort()

    def give_back(self, name: bytes) -> int:
        """A worker is gone: what it had goes to others. Return how much that was."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        for offset in consumer.pending:
            pending = self.pending[offset]
            self.leases.pop(pending.lease, None)
            pending.until_ms, pending.reason = 0, b"consumer left"
        self._place(consumer.pending)
        return len(consumer.pending)

    def remove(self, name: bytes) -> int:
        """Forget a consumer and all that it had not settled; return how much that was."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        for offset in consumer.pending:
            self.leases.pop(self._drop(offset).lease, None)
        return len(consumer.pending)

    def bury(self, command: DeadLettered) -> int:
        """Messages are with the dead letters now; return how many of them were exhausted."""
        buried = self.settle((offset, offset + 1) for offset in command.offsets)
        self.dead_letters += buried
        return buried

    # ── claiming ──────────────────────────────────────────────────────────────────────────────

    def claim(self, command: Claimed) -> list[int]:
        """Give pending messages to another consumer; return those that changed hands."""
        claimed = [offset for offset in command.offsets if self._claim_one(offset, command)]
        consumer = self.consumers.get(command.consumer)
        if consumer is not None:
            consumer.seen_ms = command.now_ms
            if claimed:
                consumer.active_ms = command.now_ms
        return claimed

    def _claim_one(self, offset: int, command: Claimed) -> bool:
        known = self.pending.get(offset)
        if not may_claim(known, command):
            return False
        times = command.deliveries
        if times is None:
            # By force, a message that nobody had counts as delivered once before, as in Redis.
            times = (known.deliveries if known else 1) + command.counts
        self.consumer(command.consumer, command.now_ms)
        priority = known.priority if known else 0
        if known is not None:
            self._let_go([offset])
        else:
            self.generation += 1  # a dispatcher may have chosen it
        pending = Pending(command.consumer, command.taken_ms, times, priority=priority)
        self._assign(offset, None, pending)
        self._low = min(self._low, offset)
        return True

    # ── moving ────────────────────────────────────────────────────────────────────────────────

    def move(self, start: int) -> None:
        """The next new message to be handed out is that of ``start``."""
        self.start, self.since = start, min(self.since, start)
        self.heads = [start] * PRIORITIES
        self.ahead = 0
        self.version += 1
        self._low = min(self._low, start)

    def commit(self, command: GroupCommitted) -> None:
        """Everything below an offset is done with."""
        self.heads = [max(head, command.offset) for head in self.heads]
        self.ahead = command.ahead
        self.version += 1
        self.settle([(0, command.offset)])

    def configure(self, command: GroupConfigured) -> None:
        """Change how failures are repeated; what is exhausted follows from that."""
        if command.backoff_ms is not None:
            if not self.is_backoff_chosen:
                self.backoff_max_ms = 0
            self.backoff_ms, self.is_backoff_chosen = command.backoff_ms, True
        if command.backoff_max_ms is not None:
            self.backoff_max_ms = command.backoff_max_ms
        if command.max_deliveries is not None:
            self.max_deliveries = command.max_deliveries
            free = [*self.returned_offsets(), *self.waiting, *self.exhausted]
            self._file(free)

    # ── checkpoint ────────────────────────────────────────────────────────────────────────────

    def _file_all(self) -> None:
        """File everything that is pending anew."""
        self.leases.clear()
        free = []
        for offset, pending in self.pending.items():
            if pending.consumer is None:
                free.append(offset)
                continue
            if pending.lease != NO_LEASE:
                self.leases[pending.lease] = offset
        self._deadlines.renew()
        self.lapsed.renew()
        self._file(free)

    def _file(self, free: list[int]) -> None:
        """File anew all that nobody has."""
        self.returned = [[] for _ in range(PRIORITIES)]
        self.exhausted, self.waiting = {}, {}
        self._dues = []
        self._place(free, keeps_lease=True)

    def replace_pending(self, pending: dict[int, Pending]) -> None:
        """Have these messages pending, which nobody has, in the place of all others."""
        self.changed |= {offset >> CHUNK_BITS for offset in (*self.pending, *pending)}
        self.pending.clear()
        self.pending.update(pending)
        self._file_all()

    def to_row(self, applied: int) -> bytes:
        """What is durable of this group, but for what is pending, up to entry ``applied``."""
        self.applied = applied
        return _encoder.encode(GroupRow.of(self))

    def chunk_row(self, chunk: int) -> bytes | None:
        """The pending messages of one chunk; None: there are none."""
        start = chunk << CHUNK_BITS
        offsets = range(start, start + (1 << CHUNK_BITS))
        found = [(offset, self.pending[offset]) for offset in offsets if offset in self.pending]
        return _encoder.encode(found) if found else None

    def load_chunk(self, row: bytes) -> None:
        """Take what ``chunk_row`` gave."""
        self.pending.update(_chunk_decoder.decode(row))

    def end_loading(self) -> None:
        """All that is pending is there: file it."""
        for offset, pending in self.pending.items():
            if pending.consumer:
                self.consumers[pending.consumer].pending.add(offset)
        self._file_all()
        self.changed = {offset >> CHUNK_BITS for offset in self._unchunked}
        self._unchunked = []

    @classmethod
    def from_row(cls, row: bytes) -> "Group":
        """The group that ``to_row`` described; its chunks are to follow, then ``end_loading``."""
        data = _decoder.decode(row)
        group = cls(data.topic, data.name, data.next)
        data.fill(group)
        group.pending.update(data.pending)
        group._unchunked = list(group.pending)
        return group
