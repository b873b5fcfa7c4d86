"""What the coroutine of a command awaits: reads of the store, and commands of the broker."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.commit.pipeline import Pipeline
from penstock.core.completion import Completion
from penstock.core.groups import GroupCommand
from penstock.doors.resp.faults import CommandError, not_stored
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import JournalReaders
from penstock.wire.resp import encode

Result = TypeVar("Result")


async def off_loop(readers: JournalReaders, job: Callable[[], Result]) -> Result:
    future = _CommandFuture[Result]()
    readers.run(job, future.done, future.fail)
    return await future.future


async def encoded_off_loop(
    readers: JournalReaders, value: encode.Value, protocol: encode.Protocol
) -> bytes:
    return await off_loop(readers, lambda: encode.value(value, protocol))


async def submitted(pipeline: Pipeline, command: GroupCommand) -> object:
    """The result of a command, once it is on disk. Raises CommandError if it is refused."""
    return await outcome_of(lambda waiter: pipeline.submit(command, waiter, durable=True))


async def outcome_of(begin: Callable[[Completion[object]], None]) -> object:
    """The result of what ``begin`` starts. Raises as ``submitted`` does."""
    future = _CommandFuture[object]()
    begin(future)
    return await future.future


class _CommandFuture(Generic[Result]):
    """A completion that a coroutine awaits, unless it was cancelled."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def done(self, result: Result) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.fail(CommandError(not_stored(reason.value)))
