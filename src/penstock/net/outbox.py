"""What waits to be written to one MQTT client, within bounds.

**Two buffers.** ``_live`` has QoS 0 frames: if the reader is slow the oldest are dropped, counted.
``_out`` has what must arrive. It cannot outgrow its bound, because deliveries that do not fit are
put off (``_deferred``: packet id and sequence, no payload) and read from the journal when there is
room again; only acknowledgements remain, and a client that sends without ever reading those is
closed.

Whatever gathers during one turn of the loop leaves as one write.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.core.effects import (
    DELIVER_DUP,
    DELIVER_PUBREL,
    DELIVER_QOS,
    DELIVER_RETAIN,
    Delivery,
)
from penstock.core.session import PUBREL
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.net.hub import Hub
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.encode import PACKET_IDS

__all__ = ["Outbox"]

WRITE_BUFFER_HIGH = 256 * KIB
"""Bytes in the transport above which it asks us to pause."""

FETCH_MESSAGES_MAX = 64
"""Messages read from the journal at a time for one connection."""


class Outbox:
    """The outgoing half of a connection.

    ``lose`` is told of messages the journal has no more, ``give_up`` why the connection must end.
    """

    __slots__ = (
        "_deferred",
        "_give_up",
        "_hub",
        "_is_closed",
        "_is_due",
        "_is_fetching",
        "_is_paused",
        "_live",
        "_live_bytes",
        "_lose",
        "_out",
        "_out_bytes",
        "_room",
        "_transport",
    )

    def __init__(
        self,
        hub: Hub,
        transport: asyncio.Transport,
        lose: Callable[[list[int]], None],
        give_up: Callable[[DisconnectReason, str], None],
    ) -> None:
        self._hub = hub
        self._transport = transport
        self._lose = lose
        self._give_up = give_up
        self._live: list[bytes] = []
        self._live_bytes = 0
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._deferred: deque[Delivery] | None = None
        self._is_fetching = False
        self._is_due = False
        self._is_paused = False
        self._is_closed = False
        self._room = min(WRITE_BUFFER_HIGH, hub.limits.outbound_bytes_max // 2)
        """Bytes that may gather, here and again in the transport, before messages are put off.

        The transport pauses us at the same mark: what is put off because it is full is fetched when
        it says that it has drained, and not before.
        """
        transport.set_write_buffer_limits(high=self._room)

    # ── gathering ─────────────────────────────────────────────────────────────────────────────

    def send(self, data: bytes) -> None:
        """Queue what must arrive."""
        if self._is_closed:
            return
        self._out.append(data)
        self._out_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._hub.flush_soon(self)

    def forward(self, _runs: object, count: int, frames: bytes) -> None:
        """Queue live messages as raw frames; the oldest give way when the reader is too slow."""
        if self._is_closed:
            return
        self._live.append(frames)
        self._live_bytes += len(frames)
        self._hub.counters.messages_out_total[0] += count
        if not self._is_due:
            self._is_due = True
            self._hub.flush_soon(self)

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Queue messages in order; what cannot go now is put off, without its payload."""
        shape, head = None, b""
        for position, (topic, payload, flags, packet_id, _sequence) in enumerate(deliveries):
            if payload is None or self._must_wait():
                self._defer(deliveries[position:])
                return
            if shape != (topic, len(payload), flags):  # runs share all but id and payload
                shape = topic, len(payload), flags
                head = _head(topic, len(payload), flags)
            self._message(head, payload, flags, packet_id)

    def _message(self, head: bytes, payload: bytes, flags: int, packet_id: int) -> None:
        qos = flags & DELIVER_QOS
        if qos:
            self._hub.counters.messages_out_total[qos] += 1
            self.send(b"%b%b%b" % (head, PACKET_IDS[packet_id], payload))
        else:
            self.forward(None, 1, head + payload)

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def flush(self) -> None:
        """Write what has gathered, in one piece; while the reader is slow, keep within bounds."""
        self._is_due = False
        if self._is_closed:
            return
        if self._is_paused:
            self._keep_bounds()
            return
        self._write()

    def _write(self) -> None:
        if self._live:
            self._out += self._live
            self._live = []
            self._live_bytes = 0
        if self._out:
            data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
            self._out = []
            self._out_bytes = 0
            self._hub.counters.bytes_out_total += len(data)
            self._transport.write(data)

    def pause(self) -> None:
        """The client reads more slowly than we write."""
        self._is_paused = True

    def resume(self) -> None:
        """The client has caught up."""
        self._is_paused = False
        self.flush()
        self._fetch()

    def close(self) -> None:
        """Write the last of what must arrive; nothing more is taken."""
        if not self._is_closed:
            self._is_paused = False
            self.flush()
            self._is_closed = True
        self._live = []
        self._deferred = None

    def _keep_bounds(self) -> None:
        bound = self._hub.limits.outbound_bytes_max
        if self._out_bytes > bound:
            detail = f"{self._out_bytes} bytes of answers unread"
            self._give_up(DisconnectReason.SLOW_READER, detail)
        elif self._live_bytes > bound:
            # Down to three quarters, so that the next drop is a while away.
            self._drop_oldest(self._live_bytes - bound * 3 // 4)

    def _drop_oldest(self, excess: int) -> None:
        dropped = taken = 0
        while dropped < excess:
            dropped += len(self._live[taken])
            taken += 1
        count = sum(_frame_count(frames) for frames in self._live[:taken])
        del self._live[:taken]
        self._live_bytes -= dropped
        self._hub.counters.drops[DropReason.SLOW_READER] += count
        self._hub.counters.messages_out_total[0] -= count

    # ── deliveries put off ────────────────────────────────────────────────────────────────────

    def _must_wait(self) -> bool:
        """Whether a message cannot go now: others stand before it, or the reader is slow."""
        return self._is_fetching or bool(self._deferred) or self._is_full()  # [MQTT-4.6.0-6]

    def _is_full(self) -> bool:
        """A batch can bring more than the bound, so the transport is filled as we go, and asked."""
        if self._out_bytes <= self._room:
            return False
        if self._is_paused:
            return True
        self._write()
        return self._transport.get_write_buffer_size() > self._room

    def _defer(self, deliveries: list[Delivery]) -> None:
        """Put deliveries off; QoS 0 ones go among the live frames, where they may be dropped."""
        if self._deferred is None:
            self._deferred = deque()
        for topic, payload, flags, packet_id, sequence in deliveries:
            if payload is not None and not flags & DELIVER_QOS:
                head = _head(topic, len(payload), flags)
                self._message(head, payload, flags, packet_id)
            else:
                self._deferred.append((b"", None, flags, packet_id, sequence))
        self._fetch()

    def _fetch(self) -> None:
        """Read the next deferred messages from the journal, unless that is under way already."""
        deferred = self._deferred
        if self._is_fetching or not deferred or self._is_paused or self._is_closed:
            return
        lot = [deferred.popleft() for _ in range(min(len(deferred), FETCH_MESSAGES_MAX))]
        sequences = [delivery[4] for delivery in lot if not delivery[2] & DELIVER_PUBREL]
        self._is_fetching = True
        if sequences:
            self._hub.read(sequences, lambda found: self._fetched(lot, found), self._unreadable)
        else:
            self._fetched(lot, {})

    def _fetched(self, lot: list[Delivery], found: dict[int, Message | None]) -> None:
        self._is_fetching = False
        if self._is_closed:
            return
        if self._is_paused:  # the reader fell behind meanwhile: read it again when it has caught up
            self._deferred = deque(lot) + (self._deferred or deque())
            return
        lost = []
        for place, (_topic, _payload, flags, packet_id, sequence) in enumerate(lot):
            if self._is_full():
                self._deferred = deque(lot[place:]) + (self._deferred or deque())
                break
            if flags & DELIVER_PUBREL:
                self.send(encode.acks(PUBREL, [packet_id]))
                continue
            message: Any = found[sequence]
            if message is None and flags & DELIVER_RETAIN:
                # A retained message outlives its place in the journal.
                message = self._hub.broker.retained.find(sequence)
            if message is None:
                lost.append(packet_id)
            else:
                head = _head(message.topic, len(message.payload), flags)
                self._message(head, message.payload, flags, packet_id)
        if lost:
            self._lose(lost)
        if self._deferred:
            self._hub.loop.call_soon(self._fetch)
        else:
            self._deferred = None

    def _unreadable(self, error: StorageError) -> None:
        """Never skip what is owed: the session keeps it, and the operator must look."""
        self._give_up(DisconnectReason.STORAGE_FAILED, error.message)


def _head(topic: bytes, payload_bytes: int, flags: int) -> bytes:
    retain, dup = bool(flags & DELIVER_RETAIN), bool(flags & DELIVER_DUP)
    return encode.publish_head(topic, payload_bytes, flags & DELIVER_QOS, retain, dup)


def _frame_count(frames: bytes) -> int:
    """How many packets a slice of raw frames holds; only asked when they are thrown away."""
    count = position = 0
    while position < len(frames):
        position += 1
        length = shift = 0
        while True:
            digit = frames[position]
            position += 1
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                break
        position += length
        count += 1
    return count
