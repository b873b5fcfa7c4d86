"""A message as the journal holds it.

``flags`` are 16 bits, shared by a whole run of messages. What differs from one message to the next
(headers, a signature, a schedule) is in its ``Extras``, which most messages do not have.
"""

import msgspec

FLAG_QOS = 0b0000_0011  # bits of ``flags`` that hold the QoS the message was published with

FLAG_RETAIN = 0b0000_0100  # bit of ``flags``: published with RETAIN

FLAG_FIELDS = 0b0000_1000
"""Bit of ``flags``: the payload is the JSON object of a stream entry's fields, in their order."""

FLAG_PRIORITY = 0x70
"""Bits of ``flags`` that hold the priority, 0 to 7; greater ones are handed out first."""
PRIORITY_SHIFT = 4
PRIORITY_MAX = FLAG_PRIORITY >> PRIORITY_SHIFT

FLAG_CONTENT_TYPE = 0x300
"""Bits of ``flags`` that say what the payload is: 0 raw, 1 text, 2 JSON, 3 MessagePack."""
CONTENT_TYPE_SHIFT = 8
CONTENT_TYPE_MAX = FLAG_CONTENT_TYPE >> CONTENT_TYPE_SHIFT


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
    """What only few messages carry: headers (name and value, in order), a signature, a schedule.

    A queue hands a message out neither before ``due_ms`` nor from ``expires_ms`` on; 0 is without.
    """

    headers: tuple[tuple[bytes, bytes], ...] = ()
    signature: Signature | None = None
    due_ms: int = 0
    expires_ms: int = 0


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

    @property
    def priority(self) -> int:
        """Its priority in a queue, 0 to 7."""
        return (self.flags & FLAG_PRIORITY) >> PRIORITY_SHIFT

    @property
    def content_type(self) -> int:
        """What the payload is; see ``FLAG_CONTENT_TYPE``."""
        return (self.flags & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT
