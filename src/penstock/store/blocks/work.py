"""What happens to blocks between commits, a short step at a time.

The tail is folded, entries of earlier versions are converted, blocks are folded again: one job at a
time, in this order of importance.

A job that fails, for lack of room as a rule, has changed nothing. It is tried again after a pause;
other kinds of work go on meanwhile, and may make room.
"""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final, Protocol

from penstock.errors import StorageError
from penstock.obs.log import get_logger

PAUSE_S: Final = 5.0  # after a failure

_log = get_logger("store")


class BlockJobs(Protocol):
    """One kind of work."""

    def begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        """The steps of the next job, False for one that only waits; None: there is no job."""


class BlockWork:
    """Does the work in steps. Writer thread only."""

    def __init__(self, *kinds: BlockJobs, clock: Callable[[], float] = monotonic) -> None:
        self._kinds = kinds
        self._clock = clock
        self._steps: Iterator[bool] | None = None
        self._begun: BlockJobs | None = None  # the kind of work that is under way
        self._paused: dict[BlockJobs, float] = {}  # kinds that failed, until when
        self.failure: StorageError | None = None  # the last one, until that kind succeeds

    @property
    def is_under_way(self) -> bool:
        return self._steps is not None

    def step(self, last_index: int, *, is_pressed: bool = False) -> bool:
        """Do a step; entries up to ``last_index`` may be folded. Return whether it did anything.

        ``is_pressed``: fold whatever there is.
        """
        if self._steps is None:
            self._steps = self._begin(last_index, is_pressed=is_pressed)
        if self._steps is None:
            return False
        try:
            return next(self._steps)
        except StopIteration:
            self._steps = None
            self._succeeded()
            return True
        except StorageError as error:
            self._steps = None
            self._failed(error)
            return False

    def _begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        for kind in self._kinds:
            if kind in self._paused and self._clock() < self._paused[kind]:
                continue
            steps = kind.begin(last_index, is_pressed=is_pressed)
            if steps is not None:
                self._begun = kind
                return steps
        return None

    def _succeeded(self) -> None:
        if self._begun in self._paused:
            del self._paused[self._begun]
            self.failure = None

    def _failed(self, error: StorageError) -> None:
        assert self._begun is not None
        self._paused[self._begun] = self._clock() + PAUSE_S
        self.failure = error
        _log.warning("fold_failed", error=error.message, again_in_s=PAUSE_S)
