"""Long work on the event loop, a few milliseconds of it in each turn, so that others have theirs.

Work is an iterator that yields wherever it may be interrupted. What it looks at may have changed by
the time it goes on.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.obs.log import get_logger

if TYPE_CHECKING:
    from penstock.node.hub import Hub


_log = get_logger("turns")

TURN_S = 0.005
"""How long what one client has asked for is acted on before others have their turn."""

STEPS_MAX = 16
"""Steps of shared work in one turn, should the clock stand still, as that of a test may."""


def in_turns(hub: "Hub", work: Iterator[None]) -> None:
    """Go through with work: as much as a turn may take at once, the rest in the turns to come."""
    turn_ends_at = hub.monotonic() + TURN_S
    for _ in work:
        if hub.monotonic() > turn_ends_at:
            hub.loop.call_soon(in_turns, hub, work)
            return


class SharedTurns:
    """Work for many clients: a step of each in turn, all of it together as long as a turn may be.

    Ten thousand clients with work of their own in each turn would make it a long one.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._waiting: deque[Iterator[None]] = deque()
        self._is_running = False

    def add(self, work: Iterator[None]) -> None:
        """Do this, too; it yields wherever others may have their turn."""
        self._waiting.append(work)
        if not self._is_running:
            self._is_running = True
            self._hub.loop.call_soon(self._run)

    def _run(self) -> None:
        turn_ends_at = self._hub.monotonic() + TURN_S
        for _ in range(STEPS_MAX):
            if not self._waiting:
                break
            work = self._waiting.popleft()
            try:
                next(work)
            except StopIteration:
                pass
            except Exception:  # noqa: BLE001 - one client's trouble stays its own
                _log.exception("work_failed")
            else:
                self._waiting.append(work)
            if self._hub.monotonic() > turn_ends_at:
                break
        self._is_running = bool(self._waiting)
        if self._is_running:
            self._hub.loop.call_soon(self._run)
