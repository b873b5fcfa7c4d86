"""Bytes of packets that are not complete yet, over all connections.

A packet may be 16 MiB, and nothing can be done with it before its last byte is there. One client
that never sends that byte costs 16 MiB; ten thousand of them would take all memory. So what all
hold together is bounded, and when it is exceeded the one goes that has sent nothing for longest: a
client in the middle of a large packet is never in its place.
"""

from typing import Protocol

from penstock.obs.reasons import DisconnectReason

WORTH_COUNTING = 64 * 1024
"""Less than this is what any connection may hold without being counted."""


class Holder(Protocol):
    """A connection, as it is seen here."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End it."""
        ...


class Incomplete:
    """Who holds how much, the one that has been silent for longest first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[Holder, int] = {}
        self.total = 0

    def note(self, holder: Holder, held: int) -> None:
        """Something came from this connection, and so much of it is not complete."""
        self.forget(holder)
        if held <= WORTH_COUNTING:
            return
        self._held[holder] = held
        self.total += held
        while self.total > self._bytes_max and len(self._held) > 1:
            silent, its = next(iter(self._held.items()))
            self.forget(silent)
            detail = f"{its} bytes of an incomplete packet, and all together too many"
            silent.close(DisconnectReason.INCOMPLETE_PACKETS, detail)

    def forget(self, holder: Holder) -> None:
        """It holds nothing more."""
        self.total -= self._held.pop(holder, 0)
