"""``App`` and ``@app.task``: what a program that sends jobs sees, and where tasks are declared.

An app is declared in one module, which callers and workers both import. Making it opens nothing;
the first job that is sent opens one connection for the whole process, for any number of threads. A
process that forks (gunicorn, multiprocessing) gets its own, since two processes cannot share one,
and a lock of its own: a thread of the parent may hold that lock at the moment of the fork, and in
the child there is no such thread to let go of it.

Sending returns when the broker has the job on its disk, and a job that is sent again because the
connection broke is stored once.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Final, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload
from weakref import WeakSet

import msgspec

from penstock.client import Credentials, QueueClient, connect
from penstock.client.errors import ArgumentError
from penstock.client.queue.checks import count, milliseconds, rate, span_milliseconds
from penstock.client.queue.values import MessageKeywords
from penstock.client.tls import Tls
from penstock.model.message import PRIORITY_MAX
from penstock.model.topic import topic_fault
from penstock.tasks.results import ResultReader, Sent
from penstock.tasks.signature import Signature
from penstock.tasks.timing import Schedule

P = ParamSpec("P")
R = TypeVar("R")  # what a call gives: for an ``async def`` function, a coroutine
T = TypeVar("T")  # what the task returns

GROUP: Final = "workers"
DAY_S: Final = 24 * 3600.0
VISIBILITY_S: Final = 3600.0  # of a job without a time limit; the end of a connection ends it, too
VISIBILITY_MARGIN_S: Final = 60.0


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is run; keywords of ``@app.task``."""

    name: str = ""  # the function's
    retries: int | None = 3  # after the first attempt; None: for ever
    backoff_s: float = 1.0  # before the first retry; it doubles
    backoff_max_s: float = 60.0
    priority: int = 0  # 0 to 7; the greater, the earlier it runs
    ttl_s: float | None = None  # a job that no worker took in this time is dropped
    concurrency: int | None = None  # at once in one worker; None: as the worker says
    time_limit_s: float | None = None  # then the attempt is ended, and has failed
    process: bool = False  # run in child processes even without a time limit, for what computes
    visibility_s: float | None = None  # how long a worker has a job before others may get it
    rate_per_s: float | None = None  # jobs started per second, over all workers
    results: bool = False  # publish what it returns
    schedule: Schedule | None = None  # cron(...) or every(...)

    @property
    def lease_s(self) -> float:
        if self.visibility_s is not None:
            return self.visibility_s
        return (
            VISIBILITY_S if self.time_limit_s is None else self.time_limit_s + VISIBILITY_MARGIN_S
        )

    @property
    def attempts(self) -> int:
        """How often a job may be delivered; 0: any number of times."""
        return 0 if self.retries is None else self.retries + 1

    def check(self) -> None:
        """Raises ArgumentError or TypeError."""
        count("retries", self.retries or 0)
        count("priority", self.priority, most=PRIORITY_MAX)
        count("concurrency", 1 if self.concurrency is None else self.concurrency, 1, 1024)
        milliseconds("backoff_s", self.backoff_s)
        milliseconds("backoff_max_s", self.backoff_max_s)
        rate("rate_per_s", self.rate_per_s or 0)
        for name in ("ttl_s", "time_limit_s", "visibility_s"):
            if (value := getattr(self, name)) is not None:
                span_milliseconds(name, value)
        if 0 < self.backoff_max_s < self.backoff_s:
            raise ArgumentError(
                f"backoff_max_s is {self.backoff_max_s:g}, and backoff_s {self.backoff_s:g}",
                "the longest pause cannot be less than the first",
            )


class TaskKeywords(TypedDict, total=False):
    """The same for type checkers, which cannot derive it."""

    name: str
    retries: int | None
    backoff_s: float
    backoff_max_s: float
    priority: int
    ttl_s: float | None
    concurrency: int | None
    time_limit_s: float | None
    process: bool
    visibility_s: float | None
    rate_per_s: float | None
    results: bool
    schedule: Schedule | None


class SendKeywords(TypedDict, total=False):
    """Keywords of one job; see ``Task.options``."""

    delay_s: float
    priority: int
    ttl_s: float | None
    headers: dict[str, bytes]


class App:
    """Tasks, and the broker that has their jobs: a name, and addresses of nodes."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[str] = ("127.0.0.1:1883",),
        *,
        tls: Tls = None,
        credentials: Credentials | None = None,
        timeout_s: float = 10.0,
        results_kept_s: float = DAY_S,
    ) -> None:
        """``timeout_s`` limits sending, lost connections and elections included."""
        self.name = _level("app", name)
        self.nodes = [nodes] if isinstance(nodes, str) else list(nodes)
        self.tls = tls
        self.credentials = credentials
        self.timeout_s = timeout_s
        self.results_kept_s = results_kept_s
        self.tasks: dict[str, Task[..., Any, Any]] = {}
        self._client: QueueClient | None = None
        self._readers: dict[str, ResultReader] = {}
        self._lock = threading.Lock()
        _apps.add(self)

    # ── Declaring ─────────────────────────────────────────────────────────────────────────────

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> "Task[P, Coroutine[Any, Any, T], T]": ...

    @overload
    def task(self, function: Callable[P, R], /) -> "Task[P, R, R]": ...

    @overload
    def task(self, function: None = None, /, **options: Unpack[TaskKeywords]) -> "_Declare": ...

    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> "Task[..., Any, Any] | _Declare":
        """Make a function a task; with keywords as ``@app.task(retries=5)``.

        Keywords: see ``TaskOptions``.
        """
        declare = _Declare(self, _options(options))
        return declare if function is None else declare(function)

    def add(self, task: "Task[..., Any, Any]") -> None:
        if task.name in self.tasks:
            what = f"the app {self.name} has two tasks {task.name}"
            raise ArgumentError(what, "give one another name: @app.task(name=...)")
        self.tasks[task.name] = task

    # ── Sending ───────────────────────────────────────────────────────────────────────────────

    def send(self, task: str, /, **arguments: object) -> Sent[Any]:
        """Send a job by the name of its task, as ``task.delay`` does."""
        if task not in self.tasks:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise ArgumentError(f"the app {self.name} has no task {task}", f"it has: {known}")
        return self.tasks[task].delay(**arguments)

    @property
    def client(self) -> QueueClient:
        """The connection of this process."""
        with self._lock:
            if self._client is None:
                self._client = connect(
                    self.nodes, timeout_s=self.timeout_s, tls=self.tls, credentials=self.credentials
                )
            return self._client

    def reader(self, topic: str) -> ResultReader:
        """What waits for results on a topic."""
        client = self.client
        with self._lock:
            if topic not in self._readers:
                self._readers[topic] = ResultReader(client, topic)
            return self._readers[topic]

    def close(self) -> None:
        """Close the connection; the next job opens another one."""
        with self._lock:
            client, self._client = self._client, None
            self._readers = {}
        if client is not None:
            client.close()

    def forked(self) -> None:
        """Begin anew in a child process: connection and lock are the parent's."""
        self._lock = threading.Lock()
        self._client = None
        self._readers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_apps: Final[WeakSet[App]] = WeakSet()


def _forked() -> None:
    for app in list(_apps):
        app.forked()


os.register_at_fork(after_in_child=_forked)


class _Declare:
    """``@app.task(...)`` with its keywords."""

    def __init__(self, app: App, options: TaskOptions) -> None:
        self._app = app
        self._options = options

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> "Task[P, Coroutine[Any, Any, T], T]": ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> "Task[P, R, R]": ...

    def __call__(self, function: Callable[..., Any], /) -> "Task[..., Any, Any]":
        task: Task[..., Any, Any] = Task(self._app, function, self._options)
        self._app.add(task)
        return task


class Task(Generic[P, R, T]):
    """A function that workers run. Called like a function, it runs here."""

    def __init__(self, app: App, function: Callable[P, R], options: TaskOptions) -> None:
        self.app = app
        self.function = function
        self.signature: Signature[T] = Signature(function)
        self.name = _level("task", options.name or getattr(function, "__name__", ""))
        self.settings = options
        self.group = GROUP
        self.topic = f"tasks/{app.name}/{self.name}"
        self.results_topic = f"results/{app.name}/{self.name}"
        self.is_async = inspect.iscoroutinefunction(function)
        update_wrapper(self, function)
        if options.schedule is not None and self.signature.required:
            what = f"the task {self.name} has a schedule, and no value for its parameters"
            raise ArgumentError(what, f"give defaults to {', '.join(self.signature.required)}")

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        return self.function(*arguments, **keywords)

    def delay(self, *arguments: P.args, **keywords: P.kwargs) -> Sent[T]:
        """Send a job; return when the broker's disk has it."""
        return self.options().delay(*arguments, **keywords)

    async def delay_async(self, *arguments: P.args, **keywords: P.kwargs) -> Sent[T]:
        """Do so without blocking the event loop."""
        return await self.options().delay_async(*arguments, **keywords)

    def delay_many(self, calls: Iterable[Mapping[str, object]]) -> list[Sent[T]]:
        """Send a job for each mapping of arguments, in few round trips and flushes."""
        return self.options().delay_many(calls)

    def options(self, **settings: Unpack[SendKeywords]) -> "Sending[P, T]":
        """Change what the next job has, as in ``resize.options(delay_s=60).delay("cat.png")``.

        ``delay_s``: run it later; ``priority`` and ``ttl_s`` instead of those of the task;
        ``headers``, which the task finds in ``current()``.
        """
        return Sending(self, settings)


class Sending(Generic[P, T]):
    """A task with settings for jobs; made by ``Task.options``."""

    def __init__(self, task: Task[P, Any, T], settings: SendKeywords) -> None:
        self._task = task
        self._message: MessageKeywords = {
            "content_type": "json",
            "priority": task.settings.priority,
            "ttl_s": task.settings.ttl_s,
            **settings,
        }

    def delay(self, *arguments: P.args, **keywords: P.kwargs) -> Sent[T]:
        """Send a job; return when the broker's disk has it."""
        body = self._task.signature.encode(arguments, keywords)
        reader = self._reader()
        offset = self._task.app.client.produce(self._task.topic, body, **self._message)
        return Sent(self._task, offset, reader)

    async def delay_async(self, *arguments: P.args, **keywords: P.kwargs) -> Sent[T]:
        """Do so without blocking the event loop."""
        return await asyncio.to_thread(self.delay, *arguments, **keywords)

    def delay_many(self, calls: Iterable[Mapping[str, object]]) -> list[Sent[T]]:
        """Send a job for each mapping of arguments, in few round trips and flushes.

        Raises the first refusal; the jobs that were not refused are sent.
        """
        bodies = [self._task.signature.encode((), dict(call)) for call in calls]
        reader = self._reader()
        results = self._task.app.client.produce_many(self._task.topic, bodies, **self._message)
        refused = [result.error for result in results if result.error is not None]
        if refused:
            raise refused[0]
        return [Sent(self._task, result.offset or 0, reader) for result in results]

    def _reader(self) -> ResultReader | None:
        """What waits for results: made before the job is sent, so that none is missed."""
        task = self._task
        return task.app.reader(task.results_topic) if task.settings.results else None


def _options(given: dict[str, Any]) -> TaskOptions:
    try:
        options = TaskOptions(**given)
    except TypeError as error:
        known = ", ".join(TaskOptions.__struct_fields__)
        raise ArgumentError(f"@app.task: {error}", f"it takes {known}") from None
    options.check()
    return options


def _level(what: str, name: str) -> str:
    """A name that is one level of a topic."""
    fault = topic_fault(name.encode()) or ("contains /" if "/" in name else "")
    if fault or name.startswith("<"):  # a lambda
        raise ArgumentError(f"the name of the {what} is {name!r}: {fault or 'no name'}", "name it")
    return name
