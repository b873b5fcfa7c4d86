"""Identifies the running task: its query, batch, partition and attempt.

Spark passes no batch number to a streaming writer, but tasks carry it as a local property whose
name is not public API. If it is missing the task fails: a guess could publish a batch twice.
"""

from typing import Final, NamedTuple
from uuid import UUID

from pyspark import TaskContext

from penstock.errors import PenstockError

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"


class TaskAttempt(NamedTuple):
    """One attempt at one partition."""

    partition: int
    attempt: int


class MicroBatch(NamedTuple):
    """One micro-batch; it is the same after a restart from the checkpoint."""

    query: str
    epoch: int


def this_task() -> TaskAttempt:
    context = _context()
    return TaskAttempt(context.partitionId(), context.attemptNumber())


def batch_of_task() -> MicroBatch:
    context = _context()
    query, number = (context.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
    if not _is_id(query) or number is None or not number.isdecimal():
        raise PenstockError(
            "the batch and query of this task are unknown:"
            f" {QUERY_PROPERTY} is {query!r}, {BATCH_PROPERTY} is {number!r}",
            "use the Spark version that penstock-mq[spark] installs, and a streaming query",
        )
    return MicroBatch(str(query), int(number))


def query_of_task() -> str:
    query = _context().getLocalProperty(QUERY_PROPERTY)
    return str(query) if _is_id(query) else ""


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PenstockError("not inside a Spark task", "only Spark tasks can write rows")
    return context


def _is_id(text: str | None) -> bool:
    try:
        return text is not None and str(UUID(text)) == text
    except ValueError:
        return False
