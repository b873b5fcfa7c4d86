"""A bound on all that waits to be sent, over all connections and protocols.

Each connection has bounds of its own (``net/outbox``), but ten thousand of those add up to more
than any machine has. So all outboxes count what they hold, their transports' buffers included, and
what they add must fit into what is left of one budget.

**Who goes on.** While less than half of it is used, only a connection's own bounds count. Beyond
that the budget is **tight**: a connection that already holds something unread may hold its share of
the budget at most. One that holds nothing may always take the next message if there is room, so
whoever reads goes on, and whoever does not is paused. What it is unacked stays in the journal and
is read when it has read what it has. Live messages, which are in no journal for it, are dropped
down to the share, oldest first, counted.

**When nothing is left.** Then all that hold bytes have stopped reading, or read slowly, and others
wait for them. After a while those go that have read nothing for longest.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.limits import KIB

STUCK_S = 10.0
"""How long a reader that holds bytes may read nothing while others wait for them."""

LOT_BYTES_MIN = 16 * KIB
"""What is read at a time for one client even if there is hardly any room."""

WOKEN_AT_ONCE = 64
"""Connections that go on in one turn when there is room again."""


class Waiting(Protocol):
    """Somebody who wants to send and found no room."""

    def resume(self) -> None:
        """There may be room now."""
        ...


class Holder(Waiting, Protocol):
    """An outbox, as it is seen here."""

    counted: int
    """What it holds, as it last said."""

    def refresh(self) -> None:
        """Say again what is held: a transport tells us only when it is nearly empty."""
        ...

    def give_up(self) -> None:
        """End the connection: its reader has read nothing for long, and others wait."""
        ...


class Budget:
    """What all outboxes hold. ``soon`` calls back in the next turn of the loop."""

    def __init__(self, bytes_max: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self.bytes_max = bytes_max
        self._soon = soon
        self._easy = bytes_max // 2
        self.used = 0
        self.is_tight = False
        """Whether connections may hold no more than their share."""
        self._holders: dict[Holder, tuple[int, float]] = {}
        """Who holds something: how much that was when it was last looked at, and since when."""
        self._waiting: dict[Waiting, None] = {}
        self._is_waking = False

    @property
    def share(self) -> int:
        """What a connection may hold while the budget is tight; a quarter is for those to come."""
        return self.bytes_max * 3 // 4 // (len(self._holders) + 1)

    @property
    def waiting_count(self) -> int:
        """How many wait for room."""
        return len(self._waiting)

    def note(self, holder: Holder, held: int) -> None:
        """An outbox holds so much now."""
        change = held - holder.counted
        if not change:
            return
        holder.counted = held
        self.used += change
        self.is_tight = self.used > self._easy
        if not held:
            self._holders.pop(holder, None)
        elif holder not in self._holders:
            self._holders[holder] = held, float("-inf")
        if change < 0 and self._waiting:
            self._wake_soon()

    def room(self, held: int) -> int:
        """How much may be added by one that holds ``held``; negative if it holds too much."""
        free = self.bytes_max - self.used
        return min(free, self.share - held) if self.is_tight and held else free

    def lot(self, bytes_max: int) -> int:
        """How much to read from the journal for one client at a time: less as room gets scarce."""
        return min(bytes_max, max(LOT_BYTES_MIN, (self.bytes_max - self.used) // 8))

    def wait(self, waiting: Waiting) -> None:
        """Call its ``resume`` when there may be room again."""
        self._waiting[waiting] = None

    def forget(self, holder: Holder) -> None:
        """The connection is gone, with all it held."""
        self._waiting.pop(holder, None)
        self.note(holder, 0)

    def _wake_soon(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            self._soon(self._wake)

    def _wake(self) -> None:
        """Let those who wait go on, the first ones first, while there is room."""
        self._is_waking = False
        for waiting in list(self._waiting)[:WOKEN_AT_ONCE]:
            if self.room(0) <= 0:
                return
            self._waiting.pop(waiting, None)
            waiting.resume()
        if self._waiting and self.room(0) > 0:
            self._wake_soon()

    def turn(self, now: float) -> None:
        """Called now and then: see who has read what, and end who keeps others waiting."""
        for holder in list(self._holders):
            holder.refresh()
            known = self._holders.get(holder)
            if known is not None and (holder.counted < known[0] or known[1] == float("-inf")):
                self._holders[holder] = holder.counted, now
        if self._waiting:
            self._wake_soon()
            self._end_stuck(now)

    def forgive(self, stalled_s: float) -> None:
        """The broker stood still: nobody could read in that time."""
        for holder, (held, since) in self._holders.items():
            self._holders[holder] = held, since + stalled_s

    def _end_stuck(self, now: float) -> None:
        """End readers that have read nothing for longest, until others can go on."""
        wanted = self.bytes_max // 16 - self.room(0)
        stuck = [(since, holder) for holder, (_, since) in self._holders.items()]
        for since, holder in sorted(stuck, key=lambda item: item[0]):
            if wanted <= 0 or now - since <= STUCK_S:
                return
            wanted -= holder.counted
            holder.give_up()
