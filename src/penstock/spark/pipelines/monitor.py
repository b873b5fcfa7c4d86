"""Waiting for the queries of a job: progress is shown, and an end asked for is a good end.

``StreamingQuery.stop`` breaks off the batch that runs. Nothing is lost by that, for the batch is
run again at the next start; but its work is, and so the end is asked for between two batches
instead: when none is being worked on, or as soon as the one that was has reported. The next one may
have begun by then. That costs what it did in a moment.

Where one query of a job fails, the others are ended too: a job is whole or it is not there.
"""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError
from penstock.spark.data_loss import LossError
from penstock.spark.options import LOSS_TOPIC
from penstock.spark.pipelines.lateness import checkpoint_watermark, milliseconds
from penstock.spark.pipelines.progress import BatchProgress, batch_of
from penstock.spark.pipelines.streams import checkpoint_of

POLL_S: Final = 0.2
"""How often queries are looked at; asking costs a call into the JVM, about a millisecond."""

STOP_POLL_S: Final = 0.02
"""How often, while they are ending: the moment between two batches is short."""

TRACEBACK: Final = "Traceback (most recent call last):"

CAUSE_CHARACTERS: Final = 2000
"""How much of Spark's account of a failure is repeated. All of it is in Spark's log."""


class Display(Protocol):
    """Whoever shows what was done."""

    def show(self, batch: BatchProgress) -> None:
        """Take a batch that was finished."""


class JobFailedError(PenstockError):
    """A query of a job ended with an error."""


def monitor(queries: Sequence[StreamingQuery], display: Display, stop: threading.Event) -> None:
    """Wait until all queries have ended, or ``stop`` is set and they have been ended well."""
    watched = [_MonitoredQuery(query, display) for query in queries]
    while any(each.query.isActive for each in watched) and not stop.is_set():
        for each in watched:
            each.look()
        if any(each.has_failed() for each in watched):
            break
        stop.wait(POLL_S)
    _end(watched)
    for each in watched:
        each.look()
        each.raise_failure()


def _end(watched: Sequence["_MonitoredQuery"]) -> None:
    """End what still runs, each between two of its batches."""
    for each in watched:
        each.ask_to_end()
    while watched := [each for each in watched if not each.try_to_end()]:
        time.sleep(STOP_POLL_S)


class _MonitoredQuery:
    """One query: which of its batches were shown, and where it was when its end was asked for."""

    def __init__(self, query: StreamingQuery, display: Display) -> None:
        self.query = query
        self._display = display
        self._shown: tuple[int, str] = (-1, "")
        self._asked_at: tuple[int, str] = (-1, "")
        self._watermark: tuple[int, str | None] = (-1, None)

    def has_failed(self) -> bool:
        return not self.query.isActive and self.query.exception() is not None

    def look(self) -> None:
        """Show the batches that were finished since the last look.

        Spark keeps the last hundred reports. They are fetched only where more than one is new.
        """
        last = self.query.lastProgress
        if last is None or _mark(last) <= self._shown:
            return
        is_next = last["batchId"] <= self._shown[0] + 1
        for progress in [last] if is_next else self.query.recentProgress:
            if _mark(progress) > self._shown:
                self._shown = _mark(progress)
                self._display.show(batch_of(progress, self._judged_ms(progress)))
                self._watermark = (progress["batchId"], progress["eventTime"].get("watermark"))

    def _judged_ms(self, progress: Mapping[str, Any]) -> int | None:
        """Return the watermark of the batch before: by it rows of this one were too late."""
        batch = progress["batchId"]
        known, watermark = self._watermark
        if known == batch - 1 and watermark is not None:
            return milliseconds(watermark)
        checkpoint = checkpoint_of(self.query)
        return None if checkpoint is None else checkpoint_watermark(checkpoint, batch - 1)

    def ask_to_end(self) -> None:
        self.look()
        self._asked_at = self._shown

    def try_to_end(self) -> bool:
        """End the query if it is between two batches; say whether it has ended."""
        if not self.query.isActive:
            return True
        self.look()
        status = self.query.status
        is_at_work = status["isTriggerActive"] and status["isDataAvailable"]
        if is_at_work and self._shown == self._asked_at:
            return False
        self.query.stop()
        return True

    def raise_failure(self) -> None:
        error = self.query.exception()
        if error is not None:
            raise failure(self.query.name or str(self.query.id), error) from error


def _mark(progress: "dict[str, object]") -> tuple[int, str]:
    """What orders reports. A query without data reports now and then, with the same batch."""
    return int(str(progress["batchId"])), str(progress["timestamp"])


def failure(name: str, error: PySparkException | Py4JJavaError) -> JobFailedError:
    """Say why a job failed, and what to do: it goes on by itself only where nothing is lost."""
    said = f"{name} failed: {cause(error)}"
    if _LOSS not in str(error):
        return JobFailedError(said, _GO_ON)
    return JobFailedError(said.partition("\n")[0], _AFTER_A_LOSS)


_LOSS: Final = f"{LossError.__module__}.{LossError.__qualname__}: "
_GO_ON: Final = (
    "nothing is lost: when the cause is removed, the same command goes on from its checkpoint"
)
_AFTER_A_LOSS: Final = (
    "The same command would fail again. With --ignore-loss it goes on without these messages, and"
    f" notes each lost range in the topic {LOSS_TOPIC}."
)


def cause(error: PySparkException | Py4JJavaError) -> str:
    """Say why, as short as it can be said, and then where, if it is a fault of a program.

    Where Python raised it, in the source or in a worker, that is what it raised: Spark repeats the
    whole traceback, and all that led to it, and adds the plan of the query. Errors that are meant
    for users come without a traceback (:mod:`penstock.spark.tracebacks`).
    """
    text = re.split(r"\n\s*(?:SQLSTATE:|=== Streaming Query|at (?=[\w.$]+\())", str(error).strip())[
        0
    ]
    where = ""
    if TRACEBACK in text:
        _, begin, where = text.partition(TRACEBACK)
        where = f"\n{begin}{where.rstrip()}"
        frames = text.rpartition(TRACEBACK)[2].splitlines()[1:]
        text = "\n".join(dropwhile(lambda line: line.startswith("  "), frames))
    text = re.sub(r"\A(?:An error occurred while calling \w+\.\w+\.\s*: )?", "", text)
    ours = re.search(r"(?:\A|: )penstock\.[\w.]+: ", text)
    if ours:  # what Spark says before it is of no use
        text, where = text[ours.end() :], ""
    text = text.strip() + where
    return text if len(text) <= CAUSE_CHARACTERS else text[:CAUSE_CHARACTERS] + " ..."
