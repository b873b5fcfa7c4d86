"""What a subscription tells of trouble: to the application, or else to the log.

A subscription goes on whatever happens, so nobody catches what goes wrong in it. ``on_error`` is
called with the exception and the job whose handler raised it, or None if it is about the
connection, which is then made again. That a node does not lead any more is no trouble: its
successor is asked.

What the broker refuses for good (``is_final``) it would refuse again: that is the end of a
subscription, told once here and then to whoever waits for the end. What a handler or ``on_error``
raises that is no ``Exception``, ``sys.exit()`` for instance, is meant for the program: it ends the
subscription, is logged, and raised to whoever waits.
"""

from collections.abc import Callable
from typing import TypeAlias

from penstock.client.binary.inbox import log
from penstock.client.errors import ClientError, NotLeaderError, QueueRefusedError
from penstock.client.handlers import HandlerMismatchError
from penstock.client.queue.values import Job

OnError: TypeAlias = Callable[[Exception, Job | None], object]


def report_trouble(on_error: OnError | None, error: ClientError) -> None:
    """Tell that a connection failed, or the subscription."""
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
    """Tell that a handler failed. Whether the job comes again is for the broker to say."""
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
    """Tell that a handler, or a fault of ours, has ended the subscription.

    Where the program means to end there is no fault to find, and no traceback is logged.
    """
    is_wanted = isinstance(error, SystemExit | KeyboardInterrupt)
    trace = None if is_wanted else error
    log.error("subscription ended by %s: %s", type(error).__name__, error, exc_info=trace)


def _tell(on_error: OnError, error: Exception, job: Job | None) -> None:
    """What ``on_error`` raises is logged, and changes nothing."""
    try:
        on_error(error, job)
    except Exception:  # noqa: BLE001 - the application's own
        log.exception("on_error failed")


def is_final(error: ClientError) -> bool:
    """Whether coming back would bring the same answer."""
    return isinstance(error, QueueRefusedError) and error.is_final


def is_fatal(error: BaseException) -> bool:
    """Whether it is not about one job: it ends the subscription."""
    return not isinstance(error, Exception) or isinstance(error, HandlerMismatchError)


def reason_of(error: BaseException) -> str:
    """What to tell the broker: it is kept with the message if that becomes a dead letter."""
    name, text = type(error).__name__, str(error)
    if is_fatal(error):
        return f"{name}: {text}" if text else name
    return text or name
