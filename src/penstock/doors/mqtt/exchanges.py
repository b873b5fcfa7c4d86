"""QoS 1 and 2 messages of one MQTT 5 client that are not finished.

**Receive maximum.** A message counts from PUBLISH until its PUBACK or PUBCOMP, or a PUBREC that
refuses it, is sent. The client knows how many it may have on the way. So refusals that are held
count, too, which bounds what is kept of them.

**Packet ids.** An id belongs to one message until that is finished [MQTT5-2.2.1-3]. Ids of QoS 2
messages of former connections are the session's; they do not count.

**Order.** Acknowledgements are sent in the order of their messages [MQTT-4.6.0-2],
[MQTT-4.6.0-3]. A message that is refused is refused at once, while those before it are still being
committed. So the refusal is held until the last of those is answered.
"""

from collections.abc import Set as AbstractSet

from penstock.core.session import PUBACK, PUBCOMP, PUBREC
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.reason_codes import ReasonCode

UNKNOWN_ID = 0x80  # bit of ``kind``: the id of the packet that is answered is not known

_FIRST_ANSWERS = frozenset({PUBACK, PUBREC})
_LAST_ANSWERS = frozenset({PUBACK, PUBCOMP})


class Exchanges:
    """The unfinished messages of one connection, by packet id."""

    __slots__ = ("_held", "_held_count", "_last_puback", "_last_pubrec", "_maximum", "_open")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        # None: none yet, which is so for most clients
        self._open: set[int] | None = None
        # the last ids that are to be answered with PUBACK and PUBREC; 0: none
        self._last_puback = self._last_pubrec = 0
        # refusals that follow an answer, by its kind and packet id
        self._held: dict[tuple[int, int], list[bytes]] | None = None
        self._held_count = 0

    @property
    def is_beyond_maximum(self) -> bool:
        return self._open is not None and len(self._open) + self._held_count > self._maximum

    def __contains__(self, packet_id: object) -> bool:
        return self._open is not None and packet_id in self._open

    def begin(self, kind: int, packet_ids: list[int], received: AbstractSet[int]) -> bool:
        """Begin messages that are to be answered with ``kind``; False if an id is in use.

        ``received``: ids of QoS 2 messages that the session knows.
        """
        fresh = set(packet_ids)
        if self._open is None:
            self._open = set()
        if len(fresh) < len(packet_ids) or not fresh.isdisjoint(self._open):
            return False
        if received and not fresh.isdisjoint(received):
            return False
        self._open |= fresh
        self._set_last(kind, packet_ids[-1])
        return True

    def begin_alone(self, packet_id: int, received: AbstractSet[int] | None) -> bool:
        """``begin`` for one message of QoS 1; if False, it has not begun: ``begin`` knows why."""
        unfinished = self._open
        if unfinished is None or packet_id in unfinished or (received and packet_id in received):
            return False
        if len(unfinished) + self._held_count >= self._maximum:
            return False
        unfinished.add(packet_id)
        self._last_puback = packet_id
        return True

    def _set_last(self, kind: int, packet_id: int) -> None:
        if kind == PUBACK:
            self._last_puback = packet_id
        elif kind == PUBREC:
            self._last_pubrec = packet_id

    def answer(self, kind: int, packet_ids: list[int]) -> bytes:
        """The acknowledgements of these messages, and the refusals that follow them."""
        if kind & UNKNOWN_ID:
            kind, code = kind & ~UNKNOWN_ID, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            return b"".join([encode.ack(kind, packet_id, code) for packet_id in packet_ids])
        self._answered(kind, packet_ids)
        if self._held:
            pieces = [(encode.acks(kind, [one]), *self._held_by(kind, one)) for one in packet_ids]
            return b"".join([packet for piece in pieces for packet in piece])
        return encode.acks(kind, packet_ids)

    def refuse(self, kind: int, refusals: dict[int, bytes]) -> bytes:
        """Messages that had begun are refused: packet id to PUBACK or PUBREC; as ``answer``."""
        packet_ids = list(refusals)
        self._answered(kind, packet_ids)
        if self._open is not None:
            self._open.difference_update(packet_ids)
        pieces = [(refusals[one], *self._held_by(kind, one)) for one in packet_ids]
        return b"".join([packet for piece in pieces for packet in piece])

    def last(self, kind: int) -> int:
        """The last packet id that is to be answered with ``kind``; 0: none."""
        return self._last_puback if kind == PUBACK else self._last_pubrec

    def undo(self, kind: int, packet_id: int, last: int) -> None:
        """A message has not begun after all; ``last`` is what ``last`` told before it did."""
        if self._open is not None:
            self._open.discard(packet_id)
        self._set_last(kind, last)

    def _answered(self, kind: int, packet_ids: list[int]) -> None:
        if kind in _LAST_ANSWERS and self._open is not None:
            self._open.difference_update(packet_ids)
        if kind in _FIRST_ANSWERS:
            last = self._last_puback if kind == PUBACK else self._last_pubrec
            if last and last in packet_ids:
                self._set_last(kind, 0)

    def _held_by(self, kind: int, packet_id: int) -> list[bytes]:
        packets = self._held.pop((kind, packet_id), []) if self._held else []
        self._held_count -= len(packets)
        return packets

    def hold(self, kind: int, packet: bytes) -> bool:
        """Keep the refusal of a message that has not begun, if others are answered before it."""
        last = self.last(kind)
        if last:
            if self._held is None:
                self._held = {}
            self._held.setdefault((kind, last), []).append(packet)
            self._held_count += 1
        return bool(last)
