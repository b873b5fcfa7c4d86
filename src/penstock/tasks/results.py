"""Results as messages, and how a caller gets its own.

A task with ``results=True`` publishes what it returned, or why it failed for good, to the topic
``results/APP/TASK``: one JSON object with ``job``, the offset of the job in its own topic, and
either ``value`` or ``error``. They are messages like all others: subscribe to ``results/shop/#`` by
MQTT, or work through them with a group of your own. They are kept for as long as
``results_kept_s`` of the app says.

``Sent.result`` waits for one. A reader per topic goes through the journal once, from where the
topic ended before the first job was sent, however many jobs are waited for. What it finds is given
to the ``Sent`` objects that still exist; of the others the last ones are remembered for a while,
because the result of a job can arrive before its sender knows the offset.
"""

import os
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from penstock.client.errors import ReplyTimeoutError
from penstock.errors import PenstockError
from penstock.tasks.signature import Signature

if TYPE_CHECKING:
    from penstock.client import QueueClient

T = TypeVar("T")

CHANGES_S: Final = 20.0  # one wait for news; a longer one is several
RECENT_MAX: Final = 10_000  # results whose ``Sent`` is not known, or not yet


class TaskFailedError(PenstockError):
    """The task failed as often as it may; its job is a dead letter."""


class HasResults(Protocol[T]):
    """What of a task concerns its results."""

    name: str
    topic: str
    group: str
    signature: Signature[T]


class Outcome(msgspec.Struct):
    """The payload of a result."""

    job: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""  # why it failed; empty: it did not


class Sent(Generic[T]):
    """A job that the broker has on its disk; ``offset`` is its number in its topic."""

    def __init__(self, task: HasResults[T], offset: int, reader: "ResultReader | None") -> None:
        self.task = task
        self.offset = offset
        self.outcome: Outcome | None = None
        self._reader = reader
        if reader is not None:
            reader.want(self)

    def result(self, timeout_s: float = 30.0) -> T:
        """Wait for what the task returns. Raises TaskFailedError, or ReplyTimeoutError."""
        if self._reader is None:
            what = f"the task {self.task.name} publishes no results"
            raise PenstockError(what, "write @app.task(results=True), and start its workers again")
        outcome = self._reader.wait(self, timeout_s)
        if outcome.error:
            letters = f"penstock dlq show {self.task.topic} {self.task.group} has the job"
            raise TaskFailedError(f"{self.task.name} failed: {outcome.error}", letters)
        return self.task.signature.decode_result(bytes(outcome.value))

    def __repr__(self) -> str:
        return f"Sent({self.task.topic!r}, offset={self.offset})"


class ResultReader:
    """Reads one topic of results, once for all that wait for one."""

    def __init__(self, client: "QueueClient", topic: str) -> None:
        self._client = client
        self._process = os.getpid()
        self._topic = topic
        self._lock = threading.Lock()  # held by the one that reads
        self._table = threading.Lock()  # guards the next two
        self._wanted: WeakValueDictionary[int, Sent[Any]] = WeakValueDictionary()
        self._recent: OrderedDict[int, Outcome] = OrderedDict()
        # In this order: what is published in between is read.
        self._sequence = client.changes([topic]).sequence
        found = client.topic(topic)
        self._offset = 0 if found is None else found.end_offset

    def want(self, sent: Sent[Any]) -> None:
        with self._table:
            sent.outcome = self._recent.pop(sent.offset, None)
            self._wanted[sent.offset] = sent

    def wait(self, sent: Sent[T], timeout_s: float) -> Outcome:
        if self._process != os.getpid():
            what = f"{sent!r} was sent before this process was forked"
            raise PenstockError(what, "wait for its result in the process that sent it")
        deadline = time.monotonic() + timeout_s
        while sent.outcome is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._lock.acquire(timeout=left_s):
                raise ReplyTimeoutError(
                    f"no result of {sent!r} within {timeout_s:g} s",
                    f"does a worker run? penstock groups {sent.task.topic}",
                )
            try:
                if sent.outcome is None:
                    self._read(min(deadline - time.monotonic(), CHANGES_S))
            finally:
                self._lock.release()
        return sent.outcome

    def _read(self, wait_s: float) -> None:
        """Read what is new; wait for it if nothing is."""
        news = self._client.changes([self._topic], self._sequence, max(wait_s, 0.0))
        self._sequence = 0 if news.again else news.sequence
        if self._client.topic(self._topic) is None:
            return
        for record in self._client.messages(self._topic, self._offset):
            self._offset = record.offset + 1
            self._deliver(msgspec.json.decode(record.payload, type=Outcome))

    def _deliver(self, outcome: Outcome) -> None:
        with self._table:
            sent = self._wanted.get(outcome.job)
            if sent is None:
                self._recent[outcome.job] = outcome
                if len(self._recent) > RECENT_MAX:
                    self._recent.popitem(last=False)
            elif sent.outcome is None:  # a job that was done twice has two results: the first
                sent.outcome = outcome
