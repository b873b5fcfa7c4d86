"""Running a job of the table for ``penstock spark run``: a session, its progress, its end.

Options are checked before Spark is started, which takes half a minute on a small machine; that it
starts is said at once.

SIGINT and SIGTERM end a stream when the batch it works on is done; that is how a stream ends, so
the exit status is 0. A second signal does not wait, and the status says so (130, 143): even then
nothing is lost, for the batch is run again next time. Before a stream has begun, and in jobs that
end by themselves, the first signal ends the process at once. Spark's processes notice that and end
too; what they would say about it is not shown.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import click
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cli.admin_client import print_result
from penstock.cli.spark_output import JavaOutput
from penstock.spark.options import source_options
from penstock.spark.pipelines import monitor, progress
from penstock.spark.pipelines.registry import JobOutcome, PipelineJob, QueryFollowUp
from penstock.spark.pipelines.streams import trigger_of
from penstock.spark.session import session

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""What Spark's launcher adds to the options of Java, besides those of the settings."""


def execute(
    found: PipelineJob,
    options: dict[str, Any],
    *,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    """Run a job in a session of its own, and show its progress, to its end."""
    _check(found, options)
    java = JavaOutput()
    spark = _started(found, java, settings, {"master": master} if master else {})
    stream = sys.stderr if found.says else sys.stdout  # what such a job prints is its outcome
    try:
        with progress.display(stream, as_json=as_json) as display:
            if isinstance(display, progress.LiveTable) and sys.stderr.isatty():
                java.write = display.note
            told = {"say": display.say} if found.says else {}
            done = _explained(found.name, found.run, spark, **options, **told)
            if done is not None and not isinstance(done, JobOutcome):
                java.write(f"{found.name} is running; Ctrl-C ends it after the current batch")
                done = _followed(found, done, display)
    finally:
        java.write = java.say
        spark.stop()
    _conclude(done, as_json=as_json)


def _check(found: PipelineJob, options: dict[str, Any]) -> None:
    """Refuse options before a session is started: those of all jobs, then the job's own."""
    if options.get("trigger"):
        trigger_of(options["trigger"])
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
"""Options of jobs that are options of the source, under its names."""


def _started(
    found: PipelineJob, java: JavaOutput, settings: dict[str, str], where: dict[str, str]
) -> SparkSession:
    """Start Spark, and say so before and after: it takes its time.

    Spark logs a failure several times, at length. The command says it once, so the log does not
    (``log4j2.properties``), unless there is a cluster, where tasks fail and are tried again.
    """
    _ended_by_signals(java)
    java.say("Starting Spark ...")
    began = time.monotonic()
    if not where:
        os.environ[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -Dpenstock.failures=off".strip()
    with java.inherited():
        spark = session(f"penstock {found.name}", settings=settings, **where)
    _ended_by_signals(java)  # once more: Spark has put a handler of its own in the place
    took_s = time.monotonic() - began
    java.say(f"Spark {pyspark.__version__} started in {took_s:.0f} s; starting {found.name}")
    return spark


def _followed(found: PipelineJob, begun: Any, display: monitor.Display) -> JobOutcome | None:
    """Wait for the queries of a job; then, unless it was told to end, do what follows."""
    sequel = begun if isinstance(begun, QueryFollowUp) else None
    queries = [sequel.query] if sequel else begun if isinstance(begun, list) else [begun]
    stop = _stopped_by_signals()
    monitor.monitor(queries, display, stop)
    if sequel is None or stop.is_set():
        return None
    outcome: JobOutcome = _explained(found.name, sequel.action)
    return outcome


def _explained(name: str, run: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Run it; what Spark has to say about a failure is said without its traceback."""
    try:
        return run(*given, **options)
    except (PySparkException, Py4JJavaError) as error:
        raise monitor.failure(name, error) from error
    except OSError as error:  # a directory that is not there, or not ours to write to
        raise monitor.JobFailedError(f"{name} failed: {error}") from error


def _conclude(done: Any, *, as_json: bool) -> None:
    """Say how it went. A verdict that is bad is exit status 1, and needs no further words."""
    if not isinstance(done, JobOutcome):
        return
    print_result(done.document, done.text, as_json=as_json)
    if not done.is_ok:
        click.get_current_context().exit(1)


def _ended_by_signals(java: JavaOutput) -> None:
    """End at once if a signal comes. Python would unwind through calls into Java, noisily."""

    def on_signal(number: int, _frame: Any) -> None:
        java.say("penstock: interrupted")
        os._exit(128 + number)

    for number in _SIGNALS:
        signal.signal(number, on_signal)


def _stopped_by_signals() -> threading.Event:
    """Take SIGINT and SIGTERM from Spark's session, which would break off the batch that runs."""
    stop = threading.Event()

    def on_signal(number: int, _frame: Any) -> None:
        if stop.is_set():
            os._exit(128 + number)  # asked twice: no cleaning up, which is what takes long
        stop.set()
        click.echo("ending when this batch is done; once more ends at once", err=True)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    return stop
