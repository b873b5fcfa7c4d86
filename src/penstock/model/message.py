"""A message as the journal holds it."""

import msgspec

__all__ = ["FLAG_QOS", "FLAG_RETAIN", "Message"]

FLAG_QOS = 0b0000_0011
"""Bits of ``flags`` that hold the QoS the message was published with."""

FLAG_RETAIN = 0b0000_0100
"""Bit of ``flags``: published with RETAIN."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One journaled message; ``sequence`` is global (from 1), ``offset`` the topic's (from 0)."""

    topic: bytes
    payload: bytes
    sequence: int
    offset: int
    time_ms: int
    flags: int

    @property
    def qos(self) -> int:
        """The QoS it was published with."""
        return self.flags & FLAG_QOS

    @property
    def retain(self) -> bool:
        """Whether it was published with RETAIN."""
        return bool(self.flags & FLAG_RETAIN)
