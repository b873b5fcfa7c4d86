"""What waits to be written to one MQTT client; deliveries that do not fit are deferred.

They are deferred without their payload, and read from the journal when there is room again, in turn
with other clients (``fetch_queue``). A client that never reads acknowledgements is closed.
"""

import asyncio
from array import array
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
from penstock.doors.mqtt.parts import MqttParts
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.net.outbox import Outbox
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.encode import PACKET_IDS

FETCH_MESSAGES_MAX = 64  # messages read from the journal at a time for one connection
LEAST_BYTES = KIB  # room in the shared budget below which nothing is read for a connection
_COMPACT_AT = 1_024  # entries at the front that are sent before the columns are moved up


class DeferredDeliveries:
    """Deliveries as ``(flags, packet id, sequence)``, eleven bytes each: there may be millions."""

    __slots__ = ("_done", "_flags", "_packet_ids", "_sequences")

    def __init__(self) -> None:
        self._flags = bytearray()
        self._packet_ids = array("H")
        self._sequences = array("Q")
        self._done = 0

    def __len__(self) -> int:
        return len(self._flags) - self._done

    def add(self, flags: int, packet_id: int, sequence: int) -> None:
        self._flags.append(flags)
        self._packet_ids.append(packet_id)
        self._sequences.append(sequence)

    def first(self, count: int) -> list[tuple[int, int, int]]:
        part = slice(self._done, self._done + count)
        flags, packet_ids = self._flags[part], self._packet_ids[part]
        return list(zip(flags, packet_ids, self._sequences[part], strict=True))

    def done(self, count: int) -> None:
        self._done += count
        if self._done >= _COMPACT_AT or self._done == len(self._flags):
            del self._flags[: self._done]
            del self._packet_ids[: self._done], self._sequences[: self._done]
            self._done = 0


class MqttOutbox(Outbox):
    """Calls ``lose`` for ids that the journal lost, and ``on_idle`` when nothing is deferred.

    What comes from the journal was queued or in flight for a while. If ``may_send`` says that the
    client may no longer have messages of the topic, it is lost, too.
    """

    __slots__ = (
        "_deferred",
        "_door",
        "_is_fetching",
        "_is_queued",
        "_lose",
        "_may_send",
        "_on_idle",
        "_tail",
        "least_bytes",
    )

    def __init__(
        self,
        door: MqttParts,
        transport: asyncio.Transport,
        lose: Callable[[list[int], bool], None],
        may_send: Callable[[bytes], bool],
        give_up: Callable[[DisconnectReason, str], None],
        on_idle: Callable[[], None],
    ) -> None:
        super().__init__(door.connections, transport, give_up)
        self._door = door
        self._lose = lose
        self._may_send = may_send
        self._on_idle = on_idle
        self._tail = b""  # what follows the packet id: in MQTT 5 the properties, here none
        self._deferred: DeferredDeliveries | None = None
        self._is_queued = False  # in the fetch queue
        self._is_fetching = False
        self.least_bytes = LEAST_BYTES  # room that the next message needs, as far as known

    def speak_5(self) -> None:
        """Send packets in the form of MQTT 5 from now on."""
        self._tail = b"\x00"

    def forward(self, live: Live) -> None:
        if self._tail:
            self.send_live(live.count, live.mqtt_5 or live.as_mqtt_5())
        else:
            self.send_live(live.count, live.mqtt or live.as_mqtt())

    def deliver(self, deliveries: list[Delivery]) -> None:
        if self._deferred:  # others are before them [MQTT-4.6.0-6]
            self._defer(deliveries)
            return
        shape, head = None, b""
        room, budget = self._room - self._out_bytes, self._connections.budget
        for position, (topic, payload, flags, packet_id, _sequence, _extras) in enumerate(
            deliveries
        ):
            if payload is None:
                self._defer(deliveries[position:])
                return
            if shape != (topic, len(payload), flags):  # runs share all but id and payload
                shape = topic, len(payload), flags
                head = self._head(topic, len(payload), flags)
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
        self.refresh()
        budget = self._connections.budget
        return budget.is_tight and size > budget.room(self.counted)

    def _message(self, head: bytes, payload: bytes, flags: int, packet_id: int) -> None:
        qos = flags & DELIVER_QOS
        if qos:
            self._connections.counters.messages_out_total[qos] += 1
            self.send(b"%b%b%b%b" % (head, PACKET_IDS[packet_id], self._tail, payload))
        elif flags & DELIVER_RETAIN:  # sent as the reader has room: nothing of it is dropped
            self._connections.counters.messages_out_total[0] += 1
            self.send(head + self._tail + payload)
        else:
            self.send_live(1, head + self._tail + payload)

    def resume(self) -> None:
        super().resume()
        self._go_on()

    def close(self) -> None:
        super().close()
        self._deferred = None

    def is_idle(self) -> bool:
        return super().is_idle() and not self._deferred

    def _defer(self, deliveries: list[Delivery]) -> None:
        """Defer deliveries; QoS 0 ones go among the live frames, where they may be dropped."""
        if self._deferred is None:
            self._deferred = DeferredDeliveries()
        for topic, payload, flags, packet_id, sequence, _extras in deliveries:
            if payload is not None and not flags & DELIVER_QOS:
                head = self._head(topic, len(payload), flags)
                self._message(head, payload, flags, packet_id)
            else:
                self._deferred.add(flags, packet_id, sequence)
        self.refresh()
        self._fetch()

    def is_ready_to_fetch(self) -> bool:
        return bool(self._deferred) and not self._is_paused and not self._is_closed

    def _fetch(self) -> None:
        if not self._is_fetching and not self._is_queued and self.is_ready_to_fetch():
            self._is_queued = True
            self._door.fetch_queue.join(self)

    def fetch(self, room: int) -> bool:
        self._is_queued = False
        if not self.is_ready_to_fetch() or self.is_full():
            return False
        if room < self.least_bytes:
            if not self._squeeze() and not self._transport.is_closing():
                self._connections.loop.call_soon(self._fetch)  # it holds nothing any more
            return False
        assert self._deferred is not None
        batch = self._deferred.first(FETCH_MESSAGES_MAX)
        sequences = [sequence for flags, _, sequence in batch if not flags & DELIVER_PUBREL]
        self._is_fetching = True
        if sequences:
            bytes_max = min(room, self._room)
            self._door.readers.read(
                sequences, lambda found: self._fetched(batch, found), self._unreadable, bytes_max
            )
        else:
            self._fetched(batch, {})
        return True

    def _fetched(self, batch: list[tuple[int, int, int]], found: dict[int, Message | None]) -> None:
        self._is_fetching = False
        self._door.fetch_queue.done()
        if self._is_closed or self._deferred is None:
            return
        sent = 0
        lost: list[int] = []
        denied: list[int] = []
        for flags, packet_id, sequence in batch:
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
                elif not self._may_send(message.topic):
                    denied.append(packet_id)
                elif not self._send_found(message, flags, packet_id):
                    break
            sent += 1
        self._deferred.done(sent)
        self.refresh()
        for packet_ids in filter(None, (lost, denied)):
            self._lose(packet_ids, packet_ids is denied)
        self._go_on()

    def _go_on(self) -> None:
        self._fetch()
        if not self._deferred and not self._is_paused:
            self._on_idle()

    def _found(
        self, message: Message | None, flags: int, sequence: int
    ) -> Message | RetainedMessage | None:
        """The message that was read; a retained one outlives its entry in the journal."""
        if message is None and flags & DELIVER_RETAIN:
            return self._door.broker.retained.find(sequence)
        return message

    def _send_found(self, message: Message | RetainedMessage, flags: int, packet_id: int) -> bool:
        payload = message.payload
        head = self._head(message.topic, len(payload), flags)
        size = len(head) + len(payload) + 2
        if self._connections.budget.is_tight and self._exceeds_budget(size):
            self.least_bytes = size
            return False
        self.least_bytes = LEAST_BYTES
        self._message(head, payload, flags, packet_id)
        return True

    def _unreadable(self, error: StorageError) -> None:
        """Never skip unacknowledged messages: the session keeps them, the operator must look."""
        self._is_fetching = False
        self._door.fetch_queue.done()
        self._give_up(DisconnectReason.STORAGE_FAILED, error.message)

    def _head(self, topic: bytes, payload_bytes: int, flags: int) -> bytes:
        retain, dup = bool(flags & DELIVER_RETAIN), bool(flags & DELIVER_DUP)
        size = payload_bytes + len(self._tail)
        return encode.publish_head(topic, size, flags & DELIVER_QOS, retain, dup)
