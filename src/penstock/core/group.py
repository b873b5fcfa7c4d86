"""One group: a named set of consumers that share the messages of one topic.

A group delivers each message once. A delivered message is **pending** until it is settled. Messages
go out in order of offsets, or highest priority first, so there is one **head** per priority: every
message of priority *p* below ``heads[p]`` was delivered. Nothing is stored for messages that are
done or not delivered yet::

    priority 7      ✓         ✓  heads[7] = 900: there is no other
    priority 0   ✓    ✓  ✓       heads[0] = 45
    offsets      0 …  42 43 44   45 …

A pending message is in one of four states:

=========  ===============================================================================
in flight  with a consumer by name, until it leaves; or under a lease, until that ends
returned   to be delivered again, before anything newer of its priority
delayed    to be returned, but not before some time
exhausted  given up, or delivered as often as the group allows: about to become a dead letter
=========  ===============================================================================

The queues of the binary protocol, PULL, the queue protocol and the groups of Redis Streams are all
groups of this kind. Each verb returns what its caller has to answer; ``Broker`` turns that into an
effect.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from penstock.core.commands import (
    Claimed,
    GroupCommitted,
    GroupConfigured,
    Leased,
    LeasesExtended,
    LeasesReturned,
    Scheduled,
    Swept,
    Taken,
)
from penstock.core.delayed_messages import DelayedMessages
from penstock.core.lapsed_leases import LapsedLeases
from penstock.core.lease_deadlines import LeaseDeadlines
from penstock.core.pending import (
    NEVER_MS,
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
from penstock.core.returned_messages import ReturnedMessages
from penstock.limits import PENDING_MAX

__all__ = ["Consumer", "Group", "GroupDelivery", "Pending"]

SWEPT_AT_ONCE = 2_048
"""Leases that one ``Swept`` ends; the next command ends the rest, so that others are served."""

CHUNK_BITS = 10
"""Pending messages are written in chunks of 2 ** CHUNK_BITS offsets, only where they changed."""


class Group:
    """One group of one topic."""

    def __init__(self, topic: bytes, name: bytes, start: int, *, reader: bool = False) -> None:
        self.topic = topic
        self.name = name
        self.start = start  # where it was created, or moved to last
        self.since = 0
        """Messages before are left to other groups: this one was created to start later."""
        # whether it ends with its shared subscription: no other protocol has used it
        self.is_share = False
        self.reader = reader  # whether it only records how far a client has read by itself
        self.heads = [start] * PRIORITIES
        """Per priority, the offset of the next message to be delivered for the first time."""
        self.ahead = 0  # messages at or above the lowest head that were delivered already
        self.polls = 0  # every fourth poll prefers the oldest message
        self.version = 0  # counts moves; a choice made before a move is void
        self.generation = 0
        """Counts deliveries, and removals of messages that were about to be delivered. In a cluster
        several dispatchers choose from the same messages, and only one choice can be valid."""
        self.pending: dict[int, Pending] = {}
        self.leases: dict[int, int] = {}
        self.returned = ReturnedMessages()
        self.delayed = DelayedMessages()
        self._deadlines = LeaseDeadlines(self.leases, self.pending)
        self.lapsed = LapsedLeases(self.pending)
        self.exhausted: dict[int, None] = {}
        self.consumers: dict[bytes, Consumer] = {}
        self.max_deliveries = 0  # deliveries before a message is a dead letter; 0: no limit
        self.backoff_ms = 0
        self.backoff_max_ms = 0
        self.is_backoff_chosen = True  # if not, the first redelivery happens at once
        self.dead_letters = 0
        self.redeliveries = 0
        self.applied = 0  # the last journal entry that this state contains; replay skips up to it
        self._low = 0
        self.changed: set[int] = set()  # chunks that differ from their rows on disk

    # ── state ─────────────────────────────────────────────────────────────────────────────────

    @property
    def next(self) -> int:
        return min(self.heads)

    @property
    def in_flight(self) -> int:
        idle = len(self.returned) + len(self.exhausted) + len(self.delayed)
        return len(self.pending) - idle

    @property
    def is_full(self) -> bool:
        """Whether the limit of messages in flight and delayed is reached."""
        pending = len(self.pending)
        return pending >= PENDING_MAX and pending - len(self.returned) >= PENDING_MAX

    def undelivered(self, end: int, first: int = 0) -> int:
        """How many messages were never delivered, if the topic has ``first … end - 1``."""
        return max(end - max(self.next, first) - self.ahead, 0)

    def available(self, end: int) -> int:
        return len(self.returned) + self.undelivered(end)

    def lag(self, end: int, first: int = 0) -> int:
        """How many messages are not done, if the topic has ``first … end - 1``.

        Removed messages count while they are in flight; others will not be delivered again.
        """
        gone = 0
        if self.oldest_unsettled < first:
            gone = self.returned.count_below(first)
            gone += sum(offset < first for offset in (*self.delayed, *self.exhausted))
        return self.undelivered(end, first) + len(self.pending) - gone

    @property
    def oldest_unsettled(self) -> int:
        """The lowest offset that is pending or not delivered; all before it are done."""
        self._low = lowest(self.pending, self._low, self.next)
        return self._low

    def unsettled(self, ranges: list[tuple[int, int]]) -> int:
        """How many of these offsets are pending or not delivered."""
        start_of_new = self.next
        ahead = sum(max(end - max(start, start_of_new), 0) for start, end in ranges)
        delivered = (offset for offset in self.pending if offset < start_of_new)
        return ahead + sum(contains(ranges, offset) for offset in delivered)

    def wakes_ms(self) -> int | None:
        """When the next lease ends or the next message becomes due; None if nothing is timed."""
        lease_ms, due_ms = self._deadlines.next_ms(), self.delayed.next_ms()
        if lease_ms is None or due_ms is None:
            return due_ms if lease_ms is None else lease_ms
        return min(lease_ms, due_ms)

    def consumer(self, name: bytes, now_ms: int) -> Consumer:
        """A consumer by name, created on first use."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = self.consumers[name] = Consumer(now_ms, now_ms, set())
        return consumer

    # ── delivering in order of offsets ────────────────────────────────────────────────────────

    def take(self, command: Taken) -> list[GroupDelivery]:
        """Deliver messages, returned ones first; offsets below ``first`` no longer exist."""
        self._drop_removed(command.first)
        shares = []
        for name, count in command.shares:
            consumer = self.consumer(name, command.now_ms)
            consumer.seen_ms = command.now_ms
            offsets = self._next_offsets(count, command)
            if offsets:
                consumer.active_ms = command.now_ms
                shares.append(self._deliver(name, offsets, command))
        self.generation += bool(shares)
        if command.settle and shares:
            self.version += 1  # voids what a dispatcher has chosen of these
        return shares

    def _drop_removed(self, first: int) -> None:
        """Forget messages that retention has removed, and pass the heads over them."""
        for offset in self.returned.pop_below(first):
            self._drop(offset)
        if min(self.heads) < first:
            self.heads = [max(head, first) for head in self.heads]

    def _drop(self, offset: int) -> Pending:
        self.changed.add(offset >> CHUNK_BITS)
        return self.pending.pop(offset)

    def _delay(self, delayed: Iterable[Scheduled], now_ms: int) -> None:
        """Keep messages that the heads have passed until they are due."""
        for offset, due_ms, priority in delayed:
            if offset not in self.pending:
                pending = Pending(None, now_ms, 0, until_ms=due_ms, priority=priority)
                self.pending[offset] = pending
                self.changed.add(offset >> CHUNK_BITS)
                self.delayed.add(offset, due_ms)

    def _next_offsets(self, count: int, command: Taken) -> list[int]:
        offsets = self.returned.pop_oldest(count)
        start_of_new = self.next
        for start, end in living(start_of_new, command.end, command.gone):
            if len(offsets) == count:
                break
            start_of_new = min(end, start + count - len(offsets))
            offsets += range(start, start_of_new)
        self._pass(start_of_new, command.gone)
        return offsets

    def _pass(self, start_of_new: int, gone: list[tuple[int, int]]) -> None:
        """Advance all heads, and reduce ``ahead`` by what they have passed."""
        if self.ahead:
            start = self.next
            passed = (min(end, start_of_new) - max(first, start) for first, end in gone)
            self.ahead = max(self.ahead - sum(max(count, 0) for count in passed), 0)
        self.heads = [max(head, start_of_new) for head in self.heads]

    def _deliver(self, name: bytes, offsets: list[int], command: Taken) -> GroupDelivery:
        if not command.settle and self.pending.keys().isdisjoint(offsets):
            return self._deliver_fresh(name, offsets, command.now_ms)
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

    def _deliver_fresh(self, name: bytes, offsets: list[int], now_ms: int) -> GroupDelivery:
        """``_deliver`` of messages that nobody was given before, as most are."""
        pending = [Pending(name, now_ms, 1) for _ in offsets]
        self.pending.update(zip(offsets, pending, strict=True))
        self.consumers[name].pending.update(offsets)
        self.changed |= _chunks(offsets)
        return GroupDelivery(name, offsets, [1] * len(offsets))

    def _assign(self, offset: int, known: Pending | None, pending: Pending) -> None:
        """Give a message to a consumer; another may have it, if the group was moved back."""
        if known is not None and known.consumer is not None:
            self._take_from(known, offset)
        assert pending.consumer
        self.consumers[pending.consumer].pending.add(offset)
        self.pending[offset] = pending
        self.changed.add(offset >> CHUNK_BITS)

    def _take_from(self, pending: Pending, offset: int) -> None:
        if pending.lease != NO_LEASE:
            self.leases.pop(pending.lease, None)
        if pending.consumer:
            consumer = self.consumers.get(pending.consumer)
            if consumer is not None:
                consumer.pending.discard(offset)
                if not consumer.pending and pending.lease != NO_LEASE:
                    del self.consumers[pending.consumer]  # a worker exists while it has messages

    # ── delivering under a lease ──────────────────────────────────────────────────────────────

    def lease(self, command: Leased) -> list[GroupDelivery] | None:
        """Deliver what was chosen; None if the choice is void, as the group has changed since."""
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
            self.returned.remove(priority, offsets)
        self._delay(command.delayed, command.now_ms)
        return shares

    def _lease_share(
        self,
        share: tuple[bytes, int, list[tuple[int, int, int]]],
        lease: int,
        command: Leased,
        taken: defaultdict[int, set[int]],
    ) -> GroupDelivery:
        name, until_ms, runs = share
        holds = self.consumer(name, command.now_ms).pending if name else None
        offsets: list[int] = []
        deliveries: list[int] = []
        number = lease
        for run in runs:
            found, times = self._lease_run(run, (name, command.now_ms, until_ms), number, taken)
            offsets += found
            deliveries += times
            number += len(found)
        if holds is not None:
            holds.update(offsets)
        if until_ms:
            self._deadlines.add(until_ms, lease, number)
        return GroupDelivery(name, offsets, deliveries, lease)

    def _lease_run(
        self,
        run: tuple[int, int, int],
        terms: tuple[bytes, int, int],
        lease: int,
        taken: defaultdict[int, set[int]],
    ) -> tuple[Sequence[int], list[int]]:
        """Lease a range; return the offsets, and how often each was delivered.

        ``terms``: the consumer, the time, the end of the leases.
        """
        priority, start, end = run
        name, now_ms, until_ms = terms
        offsets: Sequence[int] = range(start, end)
        times = [1] * (end - start)
        reasons = None
        self.changed.update(range(start >> CHUNK_BITS, (end - 1 >> CHUNK_BITS) + 1))
        if not self.pending.keys().isdisjoint(offsets):
            offsets, times, reasons = self._redelivered(run, taken)
        numbers = range(lease, lease + len(offsets))
        if reasons is None:
            pending = [Pending(name, now_ms, 1, n, until_ms, priority) for n in numbers]
        else:
            rows = zip(times, numbers, reasons, strict=True)
            pending = [
                Pending(name, now_ms, count, n, until_ms, priority, reason)
                for count, n, reason in rows
            ]
        self.pending.update(zip(offsets, pending, strict=True))
        self.leases.update(zip(numbers, offsets, strict=True))
        return offsets, times

    def _redelivered(
        self, run: tuple[int, int, int], taken: defaultdict[int, set[int]]
    ) -> tuple[list[int], list[int], list[bytes]]:
        """Offsets of a range in which some are pending, with their deliveries and reasons."""
        priority, start, end = run
        offsets, times, reasons = [], [], []
        for offset in range(start, end):
            known = self.pending.get(offset)
            count, reason = 1, b""
            if known is not None:
                if not self._is_returned(offset, known):
                    continue  # the group was moved back, or has changed since the choice
                count, reason = known.deliveries + 1, known.reason
                self.redeliveries += count > 1
                taken[priority].add(offset)
            offsets.append(offset)
            times.append(count)
            reasons.append(reason)
        return offsets, times, reasons

    def _drop_expired(self, offsets: list[int], taken: defaultdict[int, set[int]]) -> None:
        for offset in offsets:
            known = self.pending.get(offset)
            if known is not None and self._is_returned(offset, known):
                self._drop(offset)
                taken[known.priority].add(offset)

    def _is_returned(self, offset: int, pending: Pending) -> bool:
        is_filed = offset in self.delayed or offset in self.exhausted
        return pending.consumer is None and not is_filed

    # ── settling and returning ────────────────────────────────────────────────────────────────

    def settle(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Mark offsets as done; return how many of them were pending."""
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
        """Remove messages from everything that knows of them."""
        if self._let_go_of_one(offsets):
            return
        returned: list[set[int]] = [set() for _ in range(PRIORITIES)]
        for offset in offsets:
            pending = self._drop(offset)
            if pending.consumer is not None:
                self._take_from(pending, offset)
            elif offset in self.exhausted:
                del self.exhausted[offset]
            elif self.delayed.pop(offset, None) is None:
                returned[pending.priority].add(offset)
        for priority, those in enumerate(returned):
            if those:
                self.generation += 1  # a dispatcher may have chosen them
                self.returned.remove(priority, those)

    def _let_go_of_one(self, offsets: list[int]) -> bool:
        """``_let_go`` of what one consumer has without leases: whether that is so."""
        get = self.pending.__getitem__
        holders = {(pending.consumer, pending.lease) for pending in map(get, offsets)}
        if len(holders) != 1:
            return False
        ((name, lease),) = holders
        if not name or lease != NO_LEASE:
            return False
        for offset in offsets:
            del self.pending[offset]
        self.changed |= _chunks(offsets)
        consumer = self.consumers.get(name)
        if consumer is not None:
            consumer.pending.difference_update(offsets)
        return True

    def settle_leases(self, ranges: list[tuple[int, int]]) -> int:
        """Mark the messages of these leases as done; return how many there were.

        A lease that has ended counts as well, while its message was not delivered again.
        """
        found = [self.leases.pop(lease, None) for lease in leases(ranges, self.leases)]
        offsets = [offset for offset in found if offset is not None]
        settled = list(map(self.pending.pop, offsets))
        self.changed |= _chunks(offsets)
        for pending, offset in zip(settled, offsets, strict=True):
            if pending.consumer:
                self._take_from(pending, offset)
        late = self.lapsed.take(ranges)
        self._let_go(late)
        return len(settled) + len(late)

    def return_leases(self, command: LeasesReturned) -> int:
        """Return the messages of these leases to the group; return how many there were."""
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
                    delay_ms = max(delay_ms, _backoff_ms(self, pending.deliveries))
            else:
                pending.deliveries -= 1
            pending.until_ms = command.now_ms + delay_ms if delay_ms else 0
            if command.is_final:
                pending.until_ms = NEVER_MS
            back.append(offset)
        self._place(back)
        return len(back)

    def extend_leases(self, command: LeasesExtended) -> int:
        """Give leases another deadline; return how many of them existed."""
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
        """End leases that have run out and return messages that are due; how many in all."""
        now_ms = command.now_ms
        back = list(map(self._end_lease, self._deadlines.take(now_ms, SWEPT_AT_ONCE)))
        for offset in self.delayed.pop_due(now_ms, SWEPT_AT_ONCE - len(back)):
            self.pending[offset].until_ms = 0
            back.append(offset)
        self._place(back, keeps_lease=True)
        return len(back)

    def resume(self, now_ms: int) -> bool:
        """Extend leases after the broker was unavailable; return whether there are any."""
        self.changed |= {offset >> CHUNK_BITS for offset in self._deadlines.resume(now_ms)}
        return bool(self.leases)

    def _end_lease(self, lease: int) -> int:
        """End a lease that ran out; return the offset of its message."""
        offset = self.leases[lease]
        pending = self.pending[offset]
        self._take_from(pending, offset)
        pending.consumer, pending.until_ms, pending.reason = None, 0, b"lease expired"
        self.lapsed.add(lease, offset)
        return offset

    def _place(self, offsets: Iterable[int], *, keeps_lease: bool = False) -> None:
        """Make messages without a consumer exhausted, delayed or returned."""
        returned: list[list[int]] = [[] for _ in range(PRIORITIES)]
        for offset in offsets:
            pending = self.pending[offset]
            pending.consumer = None
            pending.lease = pending.lease if keeps_lease else NO_LEASE
            self.changed.add(offset >> CHUNK_BITS)
            is_given_up = pending.until_ms == NEVER_MS
            if is_given_up or 0 < self.max_deliveries <= pending.deliveries:
                self.exhausted[offset] = None
            elif pending.until_ms:
                self.delayed.add(offset, pending.until_ms)
            else:
                returned[pending.priority].append(-offset)
        self.returned.add(returned)

    def give_back(self, name: bytes) -> int:
        """Return the messages of a worker that left; return how many there were."""
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
        """Remove a consumer and its pending messages; return how many there were."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        for offset in consumer.pending:
            self.leases.pop(self._drop(offset).lease, None)
        return len(consumer.pending)

    # ── claiming ──────────────────────────────────────────────────────────────────────────────

    def claim(self, command: Claimed) -> list[int]:
        """Give pending messages to another consumer; return the offsets of those it got."""
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
            # As in Redis, a message claimed by force counts as delivered once before.
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
        self.start, self.since = start, min(self.since, start)
        self.heads = [start] * PRIORITIES
        self.ahead = 0
        self.version += 1
        self._low = min(self._low, start)

    def commit(self, command: GroupCommitted) -> None:
        self.heads = [max(head, command.offset) for head in self.heads]
        self.ahead = command.ahead
        self.version += 1
        self.settle([(0, command.offset)])

    def configure(self, command: GroupConfigured) -> None:
        """Change how failed messages are redelivered, and which are exhausted by that."""
        if command.backoff_ms is not None:
            if not self.is_backoff_chosen:
                self.backoff_max_ms = 0
            self.backoff_ms, self.is_backoff_chosen = command.backoff_ms, True
        if command.backoff_max_ms is not None:
            self.backoff_max_ms = command.backoff_max_ms
        if command.max_deliveries is not None:
            self.max_deliveries = command.max_deliveries
            self._place_anew([*self.returned.offsets(), *self.delayed, *self.exhausted])

    # ── replacing what is pending ─────────────────────────────────────────────────────────────

    def replace_pending(self, pending: dict[int, Pending]) -> None:
        """Replace all pending messages by these, which have no consumer."""
        self.changed |= {offset >> CHUNK_BITS for offset in (*self.pending, *pending)}
        self.pending.clear()
        self.pending.update(pending)
        self._index_pending()

    def end_loading(self) -> None:
        """Derive everything else from ``pending``, after the last chunk was loaded."""
        for offset, pending in self.pending.items():
            if pending.consumer:
                self.consumers[pending.consumer].pending.add(offset)
        changed = self.changed
        self.changed = set()
        self._index_pending()
        self.changed = changed

    def _index_pending(self) -> None:
        self.leases.clear()
        free = []
        for offset, pending in self.pending.items():
            if pending.consumer is None:
                free.append(offset)
            elif pending.lease != NO_LEASE:
                self.leases[pending.lease] = offset
        self._deadlines.renew()
        self.lapsed.renew()
        self._place_anew(free)

    def _place_anew(self, free: list[int]) -> None:
        self.returned, self.delayed, self.exhausted = ReturnedMessages(), DelayedMessages(), {}
        self._place(free, keeps_lease=True)


def _chunks(offsets: list[int]) -> set[int]:
    return {offset >> CHUNK_BITS for offset in offsets}


def _backoff_ms(group: Group, deliveries: int) -> int:
    """The pause after this many deliveries: it doubles each time."""
    doublings = deliveries - (1 if group.is_backoff_chosen else 2)
    if not group.backoff_ms or doublings < 0:
        return 0
    pause_ms = group.backoff_ms << min(doublings, 40)
    return min(pause_ms, group.backoff_max_ms) if group.backoff_max_ms else pause_ms
