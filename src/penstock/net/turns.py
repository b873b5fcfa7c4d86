"""Long work on the event loop, a few milliseconds of it in each turn, so that others have theirs.

Work is an iterator that yields wherever it may be interrupted. What it looks at may have changed by
the time it goes on.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.hub import Hub

__all__ = ["TURN_S", "in_turns"]

TURN_S = 0.005
"""How long what one client has asked for is acted on before others have their turn."""


def in_turns(hub: "Hub", work: Iterator[None]) -> None:
    """Go through with work: as much as a turn may take at once, the rest in the turns to come."""
    turn_ends_at = hub.monotonic() + TURN_S
    for _ in work:
        if hub.monotonic() > turn_ends_at:
            hub.loop.call_soon(in_turns, hub, work)
            return
