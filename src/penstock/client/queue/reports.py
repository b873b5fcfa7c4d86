"""What a subscription reports of errors: to the application, or else to the log.

A subscription continues after errors, so the program cannot catch them. ``on_error`` is called with
the exception and the job whose handler raised it, or None if it is about the connection, which is
then replaced. A node that does not lead any more is not an error: its successor is asked.

A refusal for good (``is_final``) ends the subscription; it is reported once here and raised by
``wait``. An exception of a handler or of ``on_error`` that is no ``Exception``, ``sys.exit()`` for
instance, is meant for the program: it ends the subscription, is logged, and raised by ``wait``.
"""

from collections.abc import Callable
from typing import TypeAlias

from penstock.client.binary.inbox import log
from penstock.client.errors import ClientError, NotLeaderError, QueueRefusedError
from penstock.client.handlers import HandlerMismatchError
from penstock.client.queue.values import Job, Retry

OnError: TypeAlias = Callable[[Exception, Job | None], object]


def report_trouble(on_error: OnError | None, error: ClientError) -> None:
    if isinstance(error, NotLeaderError):
        return
    if on_error is not None:
        _tell(on_error, error, None)
    elif is_final(error):
        log.error("subscription ended: %s", error)
    else:
        log.warning("subscription interrupted, trying again: %s", error)


def report_failure(
    on_error: OnError | None, error: Exception, job: Job, *, is_given_back: bool
) -> None:
    """Report that a handler failed. The broker decides whether the job is delivered again."""
    if on_error is not None:
        _tell(on_error, error, job)
    else:
        fate = "reported to the broker" if is_given_back else "not returned: ack_mode is auto"
        where, delivery = f"{job.topic}[{job.offset}]", job.redeliveries + 1
        said = reason_of(error)
        log.error(
            "job failed (delivery %d, %s): %s: %s", delivery, fate, where, said, exc_info=error
        )


def report_end(error: BaseException) -> None:
    """Report that a handler, or an internal error, has ended the subscription.

    A traceback is logged unless the program meant to end.
    """
    is_wanted = isinstance(error, SystemExit | KeyboardInterrupt)
    trace = None if is_wanted else error
    log.error("subscription ended by %s: %s", type(error).__name__, error, exc_info=trace)


def _tell(on_error: OnError, error: Exception, job: Job | None) -> None:
    """Call ``on_error``; log what it raises."""
    try:
        on_error(error, job)
    except Exception:  # noqa: BLE001 - the application's own
        log.exception("on_error failed")


def is_final(error: ClientError) -> bool:
    return isinstance(error, QueueRefusedError) and error.is_final


def is_fatal(error: BaseException) -> bool:
    """Whether it ends the subscription, rather than concern one job."""
    return not isinstance(error, Exception) or isinstance(error, HandlerMismatchError)


def reason_of(error: BaseException) -> str:
    """Return the reason for the broker, which is kept with a dead letter."""
    name, text = type(error).__name__, str(error)
    if is_fatal(error):
        return f"{name}: {text}" if text else name
    return text or name


def delay_of(error: BaseException) -> float:
    """Return the pause before the next delivery that a handler asked for."""
    return error.delay_s if isinstance(error, Retry) else 0.0
