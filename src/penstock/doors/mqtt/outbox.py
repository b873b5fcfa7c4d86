"""What waits to be written to one MQTT client: deliveries that do not fit are put off.

Messages that must arrive cannot outgrow the bound of the outbox: those that do not fit are put off
(``doors/mqtt/deferred``: numbers, no payload) and read from the journal when there is room again,
in turn with other clients (``doors/mqtt/fetch_queue``). Only acknowledgements remain, and a client
that sends without ever reading those is closed.
"""

import asyncio
from collections.abc import Callable

from penstock.core.delivery import (
    DELIVER_DUP,
    DELIVER_PUBREL,
    DELIVER_QOS,
    DELIVER_RETAIN,
    Delivery,
)
from penstock.core.live import Live
from penstock.core.retained import RetainedMessage
from penstock.core.session import PUBREL
from penstock.doors.mqtt.deferred import PutOff
from penstock.doors.mqtt.parts import MqttParts
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.net.outbox import Outbox
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.encode import PACKET_IDS

FETCH_MESSAGES_MAX = 64
"""Messages read from the journal at a time for one connection."""

LEAST_BYTES = KIB
"""Room in the budget of all connections below which nothing is read for one."""


class MqttOutbox(Outbox):
    """The outgoing half of an MQTT connection.

    ``lose`` is told of messages the journal has no more, ``give_up`` why the connection must end,
    ``on_idle`` that all that was put off has been sent.
    """

    __slots__ = (
        "_door",
        "_is_fetching",
        "_is_in_line",
        "_lose",
        "_on_idle",
        "_put_off",
        "least_bytes",
    )

    def __init__(
        self,
        door: MqttParts,
        transport: asyncio.Transport,
        lose: Callable[[list[int]], None],
        give_up: Callable[[DisconnectReason, str], None],
        on_idle: Callable[[], None],
    ) -> None:
        super().__init__(door.connections, transport, give_up)
        self._door = door
        self._lose = lose
        self._on_idle = on_idle
        self._put_off: PutOff | None = None
        self._is_in_line = False
        """Whether it waits for its turn to read from the journal."""
        self._is_fetching = False
        self.least_bytes = LEAST_BYTES
        """Room that the next message needs, as far as that is known."""

    def forward(self, live: Live) -> None:
        """Queue live messages; the oldest give way when the reader is too slow."""
        self.send_live(live.count, live.mqtt or live.as_mqtt())

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Queue messages in order; what cannot go now is put off, without its payload."""
        if self._put_off:  # others stand before them [MQTT-4.6.0-6]
            self._defer(deliveries)
            return
        shape, head = None, b""
        room, budget = self._room - self._out_bytes, self._connections.budget
        for position, (topic, payload, flags, packet_id, _sequence) in enumerate(deliveries):
            if payload is None:
                self._defer(deliveries[position:])
                return
            if shape != (topic, len(payload), flags):  # runs share all but id and payload
                shape = topic, len(payload), flags
                head = _head(topic, len(payload), flags)
            size = len(head) + len(payload) + 2
            if room < 0 or budget.is_tight:
                if self.is_full() or self._exceeds_budget(size):
                    self._defer(deliveries[position:])
                    return
                room = self._room - self._out_bytes
            room -= size
            self._message(head, payload, flags, packet_id)
        self.refresh()

    def _exceeds_budget(self, size: int) -> bool:
        """Whether a message is more than what is left of the budget."""
        self.refresh()
        budget = self._connections.budget
        return budget.is_tight and size > budget.room(self.counted)

    def _message(self, head: bytes, payload: bytes, flags: int, packet_id: int) -> None:
        qos = flags & DELIVER_QOS
        if qos:
            self._connections.counters.messages_out_total[qos] += 1
            self.send(b"%b%b%b" % (head, PACKET_IDS[packet_id], payload))
        elif flags & DELIVER_RETAIN:  # sent as the reader has room: nothing of it is dropped
            self._connections.counters.messages_out_total[0] += 1
            self.send(head + payload)
        else:
            self.send_live(1, head + payload)

    def resume(self) -> None:
        """The client has caught up."""
        super().resume()
        self._go_on()

    def close(self) -> None:
        """Write the last of what must arrive; nothing more is taken."""
        super().close()
        self._put_off = None

    def is_idle(self) -> bool:
        """Whether nothing was put off, either."""
        return super().is_idle() and not self._put_off

    # ── deliveries put off ────────────────────────────────────────────────────────────────────

    def _defer(self, deliveries: list[Delivery]) -> None:
        """Put deliveries off; QoS 0 ones go among the live frames, where they may be dropped."""
        if self._put_off is None:
            self._put_off = PutOff()
        for topic, payload, flags, packet_id, sequence in deliveries:
            if payload is not None and not flags & DELIVER_QOS:
                head = _head(topic, len(payload), flags)
                self._message(head, payload, flags, packet_id)
            else:
                self._put_off.add(flags, packet_id, sequence)
        self.refresh()
        self._fetch()

    def is_ready_to_fetch(self) -> bool:
        """Whether messages were put off, and the client reads."""
        return bool(self._put_off) and not self._is_paused and not self._is_closed

    def _fetch(self) -> None:
        """Have the next messages that were put off read, unless that is under way already."""
        if not self._is_fetching and not self._is_in_line and self.is_ready_to_fetch():
            self._is_in_line = True
            self._door.fetch_queue.join(self)

    def fetch(self, room: int) -> bool:
        """Read as much as there is room for; False if that is nothing after all."""
        self._is_in_line = False
        if not self.is_ready_to_fetch() or self.is_full():
            return False
        if room < self.least_bytes:
            if not self._squeeze() and not self._transport.is_closing():
                self._connections.loop.call_soon(self._fetch)  # it holds nothing by now
            return False
        assert self._put_off is not None
        lot = self._put_off.first(FETCH_MESSAGES_MAX)
        sequences = [sequence for flags, _, sequence in lot if not flags & DELIVER_PUBREL]
        self._is_fetching = True
        if sequences:
            bytes_max = min(room, self._room)
            self._door.readers.read(
                sequences, lambda found: self._fetched(lot, found), self._unreadable, bytes_max
            )
        else:
            self._fetched(lot, {})
        return True

    def _fetched(self, lot: list[tuple[int, int, int]], found: dict[int, Message | None]) -> None:
        """Send what was read, as far as there is room: the rest is read again in its time."""
        self._is_fetching = False
        self._door.fetch_queue.done()
        if self._is_closed or self._put_off is None:
            return
        sent, lost = 0, []
        for flags, packet_id, sequence in lot:
            if self._is_paused or self.is_full():
                break
            if flags & DELIVER_PUBREL:
                self.send(encode.acks(PUBREL, [packet_id]))
            elif sequence not in found:
                break
            else:
                message = self._found(found[sequence], flags, sequence)
                if message is None:
                    lost.append(packet_id)
                elif not self._send_found(message, flags, packet_id):
                    break
            sent += 1
        self._put_off.done(sent)
        self.refresh()
        if lost:
            self._lose(lost)
        self._go_on()

    def _go_on(self) -> None:
        self._fetch()
        if not self._put_off and not self._is_paused:
            self._on_idle()

    def _found(
        self, message: Message | None, flags: int, sequence: int
    ) -> Message | RetainedMessage | None:
        """A message that was read; a retained one outlives its place in the journal."""
        if message is None and flags & DELIVER_RETAIN:
            return self._door.broker.retained.find(sequence)
        return message

    def _send_found(self, message: Message | RetainedMessage, flags: int, packet_id: int) -> bool:
        """Send one message; False if there is no room for it."""
        payload = message.payload
        head = _head(message.topic, len(payload), flags)
        size = len(head) + len(payload) + 2
        if self._connections.budget.is_tight and self._exceeds_budget(size):
            self.least_bytes = size
            return False
        self.least_bytes = LEAST_BYTES
        self._message(head, payload, flags, packet_id)
        return True

    def _unreadable(self, error: StorageError) -> None:
        """Never skip what is unacked: the session keeps it, and the operator must look."""
        self._is_fetching = False
        self._door.fetch_queue.done()
        self._give_up(DisconnectReason.STORAGE_FAILED, error.message)


def _head(topic: bytes, payload_bytes: int, flags: int) -> bytes:
    retain, dup = bool(flags & DELIVER_RETAIN), bool(flags & DELIVER_DUP)
    return encode.publish_head(topic, payload_bytes, flags & DELIVER_QOS, retain, dup)
