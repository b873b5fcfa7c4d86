"""``penstock worker``: run the jobs of an app (``penstock.tasks``).

It also makes the broker's schedules those that the app declares. Several workers that start at once
may each do so: who comes second finds that it is done.
"""

import asyncio
import logging
import os
import signal
import sys
from functools import partial
from typing import Any, Final

import click

from penstock.cli.admin_client import AdminClient, Document
from penstock.cli.connection import BrokerTarget
from penstock.cli.inputs import time_option
from penstock.config.address import parse_listen
from penstock.errors import PenstockError, Refused
from penstock.limits import KIB
from penstock.obs.printable import printable
from penstock.tasks.app import App, Task
from penstock.tasks.loading import load_app
from penstock.tasks.timing import Schedule
from penstock.tasks.worker import CONCURRENCY, GRACE_S, Worker

PATH: Final = "schedules"
EXIT_GIVEN_BACK: Final = 3  # some jobs did not end in time
LINE_MAX: Final = 8 * KIB  # of a log: a failure may carry the text of a whole job

_AnyTask = Task[..., Any, Any]


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 1024),
    default=CONCURRENCY,
    show_default=True,
    help="Jobs at once of each task that names no number.",
)
@click.option("--only", multiple=True, metavar="TASK", help="Run only this task; repeatable.")
@time_option("--grace", f"How long jobs may take to end when we stop.  [default: {GRACE_S:g}s]")
@click.option("-q", "--quiet", is_flag=True, help="Log only failures.")
def worker(
    app: str, *, concurrency: int, only: tuple[str, ...], grace: float | None, quiet: bool
) -> None:
    """Run jobs of the tasks of an app, until SIGTERM or Ctrl-C.

    MODULE:APP is a penstock.tasks.App, as in shop.jobs:app. On a signal the worker takes no more
    jobs, running ones finish, and jobs that do not end in time are given back; a second signal
    ends it at once. Status 3 says that some were given back.
    """
    _log_to_stderr(logging.WARNING if quiet else logging.INFO)
    found = load_app(app)
    sync_schedules(found, only)
    grace_s = GRACE_S if grace is None else grace
    make = partial(Worker, found, app, concurrency=concurrency, grace_s=grace_s, only=only)
    if not asyncio.run(_run(make)):
        sys.stderr.flush()
        os._exit(EXIT_GIVEN_BACK)  # a thread that still runs would keep us


async def _run(make: "partial[Worker]") -> bool:
    running = make()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stop)
    return await running.run()


class _OneLine(logging.Formatter):
    """What a job says may come from anybody: nothing of it reaches a terminal unescaped."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).splitlines()
        return "\n".join(printable(line, LINE_MAX) for line in lines)


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


# ── Schedules ─────────────────────────────────────────────────────────────────────────────────


def sync_schedules(app: App, only: tuple[str, ...] = ()) -> None:
    """Create, change and cancel schedules, so that they are those of the app.

    A worker of some tasks touches only theirs.
    """
    prefix = f"tasks/{app.name}/"
    tasks = {f"{prefix}{name}": task for name, task in app.tasks.items()}
    wanted = {name: task for name, task in tasks.items() if task.settings.schedule is not None}
    broker = AdminClient(_target(app))
    present: dict[str, Document] = {
        row["name"]: row for row in broker.get(PATH, prefix=prefix, limit=1_000)["items"]
    }
    for name, row in present.items():
        is_ours = not only or name.removeprefix(prefix) in only
        if is_ours and (name not in wanted or not _is_same(row, wanted[name])):
            _cancel(broker, name)
    for name, task in wanted.items():
        is_ours = not only or task.name in only
        if is_ours and (name not in present or not _is_same(present[name], task)):
            _create(broker, name, task)


def _target(app: App) -> BrokerTarget:
    servers = tuple(parse_listen(node) for node in app.nodes)
    return BrokerTarget(servers, app.tls, lambda _for_pages: app.credentials)


def _is_same(row: Document, task: _AnyTask) -> bool:
    schedule, timing = task.settings.schedule or Schedule(), row["timing"]
    found = Schedule(
        timing.get("cron"), timing.get("every_s"), timing.get("timezone", "UTC"), row["missed"]
    )
    settings = (row["topic"], row["priority"], row["expires_s"], row["state"])
    expected = (task.topic, task.settings.priority, task.settings.ttl_s or 0, "active")
    return found == schedule and settings == expected


def _cancel(broker: AdminClient, name: str) -> None:
    try:
        broker.delete(PATH, name=name)
    except Refused:  # another worker was faster
        if broker.get(PATH, name=name)["items"]:
            raise


def _create(broker: AdminClient, name: str, task: _AnyTask) -> None:
    schedule, settings = task.settings.schedule or Schedule(), task.settings
    try:
        broker.post(
            PATH,
            name=name,
            topic=task.topic,
            cron=schedule.cron,
            every_s=schedule.every_s,
            timezone=schedule.timezone,
            missed=schedule.missed,
            text="{}",
            content_type="application/json",
            priority=settings.priority,
            expires_s=settings.ttl_s,
        )
    except Refused as error:
        rows = broker.get(PATH, name=name)["items"]
        if not rows or not _is_same(rows[0], task):
            what = f"the schedule of {task.name} was not made: {error}"
            raise PenstockError(what, "may this user publish to the topic of the task?") from error
