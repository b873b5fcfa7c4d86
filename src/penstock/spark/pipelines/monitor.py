"""Waits for the queries of a job, shows their progress, and stops them cleanly.

``StreamingQuery.stop`` aborts the running batch, and its work is lost. So a query is stopped when
it is idle, or as soon as the running batch has reported. If one fails, the others are stopped too.
"""

import re
import threading
import time
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError
from penstock.spark.data_loss import LossError
from penstock.spark.options import LOSS_TOPIC
from penstock.spark.pipelines.lateness import checkpoint_watermark, milliseconds
from penstock.spark.pipelines.progress import BatchProgress, Document, batch_of
from penstock.spark.pipelines.streams import checkpoint_of

POLL_S: Final = 0.2  # each look is a call into the JVM, about a millisecond
STOP_POLL_S: Final = 0.02  # the moment between two batches is short
TRACEBACK: Final = "Traceback (most recent call last):"
CAUSE_CHARACTERS: Final = 2000  # the rest is in Spark's log


class Display(Protocol):
    """Shows finished batches."""

    def show(self, batch: BatchProgress) -> None: ...


class JobFailedError(PenstockError):
    """A query of a job failed."""


def monitor(queries: Sequence[StreamingQuery], display: Display, stop: threading.Event) -> None:
    watched = [_MonitoredQuery(query, display) for query in queries]
    while any(each.query.isActive for each in watched) and not stop.is_set():
        for each in watched:
            each.look()
        if any(each.has_failed() for each in watched):
            break
        stop.wait(POLL_S)
    for each in watched:
        each.ask_to_end()
    running = watched
    while running := [each for each in running if not each.try_to_end()]:
        time.sleep(STOP_POLL_S)
    for each in watched:
        each.look()
        each.raise_failure()


class _MonitoredQuery:
    """A query, its last shown batch, and its batch when the stop was requested."""

    def __init__(self, query: StreamingQuery, display: Display) -> None:
        self.query = query
        self._display = display
        self._shown: tuple[int, str] = (-1, "")
        self._asked_at: tuple[int, str] = (-1, "")
        self._watermark: tuple[int, str | None] = (-1, None)

    def has_failed(self) -> bool:
        return not self.query.isActive and self.query.exception() is not None

    def look(self) -> None:
        """Show the batches that finished since the last call; Spark keeps a hundred reports."""
        last = self.query.lastProgress
        if last is None or _mark(last) <= self._shown:
            return
        is_next = last["batchId"] <= self._shown[0] + 1
        for progress in [last] if is_next else self.query.recentProgress:
            if _mark(progress) > self._shown:
                self._shown = _mark(progress)
                self._display.show(batch_of(progress, self._judged_ms(progress)))
                self._watermark = (progress["batchId"], progress["eventTime"].get("watermark"))

    def _judged_ms(self, progress: Document) -> int | None:
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


def _mark(progress: Document) -> tuple[int, str]:
    """Return what orders reports; an idle query reports now and then with the same batch."""
    return int(progress["batchId"]), str(progress["timestamp"])


def failure(name: str, error: PySparkException | Py4JJavaError) -> JobFailedError:
    said = f"{name} failed: {cause(error)}"
    if _LOSS not in str(error):
        return JobFailedError(said, _RESUME_ADVICE)
    return JobFailedError(said.partition("\n")[0], _LOSS_ADVICE)


_LOSS: Final = f"{LossError.__module__}.{LossError.__qualname__}: "
_RESUME_ADVICE: Final = "nothing is lost: fix the cause, and run the same command again to resume"
_LOSS_ADVICE: Final = (
    "The same command would fail again. With --ignore-loss it continues without these messages, and"
    f" publishes each lost range to the topic {LOSS_TOPIC}."
)


def cause(error: PySparkException | Py4JJavaError) -> str:
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
    if ours:  # Spark's prefix is useless
        text, where = text[ours.end() :], ""
    text = text.strip() + where
    return text if len(text) <= CAUSE_CHARACTERS else text[:CAUSE_CHARACTERS] + " ..."
