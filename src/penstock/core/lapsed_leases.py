"""Leases that ran out, and whose message nobody else has been given since.

Whoever had such a lease may have done the work, and says so late: it was slow, or the broker was
away for a while. As long as the message has not been handed out again, that counts. So a message
that comes back because its lease ended keeps the number of that lease.
"""

from penstock.core.lease_deadlines import VOID_MAX
from penstock.core.pending import NO_LEASE, Pending


class LapsedLeases:
    """Offsets by lease; ``pending`` is the group's own, and is only looked at."""

    __slots__ = ("_offsets", "_pending")

    def __init__(self, pending: dict[int, Pending]) -> None:
        self._pending = pending
        self._offsets: dict[int, int] = {}
        """Void where the message is not pending, or was handed out since."""

    def add(self, lease: int, offset: int) -> None:
        """A lease has run out."""
        self._offsets[lease] = offset
        if len(self._offsets) > 2 * len(self._pending) + VOID_MAX:
            self.renew()

    def find(self, lease: int) -> int | None:
        """The offset of a message that nobody was given since it had this lease."""
        offset = self._offsets.get(lease)
        pending = self._pending.get(offset) if offset is not None else None
        if pending is None or pending.consumer is not None or pending.lease != lease:
            return None
        return offset

    def take(self, stretches: list[tuple[int, int]]) -> list[int]:
        """The offsets of such messages, of leases in some stretches."""
        if not self._offsets:
            return []
        found: list[int] = []
        for start, end in stretches:
            is_wide = end - start > len(self._offsets)
            leases = sorted(self._offsets) if is_wide else range(start, end)
            offsets = (self.find(lease) for lease in leases if start <= lease < end)
            found += [offset for offset in offsets if offset is not None]
        return found

    def renew(self) -> None:
        """Learn anew what is true."""
        self._offsets = {
            pending.lease: offset
            for offset, pending in self._pending.items()
            if pending.consumer is None and pending.lease != NO_LEASE
        }
