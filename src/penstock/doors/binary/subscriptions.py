"""What one client of the binary protocol subscribes to, and the messages it is sent.

An **exact topic** is followed with a cursor: first what the journal holds, then what comes. A
subscriber with a client id skips what it acknowledged before. A **filter** is live only. A topic
that begins with ``q:`` is a **queue**, and the client becomes one of its workers.

A SUBSCRIBE may say where a subscriber without progress begins, which is journaled as its progress,
how many messages may be in flight, and that retained messages come first.

A topic needs the rights to subscribe and to read, as its history comes first. A filter needs the
right to subscribe to some of what it matches; the rest is left out. A queue needs the right to
work.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.access.logins import LoginRefusal
from penstock.commit.completion import Callback
from penstock.commit.feed import CommittedMessages, Stretch
from penstock.core.commands import Identified
from penstock.core.live import LiveClient
from penstock.core.owners import OWNED_BY_ANOTHER, is_foreign
from penstock.core.progress import Progress
from penstock.dispatch.unacked import Unacked
from penstock.doors.binary.acknowledgements import Acknowledgements, AcknowledgingClient
from penstock.doors.binary.frames import MessageFrames
from penstock.doors.binary.parts import BinaryParts, IdentifiedClient
from penstock.doors.binary.queue_worker import QueueWorker
from penstock.doors.binary.replies import OrderedReplies, not_authorized
from penstock.doors.binary.retained_first import RetainedFirst
from penstock.doors.binary.terms import BinaryTerms
from penstock.errors import PenstockError, StorageError
from penstock.model.message import Message
from penstock.model.queue_names import is_queue
from penstock.model.topic import filter_fault, has_wildcard
from penstock.net.meter import Meter
from penstock.net.origin import Origin
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.reading.cursor import Cursor
from penstock.store.search import offset_at_time
from penstock.trust.principal import Principal
from penstock.trust.rules import Action
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, fault
from penstock.wire.binary.events import BinarySubscribe, BinaryUnsubscribe

UNLIMITED = 1 << 62  # room for messages


class SubscribingConnection(IdentifiedClient, AcknowledgingClient, LiveClient, Protocol):
    """The connection of the client."""

    principal: Principal
    origin: Origin
    meter: Meter | None
    terms: BinaryTerms

    def send(self, data: bytes) -> None: ...
    def fail(self, error: Fault, sequence: int) -> None: ...  # answer a request with an error
    def tell(self, error: Fault) -> None: ...
    def report_accepted(self, *, session_present: bool) -> None: ...
    def is_full(self) -> bool: ...  # whether the client reads slowly: cursors wait, filters drop


class BinarySubscriptions:
    """The subscriptions of one connection."""

    __slots__ = (
        "_connection",
        "_counters",
        "_cursors",
        "_door",
        "_filters",
        "_in_flight",
        "_prefetch",
        "_replies",
        "_retained",
        "acknowledgements",
        "frames",
        "is_full",
        "worker",
    )

    def __init__(
        self, door: BinaryParts, connection: SubscribingConnection, replies: OrderedReplies
    ) -> None:
        self._door = door
        self._connection = connection
        self._replies = replies
        self._counters = door.connections.counters
        self.frames = MessageFrames(connection.terms, self._counters)
        self._cursors: dict[bytes, Cursor] = {}
        self._filters: set[bytes] = set()
        self._prefetch = 0  # messages of followed topics in flight at most; 0: any number
        self._in_flight = 0
        self._retained: RetainedFirst | None = None  # that are being sent
        self.is_full = connection.is_full
        self.worker = QueueWorker(door, self, replies, connection.number)
        self.acknowledgements = Acknowledgements(
            door, connection, replies, self._cursors, self.worker.finish, self._settled
        )

    def subscribe(self, event: BinarySubscribe) -> None:
        before = self._connection.principal
        client_id = event.client_id or self._own_id()
        why = self._fault(event, client_id) or self._take_id(client_id)
        if why:
            topic = printable(event.topic, 80)
            error = fault(ErrorCode.SUBSCRIBE_REFUSED, topic=topic, why=why)
            self._connection.fail(error, event.sequence)
            return
        denial = self._denial(event.topic)
        if denial:
            self._connection.principal = before
            self._connection.fail(denial, event.sequence)
            return
        self._counters.subscribed_total += 1
        if not is_queue(event.topic):
            self._prefetch = event.fields.prefetch or self._prefetch
            self._resume_cursors()
        self.frames.accepts_version_2 = event.accepts_version_2
        if client_id:
            self._identify(client_id)
        if has_wildcard(event.topic):
            self._in_order(lambda: self._if_allowed(event, self._follow_filter))
        elif is_queue(event.topic):
            self._replies.answer(encode.ack(event.sequence))
            if event.fields.prefetch:
                self.worker.prefetch(event.fields.prefetch)
            self.worker.join(event.topic)
        else:
            self._in_order(
                lambda: self._when_current(lambda: self._if_allowed(event, self._follow_topic))
            )

    def _if_allowed(
        self, event: BinarySubscribe, follow: Callable[[BinarySubscribe], None]
    ) -> None:
        """Follow, unless a change of rights has overtaken the request on its way."""
        denial = self._denial(event.topic)
        if denial:
            self._connection.fail(denial, event.sequence)
            self._connection.unblock_input()
        else:
            follow(event)

    def _denial(self, topic: bytes) -> Fault | None:
        """Why the user may not subscribe to this; None if it may."""
        admission, principal = self._door.admission, self._connection.principal
        if has_wildcard(topic):
            refusal = admission.judge_filter(principal, Action.SUBSCRIBE, topic)
        elif is_queue(topic):
            refusal = admission.judge(principal, Action.WORK, topic)
        else:
            refusal = admission.judge(principal, Action.SUBSCRIBE, topic)
            if refusal is None and admission.judge(principal, Action.READ, topic):
                return not_authorized(topic, ": its history comes first; a filter has none")
        return not_authorized(topic) if refusal else None

    def _may_have(self, topic: bytes) -> bool:
        principal, allows = self._connection.principal, self._door.admission.allows
        actions = (Action.WORK,) if is_queue(topic) else (Action.SUBSCRIBE, Action.READ)
        return all(allows(principal, action, topic) for action in actions)

    def judge_again(self) -> None:
        """The rights have changed: end what is not allowed any more, and say so."""
        self._note_quota()
        admission, principal = self._door.admission, self._connection.principal
        lost = [
            topic for topic in [*self._cursors, *self.worker.queues] if not self._may_have(topic)
        ]
        lost += [
            topic_filter
            for topic_filter in self._filters
            if admission.judge_filter(principal, Action.SUBSCRIBE, topic_filter) is not None
        ]
        for topic in lost:
            self._end(topic)
            self._connection.tell(fault(ErrorCode.WITHDRAWN, topic=printable(topic, 80)))

    def _own_id(self) -> bytes | None:
        """The client id of HELLO, for the first SUBSCRIBE that names none."""
        connection = self._connection
        return None if connection.client_id else connection.terms.client_id or None

    def _fault(self, event: BinarySubscribe, client_id: bytes | None) -> str:
        limits = self._door.connections.limits
        why = filter_fault(event.topic, limits.topic_bytes_max, limits.topic_levels_max)
        if why:
            return why
        if client_id and len(client_id) > limits.client_id_bytes_max:
            return f"a client id of {len(client_id)} bytes"
        if self._count >= limits.subscriptions_max:
            return f"{self._count} subscriptions"
        meter = self._connection.meter
        total = self._count + (not self._has(event.topic))
        if meter is not None and (why := meter.admit_subscriptions(total)):
            return why
        known = self._door.broker.subscribers.by_id
        if client_id and client_id not in known and len(known) >= limits.sessions_max:
            return f"{limits.sessions_max} durable subscribers exist"
        return self._owner_fault(client_id) if client_id else ""

    @property
    def _count(self) -> int:
        return len(self._cursors) + len(self._filters) + len(self.worker.queues)

    def _has(self, topic: bytes) -> bool:
        return topic in self._cursors or topic in self._filters or topic in self.worker.queues

    def _take_id(self, client_id: bytes | None) -> str:
        """Why the user may not have this client id; from now on it stands for %c in rules."""
        connection = self._connection
        if not client_id or client_id == connection.client_id:
            return ""
        named = self._door.logins.named(connection.principal, connection.origin, client_id)
        if isinstance(named, LoginRefusal):
            return named.text
        connection.principal = named
        return ""

    def _owner_fault(self, client_id: bytes) -> str:
        """Whether the client id is known to be another user's; if not, the fold decides."""
        known = self._door.broker.subscribers.by_id.get(client_id)
        other = self._door.identities.get(client_id)
        owner = known.user if known else ""
        owner = owner or (other.principal.user if other and other.reason is None else "")
        is_denied = is_foreign(owner, self._connection.principal.user)
        return OWNED_BY_ANOTHER if is_denied else ""

    def _identify(self, client_id: bytes) -> None:
        door, connection = self._door, self._connection
        if client_id == connection.client_id:
            return
        self.forget_identity()
        other = door.identities.get(client_id)
        if other is not None:
            other.close(DisconnectReason.SESSION_TAKEN_OVER)
        door.identities[client_id] = connection
        connection.client_id = client_id
        connection.report_accepted(session_present=False)
        self.worker.take_name(client_id)
        user = connection.principal.user
        connection.is_identified = not (door.cluster.is_clustered or user)
        if not connection.is_identified:
            done = Callback(self._identified, connection.close)
            now_ms = door.connections.wall_ms()
            command = Identified(client_id, connection.number, user, now_ms)
            door.pipeline.submit(command, done, durable=True)

    def _identified(self, refusal: object) -> None:
        if refusal:
            self._connection.tell(fault(ErrorCode.FOREIGN_CLIENT_ID))
            self._connection.close(DisconnectReason.NOT_AUTHORIZED, OWNED_BY_ANOTHER)
        else:
            self._connection.is_identified = True

    def forget_identity(self) -> None:
        client_id, identities = self._connection.client_id, self._door.identities
        if client_id and identities.get(client_id) is self._connection:
            del identities[client_id]

    def _in_order(self, act: Callable[[], None]) -> None:
        """Act when everything submitted before is applied; then ``_done`` answers."""
        self._connection.block_input()
        self._door.pipeline.barrier(lambda: act() if self._connection.reason is None else None)

    def _when_current(self, act: Callable[[], None]) -> None:
        """Act when this node has all that was acknowledged: the reply promises history."""

        def confirmed(error: PenstockError | None) -> None:
            if error is not None:
                self._connection.close(DisconnectReason.NO_QUORUM, error.message)
            elif self._connection.reason is None:
                act()

        self._door.cluster.read_barrier(confirmed)

    def _done(self, sequence: int) -> None:
        self._replies.answer(encode.ack(sequence))
        self._connection.unblock_input()

    def unsubscribe(self, event: BinaryUnsubscribe) -> None:
        self._counters.unsubscribed_total += 1
        self._in_order(lambda: self._unsubscribe(event))

    def _unsubscribe(self, event: BinaryUnsubscribe) -> None:
        self._end(event.topic)
        self._done(event.sequence)

    def _end(self, topic: bytes) -> None:
        if topic in self.worker.queues:
            self.worker.leave(topic)
        elif topic in self._cursors or topic in self._filters:
            self._unfollow(topic)
            self._resume_cursors()
        self._note_quota()

    def _note_quota(self) -> None:
        if self._connection.meter is not None:
            self._connection.meter.admit_subscriptions(self._count)

    def _follow_filter(self, event: BinarySubscribe) -> None:
        self._filters.add(event.topic)
        self._follow(event.topic)
        self._retained_before(event, lambda: self._done(event.sequence))

    def _retained_before(self, event: BinarySubscribe, act: Callable[[], None]) -> None:
        """Act when the retained messages are sent, if they are wanted."""
        if not event.fields.retained_first:
            act()
            return

        def sent(count: int) -> None:
            self._counters.messages_out_total[1] += count
            self._retained = None
            act()

        door = self._door
        self._retained = RetainedFirst(
            door.broker.retained,
            event.topic,
            self._connection,
            self.frames,
            self._may_receive,
            sent,
            turns=door.connections.turns,
            now_ms=door.connections.wall_ms(),
        )
        self._retained.go_on()

    def _follow_topic(self, event: BinarySubscribe) -> None:
        door, topic, client_id = self._door, event.topic, self._connection.client_id
        if topic in self._cursors:
            self._unfollow(topic)  # all of it is sent once more
        progress = door.broker.subscribers.progress(client_id, topic) if client_id else None
        start = None if progress else event.fields.start
        if start is not None and start.since_ms:
            self._find_start(event, start.since_ms)
        else:
            self._follow_from(event, progress, self._start(event) if progress is None else None)

    def _start(self, event: BinarySubscribe) -> int | None:
        """Where a subscriber without progress begins; None if it did not say."""
        start, info = event.fields.start, self._door.readers.store.topic(event.topic)
        if start is None and not event.fields.is_from_now:
            return None
        if info is None:
            return 0
        if start is None:
            return info.next_offset
        return max(info.next_offset - start.last, 0) if start.last else 0

    def _find_start(self, event: BinarySubscribe, since_ms: int) -> None:
        """Look for the first message since a time; the journal may have to be searched."""
        store, topic = self._door.readers.store, event.topic

        def found(offset: int) -> None:
            if self._connection.reason is None:
                self._follow_from(event, None, offset)

        self._door.readers.run(
            lambda: offset_at_time(store, topic, since_ms), found, self.unreadable, is_search=True
        )

    def _follow_from(
        self, event: BinarySubscribe, progress: Progress | None, start: int | None
    ) -> None:
        if self._connection.client_id and progress is None:
            now_ms = self._door.connections.wall_ms()
            self.acknowledgements.begin(event.topic, start, now_ms)
        begin = partial(self._begin_cursor, progress=progress, start=start or 0)
        self._retained_before(event, lambda: self._if_allowed(event, begin))

    def _begin_cursor(self, event: BinarySubscribe, progress: Progress | None, start: int) -> None:
        door, topic = self._door, event.topic
        cursor = Cursor(
            door.readers,
            door.connections.budget,
            topic,
            self,
            progress,
            lambda: self._done(event.sequence),
            start,
        )
        self._cursors[topic] = cursor
        self._follow(topic)
        cursor.start()

    def _follow(self, topic: bytes) -> None:
        self._door.feed.follow(topic, self.feed)
        self._door.fanout.listen(topic, self._connection)

    def _unfollow(self, topic: bytes) -> None:
        self._filters.discard(topic)
        cursor = self._cursors.pop(topic, None)
        if cursor is not None:
            cursor.close()
            unacked = self.acknowledgements.unacked
            if self._limits_flight:
                unacked.forget(topic)  # they are sent once more, or make no room
            self._in_flight = unacked.count(self._cursors)
        self._door.feed.unfollow(topic, self.feed)
        self._door.fanout.unlisten(topic, self._connection)

    def topic_deleted(self, topic: bytes) -> None:
        self.acknowledgements.unacked.forget(topic)
        self._in_flight = self.acknowledgements.unacked.count(self._cursors)
        self.worker.forget(topic)
        cursor = self._cursors.get(topic)
        if cursor is not None:
            self._cursors[topic] = cursor.renewed()
            self._cursors[topic].start()
        self._resume_cursors()

    def resume(self) -> None:
        if self._retained is not None:
            self._retained.go_on()
        self._resume_cursors()
        self.worker.ask_for_jobs()

    def _resume_cursors(self) -> None:
        for cursor in self._cursors.values():
            cursor.resume()

    def room(self) -> int:
        """How many messages of followed topics may be sent: the client may have set a prefetch."""
        if self.is_full():
            return 0
        return self._prefetch - self._in_flight if self._limits_flight else UNLIMITED

    def still_takes(self, count: int) -> bool:
        """Whether others have left so much of the prefetch while a cursor was reading."""
        return not self._limits_flight or count <= self._prefetch - self._in_flight

    @property
    def _limits_flight(self) -> bool:
        """Whether a prefetch counts: nobody without a client id acknowledges."""
        return bool(self._prefetch and self._connection.client_id)

    def _settled(self, count: int) -> None:
        self._in_flight -= count
        if self._limits_flight:
            self._resume_cursors()

    def start_over(self) -> None:
        """Another user has logged in: nothing of the former one's remains."""
        self.leave_all()
        self._connection.client_id = b""
        self.worker.drop_name()
        self.acknowledgements.unacked = Unacked()
        self._in_flight = self._prefetch = 0

    def leave_all(self) -> None:
        for topic in [*self._cursors, *self._filters]:
            self._unfollow(topic)
        self.worker.leave_all()
        self.forget_identity()
        self._door.fanout.forget(self._connection)

    def feed(self, part: CommittedMessages) -> None:
        cursor = self._cursors.get(part.topic)
        if cursor is not None:
            cursor.feed(part)
        elif not self._may_receive(part.topic):
            return
        elif self.is_full():
            client_id = self._connection.client_id
            self._counters.dropped(DropReason.SLOW_READER, part.count, client_id, part.topic)
        else:
            for stretch in part.stretches():
                self.take(stretch)

    def _may_receive(self, topic: bytes) -> bool:
        principal = self._connection.principal
        return self._door.admission.allows(principal, Action.SUBSCRIBE, topic)

    def take(self, stretch: Stretch) -> None:
        """Send messages; the first of those who follow the topic makes the frames for all."""
        count = len(stretch.payloads)
        if self._connection.client_id:
            unacked = self.acknowledgements.unacked
            cuts = unacked.cuts
            unacked.add(stretch.topic, stretch.sequence, stretch.offset, count)
            self._in_flight += count * (stretch.topic in self._cursors)
            if unacked.cuts != cuts:  # nobody will tell when those are acknowledged
                self._in_flight = unacked.count(self._cursors)
        self._counters.messages_out_total[1] += count
        self._connection.send(self.frames.of(stretch))

    def send_jobs(self, jobs: list[Message]) -> None:
        is_named = bool(self._connection.client_id)
        for job in jobs:
            self._connection.send(self.frames.of_job(job, is_named=is_named))
            if is_named:
                self.acknowledgements.unacked.add(job.topic, job.sequence, job.offset, 1)
        self._counters.messages_out_total[1] += len(jobs)

    def missed(self, topic: bytes, count: int) -> None:
        self._counters.dropped(DropReason.RETENTION, count, self._connection.client_id, topic)
        notice = fault(ErrorCode.RETENTION, count=count, topic=printable(topic, 80))
        self._connection.tell(notice)

    def unreadable(self, error: StorageError) -> None:
        """Never skip what the journal should have: the operator must look."""
        self.close(DisconnectReason.STORAGE_FAILED, error.message)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self._connection.close(reason, detail)
