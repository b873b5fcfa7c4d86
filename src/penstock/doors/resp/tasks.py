"""Commands that are coroutines, since they wait for threads, the disk or other clients.

A handler returns the encoded answer or raises ``CommandError``. It is cancelled when the client
goes. A task costs some ten microseconds, which is too much for XADD and XACK.
"""

import asyncio
from collections.abc import Callable, Coroutine

from penstock.doors.resp.calls import Call
from penstock.doors.resp.faults import CommandError
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason

Steps = Coroutine[object, None, bytes]  # returns the encoded answer
_log = get_logger("streams")


def stepwise(steps: Callable[[Call], Steps]) -> Callable[[Call], None]:
    return lambda call: answer(call, steps(call))


def answer(call: Call, steps: Steps) -> None:
    """Answer a call with what ``steps`` return, unless the client goes before that."""
    connection = call.connection
    task = connection.door.loop.create_task(steps)

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
    else:
        fail(call, error)


def fail(call: Call, error: BaseException) -> None:
    """Answer a call with what went wrong."""
    if isinstance(error, CommandError):
        call.fail(error.message)
    elif isinstance(error, StorageError):
        call.fail(f"ERR The journal failed: {error.message}")
    else:
        _log.error("command_failed", command=call.args[0].decode(errors="replace"), exc_info=error)
        call.connection.close(DisconnectReason.INTERNAL_ERROR)
