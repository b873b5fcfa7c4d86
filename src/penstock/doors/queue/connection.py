"""One client of the queue protocol: when its requests run, and how the connection ends.

**Order.** Requests begin, and join the commit pipeline, in the order in which they came, whether or
not earlier ones are answered. A request that reads messages waits for those produced before it; one
that reads state waits for all earlier requests; neither waits if it has an id. Deleting a topic
waits for earlier messages, which would outlive it, and holds up what follows. Subscribe waits for
all earlier responses; what the client sends then is read as acknowledgements, and not answered.

**Bounds.** With ``UNANSWERED_MAX`` requests unanswered, nothing more is read. While the client has
much to read, polls take nothing, disk reads do not begin, and nothing is pushed.

**Strangers.** Where users must log in, nothing but Authenticate is served before that. Requests are
small, only a few are refused before the connection ends, and it all takes ``connect_timeout_s``.

**The end.** A client that closes its side still gets its responses, but nothing waits for messages
any more. A frame that is too large ends the connection in the same way. Once a request has come
there is no idle timeout: TCP keep-alive finds dead peers.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from penstock.access.logins import Credentials, LoginDone, LoginFault, LoginRefusal
from penstock.commit.completion import Callback
from penstock.doors.queue.access import access_fault
from penstock.doors.queue.authentication import LOG_IN_FIRST, LOGINS_MAX
from penstock.doors.queue.disk_reads import DiskReads
from penstock.doors.queue.faults import OVERSIZED, TOO_LARGE, refusal_fault
from penstock.doors.queue.operation import After, Operation, PushChannel, Refused, WaitingRequest
from penstock.doors.queue.operations import OPERATIONS
from penstock.doors.queue.parts import QueueParts
from penstock.doors.queue.producing import produce_run
from penstock.doors.queue.redirects import follower_fault, unconfirmed
from penstock.doors.queue.replies import ResponseQueue, Slot
from penstock.doors.queue.topic_filters import TopicFilters
from penstock.errors import PenstockError
from penstock.limits import KIB
from penstock.net.connection import Connection, enable_tcp_keep_alive
from penstock.net.origin import Origin
from penstock.net.outbox import Outbox
from penstock.net.turns import TURN_S
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import STRANGER, Principal
from penstock.trust.rules import Action
from penstock.wire.queue.events import (
    AckRun,
    Bad,
    Event,
    NackRun,
    Oversized,
    ProduceRun,
    QueueRequest,
)
from penstock.wire.queue.faults import BAD_REQUEST, Fault
from penstock.wire.queue.server import QueueServerMachine
from penstock.wire.violation import Violation

UNANSWERED_MAX = 1_024  # unanswered requests before nothing more begins; one run may exceed it
REFUSED_MAX = 64  # requests of a stranger, some 8 KiB of answers; then the connection is closed
PIECE_BYTES = 32 * KIB  # decoded between two looks at the clock: as tiny frames it takes some 10 ms


class QueueConnection(Connection[Event]):
    """One client's connection."""

    protocol_name = "queue"

    __slots__ = (
        "_ending",
        "_failed_logins",
        "_follower_handlers",
        "_handlers",
        "_is_starved",
        "_is_writing_paused",
        "_name",
        "_names",
        "_parser",
        "_push",
        "_refused_requests",
        "_stranger_since",
        "_unread",
        "_until",
        "disk_reads",
        "door",
        "filters",
        "owner",
        "polls",
        "replies",
    )

    def __init__(self, door: QueueParts, transport: asyncio.Transport, origin: Origin) -> None:
        outbox = Outbox(door.connections, transport, self)
        self._parser = QueueServerMachine()
        super().__init__(door.connections, transport, self._parser, outbox, origin)
        self.door = door
        self._stranger_since = origin.accepted_at
        self._failed_logins = self._refused_requests = 0
        outbox.when_resumed = self._ask_for_more
        self.replies = ResponseQueue(outbox.send, self._count_refused, self._progressed)
        self.disk_reads = DiskReads(door.readers, self.is_full)
        self.polls: set[WaitingRequest] = set()
        self.filters: TopicFilters | None = None  # of the last Changes
        self.owner = door.scans.owner()
        self._push: PushChannel | None = None
        self._unread = b""  # received, to be decoded in later turns of the loop
        # a blocking request waits for the first, then calls the second
        self._until: tuple[Callable[[], bool], Callable[[], None]] | None = None
        self._ending: tuple[DisconnectReason, str] | None = None  # close when all is answered
        self._is_starved = False  # whether something waits for the client to read
        self._is_writing_paused = False
        self.number = door.connections.ids.next()
        self._name = b"queue#%d#" % self.number
        self._names = 0
        self._handlers: dict[type[Any], Callable[[Any, int], None]] = {
            ProduceRun: self._on_produce,
            AckRun: self._on_acks,
            NackRun: self._on_nacks,
            QueueRequest: self._on_call,
            Bad: self._on_bad,
            Oversized: self._on_oversized,
            Violation: self._on_violation,
        }
        self._follower_handlers = self._handlers | {  # while this node does not lead
            ProduceRun: self._refuse_produce,
            AckRun: self._refuse_leases,
            NackRun: self._refuse_leases,
            QueueRequest: self._on_call_as_follower,
        }
        self.become(door.logins.welcome(origin, self.protocol_name))
        door.counters.clients_connected += 1
        enable_tcp_keep_alive(transport)
        self.check_deadline_at(origin.accepted_at + door.limits.connect_timeout_s)

    @property
    def worker_prefix(self) -> bytes:
        """What the names of its workers begin with."""
        return self._name

    def next_name(self) -> bytes:
        self._names += 1
        return self._name + b"%d" % self._names

    # ── decoding ──────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Decode a large read in pieces, so that other clients are served between them."""
        if self._unread:
            self._unread += data
        elif len(data) <= PIECE_BYTES:
            super().data_received(data)
        else:
            self._decode(data)

    def _decode(self, data: bytes) -> None:
        turn_ends_at = self.door.monotonic() + TURN_S
        for place in range(0, len(data), PIECE_BYTES):
            if place and self.door.monotonic() > turn_ends_at:
                self._unread = data[place:]
                self.pause_reading()
                self.door.loop.call_soon(self._decode_on)
                return
            super().data_received(data[place : place + PIECE_BYTES])

    def _decode_on(self) -> None:
        data, self._unread = self._unread, b""
        self._decode(data)
        self.resume_reading()
        self._end_if_done()

    # ── scheduling ───────────────────────────────────────────────────────────────────────────

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, _turn_ends_at: float
    ) -> int:
        if self.replies.unanswered >= UNANSWERED_MAX:
            return position
        event = events[position]
        if not self.principal.is_known:
            self._on_stranger(event, now_ms)
            return position + 1
        handlers = self._handlers if self.door.cluster.is_leader else self._follower_handlers
        handlers[type(event)](event, now_ms)
        return position + 1

    def is_waiting(self) -> bool:
        is_behind = bool(self._held or self._unread)
        return is_behind or self.replies.unanswered >= UNANSWERED_MAX

    def _progressed(self) -> None:
        if self._until is not None and self._until[0]():
            then, self._until = self._until[1], None
            then()
        if self._is_reading_paused and self.replies.unanswered < UNANSWERED_MAX:
            self.resume_soon()
        if self._is_starved and not self.is_full():
            self._ask_for_more()
        self._end_if_done()

    def handle_later(self, events: list[Event]) -> None:
        super().handle_later(events)
        self._end_if_done()

    def when_stored(self, act: Callable[[], None]) -> None:
        self._wait(lambda: not self.replies.storing, act)

    def _when_applied(self, act: Callable[[], None]) -> None:
        """Act when all earlier requests of this client are applied; later ones wait."""
        if self.replies.unanswered == 1:
            act()
        else:
            done = self.blocking(lambda _value: act(), lambda _reason, _detail: act())
            self.door.pipeline.barrier(lambda: done.done(None))

    def _wait(self, is_over: Callable[[], bool], act: Callable[[], None]) -> None:
        if is_over():
            act()
        else:
            self.block_input()
            self._until = is_over, lambda: self._unblock(act)

    def blocking(self, act: Callable[[object], None], refused: Refused) -> Callback:
        self.block_input()
        return Callback(
            lambda value: self._unblock(act, value),
            lambda reason, detail: self._unblock(refused, reason, detail),
        )

    def _unblock(self, act: Callable[..., None], *arguments: Any) -> None:
        self.unblock_input()
        act(*arguments)

    # ── requests ──────────────────────────────────────────────────────────────────────────────

    def _on_produce(self, run: ProduceRun, now_ms: int) -> None:
        if self._push is None:
            produce_run(self, run, now_ms)

    def _on_acks(self, run: AckRun, _now_ms: int) -> None:
        if self._push is not None:
            self._push.acknowledge(run.leases)
        elif (slot := self._slot_for(run)) is not None:
            dispatchers, leases = self.door.dispatchers, run.leases
            dispatchers.leases.settle(run.topic, run.group, leases, slot.each_names(leases))

    def _on_nacks(self, run: NackRun, _now_ms: int) -> None:
        if self._push is not None:
            self._push.return_leases(run.leases)
        elif (slot := self._slot_for(run)) is not None:
            self.door.dispatchers.leases.give_back(run.topic, run.group, run.leases, slot)

    def _slot_for(self, run: AckRun | NackRun) -> Slot | None:
        """The slot of a run of acknowledgements; None if they are refused."""
        slot = self.replies.open(len(run.leases), run.request_ids)
        refusal = self.door.admission.judge(self.principal, Action.WORK, run.topic, len(run.leases))
        return None if slot.is_refused(refusal_fault(refusal) if refusal else None) else slot

    def _on_call(self, call: QueueRequest, _now_ms: int) -> None:
        operation = OPERATIONS[call.kind]
        if self._push is not None:
            if operation.on_push is not None:
                operation.on_push(self._push, call.message, call.request_id)
            return
        slot = self.replies.open(1, [call.request_id] if call.request_id else None)
        if slot.is_refused(self._access_fault(operation, call)):
            return
        if operation.after is After.NOTHING or call.request_id:
            self._serve(operation, call, slot)
        elif operation.after is After.MESSAGES:
            self.when_stored(lambda: self._serve(operation, call, slot))
        else:
            self._when_applied(lambda: self._serve(operation, call, slot))

    def _access_fault(self, operation: Operation, call: QueueRequest) -> Fault | None:
        return access_fault(self.door, self.principal, operation.access(self.door, call.message))

    def _run(self, operation: Operation, call: QueueRequest, slot: Slot) -> None:
        """Run an operation that has waited: rights may have changed meanwhile."""
        if not slot.is_refused(self._access_fault(operation, call)):
            operation.handle(self, call.message, slot)

    def _serve(self, operation: Operation, call: QueueRequest, slot: Slot) -> None:
        """Run an operation. A read must be current, even if another node has become the leader."""
        consensus = self.door.cluster
        if operation.sees_topics and self.door.pipeline.is_unsettled:
            done = self.blocking(
                lambda _value: self._run(operation, call, slot),
                lambda _reason, _detail: None,
            )
            consensus.read_barrier(lambda _error: done.done(None))
            return
        if not operation.is_read or call.is_stale_fine or not consensus.is_clustered:
            self._run(operation, call, slot)
            return

        def confirmed(error: PenstockError | None) -> None:
            if error is not None:
                slot.fail(unconfirmed(consensus, error))
            elif self.reason is None:
                self._run(operation, call, slot)

        consensus.read_barrier(confirmed)

    # ── logging in ────────────────────────────────────────────────────────────────────────────

    def log_in(self, credentials: Credentials, done: LoginDone) -> None:
        """Requests that follow wait for the outcome."""

        def judged(outcome: Principal | LoginRefusal) -> None:
            if self.reason is None:
                self._unblock(done, outcome)

        self.block_input()
        self.door.logins.log_in(self.origin, self.protocol_name, credentials, judged)

    def logged_in(self, principal: Principal) -> None:
        self._failed_logins = 0
        self.become(principal)
        self.principal_changed()

    def login_failed(self, refusal: LoginRefusal) -> None:
        self._failed_logins += refusal.fault is LoginFault.WRONG
        self._refused_requests += 1
        if self.principal.is_known:
            self._stranger_since = self.door.monotonic()
        self.become(replace(STRANGER, door=self.protocol_name, address=self.origin.peer))
        self.principal_changed()
        if self._failed_logins >= LOGINS_MAX:
            self._held = ()
            self._end(refusal.reason, refusal.text)

    def become(self, principal: Principal) -> None:
        super().become(principal)
        self._parser.trust(is_trusted=principal.is_known)

    def principal_changed(self) -> None:
        """Refuse what waits for messages that the user may not have any more."""
        self.filters = None
        self.door.scans.forget_all(self.owner)
        for poll in list(self.polls):
            poll.rights_changed()
        if self._push is not None:
            self._push.rights_changed()

    def _on_stranger(self, event: Event, now_ms: int) -> None:
        match event:
            case QueueRequest() if OPERATIONS[event.kind].before_login:
                self._on_call(event, now_ms)
            case QueueRequest():
                self._turn_away(1, [event.request_id] if event.request_id else None)
            case ProduceRun():
                self._turn_away(len(event.payloads), event.request_ids)
            case AckRun() | NackRun():
                self._turn_away(len(event.leases), event.request_ids)
            case _:
                self._turn_away(0, None)
                self._handlers[type(event)](event, now_ms)

    def _turn_away(self, count: int, ids: list[int] | None) -> None:
        """Refuse requests of a stranger, as long as it does not make work of it."""
        self._refused_requests += max(count, 1)
        if self._refused_requests > REFUSED_MAX:
            self._held = ()
            self._end(DisconnectReason.LOGIN_REQUIRED, "many requests before a login")
        elif count:
            self.replies.open(count, ids).fail(LOG_IN_FIRST)

    # ── requests at a follower ───────────────────────────────────────────────────────────────

    def _refuse_produce(self, run: ProduceRun, _now_ms: int) -> None:
        self._redirect(len(run.payloads), run.request_ids)

    def _refuse_leases(self, run: AckRun | NackRun, _now_ms: int) -> None:
        self._redirect(len(run.leases), run.request_ids)

    def _on_call_as_follower(self, call: QueueRequest, _now_ms: int) -> None:
        operation, ids = OPERATIONS[call.kind], [call.request_id] if call.request_id else None
        is_fine_here = operation.at_any_node or (call.is_stale_fine and operation.is_read)
        if is_fine_here and self._push is None:
            self._run(operation, call, self.replies.open(1, ids))
        else:
            self._redirect(1, ids, is_read=operation.is_read)

    def _redirect(self, count: int, ids: list[int] | None, *, is_read: bool = False) -> None:
        """Refuse requests; a push connection has no room for refusals, and is closed."""
        if self._push is not None:
            self.close(DisconnectReason.LEADERSHIP_LOST, "this node leads no longer")
            return
        self.replies.open(count, ids).fail(follower_fault(self.door.cluster, is_read=is_read))

    def _on_bad(self, bad: Bad, _now_ms: int) -> None:
        if self._push is None:
            slot = self.replies.open(1, [bad.request_id] if bad.request_id else None)
            slot.fail(Fault(BAD_REQUEST, bad.text))

    def _on_oversized(self, event: Oversized, _now_ms: int) -> None:
        if self._push is None:
            self.replies.open().fail(TOO_LARGE if event.is_produce else OVERSIZED)

    def _count_refused(self, count: int) -> None:
        self.door.counters.refused_total += count

    # ── pushing ───────────────────────────────────────────────────────────────────────────────

    def start_push(self, push: PushChannel, slot: Slot) -> None:
        self._wait(lambda: self.replies.unanswered == 1, lambda: self._begin(push, slot))

    def _begin(self, push: PushChannel, slot: Slot) -> None:
        slot.answer(b"")
        if self._ending is None and self.reason is None:
            push.rights_changed()  # what it waited for may have taken a minute
        if self._ending is None and self.reason is None:
            self._push = push
            push.begin()

    # ── output ───────────────────────────────────────────────────────────────────────────────

    def is_full(self) -> bool:
        is_held = self.replies.held_bytes > self.door.limits.outbound_bytes_max // 2
        self._is_starved = self._is_writing_paused or is_held or self.outbox.is_full()
        return self._is_starved

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        super().resume_writing()

    def _ask_for_more(self) -> None:
        self._is_starved = False
        self.disk_reads.go_on()
        for poll in list(self.polls):
            poll.ask()
        if self._push is not None:
            self._push.ask()

    def topic_deleted(self, topic: bytes) -> None:
        if self._push is not None:
            self._push.topic_deleted(topic)

    def leadership_lost(self) -> None:
        """Refuse all who wait for messages: only the leader hands them out."""
        for poll in list(self.polls):
            poll.leadership_lost()
        if self._push is not None:
            self._push.refused(DisconnectReason.LEADERSHIP_LOST)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

    def eof_received(self) -> bool:
        """The client sends nothing more; keep the connection until all is answered."""
        if self._push is not None:
            self._end_push()  # what is leased from now on would never be sent
            return False
        self._end(DisconnectReason.CLIENT_DISCONNECT)
        return self.reason is None

    def _on_violation(self, event: Violation, _now_ms: int) -> None:
        self._end(event.reason, event.detail)

    def _end(self, reason: DisconnectReason, detail: str = "") -> None:
        self._ending = reason, detail
        for poll in list(self.polls):
            poll.stop_waiting()
        self._end_if_done()

    def _end_if_done(self) -> None:
        is_behind = bool(self._held or self._unread or self.replies.unanswered)
        if self._ending is not None and not is_behind:
            self.close(*self._ending)

    def deadline(self) -> tuple[float, DisconnectReason]:
        if not self.principal.is_known:
            timeout_s = self.door.limits.connect_timeout_s
            return self._stranger_since + timeout_s, DisconnectReason.CONNECT_TIMEOUT
        if self._has_spoken:
            return float("inf"), DisconnectReason.IDLE_TIMEOUT
        timeout_s = self.door.limits.connect_timeout_s
        return self._last_packet_at + timeout_s, DisconnectReason.CONNECT_TIMEOUT

    def forgive(self, stalled_s: float) -> None:
        super().forgive(stalled_s)
        self._stranger_since += stalled_s

    def let_go(self) -> None:
        self.door.counters.clients_connected -= 1
        self._until = None
        self._held = ()
        self._unread = b""
        self.replies.clear()
        self.disk_reads.clear()
        self.door.scans.forget_all(self.owner)
        self.door.changes.leave(self)
        for poll in list(self.polls):
            poll.leave()
        self._end_push()

    def _end_push(self) -> None:
        push, self._push = self._push, None
        if push is not None:
            push.end()
