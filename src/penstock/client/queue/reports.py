"""What a subscription tells of trouble: to the application, or else to the log.

A subscription goes on whatever happens, so nobody catches what goes wrong in it. ``on_error`` is
called with the exception and the job whose handler raised it, or None if it is about the
connection, which is then made again. That a node does not lead any more is no trouble: its
successor is asked.
"""

from collections.abc import Callable
from typing import TypeAlias

from penstock.client.edge.inbox import log
from penstock.client.errors import NotLeaderError
from penstock.client.queue.values import Job

__all__ = ["OnError", "reason_of", "report"]

OnError: TypeAlias = Callable[[Exception, Job | None], object]


def report(on_error: OnError | None, error: Exception, job: Job | None = None) -> None:
    """Tell whoever wants to know. What ``on_error`` raises is logged, and changes nothing."""
    if job is None and isinstance(error, NotLeaderError):
        return
    try:
        (on_error or _log)(error, job)
    except Exception:  # noqa: BLE001 - the application's own
        log.exception("on_error failed")


def _log(error: Exception, job: Job | None) -> None:
    if job is None:
        log.warning("subscription interrupted, trying again: %s", error)
    else:
        log.error("job failed, to be tried again: %s[%d]", job.topic, job.offset, exc_info=error)


def reason_of(error: Exception) -> str:
    """What to tell the broker: it is kept with the message if that becomes a dead letter."""
    return str(error) or type(error).__name__
