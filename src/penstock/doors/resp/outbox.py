"""Output of one Redis client: a single reply is never too large, and replays are resumed.

The confirmation that a subscription has ended comes after its last message, though live messages
otherwise leave after all that must arrive.
"""

from penstock.net.outbox import Outbox


class RespOutbox(Outbox):
    """The outgoing half of a RESP connection."""

    __slots__ = ()

    @property
    def is_crowded(self) -> bool:
        budget = self._connections.budget
        if budget.is_tight and self.counted and budget.room(self.counted) <= 0:
            return self._is_paused or self._squeeze()
        return (
            self._is_paused and self._out_bytes > self._connections.limits.outbound_bytes_max // 2
        )

    def _is_beyond_bound(self) -> bool:
        """A reply may be as large as the bound by itself: only what is before it counts."""
        last_bytes = len(self._out[-1]) if self._out else 0
        return self._out_bytes - last_bytes > self._connections.limits.outbound_bytes_max

    def settle_live(self) -> None:
        """Let what is sent from now on come behind the live messages that wait."""
        excess = self._live_bytes - self._connections.limits.outbound_bytes_max // 2
        if excess > 0:
            self._drop_oldest(excess)
        self.take_live()
