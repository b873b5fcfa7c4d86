"""A worker: takes jobs of all tasks of an app, runs them, reports what became of them.

One process with an event loop; each task has a subscription of its own, with its own concurrency.
``async def`` functions run in the loop, plain ones in threads, and those that may have to be killed
in child processes (``children``). A job is acknowledged when its function has returned and its
result is on the broker's disk; it is given back, with the reason, when the function raised. A job
that does not fit the function is a dead letter at once: no attempt could change that.

**Retries and dead letters are the broker's**: at its start a worker tells it how often a job of
each task may be delivered and how long the pauses are. So a job that kills its worker counts, too,
and ends as a dead letter instead of killing one worker after the other.

**To stop** means to take no more jobs, to let those that run finish for ``grace_s``, and to give
back the rest: the broker hands these to other workers when our connection ends.
"""

import asyncio
import contextvars
import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from penstock.client import AsyncQueueClient, AsyncSubscription, Job, connect_async
from penstock.client.errors import ArgumentError, ClientError
from penstock.client.handlers import check_result
from penstock.client.queue.values import DeadLetter, Retry
from penstock.tasks.app import App, Task
from penstock.tasks.child import reason_of
from penstock.tasks.children import Children, JobFailed, ToChild
from penstock.tasks.current import CURRENT, Attempt
from penstock.tasks.results import Outcome

log: Final = logging.getLogger("penstock.tasks")

CONCURRENCY: Final = 4  # of a task that names none
GRACE_S: Final = 30.0

_AnyTask: TypeAlias = Task[..., Any, Any]


class Worker:
    """Runs jobs until ``stop``; see the module."""

    def __init__(
        self,
        app: App,
        named: str,
        *,
        concurrency: int = CONCURRENCY,
        grace_s: float = GRACE_S,
        only: Collection[str] = (),
    ) -> None:
        """``named`` is how children find the app; ``only`` are names of tasks, else all."""
        for name in only:
            if name not in app.tasks:
                known = ", ".join(sorted(app.tasks)) or "none"
                raise ArgumentError(f"the app {app.name} has no task {name}", f"it has: {known}")
        self._app = app
        self._tasks = [task for task in app.tasks.values() if not only or task.name in only]
        if not self._tasks:
            raise ArgumentError(f"the app {app.name} has no tasks", "declare some with @app.task")
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._client: AsyncQueueClient = connect_async(
            app.nodes, timeout_s=app.timeout_s, tls=app.tls, credentials=app.credentials
        )
        in_threads = sum(self._at_once(task) for task in self._tasks if not task.is_async)
        self._threads = ThreadPoolExecutor(max(1, in_threads), "penstock-task")
        self._children = Children(named, log.error)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()  # the second signal: no grace

    def stop(self) -> None:
        """Take no more jobs, and end; called again, at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> bool:
        """Work until ``stop``. False: some jobs were still running, and were given back.

        Raises ClientError if the broker refuses us for good.
        """
        async with self._client:
            for task in self._tasks:
                await self._prepare(task)
            subscriptions = [self._subscribe(task) for task in self._tasks]
            topics = ", ".join(task.topic for task in self._tasks)
            log.info("worker of %s is ready: %s", self._app.name, topics)
            try:
                await self._until_stopped(subscriptions)
            finally:
                is_done = await self._finish(subscriptions)
        return is_done

    def _at_once(self, task: _AnyTask) -> int:
        return task.settings.concurrency or self._concurrency

    async def _prepare(self, task: _AnyTask) -> None:
        """Tell the broker about retries, rates and results of a task."""
        settings, client = task.settings, self._client
        await client.create_group(task.topic, task.group)
        await client.configure_group(
            *(task.topic, task.group),
            max_deliveries=settings.attempts,
            backoff_s=settings.backoff_s,
            backoff_max_s=settings.backoff_max_s,
        )
        if settings.rate_per_s is not None:
            await client.set_rate_limit(task.topic, settings.rate_per_s)
        if settings.results:
            kept_s = self._app.results_kept_s
            await client.configure_topic(task.results_topic, max_age_s=kept_s, keep=True)

    def _subscribe(self, task: _AnyTask) -> AsyncSubscription:
        return self._client.subscribe(
            *(task.topic, task.group, partial(self._handle, task)),
            concurrency=self._at_once(task),
            visibility_s=task.settings.lease_s,
            on_error=partial(self._report, task),
        )

    async def _until_stopped(self, subscriptions: list[AsyncSubscription]) -> None:
        """Return when ``stop`` was called; raise why a subscription ended by itself."""
        ends: list[asyncio.Future[bool]] = [
            asyncio.ensure_future(one.wait()) for one in subscriptions
        ]
        stop: asyncio.Future[bool] = asyncio.ensure_future(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([*ends, stop], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in [*ends, stop]:
                each.cancel()

    async def _finish(self, subscriptions: list[AsyncSubscription]) -> bool:
        closing: asyncio.Future[Any] = asyncio.ensure_future(_close_all(subscriptions))
        hurry: asyncio.Future[Any] = asyncio.ensure_future(self._hurry.wait())
        log.info("stopping: jobs that run have %g s to finish", self._grace_s)
        ends = {closing, hurry}
        await asyncio.wait(ends, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        is_done = closing.done()
        if is_done:
            closing.result()
        else:
            log.warning("some jobs still run after %g s: given back", self._grace_s)
            closing.cancel()  # each then leaves, and the broker hands its jobs to others
            await asyncio.wait([closing])
        hurry.cancel()
        await self._children.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return is_done

    # ── One job ───────────────────────────────────────────────────────────────────────────────

    async def _handle(self, task: _AnyTask, job: Job) -> None:
        attempt = _attempt(task, job)
        try:
            value = await self._call(task, job, attempt)
        except Exception as error:
            if attempt.is_last or isinstance(error, DeadLetter):
                await self._tell(task, Outcome(job.offset, error=str(error)))
            raise
        await self._tell(task, Outcome(job.offset, msgspec.Raw(value)))

    async def _call(self, task: _AnyTask, job: Job, attempt: Attempt) -> bytes:
        """Run the function; return its result as JSON. Raises JobFailed, Retry or DeadLetter."""
        limit_s = task.settings.time_limit_s
        arguments = _arguments(task, job)
        try:
            if task.settings.process or (limit_s is not None and not task.is_async):
                return await self._children.run(_to_child(job, attempt), limit_s)
            async with asyncio.timeout(limit_s):
                value = await self._begin(task, arguments, attempt)
            check_result(value)
            return task.signature.encode_result(value)
        except (JobFailed, Retry, DeadLetter):
            raise
        except TimeoutError as error:
            if limit_s is not None and not error.args:  # the function's own have a text
                raise JobFailed(f"time limit of {limit_s:g} s exceeded") from error
            raise JobFailed(reason_of(error)) from error
        except asyncio.CancelledError as error:
            running = asyncio.current_task()
            if running is not None and running.cancelling():
                raise
            raise JobFailed(reason_of(error)) from error  # the function's own
        except BaseException as error:  # a task that calls sys.exit() must not end its worker
            raise JobFailed(reason_of(error)) from error

    async def _begin(self, task: _AnyTask, arguments: dict[str, Any], attempt: Attempt) -> object:
        context = contextvars.copy_context()
        context.run(CURRENT.set, attempt)
        loop = asyncio.get_running_loop()
        if not task.is_async:
            call = partial(context.run, task.function, **arguments)
            return await loop.run_in_executor(self._threads, call)
        running = loop.create_task(task.function(**arguments), context=context)
        return await running

    async def _tell(self, task: _AnyTask, outcome: Outcome) -> None:
        if task.settings.results:
            body = msgspec.json.encode(outcome)
            await self._client.produce(task.results_topic, body, content_type="json")

    def _report(self, task: _AnyTask, error: Exception, job: Job | None) -> None:
        if job is None:
            log.warning("connection for %s: %s", task.topic, error)
            return
        attempt, of = _attempt(task, job), task.settings.attempts or "any number"
        is_over = attempt.is_last or isinstance(error, DeadLetter)
        fate = "now a dead letter" if is_over else "will be retried"
        where = f"{task.topic}[{job.offset}]"
        cause = None if isinstance(error, Retry | DeadLetter) else error.__cause__
        is_plain = isinstance(error, JobFailed | Retry | DeadLetter | ClientError)
        said = error if is_plain else reason_of(error)
        log.warning(
            "%s failed (attempt %d of %s, %s): %s", where, attempt.number, of, fate, said,
            exc_info=cause,
        )  # fmt: skip


async def _close_all(subscriptions: list[AsyncSubscription]) -> None:
    await asyncio.gather(*(one.close() for one in subscriptions))


def _arguments(task: _AnyTask, job: Job) -> dict[str, Any]:
    try:
        return task.signature.decode(job.payload)
    except ArgumentError as error:
        raise DeadLetter(str(error)) from None


def _attempt(task: _AnyTask, job: Job) -> Attempt:
    number, most = job.redeliveries + 1, task.settings.attempts
    is_last = 0 < most <= number
    return Attempt(f"{job.topic}[{job.offset}]", task.name, number, is_last, job.headers)


def _to_child(job: Job, attempt: Attempt) -> ToChild:
    return ToChild(
        attempt.task, job.payload, attempt.id, attempt.number, attempt.is_last, attempt.headers
    )
