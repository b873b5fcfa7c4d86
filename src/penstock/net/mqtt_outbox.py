"""What waits to be written to one MQTT client: deliveries that do not fit are put off.

Messages that must arrive cannot outgrow the bound of the outbox: those that do not fit are put off
(``_deferred``: packet id and sequence, no payload) and read from the journal when there is room
again. Only acknowledgements remain, and a client that sends without ever reading those is closed.
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
from penstock.model.message import Message
from penstock.net.hub import Hub
from penstock.net.live import Live
from penstock.net.outbox import Outbox
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.encode import PACKET_IDS

__all__ = ["MqttOutbox"]

FETCH_MESSAGES_MAX = 64
"""Messages read from the journal at a time for one connection."""


class MqttOutbox(Outbox):
    """The outgoing half of an MQTT connection.

    ``lose`` is told of messages the journal has no more, ``give_up`` why the connection must end.
    """

    __slots__ = ("_deferred", "_is_fetching", "_lose")

    def __init__(
        self,
        hub: Hub,
        transport: asyncio.Transport,
        lose: Callable[[list[int]], None],
        give_up: Callable[[DisconnectReason, str], None],
    ) -> None:
        super().__init__(hub, transport, give_up)
        self._lose = lose
        self._deferred: deque[Delivery] | None = None
        self._is_fetching = False

    def forward(self, live: Live) -> None:
        """Queue live messages; the oldest give way when the reader is too slow."""
        self.send_live(live.count, live.mqtt or live.as_mqtt())

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
        elif flags & DELIVER_RETAIN:  # sent as the reader has room: nothing of it is dropped
            self._hub.counters.messages_out_total[0] += 1
            self.send(head + payload)
        else:
            self.send_live(1, head + payload)

    def resume(self) -> None:
        """The client has caught up."""
        super().resume()
        self._fetch()

    def close(self) -> None:
        """Write the last of what must arrive; nothing more is taken."""
        super().close()
        self._deferred = None

    def is_idle(self) -> bool:
        """Whether nothing was put off, either."""
        return super().is_idle() and not self._deferred and not self._is_fetching

    # ── deliveries put off ────────────────────────────────────────────────────────────────────

    def _must_wait(self) -> bool:
        """Whether a message cannot go now: others stand before it, or the reader is slow."""
        return self._is_fetching or bool(self._deferred) or self.is_full()  # [MQTT-4.6.0-6]

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
            if self.is_full():
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
