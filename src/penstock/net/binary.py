"""The door of the binary protocol: one object per connection.

**Publishing** is acknowledged after the commit. **Subscribing** makes the connection a follower of
the journal: to an exact topic with a cursor, which sends what the topic still holds and then what
comes; to a filter, live only. A subscriber with a client id leaves out what it acknowledged before,
and what it acknowledges is journaled. A topic that begins with ``q:`` is a queue, and subscribing
to it is work.

**Order of replies.** Publishes are answered by their commits, in order. Everything that could be
answered at once (PING, errors) waits for the publishes and acknowledgements before it; so a PONG
says that the disk has all that was sent before the PING. Behind a SUBSCRIBE that is still sending
history, other requests are held, and so they are while the journal is asked where acknowledged
messages lie; only acknowledgements are taken, or a client that must acknowledge before it reads on
would block, and we with it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.core.commands import Progressed
from penstock.core.effects import Delivery
from penstock.core.session import PUBACK
from penstock.errors import StorageError
from penstock.model.message import Extras, Message
from penstock.model.topic import filter_fault, has_wildcard
from penstock.net.admission import CAPTURED, ENVELOPES, FORBIDDEN, topic_refusal
from penstock.net.connection import ASK_INTERVAL_S, Connection
from penstock.net.cursor import Cursor
from penstock.net.envelopes import refuse_unsigned
from penstock.net.feed import Part, Stretch
from penstock.net.hub import Hub
from penstock.net.live import Live
from penstock.net.outbox import Outbox
from penstock.net.owed import Owed, Place, ranges_of
from penstock.net.queues import is_queue
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.wire.binary import encode
from penstock.wire.binary.events import (
    Acks,
    Ping,
    PublishRun,
    SignedPublish,
    Subscribe,
    Unknown,
    Unsubscribe,
    Violation,
)
from penstock.wire.binary.server import ServerMachine

__all__ = ["BinaryConnection"]

HELD_MAX = 1_024
"""Requests held, and replies that wait for the disk, before nothing more is read."""

SIGNED_AT_ONCE = 64
"""Signatures verified before others have a turn: some 5 ms of work."""

WINDOW = 64
"""Jobs a worker may have in hand."""

UNKNOWN_ACKS_MAX = 65_536
"""Acknowledgements that wait to be looked up in the journal."""

LOOK_UP_MAX = 16
"""Messages looked up at a time: whole ones are read, and each may be as large as a frame."""

_TEXTS = {
    DisconnectReason.SESSION_TAKEN_OVER: "Another connection uses this client id",
    DisconnectReason.STORAGE_FULL: "The broker's disk is full: not stored, send again later",
    DisconnectReason.STORAGE_FAILED: "The broker's disk failed: not stored, send again later",
    DisconnectReason.SERVER_SHUTDOWN: "The broker is stopping",
    DisconnectReason.INTERNAL_ERROR: "The broker failed to serve this connection",
}
"""What a client is told before the connection ends."""

_HANDLERS: dict[type[Any], str] = {
    PublishRun: "_on_publish",
    Subscribe: "_on_subscribe",
    Unsubscribe: "_on_unsubscribe",
    Acks: "_on_acks",
    Ping: "_on_ping",
    Unknown: "_on_unknown",
    Violation: "_on_violation",
}


class BinaryConnection(Connection):
    """One client's connection: an outlet of the hub, a sink of cursors, a worker of queues."""

    __slots__ = (
        "_accepts_version_2",
        "_acks_answered",
        "_acks_asked",
        "_answered",
        "_asked",
        "_client_id",
        "_cursors",
        "_filters",
        "_held",
        "_is_looking_up",
        "_is_writing_paused",
        "_jobs",
        "_number",
        "_owed",
        "_queued",
        "_queues",
        "_signed",
        "_unknown_acks",
        "_violation",
        "_waits",
        "consumer",
    )

    def __init__(self, hub: Hub, transport: asyncio.Transport, accepted_at: float) -> None:
        machine = ServerMachine(hub.limits.frame_bytes_max)
        super().__init__(hub, transport, machine, Outbox(hub, transport, self.close), accepted_at)
        self._number = hub.next_connection()
        self._client_id = b""
        self._accepts_version_2 = False
        self._asked = self._answered = 0
        """Publishes that the disk must answer, and how many it has."""
        self._acks_asked = self._acks_answered = 0
        """The same for acknowledgements of ours."""
        self._queued: deque[tuple[int, int, bytes]] = deque()
        """Replies that wait for so many publishes and acknowledgements to be on disk."""
        self._held: deque[Any] | None = None
        """Events behind something that is not finished yet; None at any other time."""
        self._waits = 0
        """How many things must finish before those have their turn."""
        self._signed: list[Any] | None = None
        """Events behind many signatures, until others have had their turn."""
        self._cursors: dict[bytes, Cursor] = {}
        self._filters: set[bytes] = set()
        self._queues: set[bytes] = set()
        self._jobs: set[tuple[bytes, int]] = set()
        """Jobs in hand: queue and offset. Of others' jobs an acknowledgement means nothing."""
        self._is_writing_paused = False
        self._violation: Violation | None = None
        """What ends the connection once all before it is answered."""
        self._owed = Owed()
        self._unknown_acks: list[int] = []
        self._is_looking_up = False
        self.consumer = b"#%d" % self._number
        hub.counters.clients_connected += 1
        self.file(accepted_at + min(ASK_INTERVAL_S, hub.limits.idle_timeout_s))

    @property
    def name(self) -> bytes:
        """Its client id, if it has given one."""
        return self._client_id

    def deadline(self) -> tuple[float, DisconnectReason]:
        """Any complete frame keeps it alive; what we send does not."""
        idle_s = self._hub.limits.idle_timeout_s
        return self._last_packet_at + idle_s, DisconnectReason.IDLE_TIMEOUT

    def is_waiting(self) -> bool:
        """Whether too much is held, or others are to have their turn first."""
        held = len(self._held) if self._held is not None else 0
        return self._signed is not None or held > HELD_MAX or len(self._queued) > HELD_MAX

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def handle(self, events: list[Any], now_ms: int) -> None:
        """Act on frames; hold those behind a SUBSCRIBE that is sending history."""
        pending = deque(events)
        while pending and self.reason is None:
            event = pending.popleft()
            kind = type(event)
            if self._held is not None and kind is not Acks:
                self._held.append(event)
            elif kind is SignedPublish:
                pending.appendleft(event)
                self._on_signed(pending, now_ms)
                if pending and type(pending[0]) is SignedPublish:
                    self._go_on_later(pending)
                    return
            else:
                getattr(self, _HANDLERS[kind])(event, now_ms)
        if self.is_waiting():
            self.pause_reading()

    def _go_on_later(self, pending: deque[Any]) -> None:
        """Let others have a turn: verifying signatures takes time."""
        self._signed = list(pending)
        self.pause_reading()
        self._hub.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        events, self._signed = self._signed, None
        self.handle_later(events)

    def _hold(self) -> None:
        """Let requests wait until ``_let_on``."""
        self._waits += 1
        if self._held is None:
            self._held = deque()

    def _let_on(self) -> None:
        self._waits -= 1
        if not self._waits:
            self._hub.loop.call_soon(self._take_held)

    def _take_held(self) -> None:
        """Handle what was held; only now, for what is read meanwhile must stand behind it."""
        if not self._waits:
            held, self._held = self._held, None
            self.handle_later(list(held or ()))

    def _answer(self, data: bytes) -> None:
        """Reply in turn: behind what the disk has still to answer."""
        if self._asked == self._answered and self._acks_asked == self._acks_answered:
            self.send(data)
        else:
            self._queued.append((self._asked, self._acks_asked, data))
            self._hub.pipeline.hurry()

    def _fail(self, text: str) -> None:
        self._hub.counters.refused_total += 1
        self._answer(encode.error(text))

    def _send_queued(self) -> None:
        """Send replies whose turn has come."""
        while self._queued:
            publishes, acks, data = self._queued[0]
            if publishes > self._answered or acks > self._acks_answered:
                return
            self._queued.popleft()
            self.send(data)
        if self._violation is not None:
            self.close(self._violation.reason, self._violation.detail)
        elif self._is_reading_paused:
            self.resume_reading()

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    def _on_publish(self, event: PublishRun, now_ms: int) -> None:
        hub, topic = self._hub, event.topic
        refusal = self._refusal(topic)
        if refusal is not None:
            for _ in event.sequences:
                self._fail(refusal)
            return
        if hub.route(topic).memo > CAPTURED:
            self._refuse_unsigned(topic, len(event.sequences))
            return
        self._publish(topic, event.payloads, event.sequences, now_ms)

    def _refusal(self, topic: bytes) -> str | None:
        """Why nobody may publish to a topic; known ones are not looked at again."""
        if topic in self._hub.broker.routes.cached:
            return None
        refusal = topic_refusal(topic, self._hub.limits)
        if refusal is None:
            return None
        return f"Not a topic to publish to: {refusal[1]}"

    def _refuse_unsigned(self, topic: bytes, count: int) -> None:
        for _ in range(count):
            self._fail(refuse_unsigned(self._hub, topic, 1)[1])

    def _publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        sequences: list[int],
        now_ms: int,
        extras: list[Extras | None] | None = None,
    ) -> None:
        hub = self._hub
        self._asked += len(sequences)
        hub.counters.messages_in_total[1] += len(payloads)
        hub.pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=1,
            retain=False,
            packet_ids=sequences,
            outlet=self,
            extras=extras,
        )

    def _on_signed(self, pending: deque[Any], now_ms: int) -> None:
        """Verify signed publishes in a row, some at a time; those of one topic go together."""
        accepted: list[SignedPublish] = []
        for _ in range(SIGNED_AT_ONCE):
            if not pending or type(pending[0]) is not SignedPublish:
                break
            event = pending.popleft()
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

    def _signed_refusal(self, event: SignedPublish, now_ms: int) -> str | None:
        refusal = self._refusal(event.topic)
        if refusal is not None:
            return refusal
        if self._hub.route(event.topic).memo & (ENVELOPES | FORBIDDEN):
            return refuse_unsigned(self._hub, event.topic, 1)[1]  # it covers no message within
        refused = self._hub.gate.admit_signed(event.topic, event.payload, event.signature, now_ms)
        if refused is None:
            return None
        self._hub.counters.drops[DropReason.SIGNATURE_REFUSED] += 1
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
        if self.reason is not None:
            return
        while self._queued and self._queued[0][0] < self._answered + len(packet_ids):
            count = self._queued[0][0] - self._answered  # a reply stands between them
            self._acknowledge(packet_ids[:count])
            packet_ids = packet_ids[count:]
        self._acknowledge(packet_ids)

    def _acknowledge(self, sequences: list[int]) -> None:
        if sequences:
            self.send(encode.acks(sequences))
        self._answered += len(sequences)
        self._send_queued()

    # ── subscribing ───────────────────────────────────────────────────────────────────────────

    def _on_subscribe(self, event: Subscribe, _now_ms: int) -> None:
        limits = self._hub.limits
        fault = filter_fault(event.topic, limits.topic_bytes_max, limits.topic_levels_max)
        if not fault and event.client_id and len(event.client_id) > limits.client_id_bytes_max:
            fault = f"a client id of {len(event.client_id)} bytes"
        known = len(self._cursors) + len(self._filters) + len(self._queues)
        if not fault and known >= limits.subscriptions_max:
            fault = f"{known} subscriptions"
        if not fault and event.client_id and not self._may_be_durable(event.client_id):
            fault = f"{limits.sessions_max} durable subscribers exist"
        if fault:
            self._fail(f"Cannot subscribe to '{printable(event.topic, 80)}': {fault}")
            return
        self._hub.counters.subscribed_total += 1
        self._accepts_version_2 = event.accepts_version_2
        if event.client_id:
            self._identify(event.client_id)
        if has_wildcard(event.topic):
            self._in_turn(lambda: self._follow_filter(event))
        elif is_queue(event.topic):
            self._answer(encode.ack(event.sequence))
            self._join_queue(event.topic)
        else:
            self._in_turn(lambda: self._follow_topic(event))

    def _may_be_durable(self, client_id: bytes) -> bool:
        """Whether this client id is known, or there is room for one more."""
        known = self._hub.broker.subscribers.by_id
        return client_id in known or len(known) < self._hub.limits.sessions_max

    def _identify(self, client_id: bytes) -> None:
        """Take the client id, from another connection if one has it."""
        identities = self._hub.identities
        if client_id == self._client_id:
            return
        self._forget_identity()
        other = identities.get(client_id)
        if other is not None:
            other.close(DisconnectReason.SESSION_TAKEN_OVER)
        identities[client_id] = self
        self._client_id = client_id
        queues = list(self._queues)
        for topic in queues:
            self._leave_queue(topic)  # whoever works under a name must acknowledge
        self.consumer = b"%b#%d" % (client_id, self._number)
        for topic in queues:
            self._join_queue(topic)

    def _forget_identity(self) -> None:
        if self._client_id and self._hub.identities.get(self._client_id) is self:
            del self._hub.identities[self._client_id]

    def _in_turn(self, act: Callable[[], None]) -> None:
        """Act when the line has come to it; then ``_done`` answers.

        What this client published before is its own message still, or not yet; and what an earlier
        connection acknowledged may stand in the line.
        """
        self._hold()
        self._hub.pipeline.barrier(_Then(lambda: act() if self.reason is None else None))

    def _done(self, sequence: int) -> None:
        self._answer(encode.ack(sequence))
        self._let_on()

    def _follow_filter(self, event: Subscribe) -> None:
        self._filters.add(event.topic)
        self._hub.feed.follow(event.topic, self.feed)
        self._hub.listen(event.topic, self)
        self._done(event.sequence)

    def _follow_topic(self, event: Subscribe) -> None:
        """Send what the topic holds, then what comes; the reply when the first is done."""
        hub, topic = self._hub, event.topic
        if topic in self._cursors:
            self._unfollow(topic)  # all of it is sent once more
        progress = None
        if self._client_id:
            progress = hub.broker.subscribers.progress(self._client_id, topic)
        cursor = Cursor(hub, topic, self, progress, lambda: self._done(event.sequence))
        self._cursors[topic] = cursor
        hub.feed.follow(topic, self.feed)
        hub.listen(topic, self)
        cursor.start()

    def _join_queue(self, topic: bytes) -> None:
        self._hub.counters.workers_connected += topic not in self._queues
        self._queues.add(topic)
        self._hub.queues.join(topic, self)

    def _leave_queue(self, topic: bytes) -> None:
        self._hub.counters.workers_connected -= 1
        self._queues.discard(topic)
        self._jobs = {job for job in self._jobs if job[0] != topic}
        self._hub.queues.leave(topic, self.consumer)

    def _on_unsubscribe(self, event: Unsubscribe, _now_ms: int) -> None:
        self._hub.counters.unsubscribed_total += 1
        self._in_turn(lambda: self._unsubscribe(event))

    def _unsubscribe(self, event: Unsubscribe) -> None:
        topic = event.topic
        if topic in self._queues:
            self._leave_queue(topic)
        elif topic in self._cursors or topic in self._filters:
            self._unfollow(topic)
        self._done(event.sequence)

    def _unfollow(self, topic: bytes) -> None:
        self._filters.discard(topic)
        cursor = self._cursors.pop(topic, None)
        if cursor is not None:
            cursor.close()
        self._hub.feed.unfollow(topic, self.feed)
        self._hub.unlisten(topic, self)

    # ── what leaves ───────────────────────────────────────────────────────────────────────────

    def feed(self, part: Part) -> None:
        """Messages were committed: to a topic with a cursor of ours, or to one of our filters."""
        cursor = self._cursors.get(part.topic)
        if cursor is not None:
            cursor.feed(part)
        elif self.is_full():
            self._hub.counters.drops[DropReason.SLOW_READER] += part.count
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
        topic, payloads, sequence = stretch.topic, stretch.payloads, stretch.sequence
        count = len(payloads)
        if self._client_id:
            self._owed.add(topic, sequence, stretch.offset, count)
        self._hub.counters.messages_out_total[1] += count
        if stretch.extras:
            for number, payload in enumerate(payloads):
                extras = stretch.extras.get(number)
                self.send(self._message(topic, payload, sequence + number, extras))
        else:
            self.send(encode.messages(topic, payloads, range(sequence, sequence + count)))

    def _message(self, topic: bytes, payload: bytes, sequence: int, extras: Extras | None) -> bytes:
        """A message with its signature, if it has one that the client can read."""
        signature = extras.signature if extras else None
        if signature is None or (signature.version == 2 and not self._accepts_version_2):
            return encode.message(topic, payload, sequence)
        return encode.signed_message(topic, payload, sequence, signature)

    def missed(self, topic: bytes, count: int) -> None:
        """Tell the subscriber what retention took before it could be sent."""
        self._hub.counters.drops[DropReason.RETENTION] += count
        text = f"{count} messages of '{printable(topic, 80)}' were removed by retention unread"
        self.send(encode.error(text))

    def unreadable(self, error: StorageError) -> None:
        """Never skip what is owed: the operator must look."""
        self.close(DisconnectReason.STORAGE_FAILED, error.message)

    def forward(self, live: Live) -> None:
        """Live messages: only of topics that the journal does not keep; the feed has the rest."""
        for run in live.runs:
            if not self._hub.route(run.topic).memo:
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
        self._ask_for_jobs()

    # ── work ──────────────────────────────────────────────────────────────────────────────────

    def room(self) -> int:
        """How many jobs may come now; one without a name is done with them as they leave."""
        if self.is_full():
            return 0
        return WINDOW - len(self._jobs)

    def idle(self) -> None:
        """There are no jobs: wait."""

    def work(self, jobs: list[Message]) -> bool:
        """Send jobs; tell whether that is all there is to it."""
        for job in jobs:
            extras = job.extras if self._client_id else None
            self.send(self._message(job.topic, job.payload, job.sequence, extras))
        self._hub.counters.messages_out_total[1] += len(jobs)
        if not self._client_id:
            return True
        for job in jobs:
            self._jobs.add((job.topic, job.offset))
            self._owed.add(job.topic, job.sequence, job.offset, 1)
        return False

    def _ask_for_jobs(self) -> None:
        """There may be room again, for jobs of any queue."""
        for topic in self._queues:
            self._hub.queues.deal(topic)

    def _finish(self, topic: bytes, places: list[tuple[int, int]]) -> None:
        """Jobs are done with, those that are ours."""
        offsets = [
            offset
            for start, end in places
            for offset in range(start, end)
            if (topic, offset) in self._jobs
        ]
        if offsets:
            self._jobs.difference_update((topic, offset) for offset in offsets)
            self._acks_asked += 1
            self._hub.queues.settle(topic, offsets, self)
            self._ask_for_jobs()

    # ── acknowledgements ──────────────────────────────────────────────────────────────────────

    def _on_acks(self, event: Acks, now_ms: int) -> None:
        """Any number is fine: out of order, twice, or of messages we know nothing of."""
        if not self._client_id:
            return
        places: list[Place] = []
        for first, end in ranges_of(event.sequences):
            found, unknown = self._owed.settle(first, end)
            places += found
            for start, stop in unknown:
                self._look_up(start, stop)
        self._hub.counters.acknowledged_total += len(event.sequences)
        self._settle(places, now_ms)

    def _settle(self, places: list[Place], now_ms: int) -> None:
        ranges: dict[bytes, list[tuple[int, int]]] = {}
        for topic, start, end in places:
            ranges.setdefault(topic, []).append((start, end))
        for topic, stretches in ranges.items():
            if is_queue(topic):
                self._finish(topic, stretches)
            elif self._may_progress(topic):
                self._progress(topic, stretches, now_ms)

    def _progress(self, topic: bytes, stretches: list[tuple[int, int]], now_ms: int) -> None:
        """Journal acknowledgements, without those that are known: repeating them costs no disk."""
        known = self._hub.broker.subscribers.progress(self._client_id, topic)
        if known is not None:
            stretches = [new for start, end in stretches for new in known.missing(start, end)]
        if stretches:
            self._acks_asked += 1
            command = Progressed(self._client_id, topic, stretches, now_ms)
            self._hub.pipeline.submit_patiently(command, self)

    def _may_progress(self, topic: bytes) -> bool:
        """Whether acknowledgements of this topic are kept; of `#` there could be any number."""
        subscribers, client_id = self._hub.broker.subscribers, self._client_id
        return (
            topic in self._cursors
            or subscribers.topic_count(client_id) < self._hub.limits.subscriptions_max
        )

    def outcome(self, _value: object) -> None:
        """Acknowledgements are on disk."""
        self._acks_answered += 1
        self._send_queued()

    def _look_up(self, first: int, end: int) -> None:
        """Ask the journal where acknowledged messages lie that this connection was not sent."""
        end = min(end, self._hub.pipeline.settled_sequence)
        room = UNKNOWN_ACKS_MAX - len(self._unknown_acks)
        self._unknown_acks += range(max(first, 1), min(end, first + room))
        if self._unknown_acks and not self._is_looking_up:
            self._is_looking_up = True
            self._hold()
            self._read_unknown()

    def _read_unknown(self) -> None:
        unknown = self._unknown_acks
        sequences, self._unknown_acks = unknown[:LOOK_UP_MAX], unknown[LOOK_UP_MAX:]
        self._hub.read(sequences, self._found_unknown, self.unreadable)

    def _found_unknown(self, found: dict[int, Message | None]) -> None:
        if self.reason is not None:
            return
        messages = [message for message in found.values() if message is not None]
        places = [Place(m.topic, m.offset, m.offset + 1) for m in messages]
        self._settle(places, self._hub.wall_ms())
        if self._unknown_acks:
            self._read_unknown()
        else:
            self._is_looking_up = False
            self._let_on()

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    def _on_ping(self, event: Ping, _now_ms: int) -> None:
        self._answer(encode.pongs(event.count))

    def _on_unknown(self, _event: Unknown, _now_ms: int) -> None:
        self._fail("Unknown command")

    def _on_violation(self, event: Violation, _now_ms: int) -> None:
        """Hang up, but not before what came before it is answered."""
        self._violation = event
        self._answer(encode.error(event.error))
        self._send_queued()

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection, once, and tell the client why, if it is not its own doing."""
        if self.reason is None and reason in _TEXTS:
            self.send(encode.error(_TEXTS[reason]))
        super().close(reason, detail)

    def let_go(self) -> None:
        """Follow nothing more, return jobs, free the client id."""
        self._hub.counters.clients_connected -= 1
        for topic in [*self._cursors, *self._filters]:
            self._unfollow(topic)
        for topic in list(self._queues):
            self._leave_queue(topic)
        self._forget_identity()
        self._hub.forget(self)
        self._held = None
        self._queued.clear()


class _Then:
    """Something to do when the line has come to it."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def outcome(self, _value: object) -> None:
        """It has."""
        self._act()

    def close(self, _reason: DisconnectReason, _detail: str = "") -> None:
        """Nothing of it needs the disk."""
