"""Going on when a command was applied, or refused.

Whoever waits for the line (``pipeline``) is an *outlet*: its ``outcome`` is called when the command
was applied, its ``close`` if the disk refused. Most outlets are things of their own: slots,
dispatchers. ``Then`` is for those who only want to do something next, ``Waiter`` for coroutines.
"""

from collections.abc import Callable

from penstock.obs.reasons import DisconnectReason


class Then:
    """An outlet that calls back."""

    __slots__ = ("_act", "_refused")

    def __init__(
        self,
        act: Callable[[object], None],
        refused: Callable[[DisconnectReason, str], None] | None = None,
    ) -> None:
        self._act = act
        self._refused = refused

    def outcome(self, value: object) -> None:
        """It was applied."""
        self._act(value)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused it."""
        if self._refused is not None:
            self._refused(reason, detail)
