"""The jobs by name, and what a job is: a function with its options as data.

The table holds names and one line of help each, so that a list of all jobs imports none of them; a
job's module is imported when it is run. Each module declares its jobs beside their functions::

    def run(spark, *, servers, subscribe, checkpoint, every): ...

    JOB = Job("rollup", (SERVERS, SUBSCRIBE, CHECKPOINT, Option("every", "...", "duration")), run)

To add a job: declare it so, and give it a line in ``JOBS``. ``penstock spark run`` does the rest:
it makes the flags from the options, a session for the job, shows the progress and ends it well.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal

import msgspec

from penstock.errors import ConfigError


class Option(msgspec.Struct, frozen=True):
    """One option of a job: a keyword argument of its function, and a flag of the command line.

    ``name`` is the argument's, as in ``max_rows``; the flag is ``--max-rows``. A duration is
    written with its unit and arrives as seconds. One that ``repeats`` arrives as a tuple.
    """

    name: str
    help: str
    kind: Literal["text", "flag", "integer", "number", "duration", "choice"] = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    is_required: bool = False
    repeats: bool = False


class JobOutcome(msgspec.Struct, frozen=True):
    """What a job that ends has to say: for people, for programs, and whether all is well.

    The command exits with 1 where ``is_ok`` is false; the job itself went through all the same.
    """

    text: str
    document: Any = None
    is_ok: bool = True


class FollowUp(msgspec.Struct, frozen=True):
    """A query, started, and what is to be done once it has come to its end by itself."""

    query: Any
    then: Callable[[], JobOutcome]


class PipelineJob(msgspec.Struct, frozen=True):
    """A name, options, and ``run(spark, **options)``.

    A job that streams returns its query, or a list of them, started; whoever called it waits. If
    something is to be done after that, it returns a :class:`FollowUp`. One
    that ends by itself returns an :class:`JobOutcome`, or None. Where ``says`` is set, ``run`` also
    gets ``say``, a function that takes a mapping of figures at each step, shown as progress.

    ``check`` takes the same options, and raises ``ConfigError`` for what ``run`` would refuse. It
    is called before Spark is started.

    The function's docstring is the text of ``--help``.
    """

    name: str
    options: tuple[Option, ...]
    run: Callable[..., Any]
    says: bool = False
    check: Callable[..., None] | None = None


# ── Options that many jobs have ───────────────────────────────────────────────────────────────

SERVERS: Final = Option(
    "servers",
    "Where the broker is; any of its listeners will do.",
    default="127.0.0.1:1883",
    metavar="HOST:PORT,...",
)
SUBSCRIBE: Final = Option(
    "subscribe",
    "Topics to read: names and MQTT filters, separated by commas.",
    metavar="FILTER,...",
    is_required=True,
)
CHECKPOINT: Final = Option(
    "checkpoint",
    "Where the job notes how far it is; the same directory continues it.",
    metavar="DIR",
    is_required=True,
)
READER: Final = Option(
    "reader", "The name under which the broker knows this job, and shows its lag.", metavar="NAME"
)
DEVICE: Final = Option(
    "device",
    "What a device is: topic, a level of it (level:2), or a field (as in $.id).",
    default="topic",
    metavar="WHAT",
)
IGNORE_LOSS: Final = Option(
    "ignore_loss", "Go on where retention was faster than the job, and note what is lost.", "flag"
)
TRIGGER: Final = Option(
    "trigger",
    "When to work: continuous, available-now (what is there, then end), or every so often (10s).",
    default="continuous",
    metavar="WHEN",
)

UNTIMED: Final = Option(
    "untimed",
    "Messages without a usable --time: drop and count them, or take the broker's time.",
    "choice",
    default="drop",
    choices=("drop", "broker"),
)


# ── The table ─────────────────────────────────────────────────────────────────────────────────

JOBS: Final[dict[str, tuple[str, str]]] = {
    "archive": (
        "penstock.spark.pipelines.archive:JOB",
        "Keep topics as Parquet, each message once.",
    ),
    "audit": (
        "penstock.spark.pipelines.audit:JOB",
        "Prove that an archive has every message exactly once.",
    ),
    "compact": ("penstock.spark.pipelines.compaction:JOB", "Make few files of many in an archive."),
    "quality": (
        "penstock.spark.pipelines.quality:JOB",
        "Find out what JSON payloads look like, and what has changed.",
    ),
    "quarantine": (
        "penstock.spark.pipelines.quarantine:JOB",
        "Set aside messages that cannot be read.",
    ),
    "replay": (
        "penstock.spark.pipelines.replay:JOB",
        "Publish an archive again, in its order and at any speed, once.",
    ),
    "rollup": (
        "penstock.spark.pipelines.rollup:JOB",
        "Count and average measurements in windows of time.",
    ),
    "sessions": ("penstock.spark.pipelines.sessions:JOB", "Find when devices were at work."),
    "silent": (
        "penstock.spark.pipelines.silent:JOB",
        "Tell which devices fell silent, came back or skipped numbers.",
    ),
}
"""Name → where its :class:`PipelineJob` is (module:attribute), and what a list says about it."""


def job(name: str) -> PipelineJob:
    """Import a job; an unknown name is an error that lists all."""
    if name not in JOBS:
        raise ConfigError(f"there is no job {name!r}", f"there are: {', '.join(sorted(JOBS))}")
    module, _, attribute = JOBS[name][0].partition(":")
    found: PipelineJob = getattr(import_module(module), attribute)
    return found
