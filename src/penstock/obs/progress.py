"""Tell how far something has come that usually takes a moment, once it takes longer."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TypeVar

from penstock.obs.log import get_logger

FIRST_AFTER_S = 2.0
AGAIN_AFTER_S = 5.0
"""When the first line is logged, and how long after each the next."""

T = TypeVar("T")

_log = get_logger("progress")


class ProgressLog:
    """Logs how far one thing has come; nothing at all if it is done soon."""

    def __init__(self, doing: str, clock: Callable[[], float] = perf_counter) -> None:
        self._doing = doing
        self._clock = clock
        self._started_at = clock()
        self._due_at = self._started_at + FIRST_AFTER_S

    def reached(self, done: int, total: int | None = None) -> None:
        """So much is done. Cheap: call it for each step."""
        now = self._clock()
        if now < self._due_at:
            return
        self._due_at = now + AGAIN_AFTER_S
        of = {} if total is None else {"of": total}
        seconds = round(now - self._started_at, 1)
        _log.info("starting", doing=self._doing, done=done, **of, seconds=seconds)

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """All items, telling how many there were."""
        for number, item in enumerate(items):
            self.reached(number)
            yield item
