"""Keeps a test's broker from talking into the output of the test.

Logging is one per process, and until somebody sets it up it prints everything to standard output.
So the first broker that starts sets it up if nobody has, and the last one to stop undoes that: the
program under test may log through the same library, and finds things as they were. Whoever has set
up logging before is left alone, and whoever does so meanwhile has the last word.
"""

import threading
from typing import Any

import structlog

from penstock.config import Log
from penstock.obs.log import configure

__all__ = ["Quiet"]


class Quiet:
    """One broker's wish for logging; ``begin`` and ``end`` take turns."""

    _lock = threading.Lock()
    _holders: set["Quiet"] = set()  # noqa: RUF012 - shared by all on purpose
    _ours: Any = None
    """What we put in place; if something else is there, it is not ours to touch."""

    def begin(self, wish: Log) -> None:
        """Set up logging unless somebody else has; of several wishes, the last one counts."""
        with Quiet._lock:
            if structlog.is_configured() and not self._is_ours():
                return
            configure(wish.level, wish.format)
            Quiet._ours = structlog.get_config()["logger_factory"]
            Quiet._holders.add(self)

    def end(self) -> None:
        """Undo it when nobody needs it any more."""
        with Quiet._lock:
            Quiet._holders.discard(self)
            if not Quiet._holders and self._is_ours():
                structlog.reset_defaults()

    def _is_ours(self) -> bool:
        return structlog.get_config()["logger_factory"] is Quiet._ours
