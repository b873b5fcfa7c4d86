"""A bound on all output that waits to be sent, over all connections and protocols.

All outboxes count what they hold, including their transports' buffers.

**A tight budget.** While less than half of it is used, only a connection's own bounds count. Beyond
that a connection that holds unread bytes may hold its share of the budget at most. One that holds
nothing may take the next message if there is room, so clients that read go on, and the others are
paused. Their messages stay in the journal. Live messages are dropped down to the share, oldest
first.

**An exhausted budget.** All clients that hold bytes have stopped reading, or read slowly, while
others wait. After ``STUCK_S`` those are closed that have read nothing for longest.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.limits import KIB

STUCK_S = 10.0  # how long a client that holds bytes may read nothing while others wait
READ_BYTES_MIN = 16 * KIB  # read from the journal for one client even if room is scarce
WOKEN_AT_ONCE = 64  # connections resumed in one turn of the loop


class BudgetWaiter(Protocol):
    """Wants to send and found no room."""

    def resume(self) -> None: ...  # there may be room now


class BudgetHolder(BudgetWaiter, Protocol):
    """An outbox."""

    counted: int  # bytes that it last reported

    def refresh(self) -> None: ...  # report again: transports call back only when nearly empty
    def give_up(self) -> None: ...  # close: the client reads nothing, and others wait


class Budget:
    """Counts what all outboxes hold. ``soon`` calls back in the next turn of the loop."""

    __slots__ = (
        "_easy",
        "_holders",
        "_is_waking",
        "_soon",
        "_waiting",
        "bytes_max",
        "is_tight",
        "used",
    )

    def __init__(self, bytes_max: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self.bytes_max = bytes_max
        self._soon = soon
        self._easy = bytes_max // 2
        self.used = 0
        self.is_tight = False  # whether connections may hold no more than their share
        self._holders: dict[BudgetHolder, tuple[int, float]] = {}  # bytes when last read, and when
        self._waiting: dict[BudgetWaiter, None] = {}
        self._is_waking = False

    @property
    def share(self) -> int:
        """What a connection may hold while the budget is tight; a quarter is for new ones."""
        return self.bytes_max * 3 // 4 // (len(self._holders) + 1)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def note(self, holder: BudgetHolder, held: int) -> None:
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
        """How much a holder of ``held`` bytes may add; negative if it holds too much."""
        free = self.bytes_max - self.used
        return min(free, self.share - held) if self.is_tight and held else free

    def read_bytes_max(self, bytes_max: int) -> int:
        return min(bytes_max, max(READ_BYTES_MIN, (self.bytes_max - self.used) // 8))

    def wait(self, waiting: BudgetWaiter) -> None:
        self._waiting[waiting] = None

    def forget(self, holder: BudgetHolder) -> None:
        self._waiting.pop(holder, None)
        self.note(holder, 0)

    def _wake_soon(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            self._soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for waiting in list(self._waiting)[:WOKEN_AT_ONCE]:
            if self.room(0) <= 0:
                return
            self._waiting.pop(waiting, None)
            waiting.resume()
        if self._waiting and self.room(0) > 0:
            self._wake_soon()

    def turn(self, now: float) -> None:
        for holder in list(self._holders):
            holder.refresh()
            known = self._holders.get(holder)
            if known is not None and (holder.counted < known[0] or known[1] == float("-inf")):
                self._holders[holder] = holder.counted, now
        if self._waiting:
            self._wake_soon()
            self._end_stuck(now)

    def forgive(self, stalled_s: float) -> None:
        for holder, (held, since) in self._holders.items():
            self._holders[holder] = held, since + stalled_s

    def _end_stuck(self, now: float) -> None:
        wanted = self.bytes_max // 16 - self.room(0)
        stuck = [(since, holder) for holder, (_, since) in self._holders.items()]
        for since, holder in sorted(stuck, key=lambda item: item[0]):
            if wanted <= 0 or now - since <= STUCK_S:
                return
            wanted -= holder.counted
            holder.give_up()
