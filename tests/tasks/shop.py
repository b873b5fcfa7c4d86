"""The app that workers of the tests run; ``SHOP_NODES`` and ``SHOP_DIR`` say where.

Tasks note in files of that folder what happened to them, since they run in other processes.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from penstock.client import Credentials
from penstock.tasks import App, DeadLetter, Retry, current, every

FOLDER = Path(os.environ.get("SHOP_DIR", "."))
SECRET = os.environ.get("SHOP_SECRET")

app = App(
    "shop",
    os.environ.get("SHOP_NODES", "127.0.0.1:1").split(","),
    credentials=Credentials("ann", SECRET) if SECRET else None,
    timeout_s=20,
)


def note(name, line):
    """Append a line with one write, so that lines of several processes do not mix."""
    with (FOLDER / name).open("a") as file:
        file.write(f"{line}\n")


@dataclass
class Image:
    name: str
    taken: date


@app.task(results=True)
def resize(image: str, width: int = 200) -> str:
    """Say what it did."""
    note("resized", f"{image} {width} {os.getpid()}")
    return f"{image} is {width} wide"


@app.task(results=True)
async def describe(image: Image) -> dict[str, int]:
    note("described", f"{image.name} {image.taken.year} {current().number}")
    return {image.name: image.taken.year}


@app.task(retries=2, backoff_s=0, results=True)
def fail(text: str) -> None:
    note("failed", f"{current().number} {current().is_last}")
    raise ValueError(text)


@app.task(retries=None, results=True)
async def doubt(customer: int) -> None:
    raise DeadLetter(f"no such customer: {customer}")


@app.task(process=True, results=True)
def doubt_in_a_child(customer: int) -> None:
    raise DeadLetter(f"no such customer: {customer}")


@app.task(backoff_s=0, retries=1)
def leave() -> None:
    """End the program, or try to."""
    note("left", current().number)
    sys.exit(7)


@app.task(retries=0, results=True)
async def give_up() -> None:
    raise asyncio.CancelledError("by itself")


@app.task(backoff_s=0)
def later(delay_s: float) -> None:
    note("later", f"{current().number} {time.monotonic()}")
    if current().number == 1:
        raise Retry("not yet", delay_s=delay_s)


@app.task(retries=1, backoff_s=0, time_limit_s=0.5, results=True)
def hang() -> None:
    """Hold the interpreter's attention, without a chance for anybody to interrupt."""
    note("hung", f"{current().number} {os.getpid()}")
    signal.sigtimedwait([], 60)


@app.task(retries=0, time_limit_s=0.5, results=True)
async def hang_async() -> None:
    import asyncio

    await asyncio.Event().wait()


@app.task(retries=0, process=True, results=True)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(process=True, results=True)
def where() -> int:
    print("printed by a task")
    return os.getpid()


@app.task(concurrency=2)
def meet(number: int) -> None:
    """End when the file ``go`` is there."""
    note("met", f"{number} {os.getpid()} {threading.get_ident()}")
    while not (FOLDER / "go").exists():
        threading.Event().wait(0.02)
    note("parted", number)


@app.task(schedule=every(60))
def tick() -> None:
    note("ticks", dict(current().headers).get("schedule", b"").decode())


@app.task(concurrency=1)
def order(number: int) -> None:
    note("order", number)
