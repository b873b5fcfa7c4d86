"""What waits to be written to one MQTT client; deliveries that do not fit are deferred.

They are deferred without their payload, and read from the journal when there is room again, in turn
with other clients (``fetch_queue``). A client that never reads acknowledgements is closed.

**Form.** A PUBLISH is ``head + packet id + tail + payload``. The tail is empty in MQTT 3.1.1; in
MQTT 5 it has the properties: those of the message, and those that follow from the subscriptions of
this moment (``marks_of``). Deliveries in a row that share all of it share head and tail.

**What MQTT 5 clients ask for.** A packet that is larger than they take is not sent, and counts as
delivered. They take so many unacknowledged deliveries at a time, of the session and of its shares
together: the **quota**, which begins anew with each connection. Only a PUBLISH waits for it.

**Expiry.** What has expired when it is read from the journal is not sent, unless it was sent before
(DUP): then it is repeated, with nothing left.
"""

import asyncio
from array import array
from typing import Protocol

from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE,
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_DUP,
    DELIVER_HISTORY,
    DELIVER_ID_SHIFT,
    DELIVER_PUBLISHED_RETAIN,
    DELIVER_PUBREL,
    DELIVER_QOS,
    DELIVER_RETAIN,
    Delivery,
    aged,
    original_expiry,
)
from penstock.core.live import Live, block_of, parts
from penstock.core.retained import RetainedMessage
from penstock.core.session import PUBREL
from penstock.core.subscription_options import Marks
from penstock.doors.mqtt.live_packets import PACKET_OVERHEAD_BYTES, LivePacket
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.terms import Terms
from penstock.doors.mqtt.topic_aliases import TopicAliases
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import FLAG_RETAIN, FLAG_RETAIN_UNKEPT, Extras, Message
from penstock.net.outbox import Outbox, OutboxClient
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.decode import LEVEL_3_1_1, LEVEL_5
from penstock.wire.mqtt.encode import PACKET_IDS
from penstock.wire.mqtt.packet import PUBLISH_SHAPES
from penstock.wire.mqtt.sent_properties import (
    NO_PROPERTIES,
    block_in,
    ids_block,
    message_block,
    seconds_left,
    tail_of,
    with_expiry,
)

FETCH_MESSAGES_MAX = 64  # messages read from the journal at a time for one connection
LEAST_BYTES = KIB  # room in the shared budget below which nothing is read for a connection
_COMPACT_AT = 1_024  # entries at the front that are sent before the columns are moved up
_UNLIMITED = 1 << 62  # bytes of a packet, or deliveries, where the client sets no limit
_LOW_FLAGS = 0xFF
_KEPT = DELIVER_RETAIN | DELIVER_HISTORY  # of QoS 0, yet sent as the reader has room: not dropped
_PLAIN_FLAGS_MAX = DELIVER_QOS | DELIVER_RETAIN | DELIVER_DUP | DELIVER_PUBREL


class DeferredDeliveries:
    """Deliveries as ``(flags, packet id, sequence)``, eleven bytes each: there may be millions.

    Few have flags beyond the first eight: those are kept apart.
    """

    __slots__ = (
        "_done",
        "_first",
        "_flags",
        "_high_flags",
        "_packet_ids",
        "_sequences",
        "is_fetching",
        "is_queued",
        "least_bytes",
    )

    def __init__(self) -> None:
        self._flags = bytearray()
        self._packet_ids = array("H")
        self._sequences = array("Q")
        self._done = 0  # entries at the front of the columns that are sent
        self._first = 0  # number of the first entry of the columns, counted from the beginning
        self._high_flags: dict[int, int] = {}  # by number
        self.is_queued = False  # in the fetch queue
        self.is_fetching = False
        self.least_bytes = LEAST_BYTES  # room that the next message needs, as far as known

    def __len__(self) -> int:
        return len(self._flags) - self._done

    def add(self, flags: int, packet_id: int, sequence: int) -> None:
        if flags > _LOW_FLAGS:
            self._high_flags[self._first + len(self._flags)] = flags & ~_LOW_FLAGS
        self._flags.append(flags & _LOW_FLAGS)
        self._packet_ids.append(packet_id)
        self._sequences.append(sequence)

    def first(self, count: int) -> list[tuple[int, int, int]]:
        part = slice(self._done, self._done + count)
        flags = list(self._flags[part])
        if self._high_flags:
            start = self._first + self._done
            high = self._high_flags
            flags = [low | high.get(number, 0) for number, low in enumerate(flags, start)]
        return list(zip(flags, self._packet_ids[part], self._sequences[part], strict=True))

    def done(self, count: int) -> None:
        start = self._first + self._done
        for number in range(start, start + count) if self._high_flags else ():
            self._high_flags.pop(number, None)
        self._done += count
        if self._done >= _COMPACT_AT or self._done == len(self._flags):
            del self._flags[: self._done]
            del self._packet_ids[: self._done], self._sequences[: self._done]
            self._first += self._done
            self._done = 0


class DeliveryClient(OutboxClient, Protocol):
    """The connection, as its outbox sees it."""

    def lose(self, packet_ids: list[int], reason: DropReason) -> None:
        """Deliveries are not sent: their ids are free."""

    def may_receive(self, topic: bytes) -> bool:
        """Whether the client may (still) have messages of a topic; asked for queued ones."""

    def marks_of(self, topic: bytes, flags: int, packet_id: int) -> Marks | None:
        """What the subscriptions of this moment add to a delivery of the session."""

    def on_idle(self) -> None:
        """Nothing is deferred."""


class MqttOutbox(Outbox):
    """The outgoing half of an MQTT connection.

    What comes from the journal was queued or in flight for a while. What the client may no longer
    have by then is lost, like what is too large for it.
    """

    __slots__ = (
        "_aliases",
        "_deferred",
        "_door",
        "_packet_bytes_max",
        "_quota",
        "_quota_max",
    )

    _client: DeliveryClient

    def __init__(
        self,
        door: MqttParts,
        transport: asyncio.Transport,
        client: DeliveryClient,
    ) -> None:
        super().__init__(door.connections, transport, client)
        self._door = door
        self._packet_bytes_max = _UNLIMITED
        self.frames_version = LEVEL_3_1_1
        # bytes of live packets in the form that all share: none with aliases
        self.frames_bytes_max = _UNLIMITED
        self._quota = self._quota_max = _UNLIMITED
        self._aliases: TopicAliases | None = None
        self._deferred: DeferredDeliveries | None = None

    def speak_5(self, terms: Terms) -> None:
        """Send packets in the form of MQTT 5 from now on, as the client asked for."""
        self.frames_version = LEVEL_5
        self._packet_bytes_max = self.frames_bytes_max = terms.packet_bytes_max
        self._quota = self._quota_max = terms.receive_maximum or _UNLIMITED
        if terms.alias_max:
            self._aliases = TopicAliases(terms.alias_max)
            self.frames_bytes_max = 0

    @property
    def is_5(self) -> bool:
        return self.frames_version == LEVEL_5

    @property
    def quota(self) -> int:
        """How many more deliveries the client takes before it acknowledges one."""
        return self._quota

    def acknowledged(self, count: int) -> None:
        """The client has finished as many deliveries: PUBACK, PUBCOMP, or a refusing PUBREC."""
        self._quota = min(self._quota + count, self._quota_max)
        self._fetch()

    # ── live messages ─────────────────────────────────────────────────────────────────────────

    def forward(self, live: Live) -> None:
        frames = live.mqtt_5 if self.is_5 else live.mqtt
        if frames is None or len(frames) > self.frames_bytes_max:
            self._forward(live, (), is_retained=False)
        else:
            self.send_live(live.count, frames)

    def forward_marked(self, live: Live, marks: Marks) -> None:
        """To a client whose subscriptions have identifiers, or want RETAIN as published."""
        is_retained = live.is_retained and marks.is_retain_as_published
        if self.is_5 and (marks.ids or is_retained):
            self._forward(live, marks.ids, is_retained=is_retained)
        else:
            self.forward(live)

    def _forward(self, live: Live, ids: tuple[int, ...], *, is_retained: bool) -> None:
        if not live.expires_ms:
            if not self.is_5:
                frames = live.as_mqtt()
            elif ids or is_retained:
                frames = live.as_marked(ids, is_retained=is_retained)
            else:
                frames = live.as_mqtt_5()
            if len(frames) <= self.frames_bytes_max:
                self.send_live(live.count, frames)
                return
        now_ms = self._connections.wall_ms()
        for run in parts(live.runs):
            block = block_of(run) + ids_block(ids) if self.is_5 else None
            expiry_s = run.properties.expiry_s if run.properties is not None else None
            for payload in run.payloads:
                packet = LivePacket.make(
                    run.topic,
                    payload,
                    block,
                    is_retained=is_retained,
                    expires_ms=live.expires_ms,
                    expiry_s=expiry_s,
                    now_ms=now_ms,
                )
                self._send_live_packet(packet)

    def _send_live_packet(self, packet: LivePacket) -> None:
        if len(packet) > self._packet_bytes_max:
            counters, client = self._connections.counters, self._client.name
            counters.dropped(DropReason.TOO_LARGE, 1, client, packet.topic)
            return
        self._is_live_stale = True
        self.send_live(1, packet)
        if not self._is_closed:
            self._live_bytes += PACKET_OVERHEAD_BYTES

    def _held_bytes(self, piece: bytes) -> int:
        overhead = PACKET_OVERHEAD_BYTES if isinstance(piece, LivePacket) else 0
        return len(piece) + overhead

    def renew_live(self) -> None:
        """Drop what has expired, tell how much time is left, name topics by their aliases."""
        now_ms, dropped = self._connections.wall_ms(), 0
        live: list[bytes] = []
        counts: list[int] = []
        for frames, count in zip(*self.live_pieces(), strict=True):
            if not isinstance(frames, LivePacket):
                live.append(frames)
            elif frames.is_expired(now_ms):
                dropped += 1
                continue
            else:
                live.append(self._renewed(frames, now_ms))
            counts.append(count)
        self.replace_live(live, counts, sum(map(len, live)))
        self._connections.counters.dropped(DropReason.EXPIRED, dropped, self._client.name)

    def _renewed(self, packet: LivePacket, now_ms: int) -> bytes:
        topic, block = packet.topic, packet.block_at(now_ms)
        if self._aliases is not None and block is not None:
            topic, alias = self._aliases.name(topic, self._packet_bytes_max - len(packet))
            block += alias
        return encode.publish(topic, packet.payload, retain=packet.is_retained, block=block)

    # ── deliveries ────────────────────────────────────────────────────────────────────────────

    def deliver(self, deliveries: list[Delivery], marks: Marks | None = None) -> None:
        """``marks``: of a shared subscription, instead of those of the session."""
        if self._deferred:  # others are before them [MQTT-4.6.0-6]
            self._defer(deliveries, marks)
            return
        if self._door.tracing is not None:
            deliveries = self._door.tracing.delivering(deliveries, self._client.name)
        shape, head, tail, size = None, b"", b"", 0
        room, budget, quota = self._room - self._out_bytes, self._connections.budget, self._quota
        too_large: list[int] = []
        rest: list[Delivery] = []  # to be deferred
        packets: list[bytes] = []  # of one shape, not sent yet
        is_alike = False  # whether packets of this shape differ in id and payload alone
        for position, (topic, payload, flags, packet_id, _, extras) in enumerate(deliveries):
            if payload is None or not quota:
                rest = deliveries[position:]
                break
            if shape != (topic, len(payload), flags, extras):  # runs share all but id and payload
                if packets:
                    self._send_alike(packets, head)
                    packets = []
                shape = topic, len(payload), flags, extras
                head, tail = self._shape(topic, len(payload), flags, extras, packet_id, marks)
                size = len(head) + len(tail) + len(payload) + 2
                is_alike = flags & DELIVER_QOS != 0 and self._aliases is None
            if size > self._packet_bytes_max and self._is_too_large(size, flags):
                too_large.append(packet_id)
                continue
            if room < 0 or budget.is_tight:
                if packets:
                    self._send_alike(packets, head)
                    packets = []
                if self.is_full() or self._exceeds_budget(size):
                    rest = deliveries[position:]
                    break
                room = self._room - self._out_bytes
            room -= size
            if is_alike:
                quota -= 1
                packets.append(b"%b%b%b%b" % (head, PACKET_IDS[packet_id], tail, payload))
                continue
            if packet_id:
                quota -= 1
            self._message(topic, head, tail, payload, flags, packet_id, extras)
        if packets:
            self._send_alike(packets, head)
        self._quota = quota
        if rest:
            self._defer(rest, marks)
        else:
            self.refresh()
        if too_large:
            self._drop(too_large, DropReason.TOO_LARGE)

    def _send_alike(self, packets: list[bytes], head: bytes) -> None:
        """Send packets with the same first byte, of QoS 1 or 2."""
        qos, _, _ = PUBLISH_SHAPES[head[0]]
        self._connections.counters.messages_out_total[qos] += len(packets)
        self.send(b"".join(packets))

    def _is_too_large(self, size: int, flags: int) -> bool:
        """``size`` has room for a packet id, which QoS 0 has not."""
        return size - (0 if flags & DELIVER_QOS else 2) > self._packet_bytes_max

    def _drop(self, packet_ids: list[int], reason: DropReason) -> None:
        """Deliveries that will not be sent; those of QoS 0 have the packet id 0."""
        with_ids = [packet_id for packet_id in packet_ids if packet_id]
        if len(with_ids) < len(packet_ids):
            count = len(packet_ids) - len(with_ids)
            self._connections.counters.dropped(reason, count, self._client.name)
        if with_ids:
            self._client.lose(with_ids, reason)

    def _shape(
        self,
        topic: bytes,
        payload_bytes: int,
        flags: int,
        extras: Extras | None,
        packet_id: int,
        marks: Marks | None = None,
    ) -> tuple[bytes, bytes]:
        """Head and tail of a PUBLISH."""
        retain, tail = bool(flags & DELIVER_RETAIN), b""
        if self.is_5:
            if marks is None and not retain:
                marks = self._client.marks_of(topic, flags, packet_id)
            if marks is not None and flags & DELIVER_PUBLISHED_RETAIN:
                retain = retain or marks.is_retain_as_published
            tail = NO_PROPERTIES
            if marks is not None or extras is not None or flags > _PLAIN_FLAGS_MAX:
                tail = tail_of(self._block(flags, extras, marks))
        dup = bool(flags & DELIVER_DUP)
        head = encode.publish_head(
            topic, payload_bytes + len(tail), flags & DELIVER_QOS, retain, dup
        )
        return head, tail

    def _block(self, flags: int, extras: Extras | None, marks: Marks | None) -> bytes:
        content_type = (flags & DELIVER_CONTENT_TYPE) >> DELIVER_CONTENT_TYPE_SHIFT
        block = message_block(extras, content_type)
        if extras is not None and extras.expires_ms:
            now_ms = self._connections.wall_ms()
            left_s = seconds_left(extras.expires_ms, now_ms, original_expiry(extras))
            block = with_expiry(block, left_s)
        if flags & DELIVER_RETAIN:
            number = flags >> DELIVER_ID_SHIFT
            return block + ids_block((number,)) if number else block
        return block + ids_block(marks.ids) if marks is not None else block

    def _exceeds_budget(self, size: int) -> bool:
        self.refresh()
        budget = self._connections.budget
        return budget.is_tight and size > budget.room(self.counted)

    def _message(
        self,
        topic: bytes,
        head: bytes,
        tail: bytes,
        payload: bytes,
        flags: int,
        packet_id: int,
        extras: Extras | None,
    ) -> None:
        qos = flags & DELIVER_QOS
        if self._aliases is not None and (qos or flags & _KEPT):
            head, tail = self._aliased(topic, head, tail, payload)
        if qos:
            self._connections.counters.messages_out_total[qos] += 1
            self.send(b"%b%b%b%b" % (head, PACKET_IDS[packet_id], tail, payload))
        elif flags & _KEPT:
            self._connections.counters.messages_out_total[0] += 1
            self.send(head + tail + payload)
        elif self._aliases is not None or (extras is not None and extras.expires_ms):
            block = block_in(tail) if self.is_5 else None
            packet = LivePacket.make(
                topic,
                payload,
                block,
                is_retained=bool(head[0] & 1),
                expires_ms=extras.expires_ms if extras is not None else 0,
                expiry_s=original_expiry(extras) if extras is not None else None,
                now_ms=self._connections.wall_ms(),
            )
            self._send_live_packet(packet)
        else:
            self.send_live(1, head + tail + payload)

    def _aliased(
        self, topic: bytes, head: bytes, tail: bytes, payload: bytes
    ) -> tuple[bytes, bytes]:
        """Head and tail with the alias of the topic, for a packet that is sent at once."""
        assert self._aliases is not None
        qos, retain, dup = PUBLISH_SHAPES[head[0]]
        size = len(head) + len(tail) + len(payload) + 2
        name, alias = self._aliases.name(topic, self._packet_bytes_max - size)
        if not alias:
            return head, tail
        tail = tail_of(block_in(tail) + alias)
        return encode.publish_head(name, len(tail) + len(payload), qos, retain, dup), tail

    def resume(self) -> None:
        super().resume()
        self._go_on()

    def close(self) -> None:
        super().close()
        self._deferred = None

    def is_idle(self) -> bool:
        return super().is_idle() and not self._deferred

    def _defer(self, deliveries: list[Delivery], marks: Marks | None = None) -> None:
        """Defer deliveries; QoS 0 ones go among the live frames, where they may be dropped.

        PUBREL is not deferred in MQTT 5: it must not wait for a PUBLISH that waits for the quota.
        """
        if self._deferred is None:
            self._deferred = DeferredDeliveries()
        too_large: list[int] = []
        for topic, payload, flags, packet_id, sequence, extras in deliveries:
            if payload is not None and not flags & DELIVER_QOS:
                head, tail = self._shape(topic, len(payload), flags, extras, packet_id, marks)
                if len(head) + len(tail) + len(payload) > self._packet_bytes_max:
                    too_large.append(0)
                else:
                    self._message(topic, head, tail, payload, flags, packet_id, extras)
            elif self.is_5 and flags & DELIVER_PUBREL:
                self.send(encode.acks(PUBREL, [packet_id]))
            else:
                self._deferred.add(flags, packet_id, sequence)
        self.refresh()
        if too_large:
            self._drop(too_large, DropReason.TOO_LARGE)
        self._fetch()

    def is_ready_to_fetch(self) -> bool:
        is_open = not self._is_paused and not self._is_closed and self._quota > 0
        return is_open and bool(self._deferred)

    def _fetch(self) -> None:
        deferred = self._deferred
        if deferred is None or deferred.is_fetching or deferred.is_queued:
            return
        if self.is_ready_to_fetch():
            deferred.is_queued = True
            self._door.fetch_queue.join(self)

    @property
    def least_bytes(self) -> int:
        return LEAST_BYTES if self._deferred is None else self._deferred.least_bytes

    def fetch(self, room: int) -> bool:
        deferred = self._deferred
        if deferred is None:
            return False
        deferred.is_queued = False
        if not self.is_ready_to_fetch() or self.is_full():
            return False
        if room < deferred.least_bytes:
            if not self._squeeze() and not self._transport.is_closing():
                self._connections.loop.call_soon(self._fetch)  # it holds nothing any more
            return False
        batch = deferred.first(min(FETCH_MESSAGES_MAX, self._quota))
        sequences = [sequence for flags, _, sequence in batch if not flags & DELIVER_PUBREL]
        deferred.is_fetching = True
        if sequences:
            bytes_max = min(room, self._room)
            self._door.readers.read(
                sequences, lambda found: self._fetched(batch, found), self._unreadable, bytes_max
            )
        else:
            self._fetched(batch, {})
        return True

    def _fetched(self, batch: list[tuple[int, int, int]], found: dict[int, Message | None]) -> None:
        self._door.fetch_queue.done()
        deferred = self._deferred
        if self._is_closed or deferred is None:
            return
        deferred.is_fetching = False
        sent = 0
        lost: dict[DropReason, list[int]] = {}
        now_ms = self._connections.wall_ms()
        for flags, packet_id, sequence in batch:
            if self._is_paused or self.is_full() or (packet_id and not self._quota):
                break
            if flags & DELIVER_PUBREL:
                self.send(encode.acks(PUBREL, [packet_id]))
            elif sequence not in found:
                break
            else:
                message = self._found(found[sequence], flags, sequence)
                reason = self._fault_of(message, flags, now_ms)
                if message is not None and reason is None:
                    if not self._send_found(message, flags, packet_id, lost, deferred):
                        break
                elif reason is not None:
                    lost.setdefault(reason, []).append(packet_id)
            sent += 1
        deferred.done(sent)
        self.refresh()
        for why, packet_ids in lost.items():
            self._drop(packet_ids, why)
        self._go_on()

    def _fault_of(
        self, message: Message | RetainedMessage | None, flags: int, now_ms: int
    ) -> DropReason | None:
        """Why a message that was read is not sent; None: it is."""
        if message is None:
            return DropReason.RETENTION
        if not self._client.may_receive(message.topic):
            return DropReason.NOT_AUTHORIZED
        extras = message.extras
        if extras is not None and 0 < extras.expires_ms <= now_ms and not flags & DELIVER_DUP:
            return DropReason.EXPIRED
        return None

    def _go_on(self) -> None:
        self._fetch()
        if not self._deferred and not self._is_paused:
            self._client.on_idle()

    def _found(
        self, message: Message | None, flags: int, sequence: int
    ) -> Message | RetainedMessage | None:
        """The message that was read; a retained one outlives its entry in the journal."""
        if message is None and flags & DELIVER_RETAIN:
            return self._door.broker.retained.find(sequence)
        return message

    def _send_found(
        self,
        message: Message | RetainedMessage,
        flags: int,
        packet_id: int,
        lost: dict[DropReason, list[int]],
        deferred: DeferredDeliveries,
    ) -> bool:
        """Send what was read, unless it is too large; return whether there was room."""
        payload, extras = message.payload, aged(message.extras, message.time_ms)
        if extras is not None and self._door.tracing is not None:
            sequence, client = message.sequence, self._client.name
            extras = self._door.tracing.extras(message.topic, sequence, extras, client)
        flags |= message.content_type << DELIVER_CONTENT_TYPE_SHIFT
        if isinstance(message, Message) and message.flags & (FLAG_RETAIN | FLAG_RETAIN_UNKEPT):
            flags |= DELIVER_PUBLISHED_RETAIN
        head, tail = self._shape(message.topic, len(payload), flags, extras, packet_id)
        size = len(head) + len(tail) + len(payload) + 2
        if size > self._packet_bytes_max and self._is_too_large(size, flags):
            lost.setdefault(DropReason.TOO_LARGE, []).append(packet_id)
            return True
        if self._connections.budget.is_tight and self._exceeds_budget(size):
            deferred.least_bytes = size
            return False
        deferred.least_bytes = LEAST_BYTES
        if packet_id:
            self._quota -= 1
        self._message(message.topic, head, tail, payload, flags, packet_id, extras)
        return True

    def _unreadable(self, error: StorageError) -> None:
        """Never skip unacknowledged messages: the session keeps them, the operator must look."""
        self._door.fetch_queue.done()
        self._client.close(DisconnectReason.STORAGE_FAILED, error.message)
