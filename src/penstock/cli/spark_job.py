"""Running a job of the table for ``penstock spark run``: a session, its progress, its end.

SIGINT and SIGTERM end a stream when the batch it works on is done; that is how a stream ends, so
the exit status is 0. A second signal does not wait, and the status says so (130, 143): even then
nothing is lost, for the batch is run again next time. Jobs that end by themselves are not waited
for either: they are broken off by the first signal.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import click
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.cli.administration import say
from penstock.spark.options import source_options
from penstock.spark.pipelines import progress, watch
from penstock.spark.pipelines.streams import trigger_of
from penstock.spark.pipelines.table import Job, Outcome, Sequel
from penstock.spark.session import session

__all__ = ["execute"]


def execute(
    found: Job,
    options: dict[str, Any],
    *,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    """Run a job in a session of its own, and show its progress, to its end."""
    _check(options)
    where = {"master": master} if master else {}
    spark = session(f"penstock {found.name}", settings=settings, **where)
    stream = sys.stderr if found.says else sys.stdout  # what such a job prints is its outcome
    try:
        with progress.display(stream, as_json=as_json) as display:
            told = {"say": display.say} if found.says else {}
            done = _explained(found.name, found.run, spark, **options, **told)
            if done is not None and not isinstance(done, Outcome):
                done = _followed(found, done, display)
    finally:
        spark.stop()
    _conclude(done, as_json=as_json)


def _check(options: dict[str, Any]) -> None:
    """Look at what jobs have in common before a session is started, which takes its time."""
    if options.get("trigger"):
        trigger_of(options["trigger"])
    if options.get("servers") and options.get("subscribe"):
        source_options({name: options[name] for name in ("servers", "subscribe")})


def _followed(found: Job, begun: Any, display: watch.Display) -> Outcome | None:
    """Wait for the queries of a job; then, unless it was told to end, do what follows."""
    sequel = begun if isinstance(begun, Sequel) else None
    queries = [sequel.query] if sequel else begun if isinstance(begun, list) else [begun]
    stop = _stopped_by_signals()
    watch.watch(queries, display, stop)
    if sequel is None or stop.is_set():
        return None
    outcome: Outcome = _explained(found.name, sequel.then)
    return outcome


def _explained(name: str, run: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Run it; what Spark has to say about a failure is said without its traceback."""
    try:
        return run(*given, **options)
    except (PySparkException, Py4JJavaError) as error:
        raise watch.JobFailedError(f"{name} failed: {watch.cause(error)}") from error
    except OSError as error:  # a directory that is not there, or not ours to write to
        raise watch.JobFailedError(f"{name} failed: {error}") from error


def _conclude(done: Any, *, as_json: bool) -> None:
    """Say how it went. A verdict that is bad is exit status 1, and needs no further words."""
    if not isinstance(done, Outcome):
        return
    say(done.document, done.text, as_json=as_json)
    if not done.is_ok:
        click.get_current_context().exit(1)


def _stopped_by_signals() -> threading.Event:
    """Take SIGINT and SIGTERM from Spark's session, which would break off the batch that runs."""
    stop = threading.Event()

    def on_signal(number: int, _frame: Any) -> None:
        if stop.is_set():
            os._exit(128 + number)  # asked twice: no cleaning up, which is what takes long
        stop.set()
        click.echo("ending when this batch is done; once more ends at once", err=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
