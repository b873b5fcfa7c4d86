"""Bytes of packets that are not complete yet, over all connections.

A packet may be 16 MiB, and ten thousand clients may never send the last byte. So the total is
bounded, and when it is exceeded the client is closed that has sent nothing for longest.
"""

from typing import Protocol

from penstock.obs.reasons import DisconnectReason

WORTH_COUNTING = 64 * 1024  # bytes that a connection may hold without being counted


class IncompleteSender(Protocol):
    """A connection with an incomplete packet."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Incomplete:
    """Incomplete bytes by connection, the one that was silent for longest first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[IncompleteSender, int] = {}
        self.total = 0

    def note(self, holder: IncompleteSender, held: int) -> None:
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

    def forget(self, holder: IncompleteSender) -> None:
        self.total -= self._held.pop(holder, 0)
