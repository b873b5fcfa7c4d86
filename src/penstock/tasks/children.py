"""Child processes that run jobs one at a time, and can be killed in the middle.

Python cannot stop a function that runs in a thread. So a plain function with a time limit, or with
``process=True``, runs in a child of the worker: it is killed when its time is over, and the next
job gets another child. A child that crashes (a segmentation fault, no memory) fails one job, not
the worker. Idle children stay for the next job, since an import of the app may take seconds.

Both directions are frames: four bytes of length, then JSON. A child whose worker is gone, however
it ended, reads the end of its input and exits at once (``child``).
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from penstock.client.queue.values import DeadLetter, Headers, Retry
from penstock.errors import PenstockError

LENGTH_BYTES: Final = 4
START_S: Final = 60.0  # for the import of the app, before the time of a job begins
ENDING_S: Final = 5.0  # for the end of a child that has closed its output


class JobFailed(PenstockError):  # noqa: N818 - reads as the state it names
    """An attempt failed; the text is the reason that a dead letter keeps."""


class ToChild(msgspec.Struct):
    """A job to run."""

    task: str
    body: bytes
    id: str
    number: int
    is_last: bool
    headers: Headers


class FromChild(msgspec.Struct, omit_defaults=True):
    """Its result; the first one of a child says that it is ready."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    retry_s: float = -1.0  # 0 or more: the function asked for a retry
    is_final: bool = False  # it asked for none
    traceback: str = ""


class Children:
    """Children of one worker, as many as jobs run in them at once."""

    def __init__(self, app: str, note: Callable[[str], object]) -> None:
        """``app`` is as in ``penstock worker``; ``note`` gets tracebacks."""
        self._app = app
        self._note = note
        self._idle: list[Process] = []
        self._busy: set[Process] = set()

    async def run(self, job: ToChild, limit_s: float | None) -> bytes:
        """Return the result as JSON. Raises JobFailed, Retry or DeadLetter."""
        child = self._idle.pop() if self._idle else await self._start()
        self._busy.add(child)
        try:
            async with asyncio.timeout(limit_s) as limit:
                _send(child, job)
                answer = await _receive(child)
        except (OSError, EOFError):  # a time-out, too, is an OSError
            if limit.expired():
                await _end(child)
                raise JobFailed(f"time limit of {limit_s:g} s exceeded") from None
            raise JobFailed(await _how_it_ended(child)) from None
        except asyncio.CancelledError:
            child.kill()
            raise
        finally:
            self._busy.discard(child)
        self._idle.append(child)
        return self._checked(answer)

    def _checked(self, answer: FromChild) -> bytes:
        if answer.retry_s >= 0:
            raise Retry(answer.error, delay_s=answer.retry_s)
        if answer.is_final:
            raise DeadLetter(answer.error)
        if answer.error:
            self._note(answer.traceback)
            raise JobFailed(answer.error)
        return bytes(answer.value)

    async def _start(self) -> Process:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock.tasks.child", self._app), stdin=PIPE, stdout=PIPE
        )
        try:
            async with asyncio.timeout(START_S):
                await _receive(child)
        except TimeoutError:
            await _end(child)
            what = f"a child process took more than {START_S:g} s to import {self._app}"
            raise JobFailed(what) from None
        except (OSError, EOFError):
            how = await _how_it_ended(child)
            what = f"a child process could not import {self._app}: {how}"
            raise JobFailed(what) from None
        return child

    async def close(self) -> None:
        """Kill all; those that are busy only after the grace of the worker."""
        for child in [*self._idle, *self._busy]:
            await _end(child)


def _send(child: Process, job: ToChild) -> None:
    if child.stdin is None:
        raise EOFError
    body = msgspec.json.encode(job)
    child.stdin.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)


async def _receive(child: Process) -> FromChild:
    if child.stdout is None:
        raise EOFError
    length = int.from_bytes(await child.stdout.readexactly(LENGTH_BYTES), "big")
    return msgspec.json.decode(await child.stdout.readexactly(length), type=FromChild)


async def _end(child: Process) -> None:
    with suppress(ProcessLookupError):
        child.kill()
    await child.wait()


async def _how_it_ended(child: Process) -> str:
    """Wait for the status of a child that has hung up.

    It is killed only if it does not end: ``kill`` asks the system for the status first, and the
    event loop, which asks at the same time, would then not get it.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDING_S):
            await child.wait()
    if child.returncode is None:
        await _end(child)
    code = child.returncode or 0
    return (
        f"its process was ended by signal {-code}" if code < 0 else f"its process exited ({code})"
    )
