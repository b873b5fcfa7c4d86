"""Joins what a turn of the event loop has to write into one write per connection.

Many publishers can have messages for one subscriber in the same turn. Its outbox gathers them and
is flushed once: at the end of the turn, or at once if the broker has little to do.

The event loop does not say where its turns end, so a callback is scheduled for it. The poller of
the kernel says it (``begin_turn``, ``end_turn``), and naps itself, where it reads.
"""

import asyncio
from collections.abc import Callable
from time import sleep
from typing import TYPE_CHECKING, Protocol

from penstock import kernel
from penstock.limits import KIB
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger

__all__ = ["Flusher"]

QUIET_S = 0.0001  # after this long without a flush, a message is taken to be alone
NAP_S = 0.00005  # shortest time between two turns that read little; unnoticeable beside a network
NAP_BYTES_MAX = 16 * KIB  # a turn that read this much needs no nap
_log = get_logger("net")


class Flushable(Protocol):
    """Gathers output during a turn of the loop."""

    def flush(self) -> None: ...


class Flusher:
    """Flushes each outbox at most once per turn of the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, monotonic: Callable[[], float], counters: Counters
    ) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._counters = counters
        self._due: list[Flushable] = []
        self._is_holding = False
        self._is_scheduled = False  # whether somebody will flush what is due
        self.is_in_turn = False  # of the poller
        self._is_poller_napping = False
        self._flushed_at = 0.0
        self._received_at_flush = 0

    def flush_soon(self, outbox: Flushable) -> None:
        self._due.append(outbox)
        if not self._is_holding and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush_turn)

    def begin_turn(self) -> None:
        self.is_in_turn = self._is_scheduled = self._is_poller_napping = True

    def end_turn(self) -> None:
        self.is_in_turn = False
        if self._due:
            self._flush()
        else:
            self._is_scheduled = False

    def hold(self) -> bool:
        """Gather output until ``release`` or ``restore``; return whether it was held already."""
        was_holding, self._is_holding = self._is_holding, True
        return was_holding

    def release(self, now: float) -> None:
        """Write at once if little is going on, else at the end of the turn, which joins output."""
        self._is_holding = False
        if self._due and not self._is_scheduled:
            if now - self._flushed_at > QUIET_S:
                self._flush()
            else:
                self._is_scheduled = True
                self._loop.call_soon(self._flush_turn)

    def restore(self, was_holding: bool) -> None:
        self._is_holding = was_holding
        if self._due and not was_holding:
            self._flush()

    def _flush_turn(self) -> None:
        """Flush; nap if turns bring little, to let more arrive and the writer thread work."""
        if not self._is_scheduled:
            return  # flushed meanwhile, with the effects of a commit
        since_last = self._monotonic() - self._flushed_at
        received = self._counters.bytes_in_total - self._received_at_flush
        self._flush()
        if since_last < NAP_S and received < NAP_BYTES_MAX and not self._is_poller_napping:
            sleep(NAP_S - since_last)

    def _flush(self) -> None:
        self._is_scheduled = self.is_in_turn
        self._flushed_at = self._monotonic()
        self._received_at_flush = self._counters.bytes_in_total
        due, self._due = self._due, []
        # The last first: a publisher's answer comes after the messages to its subscribers. Written
        # first, it lets the publisher go on while they are written (1 to 10, 32 unanswered: 1.8 x).
        for outbox in reversed(due):
            try:
                outbox.flush()
            except Exception:  # noqa: BLE001 - the other outboxes must be flushed all the same
                _log.exception("flush_failed")


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.flusher import Flusher
