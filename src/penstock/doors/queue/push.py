"""Subscribe: a worker that stays and is sent messages ahead, for a handler that may be slow.

**In flight** are messages that were pushed and neither acknowledged nor returned: at most
``prefetch``. In automatic mode nothing is in flight.

**Leases are kept alive.** Often only the client's library knows that a handler is slow. So a lease
that nears its end is extended, twice: three times the visibility in all. Then the handler counts as
stuck: the lease runs out, the message leaves the prefetch count and is redelivered::

    pushed ──────────┬──────────────┬──────────────── lapsed ─────────── forgotten
           2/3       │ + visibility │ + visibility           + visibility

**Several leases of one message.** An acknowledgement may name an old lease of a redelivered
message. All leases under which a message was pushed lead to the current one, until it is forgotten.

**Late acknowledgements.** If a lease was over, or nearly so, when its acknowledgement came, the
message may be on its way to this client again. For a few seconds it is then settled, not pushed.

When the connection ends, what is in flight goes to others at once.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from penstock.dispatch.dispatcher import LeasedMessage
from penstock.doors.queue.faults import refusal_fault, storage_fault
from penstock.doors.queue.operation import PushChannel, Requester
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.request_fields import (
    AUTO,
    delay_ms,
    items_of,
    reason_of,
    requested_group,
    visibility_ms,
)
from penstock.limits import LEASES_MAX
from penstock.net.stalls import SETTLE_S
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rules import Action
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2

PREFETCH_MAX = 1_024
REFRESHES_MAX = 2
ALIASES_MAX = 8  # leases of one message that are remembered
LOOKS_PER_VISIBILITY = 16  # checks of the messages in flight within one visibility, at most
LATE_MS = 5_000  # how long a late acknowledgement is remembered
LATE_MAX = 65_536  # late acknowledgements that are remembered


class _PushedMessage(msgspec.Struct, eq=False, gc=False):
    """A message that was pushed to the client."""

    offset: int
    lease: int
    look_ms: int  # when to extend or drop the lease
    until_ms: int  # when its lease ends or, if that is over, when it is forgotten
    earlier: tuple[int, ...] = ()  # leases under which it was pushed before, the last one last
    refreshes: int = 0
    is_lapsed: bool = False  # its lease has run out: it is not in flight any more


class Push:
    """One push subscription, as a dispatcher sees it: a ``GroupWorker``."""

    takes_turns = False

    def __init__(self, client: Requester, message: queue_pb2.Subscribe) -> None:
        self._client = client
        self._door = client.door
        self.topic, self.group, self.start = requested_group(message)
        self._prefetch = min(max(message.prefetch, 1), PREFETCH_MAX)
        self.visibility_ms = visibility_ms(message.visibility_timeout_ms)
        self.settles = message.ack_mode == AUTO
        self.consumer = client.next_name()
        self._by_offset: dict[int, _PushedMessage] = {}
        self._by_lease: dict[int, _PushedMessage] = {}
        self._in_flight = 0
        self._late: dict[int, int] = {}  # offsets acknowledged late, and until when it matters
        self._timer: asyncio.TimerHandle | None = None

    # ── begin and end ─────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        self._door.counters.workers_connected += 1
        self._door.counters.subscribed_total += 1
        self._door.dispatchers.join(self.topic, self.group, self)

    def end(self) -> None:
        self._door.counters.workers_connected -= 1
        self._door.dispatchers.rest(self.topic, self.group, self.consumer)
        held = [held.lease for held in self._by_offset.values() if not held.is_lapsed]
        self._forget_all()
        if held:
            # They count as delivered: one of them may have crashed the client.
            self._door.dispatchers.leases.give_back(
                self.topic, self.group, held, reason=b"connection ended", is_failure=False
            )

    def topic_deleted(self, topic: bytes) -> None:
        if topic == self.topic:
            self._forget_all()

    def _forget_all(self) -> None:
        self._by_offset.clear()
        self._by_lease.clear()
        self._late.clear()
        self._in_flight = 0
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ── a worker ──────────────────────────────────────────────────────────────────────────────

    def room(self) -> int:
        return 0 if self._client.is_full() else self._prefetch - self._in_flight

    def ask(self) -> None:
        self._door.dispatchers.dispatch(self.topic, self.group)

    def idle(self) -> None:
        """Wait."""

    def limited(self, _retry_ms: int) -> None:
        """The dispatcher comes back in time."""

    def send(self, frames: bytes) -> None:
        self._client.send(frames)

    def rights_changed(self) -> None:
        principal = self._client.principal
        refusal = self._door.admission.judge(principal, Action.WORK, self.topic)
        if refusal is not None:
            fault = refusal_fault(refusal)
            self._client.send(encode.error(fault.code, fault.text))
            self._client.close(refusal.reason, refusal.text)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused: tell the client that nothing will come, so that it reconnects."""
        fault = storage_fault(reason, detail)
        self._client.send(encode.error(fault.code, fault.text))
        self._client.close(reason, detail)

    def work(self, jobs: list[LeasedMessage]) -> None:
        if not self.settles:
            jobs = self._without_late(jobs) if self._late else jobs
            self._track(jobs)
        self._door.counters.messages_out_total[1] += len(jobs)
        self._client.send(encode.pushed(items_of(jobs, self._door.tracing, self.consumer)))

    def _without_late(self, jobs: list[LeasedMessage]) -> list[LeasedMessage]:
        now_ms = self._door.steady_ms()
        late = self._late
        while late and next(iter(late.values())) <= now_ms:
            del late[next(iter(late))]
        done = [job.lease for job in jobs if job.message.offset in late]
        if done:
            self._door.dispatchers.leases.settle(self.topic, self.group, done)
        return [job for job in jobs if job.message.offset not in late]

    def _track(self, jobs: list[LeasedMessage]) -> None:
        until_ms = self._door.steady_ms() + self.visibility_ms
        look_ms = until_ms - self.visibility_ms // 3
        offsets, leases = [job.message.offset for job in jobs], [job.lease for job in jobs]
        rows = zip(offsets, leases, strict=True)
        pushed = [_PushedMessage(offset, lease, look_ms, until_ms) for offset, lease in rows]
        if not self._by_offset.keys().isdisjoint(offsets):
            for one in pushed:
                self._supersede(one)
        self._by_offset.update(zip(offsets, pushed, strict=True))
        self._by_lease.update(zip(leases, pushed, strict=True))
        self._in_flight += len(jobs)
        self._watch()

    def _supersede(self, pushed: _PushedMessage) -> None:
        """If the message was pushed before, remember the leases of that."""
        known = self._by_offset.get(pushed.offset)
        if known is not None:
            self._untrack(known)
            pushed.earlier = (*known.earlier, known.lease)[1 - ALIASES_MAX :]
            self._by_lease.update(dict.fromkeys(pushed.earlier, pushed))

    def _untrack(self, pushed: _PushedMessage) -> None:
        del self._by_offset[pushed.offset]
        del self._by_lease[pushed.lease]
        for lease in pushed.earlier:
            del self._by_lease[lease]
        self._in_flight -= not pushed.is_lapsed

    # ── from the client ───────────────────────────────────────────────────────────────────────

    def acknowledge(self, leases: Iterable[int]) -> None:
        """Settle messages, by any of their leases; unknown ones may be of an earlier connection."""
        ended, others = self._ended(leases)
        now_ms = self._door.steady_ms()
        soon_ms = now_ms + LATE_MS
        late = [one.offset for one in ended if one.is_lapsed or one.until_ms < soon_ms]
        for offset in late + self._offsets(others):
            self._note_late(offset, now_ms)
        done = [pushed.lease for pushed in ended]
        self._door.dispatchers.leases.settle(self.topic, self.group, done + others)
        if ended:
            self.ask()

    def _offsets(self, leases: list[int]) -> list[int]:
        """The messages of leases of an earlier connection: they may be on their way to us."""
        group = self._door.broker.groups.get(self.topic, self.group) if leases else None
        if group is None:
            return []
        found = (group.leases.get(lease, group.lapsed.find(lease)) for lease in leases)
        return [offset for offset in found if offset is not None]

    def _note_late(self, offset: int, now_ms: int) -> None:
        self._late.pop(offset, None)
        self._late[offset] = now_ms + LATE_MS
        if len(self._late) > LATE_MAX:
            del self._late[next(iter(self._late))]

    def return_leases(
        self,
        leases: Iterable[int],
        pause_ms: int = 0,
        reason: bytes = b"",
        *,
        is_final: bool = False,
    ) -> None:
        ended, others = self._ended(leases)
        back = [pushed.lease for pushed in ended] + others
        self._door.dispatchers.leases.give_back(
            *(self.topic, self.group, back), delay_ms=pause_ms, reason=reason, is_final=is_final
        )
        if ended:
            self.ask()

    def extend(self, leases: Iterable[int], asked_ms: int) -> None:
        found = {self._by_lease[lease]: None for lease in leases if lease in self._by_lease}
        held = [pushed for pushed in found if not pushed.is_lapsed]
        if held:
            self._extend(held, visibility_ms(asked_ms))
            self._stop_timer()  # something may be due earlier now
            self._watch()

    def _ended(self, leases: Iterable[int]) -> tuple[list[_PushedMessage], list[int]]:
        """Stop tracking the messages of some leases; also return leases we know nothing of."""
        ended: list[_PushedMessage] = []
        others: list[int] = []
        by_lease, by_offset, lapsed = self._by_lease, self._by_offset, 0
        for lease in leases:
            pushed = by_lease.get(lease)
            if pushed is None:
                others.append(lease)
                continue
            ended.append(pushed)
            del by_offset[pushed.offset], by_lease[pushed.lease]
            lapsed += pushed.is_lapsed
            for alias in pushed.earlier:
                del by_lease[alias]
        self._in_flight -= len(ended) - lapsed
        return ended, others

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        """Set the timer for the next lease that needs attention; a little late is fine."""
        if self._timer is None and self._by_offset:
            next_ms = min([pushed.look_ms for pushed in self._by_offset.values()])
            grain_ms = max(self.visibility_ms // LOOKS_PER_VISIBILITY, 1)
            pause_ms = max(next_ms - self._door.steady_ms(), grain_ms)
            self._timer = self._door.loop.call_later(pause_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._door.connections.stalls.is_catching_up:  # acknowledgements may be unread
            self._timer = self._door.loop.call_later(SETTLE_S, self._look)
            return
        now_ms, in_flight = self._door.steady_ms(), self._in_flight
        due = [pushed for pushed in self._by_offset.values() if pushed.look_ms <= now_ms]
        stuck = [pushed for pushed in due if pushed.refreshes == REFRESHES_MAX]
        self._refresh([pushed for pushed in due if pushed.refreshes < REFRESHES_MAX])
        for pushed in stuck:
            self._let_lapse(pushed, now_ms)
        self._watch()
        if self._in_flight < in_flight:
            self.ask()

    def _refresh(self, pushed: list[_PushedMessage]) -> None:
        group = self._door.broker.groups.get(self.topic, self.group)
        known = group.leases if group else {}
        for one in pushed:
            if one.lease in known:
                one.refreshes += 1
            else:
                self._untrack(one)
        alive = [one for one in pushed if one.lease in known]
        if alive:
            self._extend(alive, self.visibility_ms + self.visibility_ms // 3)

    def _extend(self, pushed: list[_PushedMessage], extent_ms: int) -> None:
        leases = [one.lease for one in pushed]
        self._door.dispatchers.leases.extend(self.topic, self.group, leases, extent_ms)
        until_ms = self._door.steady_ms() + extent_ms
        for one in pushed:
            one.until_ms = until_ms
            is_last = one.refreshes == REFRESHES_MAX
            one.look_ms = until_ms if is_last else until_ms - self.visibility_ms // 3

    def _let_lapse(self, pushed: _PushedMessage, now_ms: int) -> None:
        if pushed.is_lapsed:
            self._untrack(pushed)
            return
        pushed.is_lapsed = True
        self._in_flight -= 1
        pushed.look_ms = pushed.until_ms = now_ms + self.visibility_ms


def subscribe(client: Requester, message: queue_pb2.Subscribe, slot: Slot) -> None:
    push = Push(client, message)
    fault = client.door.group_fault(push.topic, push.group)
    if slot.is_refused(fault):
        return
    made = client.blocking(lambda _new: client.start_push(push, slot), slot.refused)
    client.door.dispatchers.groups.create(push.topic, push.group, push.start, made)


# ── requests on a push connection ─────────────────────────────────────────────────────────────


def ack_many(push: PushChannel, message: queue_pb2.AckMany, _request_id: int) -> None:
    push.acknowledge(message.lease_ids[:LEASES_MAX])


def nack(push: PushChannel, message: queue_pb2.Nack, _request_id: int) -> None:
    _return(push, message, [message.lease_id])


def nack_many(push: PushChannel, message: queue_pb2.NackMany, _request_id: int) -> None:
    _return(push, message, message.lease_ids[:LEASES_MAX])


def _return(
    push: PushChannel, message: queue_pb2.Nack | queue_pb2.NackMany, leases: Iterable[int]
) -> None:
    pause_ms = delay_ms(message.delay_ms)
    push.return_leases(leases, pause_ms, reason_of(message), is_final=message.dead_letter)


def extend(push: PushChannel, message: queue_pb2.Extend, _request_id: int) -> None:
    push.extend(message.lease_ids[:LEASES_MAX], message.visibility_timeout_ms)


def ping(push: PushChannel, _message: queue_pb2.Ping, request_id: int) -> None:
    push.send(encode.ok_run(1, [request_id]))
