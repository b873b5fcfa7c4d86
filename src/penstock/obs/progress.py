"""Log the progress of a startup step that takes longer than usual."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TypeVar

from penstock.obs.log import get_logger

FIRST_AFTER_S = 2.0
AGAIN_AFTER_S = 5.0

T = TypeVar("T")

_log = get_logger("progress")


class ProgressLog:
    """Logs the progress of one task; nothing if it finishes soon."""

    def __init__(self, doing: str, clock: Callable[[], float] = perf_counter) -> None:
        self._doing = doing
        self._clock = clock
        self._started_at = clock()
        self._due_at = self._started_at + FIRST_AFTER_S

    def reached(self, done: int, total: int | None = None) -> None:
        """Report progress. Cheap: call it for each step."""
        now = self._clock()
        if now < self._due_at:
            return
        self._due_at = now + AGAIN_AFTER_S
        of = {} if total is None else {"of": total}
        seconds = round(now - self._started_at, 1)
        _log.info("starting", doing=self._doing, done=done, **of, seconds=seconds)

    def each(self, items: Iterable[T]) -> Iterator[T]:
        for number, item in enumerate(items):
            self.reached(number)
            yield item
