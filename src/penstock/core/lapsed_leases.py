"""Leases that ran out, whose message was not delivered again yet.

The consumer may have done the work and acknowledge it late: it was slow, or the broker was
unavailable. That counts as long as the message was not delivered again. So a message that returns
because its lease ended keeps the number of that lease.
"""

from penstock.core.lease_deadlines import VOID_MAX
from penstock.core.pending import NO_LEASE, Pending


class LapsedLeases:
    """Offsets by lease; ``pending`` belongs to the group and is only read."""

    __slots__ = ("_offsets", "_pending")

    def __init__(self, pending: dict[int, Pending]) -> None:
        self._pending = pending
        # void if the message is not pending, or was delivered again
        self._offsets: dict[int, int] = {}

    def add(self, lease: int, offset: int) -> None:
        self._offsets[lease] = offset
        if len(self._offsets) > 2 * len(self._pending) + VOID_MAX:
            self.renew()

    def find(self, lease: int) -> int | None:
        offset = self._offsets.get(lease)
        pending = self._pending.get(offset) if offset is not None else None
        if pending is None or pending.consumer is not None or pending.lease != lease:
            return None
        return offset

    def take(self, ranges: list[tuple[int, int]]) -> list[int]:
        """The offsets of such messages, for ranges of leases."""
        if not self._offsets:
            return []
        found: list[int] = []
        for start, end in ranges:
            is_wide = end - start > len(self._offsets)
            leases = sorted(self._offsets) if is_wide else range(start, end)
            offsets = (self.find(lease) for lease in leases if start <= lease < end)
            found += [offset for offset in offsets if offset is not None]
        return found

    def renew(self) -> None:
        self._offsets = {
            pending.lease: offset
            for offset, pending in self._pending.items()
            if pending.consumer is None and pending.lease != NO_LEASE
        }
