"""Commands that take several steps, each waiting for a thread, the disk or another client.

A handler is a coroutine that returns the encoded answer. It waits for jobs that read the store
(``off_loop``) and commands of the broker (``submitted``, ``counted``), and raises ``StreamFault``
where Redis would answer an error. When the client goes it is cancelled.

Only commands that wait anyway are written so: a task costs some ten microseconds, which is too much
for XADD and XACK.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from penstock.core.commands import Erased, Trimmed
from penstock.core.completion import Completion
from penstock.core.groups import GroupCommand
from penstock.doors.resp.calls import Call
from penstock.doors.resp.stream_faults import StreamFault, not_stored
from penstock.errors import StorageError
from penstock.node.hub import Hub
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode

Result = TypeVar("Result")

Steps = Coroutine[object, None, bytes]
"""What works out an answer."""

_log = get_logger("streams")


def stepwise(steps: Callable[[Call], Steps]) -> Callable[[Call], None]:
    """Make a handler of a coroutine."""
    return lambda call: answer(call, steps(call))


def answer(call: Call, steps: Steps) -> None:
    """Answer a call with what ``steps`` return, unless the client goes before that."""
    connection = call.connection
    task = connection.hub.loop.create_task(steps)

    def cancel() -> None:
        task.cancel()

    def done(task: asyncio.Task[bytes]) -> None:
        connection.off_close(cancel)
        if not task.cancelled() and not call.closed:
            _reply(call, task)

    task.add_done_callback(done)
    connection.on_close(cancel)


def _reply(call: Call, task: asyncio.Task[bytes]) -> None:
    error = task.exception()
    if error is None:
        call.reply(task.result())
    elif isinstance(error, StreamFault):
        call.fail(error.message)
    elif isinstance(error, StorageError):
        call.fail(f"ERR The journal failed: {error.message}")
    else:
        _log.error("command_failed", command=call.args[0].decode(errors="replace"), exc_info=error)
        call.connection.close(DisconnectReason.INTERNAL_ERROR)


# ── what is waited for ────────────────────────────────────────────────────────────────────────


async def off_loop(hub: Hub, job: Callable[[], Result]) -> Result:
    """Run a job that reads the store in a thread."""
    future = _Answer[Result]()
    hub.readers.run(job, future.done, future.fail)
    return await future.future


async def encoded_off_loop(hub: Hub, value: encode.Value, protocol: encode.Protocol) -> bytes:
    """Encode an answer of up to a hundred thousand lines, while others have their turn."""
    return await off_loop(hub, lambda: encode.value(value, protocol))


async def counted(hub: Hub, command: Trimmed | Erased) -> int:
    """Have messages deleted by every node; how many there were. Raises as ``submitted`` does."""
    count = await submitted(hub, command)
    assert isinstance(count, int)
    return count


async def submitted(hub: Hub, command: GroupCommand | Trimmed | Erased) -> object:
    """Have a command journaled and applied; what it did. Raises StreamFault if the disk refused."""
    future = _Answer[object]()
    hub.pipeline.submit(command, future, durable=True)
    return await future.future


async def outcome_of(begin: Callable[[Completion[object]], None]) -> object:
    """Wait for the result of what ``begin`` starts. Raises as ``submitted`` does."""
    future = _Answer[object]()
    begin(future)
    return await future.future


class _Answer(Generic[Result]):
    """A completion that a coroutine awaits, if it still does."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def done(self, result: Result) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The commit that a command was part of failed."""
        self.fail(StreamFault(not_stored(reason.value)))
