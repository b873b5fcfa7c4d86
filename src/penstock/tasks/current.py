"""What a running task may know about its job: ``current()``.

A context variable, so that it is right in threads and in coroutines alike.
"""

from contextvars import ContextVar

import msgspec

from penstock.client.errors import ArgumentError
from penstock.client.queue.values import Headers


class Attempt(msgspec.Struct, frozen=True):
    """One delivery of a job."""

    id: str
    task: str
    number: int  # 1 is the first
    is_last: bool  # if it fails the job becomes a dead letter
    headers: Headers = ()


CURRENT: ContextVar[Attempt] = ContextVar("penstock_task_attempt")


def current() -> Attempt:
    """The attempt that runs; raises ArgumentError outside of a task that a worker runs."""
    try:
        return CURRENT.get()
    except LookupError:
        raise ArgumentError("no worker runs this", "call current() within a task") from None
