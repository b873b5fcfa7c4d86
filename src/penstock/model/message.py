"""A message as the journal holds it."""

import msgspec

__all__ = ["FLAG_FIELDS", "FLAG_QOS", "FLAG_RETAIN", "Extras", "Message", "Signature"]

FLAG_QOS = 0b0000_0011
"""Bits of ``flags`` that hold the QoS the message was published with."""

FLAG_RETAIN = 0b0000_0100
"""Bit of ``flags``: published with RETAIN."""

FLAG_FIELDS = 0b0000_1000
"""Bit of ``flags``: the payload is the JSON object of a stream entry's fields, in their order."""


class Signature(msgspec.Struct, frozen=True, gc=False):
    """Who signed a message, and the proof; verified at the door, kept for subscribers.

    Version 1 covers topic and payload only. Version 2 covers their lengths, the key id, the time of
    signing and a nonce as well; the last two are zero and empty in version 1.
    """

    version: int
    key_id: int
    signature: bytes
    signed_ms: int = 0
    nonce: bytes = b""


class Extras(msgspec.Struct, frozen=True, gc=False):
    """What only few messages carry: headers (name and value, in order), a signature."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    signature: Signature | None = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """One journaled message; ``sequence`` is global (from 1), ``offset`` the topic's (from 0)."""

    topic: bytes
    payload: bytes
    sequence: int
    offset: int
    time_ms: int
    flags: int
    extras: Extras | None = None

    @property
    def qos(self) -> int:
        """The QoS it was published with."""
        return self.flags & FLAG_QOS

    @property
    def retain(self) -> bool:
        """Whether it was published with RETAIN."""
        return bool(self.flags & FLAG_RETAIN)
