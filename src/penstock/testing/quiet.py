"""Keeps the log of a test's broker out of the output of the test.

Unconfigured structlog prints everything to standard output. So the first broker that starts sets it
up unless the program has, and the last one to stop resets it.
"""

import threading

import structlog

from penstock.config.schema import Log
from penstock.obs.log import configure

__all__ = ["Quiet"]


class Quiet:
    """The logging of one broker, from ``begin`` to ``end``."""

    _lock = threading.Lock()
    _holders: set["Quiet"] = set()  # noqa: RUF012 - shared by all on purpose
    _ours: object = None  # the logger factory that we set

    def begin(self, log: Log) -> None:
        """Set up logging unless the program has; the last broker wins."""
        with Quiet._lock:
            if structlog.is_configured() and not self._is_ours():
                return
            configure(log.level, log.format)
            Quiet._ours = structlog.get_config()["logger_factory"]
            Quiet._holders.add(self)

    def end(self) -> None:
        with Quiet._lock:
            Quiet._holders.discard(self)
            if not Quiet._holders and self._is_ours():
                structlog.reset_defaults()

    def _is_ours(self) -> bool:
        return structlog.get_config()["logger_factory"] is Quiet._ours
