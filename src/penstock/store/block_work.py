"""What happens to blocks between commits, a short step at a time.

The tail is folded, entries of earlier versions are converted, blocks are folded again: one job at a
time, in this order of importance.
"""

from collections.abc import Iterator
from typing import Protocol

from penstock.errors import StorageError
from penstock.obs.log import get_logger

_log = get_logger("store")


class BlockJobs(Protocol):
    """One kind of work."""

    def begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        """The steps of the next job, False for one that only waits; None: there is no job."""


class BlockWork:
    """Does the work in steps. Writer thread only."""

    def __init__(self, *kinds: BlockJobs) -> None:
        self._kinds = kinds
        self._steps: Iterator[bool] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._steps is not None

    def step(self, last_index: int, *, is_pressed: bool = False) -> bool:
        """Do a step; entries up to ``last_index`` may be folded. Return whether it did anything.

        ``is_pressed``: the disk is short of room, so fold whatever there is.
        """
        if self._steps is None:
            self._steps = self._begin(last_index, is_pressed=is_pressed)
        if self._steps is None:
            return False
        try:
            return next(self._steps)
        except StopIteration:
            self._steps = None
            return True
        except StorageError as error:
            self._steps = None
            _log.warning("fold_failed", error=error.message)
            return False

    def _begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        for kind in self._kinds:
            steps = kind.begin(last_index, is_pressed=is_pressed)
            if steps is not None:
                return steps
        return None
