"""Acting at the very moment at which an entry is applied, and the next one is not."""

from collections.abc import Callable


class IndexTriggers:
    """Who waits for which entry."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def wait(self, index: int, act: Callable[[], None]) -> None:
        """Act when this entry is applied; if that is past, never."""
        self._waiting.setdefault(index, []).append(act)

    def forget(self, index: int, act: Callable[[], None]) -> None:
        """Undo ``wait``."""
        left = [other for other in self._waiting.pop(index, ()) if other is not act]
        if left:
            self._waiting[index] = left

    def reached(self, index: int) -> None:
        """An entry is applied."""
        if self._waiting:
            for act in self._waiting.pop(index, ()):
                act()
