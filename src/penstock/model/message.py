"""A message as the journal holds it; properties that few messages have are in ``Extras``."""

import msgspec

FLAG_QOS = 0b0000_0011  # bits of ``flags`` that hold the QoS the message was published with

FLAG_RETAIN = 0b0000_0100  # bit of ``flags``: published with RETAIN

# bit of ``flags``: the payload is a JSON object with the fields of a stream entry
FLAG_FIELDS = 0b0000_1000

FLAG_PRIORITY = 0x70  # bits of ``flags`` with the priority, 0 to 7; higher ones are delivered first
PRIORITY_SHIFT = 4
PRIORITY_MAX = FLAG_PRIORITY >> PRIORITY_SHIFT

# bit of ``flags``: published with RETAIN, but not retained, because the limit was reached
FLAG_RETAIN_UNKEPT = 0b1000_0000

# bits of ``flags`` with the payload's type: 0 raw, 1 text, 2 JSON, 3 MessagePack
FLAG_CONTENT_TYPE = 0x300
CONTENT_TYPE_SHIFT = 8
CONTENT_TYPE_MAX = FLAG_CONTENT_TYPE >> CONTENT_TYPE_SHIFT

OWN_PRODUCERS = b"$binary/"
"""How the broker begins producer ids of its own, for clients of the binary protocol. No other
client may have one: who can read the id could use up the numbers."""


class Signature(msgspec.Struct, frozen=True, gc=False):
    """Who signed a message, and the proof. Version 1 has neither time of signing nor nonce."""

    version: int
    key_id: int
    signature: bytes
    signed_ms: int = 0
    nonce: bytes = b""


class Extras(msgspec.Struct, frozen=True, gc=False):
    """Rare properties. A queue delivers from ``due_ms`` on, before ``expires_ms``; 0: no limit."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    signature: Signature | None = None
    due_ms: int = 0
    expires_ms: int = 0


class Message(msgspec.Struct, frozen=True, gc=False):
    """A journaled message; ``sequence`` is global (from 1), ``offset`` the topic's (from 0)."""

    topic: bytes
    payload: bytes
    sequence: int
    offset: int
    time_ms: int
    flags: int
    extras: Extras | None = None

    @property
    def qos(self) -> int:
        return self.flags & FLAG_QOS

    @property
    def retain(self) -> bool:
        return bool(self.flags & FLAG_RETAIN)

    @property
    def priority(self) -> int:
        return (self.flags & FLAG_PRIORITY) >> PRIORITY_SHIFT

    @property
    def content_type(self) -> int:
        return (self.flags & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT
