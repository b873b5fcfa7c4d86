"""Run a job for ``penstock spark run``: start Spark, show the progress, handle signals.

SIGINT and SIGTERM end a stream after the current batch, with exit status 0. A second signal, or the
first one before a stream has started and in batch jobs, ends the process at once, with 130 or 143.
Nothing is lost, since the batch is repeated the next time.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import click
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.cli.output import print_result
from penstock.cli.spark_output import JavaOutput
from penstock.spark.options import source_options
from penstock.spark.pipelines import monitor, progress
from penstock.spark.pipelines.registry import JobOutcome, PipelineJob, QueryFollowUp
from penstock.spark.pipelines.streams import trigger_of
from penstock.spark.session import session

_Result = TypeVar("_Result")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # Java options that Spark's launcher adds


def execute(
    found: PipelineJob,
    options: dict[str, object],
    *,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    _check(found, options)
    java = JavaOutput()
    spark = _started(found, java, settings, {"master": master} if master else {})
    stream = sys.stderr if found.says else sys.stdout  # its outcome goes to standard output
    try:
        with progress.display(stream, as_json=as_json) as display:
            if isinstance(display, progress.LiveTable) and sys.stderr.isatty():
                java.write = display.note
            extra = {"say": display.say} if found.says else {}
            done = _explained(found.name, partial(found.run, spark, **options, **extra))
            if done is not None and not isinstance(done, JobOutcome):
                java.write(f"{found.name} is running; Ctrl-C stops it after the current batch")
                done = _followed(found, done, display)
    finally:
        java.write = java.say
        spark.stop()
    _conclude(done)


def _check(found: PipelineJob, options: dict[str, object]) -> None:
    if options.get("trigger"):
        trigger_of(str(options["trigger"]))
    given = {_NAMES[name]: str(options[name]) for name in _NAMES if options.get(name) is not None}
    if options.get("servers"):
        source_options({"subscribe": "#", **given})
    if found.check is not None:
        found.check(**options)


_NAMES: Final = {
    "servers": "servers",
    "subscribe": "subscribe",
    "reader": "reader",
    "max_rows": "maxOffsetsPerTrigger",
}
"""Options of jobs → options of the Spark source."""


def _started(
    found: PipelineJob, java: JavaOutput, settings: dict[str, str], where: dict[str, str]
) -> SparkSession:
    # Spark logs a failure several times, at length. This command reports it once, so that log is
    # turned off (``log4j2.properties``), except on a cluster, where tasks are retried.
    _ended_by_signals(java)
    java.say("Starting Spark ...")
    began = time.monotonic()
    if not where:
        os.environ[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -Dpenstock.failures=off".strip()
    with java.inherited():
        spark = session(f"penstock {found.name}", settings=settings, **where)
    _ended_by_signals(java)  # again: Spark has installed its own handler
    took_s = time.monotonic() - began
    java.say(f"Spark {pyspark.__version__} started in {took_s:.0f} s; starting {found.name}")
    return spark


def _followed(
    found: PipelineJob,
    begun: QueryFollowUp | Sequence[StreamingQuery] | StreamingQuery,
    display: monitor.Display,
) -> JobOutcome | None:
    started = begun.query if isinstance(begun, QueryFollowUp) else begun
    stop = _stopped_by_signals()
    queries = started if isinstance(started, Sequence) else [started]
    monitor.monitor(queries, display, stop)
    if not isinstance(begun, QueryFollowUp) or stop.is_set():
        return None
    return _explained(found.name, begun.action)


def _explained(name: str, run: Callable[[], _Result]) -> _Result:
    try:
        return run()
    except (PySparkException, Py4JJavaError) as error:
        raise monitor.failure(name, error) from error
    except OSError as error:  # a directory that is missing or not writable
        raise monitor.JobFailedError(f"{name} failed: {error}") from error


def _conclude(done: object) -> None:
    if not isinstance(done, JobOutcome):
        return
    print_result(done.document, done.text)
    if not done.is_ok:
        click.get_current_context().exit(1)


def _ended_by_signals(java: JavaOutput) -> None:
    """Exit at once on a signal. Unwinding through calls into Java would be noisy."""

    def on_signal(number: int, _frame: object) -> None:
        java.say("penstock: interrupted")
        os._exit(128 + number)

    for number in _SIGNALS:
        signal.signal(number, on_signal)


def _stopped_by_signals() -> threading.Event:
    """Replace Spark's handlers of SIGINT and SIGTERM, which would abort the current batch."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            os._exit(128 + number)  # a second signal: skip the cleanup, which takes long
        stop.set()
        click.echo("stopping after this batch; press again to stop at once", err=True)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    return stop
