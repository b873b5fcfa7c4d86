"""``python -m penstock.tasks.child module:app``: runs jobs for a worker; see ``children``.

A thread reads the jobs, so that the end of the input is seen while one runs: the worker is gone,
the job goes to another one, and this one must not go on beside it. What tasks print goes to
standard error, because standard output has the answers.
"""

import asyncio
import os
import sys
import threading
import traceback
from io import TextIOWrapper
from queue import SimpleQueue
from typing import BinaryIO

import msgspec

from penstock.client.queue.values import DeadLetter, Retry
from penstock.tasks.app import App
from penstock.tasks.children import LENGTH_BYTES, FromChild, ToChild
from penstock.tasks.current import CURRENT, Attempt
from penstock.tasks.loading import load_app


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # else a child that is killed takes it along
    jobs: SimpleQueue[ToChild] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, jobs), daemon=True).start()
    app = load_app(sys.argv[1])
    _answer(answers, FromChild())
    while True:
        _answer(answers, _run(app, jobs.get()))


def _read(source: BinaryIO, jobs: SimpleQueue[ToChild]) -> None:
    while len(length := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        body = source.read(int.from_bytes(length, "big"))
        jobs.put(msgspec.json.decode(body, type=ToChild))
    os._exit(0)


def _answer(answers: BinaryIO, answer: FromChild) -> None:
    body = msgspec.json.encode(answer)
    data = memoryview(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    while data:
        data = data[answers.write(data) :]


def _run(app: App, job: ToChild) -> FromChild:
    CURRENT.set(Attempt(job.id, job.task, job.number, job.is_last, job.headers))
    try:
        task = app.tasks[job.task]
        value = task.function(**task.signature.decode(job.body))
        if task.is_async:
            value = asyncio.run(value)
        return FromChild(msgspec.Raw(task.signature.encode_result(value)))
    except Retry as error:
        return FromChild(error=str(error), retry_s=error.delay_s)
    except DeadLetter as error:
        return FromChild(error=str(error), is_final=True)
    except BaseException as error:  # noqa: BLE001 - a task may not end its process, either
        return FromChild(error=reason_of(error), traceback=traceback.format_exc())


def reason_of(error: BaseException) -> str:
    """Why an attempt failed, in one line: the kind of exception and its text."""
    name, text = type(error).__name__, " ".join(str(error).split())
    return f"{name}: {text}" if text else name


if __name__ == "__main__":
    main()
