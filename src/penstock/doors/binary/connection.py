"""One client of the binary protocol: what its requests do, and what it is sent.

**Publishing** is acknowledged after the commit. **Subscribing** makes the connection a follower of
the journal: to an exact topic with a cursor, which sends what the topic still holds and then what
comes; to a filter, live only. A subscriber with a client id leaves out what it acknowledged before,
and what it acknowledges is journaled (``acknowledgements``). A topic that begins with ``q:`` is a
queue, and subscribing to it is work (``work``).

**Order.** Replies leave in the order of the requests (``replies``). For some requests that is not
enough: behind a SUBSCRIBE that is still sending history, others are held, and so they are while the
journal is asked where acknowledged messages lie. Only acknowledgements are taken even then, or a
client that must acknowledge before it reads on would block, and we with it.
"""

import asyncio
from collections.abc import Callable

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal
from penstock.commit.completion import Callback
from penstock.commit.feed import Part, Stretch
from penstock.core.commands import Identified
from penstock.core.delivery import Delivery
from penstock.core.live import Live
from penstock.core.session import PUBACK
from penstock.dispatch.queue_names import is_queue
from penstock.doors.binary.acknowledgements import Acknowledgements
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import Replies
from penstock.doors.binary.work import QueueWorker
from penstock.errors import PenstockError, StorageError
from penstock.model.message import Extras, Message
from penstock.model.topic import filter_fault, has_wildcard
from penstock.net.connection import SIGNED_AT_ONCE, Connection
from penstock.net.outbox import Outbox
from penstock.net.turns import TURN_S
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.reading.cursor import Cursor
from penstock.wire.binary import encode
from penstock.wire.binary.events import (
    BinaryAcks,
    BinaryPublishRun,
    BinarySubscribe,
    BinaryUnsubscribe,
    Event,
    Ping,
    SignedPublish,
    Unknown,
)
from penstock.wire.binary.server import BinaryServerMachine
from penstock.wire.violation import Violation

HELD_MAX = 1_024
"""Requests held, and replies that wait for the disk, before nothing more is read."""

ACKS_AT_ONCE = 1_024
"""Acknowledgements taken before the time is asked for: far apart, each costs some 10 µs."""

_TEXTS = {
    DisconnectReason.SESSION_TAKEN_OVER: "Another connection uses this client id",
    DisconnectReason.STORAGE_FULL: "The broker's disk is full: not stored, send again later",
    DisconnectReason.STORAGE_FAILED: "The broker's disk failed: not stored, send again later",
    DisconnectReason.NO_QUORUM: "No quorum of the cluster: what was sent may be stored or not",
    DisconnectReason.LEADERSHIP_LOST: "Another node leads by now: not stored, send again",
    DisconnectReason.SERVER_SHUTDOWN: "The broker is stopping",
    DisconnectReason.INTERNAL_ERROR: "The broker failed to serve this connection",
}
"""What a client is told before the connection ends."""

_HANDLERS: dict[type, str] = {
    BinaryPublishRun: "_on_publish",
    BinarySubscribe: "_on_subscribe",
    BinaryUnsubscribe: "_on_unsubscribe",
    BinaryAcks: "_on_acks",
    Ping: "_on_ping",
    Unknown: "_on_unknown",
    Violation: "_on_violation",
}


class BinaryConnection(Connection[Event]):
    """One client's connection: a publisher, a sink of cursors, a recipient of jobs."""

    handles_while_blocked = True

    __slots__ = (
        "_accepts_version_2",
        "_acknowledgements",
        "_client_id",
        "_cursors",
        "_door",
        "_filters",
        "_is_writing_paused",
        "_replies",
        "_worker",
        "is_identified",
        "number",
    )

    def __init__(self, door: BinaryParts, transport: asyncio.Transport, accepted_at: float) -> None:
        machine = BinaryServerMachine(door.connections.limits.frame_bytes_max)
        outbox = Outbox(door.connections, transport, self.close)
        super().__init__(door.connections, transport, machine, outbox, accepted_at)
        self._door = door
        self._client_id = b""
        self.number = door.connections.ids.next()
        self.is_identified = False
        """Whether the cluster knows of its client id."""
        self._accepts_version_2 = False
        self._cursors: dict[bytes, Cursor] = {}
        self._filters: set[bytes] = set()
        self._is_writing_paused = False
        self._replies = Replies(self.outbox.send, door.pipeline.hurry, self.resume_reading)
        self._worker = QueueWorker(door, self, self._replies, self.number)
        self._acknowledgements = Acknowledgements(
            door, self, self._replies, self._cursors, self._worker.finish
        )
        door.connections.counters.clients_connected += 1
        limits = door.connections.limits
        self.check_deadline_at(accepted_at + min(limits.connect_timeout_s, limits.idle_timeout_s))

    @property
    def name(self) -> bytes:
        """Its client id, if it has given one."""
        return self._client_id

    def deadline(self) -> tuple[float, DisconnectReason]:
        """The connect time-out; then any complete frame keeps it alive, what we send does not."""
        if not self._has_spoken:
            timeout_s = self._connections.limits.connect_timeout_s
            return self._last_packet_at + timeout_s, DisconnectReason.CONNECT_TIMEOUT
        idle_s = self._connections.limits.idle_timeout_s
        return self._last_packet_at + idle_s, DisconnectReason.IDLE_TIMEOUT

    def is_waiting(self) -> bool:
        is_crowded = max(len(self._held), len(self._replies)) > HELD_MAX
        return self._is_resuming or is_crowded or self._acknowledgements.is_crowded

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, _turn_ends_at: float
    ) -> int:
        event = events[position]
        kind = type(event)
        if kind is SignedPublish:
            return self._on_signed(events, position, now_ms)
        if isinstance(event, BinaryAcks):
            event, *rest = _pieces(event)
            events[position + 1 : position + 1] = rest
        getattr(self, _HANDLERS[kind])(event, now_ms)
        return position + 1

    def hold(self, events: list[Event]) -> None:
        """Handle acknowledgements even now, as far as time allows; hold the rest."""
        monotonic, now_ms = self._connections.monotonic, self._connections.wall_ms()
        turn_ends_at = monotonic() + TURN_S
        held: list[Event] = []
        for event in events:
            if not isinstance(event, BinaryAcks):
                held.append(event)
                continue
            for piece in _pieces(event):
                if self._is_resuming or monotonic() > turn_ends_at:
                    held.append(piece)
                    self.resume_soon()
                else:
                    self._on_acks(piece, now_ms)
        super().hold(held)

    def _fail(self, text: str) -> None:
        self._connections.counters.refused_total += 1
        self._replies.answer(encode.error(text))

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    def _on_publish(self, event: BinaryPublishRun, now_ms: int) -> None:
        topic = event.topic
        route = self._door.admission.admit(self.principal, topic)
        if isinstance(route, Refusal):
            for _ in event.sequences:
                self._fail(_no_topic(route))
            return
        if route.policy > CAPTURED:
            for _ in event.sequences:
                self._fail(self._door.admission.refuse_unsigned(topic, 1).text)
            return
        self._publish(topic, event.payloads, event.sequences, now_ms)

    def _publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        sequences: list[int],
        now_ms: int,
        extras: list[Extras | None] | None = None,
    ) -> None:
        door = self._door
        self._replies.await_publishes(len(sequences))
        door.connections.counters.messages_in_total[1] += len(payloads)
        door.pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=1,
            retain=False,
            packet_ids=sequences,
            client=self,
            extras=extras,
        )

    def _on_signed(self, events: list[Event], position: int, now_ms: int) -> int:
        """Verify signed publishes in a row, some at a time; those of one topic go together."""
        accepted: list[SignedPublish] = []
        end = min(len(events), position + SIGNED_AT_ONCE)
        while position < end and isinstance(event := events[position], SignedPublish):
            position += 1
            if accepted and event.topic != accepted[0].topic:
                self._publish_signed(accepted, now_ms)
                accepted = []
            refusal = self._signed_refusal(event, now_ms)
            if refusal is None:
                accepted.append(event)
            else:
                self._publish_signed(accepted, now_ms)
                accepted = []
                self._fail(refusal)
        self._publish_signed(accepted, now_ms)
        if position == end:
            self.end_turn()
        return position

    def _signed_refusal(self, event: SignedPublish, now_ms: int) -> str | None:
        route = self._door.admission.admit(self.principal, event.topic)
        if isinstance(route, Refusal):
            return _no_topic(route)
        if route.policy & ENVELOPES:  # the signature covers no message within
            return self._door.admission.refuse_unsigned(event.topic, 1).text
        gate = self._door.admission.gate
        refused = gate.admit_signed(event.topic, event.payload, event.signature, now_ms)
        if refused is None:
            return None
        self._connections.counters.drops[DropReason.SIGNATURE_REFUSED] += 1
        return refused.text

    def _publish_signed(self, events: list[SignedPublish], now_ms: int) -> None:
        if events:
            self._publish(
                events[0].topic,
                [event.payload for event in events],
                [event.sequence for event in events],
                now_ms,
                [Extras(signature=event.signature) for event in events],
            )

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        """Publishes are on disk."""
        assert kind == PUBACK
        if self.reason is None:
            self._replies.published(packet_ids)

    # ── subscribing ───────────────────────────────────────────────────────────────────────────

    def _on_subscribe(self, event: BinarySubscribe, _now_ms: int) -> None:
        fault = self._subscribe_fault(event)
        if fault:
            self._fail(f"Cannot subscribe to '{printable(event.topic, 80)}': {fault}")
            return
        self._connections.counters.subscribed_total += 1
        self._accepts_version_2 = event.accepts_version_2
        if event.client_id:
            self._identify(event.client_id)
        if has_wildcard(event.topic):
            self._in_turn(lambda: self._follow_filter(event))
        elif is_queue(event.topic):
            self._replies.answer(encode.ack(event.sequence))
            self._worker.join(event.topic)
        else:
            self._in_turn(lambda: self._when_current(lambda: self._follow_topic(event)))

    def _subscribe_fault(self, event: BinarySubscribe) -> str:
        """Say why a subscription is refused; empty if it is not."""
        limits, client_id = self._connections.limits, event.client_id
        fault = filter_fault(event.topic, limits.topic_bytes_max, limits.topic_levels_max)
        if fault:
            return fault
        if client_id and len(client_id) > limits.client_id_bytes_max:
            return f"a client id of {len(client_id)} bytes"
        known = len(self._cursors) + len(self._filters) + len(self._worker.queues)
        if known >= limits.subscriptions_max:
            return f"{known} subscriptions"
        if client_id and not self._may_be_durable(client_id):
            return f"{limits.sessions_max} durable subscribers exist"
        return ""

    def _may_be_durable(self, client_id: bytes) -> bool:
        """Whether this client id is known, or there is room for one more."""
        known = self._door.broker.subscribers.by_id
        return client_id in known or len(known) < self._connections.limits.sessions_max

    def _identify(self, client_id: bytes) -> None:
        """Take the client id, from another connection if one has it."""
        identities = self._door.identities
        if client_id == self._client_id:
            return
        self._forget_identity()
        other = identities.get(client_id)
        if other is not None:
            other.close(DisconnectReason.SESSION_TAKEN_OVER)
        identities[client_id] = self
        self._client_id = self._acknowledgements.client_id = client_id
        self._worker.take_name(client_id)
        self.is_identified = not self._door.cluster.is_clustered
        if not self.is_identified:
            done = Callback(self._identified, self.close)
            self._door.pipeline.submit(Identified(client_id, self.number), done, durable=True)

    def _identified(self, _value: object) -> None:
        """All nodes know: whoever comes next takes the client id from us."""
        self.is_identified = True

    def _forget_identity(self) -> None:
        if self._client_id and self._door.identities.get(self._client_id) is self:
            del self._door.identities[self._client_id]

    def _in_turn(self, act: Callable[[], None]) -> None:
        """Act when the line has come to it; then ``_done`` answers.

        What this client published before is its own message still, or not yet; and what an earlier
        connection acknowledged may stand in the line.
        """
        self.block_input()
        self._door.pipeline.barrier(lambda: act() if self.reason is None else None)

    def _when_current(self, act: Callable[[], None]) -> None:
        """Act when all that was acknowledged before is to be read here.

        The reply to a subscription says that the client has the topic's history: a node that was
        cut off must not say so.
        """

        def confirmed(error: PenstockError | None) -> None:
            if error is not None:
                self.close(DisconnectReason.NO_QUORUM, error.message)
            elif self.reason is None:
                act()

        self._door.cluster.read_barrier(confirmed)

    def _done(self, sequence: int) -> None:
        self._replies.answer(encode.ack(sequence))
        self.unblock_input()

    def _follow_filter(self, event: BinarySubscribe) -> None:
        self._filters.add(event.topic)
        self._door.feed.follow(event.topic, self.feed)
        self._door.fanout.listen(event.topic, self)
        self._done(event.sequence)

    def _follow_topic(self, event: BinarySubscribe) -> None:
        """Send what the topic holds, then what comes; the reply when the first is done."""
        door, topic = self._door, event.topic
        if topic in self._cursors:
            self._unfollow(topic)  # all of it is sent once more
        progress = None
        if self._client_id:
            progress = door.broker.subscribers.progress(self._client_id, topic)
            self._acknowledgements.begin(topic, door.connections.wall_ms())
        cursor = Cursor(
            door.readers,
            door.connections.budget,
            topic,
            self,
            progress,
            lambda: self._done(event.sequence),
        )
        self._cursors[topic] = cursor
        door.feed.follow(topic, self.feed)
        door.fanout.listen(topic, self)
        cursor.start()

    def _on_unsubscribe(self, event: BinaryUnsubscribe, _now_ms: int) -> None:
        self._connections.counters.unsubscribed_total += 1
        self._in_turn(lambda: self._unsubscribe(event))

    def _unsubscribe(self, event: BinaryUnsubscribe) -> None:
        topic = event.topic
        if topic in self._worker.queues:
            self._worker.leave(topic)
        elif topic in self._cursors or topic in self._filters:
            self._unfollow(topic)
        self._done(event.sequence)

    def _unfollow(self, topic: bytes) -> None:
        self._filters.discard(topic)
        cursor = self._cursors.pop(topic, None)
        if cursor is not None:
            cursor.close()
        self._door.feed.unfollow(topic, self.feed)
        self._door.fanout.unlisten(topic, self)

    def topic_deleted(self, topic: bytes) -> None:
        """Begin anew with what the name stands for next."""
        self._acknowledgements.unacked.forget(topic)
        self._worker.forget(topic)
        cursor = self._cursors.get(topic)
        if cursor is not None:
            self._cursors[topic] = cursor.renewed()
            self._cursors[topic].start()

    # ── what leaves ───────────────────────────────────────────────────────────────────────────

    def feed(self, part: Part) -> None:
        """Messages were committed: to a topic with a cursor of ours, or to one of our filters."""
        cursor = self._cursors.get(part.topic)
        if cursor is not None:
            cursor.feed(part)
        elif self.is_full():
            self._connections.counters.drops[DropReason.SLOW_READER] += part.count
        else:
            for stretch in part.stretches():
                self.take(stretch)

    def is_full(self) -> bool:
        """Whether the client is slow: cursors wait, filters drop.

        Already when the transport asks for a pause, not only when the outbox has filled as well: a
        single message, or a lot of jobs, can be more than may ever wait there.
        """
        return self._is_writing_paused or self.outbox.is_full()

    def take(self, stretch: Stretch) -> None:
        """Send messages."""
        count = len(stretch.payloads)
        if self._client_id:
            unacked = self._acknowledgements.unacked
            unacked.add(stretch.topic, stretch.sequence, stretch.offset, count)
        self._connections.counters.messages_out_total[1] += count
        frames = stretch.forms.get(self._accepts_version_2)
        if frames is None:  # the first of those who follow the topic makes it for all
            frames = stretch.forms[self._accepts_version_2] = self._frames(stretch)
        self.send(frames)

    def _frames(self, stretch: Stretch) -> bytes:
        topic, payloads, sequence = stretch.topic, stretch.payloads, stretch.sequence
        if not stretch.extras:
            return encode.messages(topic, payloads, range(sequence, sequence + len(payloads)))
        return b"".join(
            [
                self._message(topic, payload, sequence + number, stretch.extras.get(number))
                for number, payload in enumerate(payloads)
            ]
        )

    def send_jobs(self, jobs: list[Message]) -> None:
        """Send jobs: plain ones to a worker without a name, which overlooks signed messages."""
        for job in jobs:
            extras = job.extras if self._client_id else None
            self.send(self._message(job.topic, job.payload, job.sequence, extras))
            if self._client_id:
                self._acknowledgements.unacked.add(job.topic, job.sequence, job.offset, 1)
        self._connections.counters.messages_out_total[1] += len(jobs)

    def _message(self, topic: bytes, payload: bytes, sequence: int, extras: Extras | None) -> bytes:
        """A message with its signature, if it has one that the client can read."""
        signature = extras.signature if extras else None
        if signature is None or (signature.version == 2 and not self._accepts_version_2):
            return encode.message(topic, payload, sequence)
        return encode.signed_message(topic, payload, sequence, signature)

    def missed(self, topic: bytes, count: int) -> None:
        """Tell the subscriber what retention took before it could be sent."""
        self._connections.counters.drops[DropReason.RETENTION] += count
        text = f"{count} messages of '{printable(topic, 80)}' were removed by retention unread"
        self.send(encode.error(text))

    def unreadable(self, error: StorageError) -> None:
        """Never skip what is unacked: the operator must look."""
        self.close(DisconnectReason.STORAGE_FAILED, error.message)

    def forward(self, live: Live) -> None:
        """Live messages: only of topics that the journal does not keep; the feed has the rest."""
        for run in live.runs:
            if not self._door.admission.route(run.topic).policy:
                frames = encode.messages(run.topic, run.payloads, [0] * len(run.payloads))
                self.outbox.send_live(len(run.payloads), frames)

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Messages after their commit: the feed has them all."""

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._is_writing_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up: go on with history, and with work."""
        self._is_writing_paused = False
        super().resume_writing()
        for cursor in self._cursors.values():
            cursor.resume()
        self._worker.ask_for_jobs()

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    def _on_acks(self, event: BinaryAcks, now_ms: int) -> None:
        if self._client_id:
            self._acknowledgements.take(event.sequences, now_ms)

    def _on_ping(self, event: Ping, _now_ms: int) -> None:
        self._replies.answer(encode.pongs(event.count))

    def _on_unknown(self, _event: Unknown, _now_ms: int) -> None:
        self._fail("Unknown command")

    def _on_violation(self, event: Violation, _now_ms: int) -> None:
        """Hang up, but not before what came before it is answered."""
        self._replies.answer_last(
            encode.error(event.error), lambda: self.close(event.reason, event.detail)
        )

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection, once, and tell the client why, if it is not its own doing."""
        if self.reason is None and reason in _TEXTS:
            self.send(encode.error(_TEXTS[reason]))
        super().close(reason, detail)

    def let_go(self) -> None:
        """Follow nothing more, return jobs, free the client id."""
        self._connections.counters.clients_connected -= 1
        for topic in [*self._cursors, *self._filters]:
            self._unfollow(topic)
        self._worker.leave_all()
        self._forget_identity()
        self._door.fanout.forget(self)
        self._held = []
        self._replies.clear()


def _pieces(acks: BinaryAcks) -> list[BinaryAcks]:
    sequences = acks.sequences
    if len(sequences) <= ACKS_AT_ONCE:
        return [acks]
    starts = range(0, len(sequences), ACKS_AT_ONCE)
    return [BinaryAcks(sequences[start : start + ACKS_AT_ONCE]) for start in starts]


def _no_topic(refusal: Refusal) -> str:
    return f"Not a topic to publish to: {refusal.text}"
