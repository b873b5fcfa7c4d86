"""Actions that run at the moment when an entry is applied and the next one is not."""

from collections.abc import Callable


class IndexTriggers:
    """Actions by the index of the entry that they wait for."""

    def __init__(self) -> None:
        self._actions: dict[int, list[Callable[[], None]]] = {}

    def add(self, index: int, act: Callable[[], None]) -> None:
        self._actions.setdefault(index, []).append(act)

    def remove(self, index: int, act: Callable[[], None]) -> None:
        left = [other for other in self._actions.pop(index, ()) if other is not act]
        if left:
            self._actions[index] = left

    def applied(self, index: int) -> None:
        if self._actions:
            for act in self._actions.pop(index, ()):
                act()
