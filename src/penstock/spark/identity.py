"""Who a task is: which query, which of its batches, which partition, which attempt.

A writer of a stream is told nothing, but the task it runs in carries the query's id, which the
checkpoint keeps over restarts, and the number of the batch. Both are properties that Spark sets for
itself, under names that it promises nobody. So they are read here and nowhere else, and where they
are missing the task fails: a guess could publish a batch twice, or not at all.
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
    """One micro-batch; the same after a restart from the same checkpoint."""

    query: str
    epoch: int


def this_task() -> TaskAttempt:
    """The task that we are in."""
    context = _context()
    return TaskAttempt(context.partitionId(), context.attemptNumber())


def batch_of_task() -> MicroBatch:
    """The micro-batch that our task belongs to."""
    context = _context()
    query, number = (context.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
    if not _is_id(query) or number is None or not number.isdecimal():
        raise PenstockError(
            "this task does not say which batch of which query it belongs to:"
            f" {QUERY_PROPERTY} is {query!r}, {BATCH_PROPERTY} is {number!r}",
            "the sink needs the Spark that penstock-mq[spark] installs, and a streaming query",
        )
    return MicroBatch(str(query), int(number))


def query_of_task() -> str:
    """The streaming query that our task belongs to; empty if it is none's."""
    query = _context().getLocalProperty(QUERY_PROPERTY)
    return str(query) if _is_id(query) else ""


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PenstockError("this is no task of Spark", "rows are written by tasks alone")
    return context


def _is_id(text: str | None) -> bool:
    try:
        return text is not None and str(UUID(text)) == text
    except ValueError:
        return False
