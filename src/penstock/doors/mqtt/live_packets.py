"""Live packets that must be written anew before they leave: those that expire, or get an alias.

Live packets wait where the oldest may be dropped. While one waits its time runs out, and whether
its topic has an alias by then is not known. So it waits under its full name, with all that is
needed to write it again.
"""

from penstock.wire.mqtt import encode
from penstock.wire.mqtt.sent_properties import seconds_left, with_expiry

GRACE_MS = 1_000
"""How long a message that had expired when it came may wait: expiry 0 is for whoever is connected,
and whoever reads gets it within a turn of the loop."""

PACKET_OVERHEAD_BYTES = 400
"""Memory that a live packet takes beside its bytes. It counts while the packet waits: a client that
does not read could make small ones take thirty times as much as it may have."""


class LivePacket(bytes):
    """A packet of QoS 0, and what it was made of. ``block`` is None for MQTT 3.1.1."""

    topic: bytes
    payload: bytes
    block: bytes | None
    is_retained: bool
    expires_ms: int  # 0: never
    expiry_s: int | None  # what the publisher said, if that is known
    made_ms: int

    @classmethod
    def make(
        cls,
        topic: bytes,
        payload: bytes,
        block: bytes | None,
        *,
        is_retained: bool = False,
        expires_ms: int = 0,
        expiry_s: int | None = None,
        now_ms: int = 0,
    ) -> "LivePacket":
        if block is not None and expires_ms:
            block = with_expiry(block, seconds_left(expires_ms, now_ms, expiry_s))
        packet = cls(encode.publish(topic, payload, retain=is_retained, block=block))
        packet.topic, packet.payload, packet.block = topic, payload, block
        packet.is_retained, packet.made_ms = is_retained, now_ms
        packet.expires_ms, packet.expiry_s = expires_ms, expiry_s
        return packet

    def is_expired(self, now_ms: int) -> bool:
        if not 0 < self.expires_ms <= now_ms:
            return False
        return self.made_ms < self.expires_ms or now_ms - self.made_ms >= GRACE_MS

    def block_at(self, now_ms: int) -> bytes | None:
        if self.block is None or not self.expires_ms:
            return self.block
        return with_expiry(self.block, seconds_left(self.expires_ms, now_ms, self.expiry_s))
