"""The registry of jobs; a job is a function whose options are declared as data.

The registry holds names and one line of help, so listing the jobs imports none of them. To add a
job, declare it next to its function and add a line to ``JOBS``. ``penstock spark run`` turns the
options into flags, creates a session, shows progress, and stops the job cleanly.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Option(msgspec.Struct, frozen=True):
    """An option of a job; a duration is passed as seconds, one that ``repeats`` as a tuple."""

    name: str
    help: str
    kind: Literal["text", "flag", "integer", "number", "duration", "choice"] = "text"
    default: str | float | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    is_required: bool = False
    repeats: bool = False


class JobOutcome(msgspec.Struct, frozen=True):
    """The result of a job that ends, as text and as JSON; ``is_ok`` decides the exit status."""

    text: str
    document: object = None
    is_ok: bool = True


class QueryFollowUp(msgspec.Struct, frozen=True):
    """A started query, and what to do when it has ended by itself."""

    query: "StreamingQuery"
    action: Callable[[], JobOutcome]


JobResult: TypeAlias = (
    "StreamingQuery | Sequence[StreamingQuery] | QueryFollowUp | JobOutcome | None"
)


class PipelineJob(msgspec.Struct, frozen=True):
    """A name, options, and ``run(spark, **options)``, whose docstring is the text of ``--help``.

    A streaming job returns its started queries, or a ``QueryFollowUp``; the caller waits. If
    ``says`` is set, ``run`` also gets ``say``, which takes a mapping of figures, to show as
    progress. ``check`` raises ``ConfigError`` for what ``run`` would refuse, before Spark starts.
    """

    name: str
    options: tuple[Option, ...]
    run: Callable[..., JobResult]
    says: bool = False
    check: Callable[..., None] | None = None


def duration(name: str, text: str, default: str) -> Option:
    return Option(name, text, "duration", default=default, metavar="DURATION")


def choice(name: str, text: str, *choices: str) -> Option:
    return Option(name, text, "choice", default=choices[0], choices=choices)


# Options of several jobs.

SERVERS: Final = Option(
    "servers", "Address of the broker.", default="127.0.0.1:1883", metavar="HOST:PORT,..."
)
SUBSCRIBE: Final = Option(
    "subscribe",
    "Topics to read: names and MQTT filters, separated by commas.",
    metavar="FILTER,...",
    is_required=True,
)
CHECKPOINT: Final = Option(
    "checkpoint",
    "Directory for the job's progress; use the same one to resume.",
    metavar="DIR",
    is_required=True,
)
READER: Final = Option(
    "reader", "Name of this job at the broker, which shows its lag.", metavar="NAME"
)
DEVICE: Final = Option(
    "device",
    "What identifies a device: topic, a level of it (level:2), or a field ($.id).",
    default="topic",
    metavar="WHAT",
)
IGNORE_LOSS: Final = Option(
    "ignore_loss", "Continue if retention removed unread messages; record the loss.", "flag"
)
TRIGGER: Final = Option(
    "trigger",
    "When to run: continuous, available-now (read what is there, then end), or an interval (10s).",
    default="continuous",
    metavar="WHEN",
)
MAX_ROWS: Final = Option("max_rows", "Messages per batch at most.", "integer", metavar="COUNT")
EVENT_TIME: Final = Option(
    "time",
    "Time of a message: broker, header (its header time), or a field ($.at).",
    default="broker",
    metavar="WHERE",
)
UNTIMED: Final = choice(
    "untimed", "Messages without a usable --time: drop them, or use the broker's.", "drop", "broker"
)
PARQUET: Final = Option("path", "Directory for Parquet output.", metavar="DIR")

INPUT: Final = (SERVERS, SUBSCRIBE, CHECKPOINT)
CONTROL: Final = (READER, TRIGGER, IGNORE_LOSS)

_JOBS: Final = (
    ("archive", "archive", "Archive topics as Parquet, each message exactly once."),
    ("audit", "audit", "Prove that an archive has every message exactly once."),
    ("compact", "compaction", "Merge the small files of an archive."),
    ("quality", "quality", "Report the fields of JSON payloads, and what changed."),
    ("quarantine", "quarantine", "Copy unreadable messages to a topic."),
    ("replay", "replay", "Publish an archive again, in order, at any speed, exactly once."),
    ("rollup", "rollup", "Aggregate measurements in time windows."),
    ("sessions", "sessions", "Find when devices were active."),
    ("silent", "silent", "Alert on devices that fell silent, came back or skipped numbers."),
)

# Name → import path of its PipelineJob, and a line of help.
JOBS: Final = {
    name: (f"penstock.spark.pipelines.{module}:JOB", text) for name, module, text in _JOBS
}


def job(name: str) -> PipelineJob:
    if name not in JOBS:
        raise ConfigError(f"there is no job {name!r}", f"the jobs are: {', '.join(sorted(JOBS))}")
    module, _, attribute = JOBS[name][0].partition(":")
    found: PipelineJob = getattr(import_module(module), attribute)
    return found
