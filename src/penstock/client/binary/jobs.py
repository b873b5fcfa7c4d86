"""Failed jobs, and how many of them a worker may hold.

The protocol has no way to reject a job. A failed job stays unacknowledged with its worker, and
counts as one of those the broker gives it ahead; when all of these have failed the worker would
wait for ever. It leaves before, with an error, and the broker delivers its jobs again.
"""

from collections.abc import Callable
from typing import Final

from penstock.client.binary.inbox import Message, MessageInbox, log
from penstock.client.errors import FailedJobsError
from penstock.client.handlers import HandlerMismatchError

FAILED_MAX: Final = 32  # half of the jobs that the broker gives a worker ahead


class FailedJobs:
    """The failed jobs of one worker."""

    def __init__(self, inbox: MessageInbox) -> None:
        self.count = 0
        self._inbox = inbox

    def add(
        self,
        job: Message,
        error: BaseException,
        report: Callable[[Message, Exception], None] | None = None,
    ) -> bool:
        """Keep a failed job unacknowledged, and report it; false if the error is not about it."""
        self._inbox.leave()
        if not isinstance(error, Exception) or isinstance(error, HandlerMismatchError):
            return False
        self.count += 1
        if report is None:
            log.error("job failed, and is left unacknowledged: %r", job, exc_info=error)
        else:
            report(job, error)
        if self.count >= FAILED_MAX:
            raise FailedJobsError(
                f"{self.count} jobs failed and are kept from other workers",
                "close the worker, so that the broker delivers them again; each error was reported",
            ) from error
        return True
