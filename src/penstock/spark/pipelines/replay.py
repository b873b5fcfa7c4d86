"""``replay``: publishes an archive again, in the original order, at a chosen speed, exactly once.

The first run fixes what is replayed and stores it in the archive as the plan of the job. Rows are
published in *slices*, ordered by ``sequence``. A slice is one epoch of the sink
``job/replay/<job>``, with a note that says up to which sequence everything is done; the next slice,
or the next run, starts there. Each topic has its messages in the original order. Across topics the
order is kept from slice to slice, and within a slice up to the 1 MiB blocks of the sink.

A message gets the time of its publication; the original time is in the header ``time``.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.errors import ConfigError
from penstock.model.topic import topic_fault
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.layout import root_of
from penstock.spark.archived.snapshot import take
from penstock.spark.filters import filters_of, topic_regex
from penstock.spark.pipelines import archive, compaction, registry
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob, duration
from penstock.spark.sink import last_epoch

SLICE_ROWS: Final = 500_000  # rows per slice without pacing: some hundred megabytes are staged
TICK_S: Final = 1.0  # length of a paced slice; a Spark job takes some tenths of a second
TICKS_MAX: Final = 100_000  # slices of a paced replay; a day has 86,400 seconds

# Look for files again after this time: compaction deletes replaced files after a day.
RELOAD_S: Final = 600.0
SAID_S: Final = 600.0
PAUSE_S: Final = 5.0  # report waits of PAUSE_S or more, every SAID_S
NAME_CHARACTERS_MAX: Final = 200
PLANS: Final = "replays"
TOPIC: Final = "{topic}"
Say = Callable[[Mapping[str, int]], None]


class ReplayPlan(msgspec.Struct, frozen=True):
    """What a job replays: of each topic everything before an incarnation and offset."""

    job: str
    subscribe: str
    to: str
    since: str
    until: str
    ends: dict[str, tuple[int, int]]

    @property
    def digest(self) -> str:
        return blake2b(msgspec.json.encode(self, order="sorted"), digest_size=16).hexdigest()


class _Note(msgspec.Struct, frozen=True):
    """Stored by the broker with each slice: everything up to this sequence is published."""

    done: int
    plan: str


def settle(
    root: Path,
    job: str,
    look: Callable[[str], dict[str, tuple[int, int]]],
    *,
    subscribe: str = "#",
    to: str = f"replay/{TOPIC}",
    since: str = "",
    until: str = "",
) -> ReplayPlan:
    """Return the plan of a job; if there is none yet, ``look`` how far topics are archived now."""
    _check(job, to)
    path = root / PLANS / _file_of(job)
    if not path.exists():
        made = ReplayPlan(job, subscribe, to, since, until, look(subscribe))
        path.parent.mkdir(exist_ok=True)
        manifests.write_once(path, msgspec.json.encode(made, order="sorted"))
    plan = msgspec.json.decode(path.read_bytes(), type=ReplayPlan)
    if (plan.subscribe, plan.to, plan.since, plan.until) != (subscribe, to, since, until):
        raise ConfigError(
            f"replay {job!r} was started with subscribe={plan.subscribe!r}, to={plan.to!r}, "
            f"since={plan.since!r}, until={plan.until!r}",
            "Use the same options, or another job name.",
        )
    return plan


def _file_of(job: str) -> str:
    """Return a plan's file name: job names may have 189 bytes of any characters, file names 255."""
    quoted = quote(job, safe="")
    if len(quoted) > NAME_CHARACTERS_MAX:
        digest = blake2b(job.encode(), digest_size=8).hexdigest()
        quoted = f"{quoted[:NAME_CHARACTERS_MAX]}-{digest}"
    return f"{quoted}.json"


def _check(job: str, to: str) -> None:
    if fault := topic_fault(f"job/replay/{job}".encode(), 200):
        raise ConfigError(f"{job!r} is not a valid job name: {fault}")
    if fault := topic_fault(to.replace(TOPIC, "topic").encode()):
        raise ConfigError(
            f"{to!r} is not a topic: {fault}", f"Write a topic name, with {TOPIC} in it."
        )


def ends_of(rows: DataFrame, subscribe: str, to: str = "") -> dict[str, tuple[int, int]]:
    """Return how far each topic is archived: its last incarnation, and the next offset.

    The checkpoint lacks deleted topics. What this job writes ``to`` is left out unless named:
    otherwise each replay of ``#`` would repeat all earlier ones.
    """
    filters = filters_of(subscribe)
    chosen = rows.where(f.col("topic").rlike(topic_regex(filters)))
    above, is_mapped, _ = to.partition(TOPIC)
    if above:
        own = f.col("topic").startswith(above) if is_mapped else f.col("topic") == to
        chosen = chosen.where(~own | f.col("topic").isin(*filters))
    last = f.max(f.struct("incarnation", "offset")).alias("last")
    found = chosen.groupBy("topic").agg(last).select("topic", "last.*").collect()
    return {topic: (incarnation, offset + 1) for topic, incarnation, offset in found}


def planned(spark: SparkSession, root: Path, plan: ReplayPlan) -> DataFrame:
    known = [(name, incarnation, end) for name, (incarnation, end) in plan.ends.items()]
    ends = spark.createDataFrame(known, "name string, last bigint, end bigint")
    rows = archive.read(spark, root, since=moment(plan.since), until=moment(plan.until))
    is_planned = (f.col("topic") == f.col("name")) & (
        (f.col("incarnation") < f.col("last"))
        | ((f.col("incarnation") == f.col("last")) & (f.col("offset") < f.col("end")))
    )
    return rows.join(f.broadcast(ends), is_planned, "left_semi")


def as_messages(rows: DataFrame, to: str) -> DataFrame:
    before, is_mapped, after = to.partition(TOPIC)
    target = f.concat(f.lit(before), f.col("topic"), f.lit(after)) if is_mapped else f.lit(to)
    headers = f.coalesce("headers", f.array())
    has_time = f.exists(headers, lambda header: header["key"] == "time")
    return rows.select(
        target.alias("topic"),
        "payload",
        "headers",
        "priority",
        "content_type",
        f.when(~has_time, f.col("timestamp")).alias("timestamp"),
        "sequence",
    )


def moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is not a time", "Write it as in 2030-01-31 or 2030-01-31T08:00:00+01:00."
        ) from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _bounds(rows: DataFrame, slice_rows: int) -> list[int]:
    figures = rows.agg(f.count("*"), f.max("sequence")).first()
    assert figures is not None
    number, last = figures
    count = -(-number // slice_rows)
    if count <= 1:
        return [] if last is None else [last]
    shares = [step / count for step in range(1, count)]
    found = rows.agg(f.percentile_approx("sequence", shares, 10 * count)).first()
    assert found is not None
    return sorted({*found[0], last})


def _ticks(rows: DataFrame, tick_ms: int) -> list[tuple[int, int]]:
    number = f.floor(f.unix_millis("timestamp") / tick_ms)
    found = rows.groupBy(number.alias("tick")).agg(f.max("sequence")).orderBy("tick")
    listed = found.limit(TICKS_MAX + 1).collect()
    if len(listed) > TICKS_MAX:
        raise ConfigError(
            f"the replay would have more than {TICKS_MAX:,} slices",
            "Choose a higher speed or a longer tick, or replay less time.",
        )
    return [((tick + 1) * tick_ms, sequence) for tick, sequence in listed]


def paced(
    ticks: list[tuple[int, int]], speed: float, clock: Callable[[], float]
) -> Iterator[tuple[float, int]]:
    """Yield how long to wait before each slice, and where it ends; a late slice does not wait."""
    if not ticks:
        return
    began, origin, highest = clock(), ticks[0][0], 0
    for due_ms, sequence in ticks:
        highest = max(highest, sequence)
        yield max(0.0, began + (due_ms - origin) / 1000 / speed - clock()), highest


def pauses(wait_s: float) -> Iterator[tuple[float, float]]:
    while wait_s > 0:
        yield min(wait_s, SAID_S), wait_s
        wait_s -= SAID_S


class _Replay:
    """One run of a job."""

    def __init__(self, load: Callable[[], DataFrame], plan: ReplayPlan, servers: str) -> None:
        self._load = load
        self._loaded_at = time.monotonic()
        self._rows = load()
        self._plan = plan
        self._servers = servers

    def rows(self) -> DataFrame:
        if time.monotonic() - self._loaded_at > RELOAD_S:
            self._loaded_at = time.monotonic()
            self._rows = self._load()
        return self._rows

    def progress(self) -> tuple[int, int]:
        epoch, note = last_epoch(self._servers, f"job/replay/{self._plan.job}")
        if epoch is None:
            return 0, 0
        known = msgspec.json.decode(note, type=_Note)
        if known.plan != self._plan.digest:
            raise ConfigError(
                f"the broker knows another replay named {self._plan.job!r}",
                "Use another job name; or, to start over, run: "
                f"penstock spark sinks forget job/replay/{self._plan.job}",
            )
        return epoch + 1, known.done

    def publish(self, bound: int, *, is_small: bool) -> int:
        """Publish what is left up to a sequence; return the next slice's number.

        If another run of the job is active, our slice may count as published with other rows; its
        note says which. If it is further ahead, the broker refuses ours, which is fine.
        """
        number, done = self.progress()
        if done >= bound:
            return number
        slice_ = self.rows().where((f.col("sequence") > done) & (f.col("sequence") <= bound))
        messages = as_messages(slice_, self._plan.to)
        if is_small:
            ordered = messages.repartition(1).sortWithinPartitions("sequence")
        else:
            ordered = messages.orderBy("sequence")
        writer = ordered.drop("sequence").write.format("penstock").mode("append")
        writer.options(
            servers=self._servers,
            jobId=f"replay/{self._plan.job}",
            epoch=number,
            note=msgspec.json.encode(_Note(bound, self._plan.digest)).decode(),
        )
        try:
            writer.save()
        except PySparkException:
            if self.progress()[0] <= number:
                raise
        return number + 1


def replay(
    spark: SparkSession,
    path: str | Path,
    servers: str,
    job: str,
    *,
    subscribe: str = "#",
    to: str = f"replay/{TOPIC}",
    since: str = "",
    until: str = "",
    speed: float = 0.0,
    tick_s: float = TICK_S,
    slice_rows: int = SLICE_ROWS,
    say: Say | None = None,
) -> dict[str, int]:
    _check_pace(speed, tick_s, slice_rows)
    root = root_of(path)
    plan = settle(
        root,
        job,
        lambda chosen: ends_of(archive.read(spark, root), chosen, to),
        subscribe=subscribe,
        to=to,
        since=since,
        until=until,
    )
    work = _Replay(lambda: planned(spark, root, plan), plan, servers)
    before, done = work.progress()
    rest = work.rows().where(f.col("sequence") > done)
    slices: Iterator[tuple[float, int]]
    if speed:
        slices = paced(_ticks(rest, max(1, round(tick_s * speed * 1000))), speed, time.monotonic)
    else:
        slices = ((0.0, bound) for bound in _bounds(rest, slice_rows))
    number, tell = before, say or (lambda _figures: None)
    for wait_s, bound in slices:
        for pause_s, rest_s in pauses(wait_s):
            if rest_s >= PAUSE_S:
                tell({"slices": number, "waiting_s": round(rest_s)})
            time.sleep(pause_s)
        number = work.publish(bound, is_small=speed > 0)
        tell({"slice": number, "sequence": bound})
    return {"slices_before": before, "slices": number - before, "topics": len(plan.ends)}


def _check_pace(speed: float, tick_s: float, slice_rows: int = SLICE_ROWS) -> None:
    if speed < 0 or tick_s <= 0 or slice_rows < 1:
        raise ConfigError(
            "speed, tick and slice size must be positive", "Speed 0 means without waiting."
        )


def run(
    spark: SparkSession,
    *,
    path: str,
    servers: str,
    job: str,
    subscribe: str = "#",
    to: str = f"replay/{TOPIC}",
    since: str | None = None,
    until: str | None = None,
    speed: float = 0.0,
    tick: float = TICK_S,
    say: Say | None = None,
) -> JobOutcome:
    """Publish an archive again, in the original order, exactly once.

    The same command resumes after an interruption, and does nothing when all is done.
    """
    figures = replay(
        spark,
        path,
        servers,
        job,
        subscribe=subscribe,
        to=to,
        since=since or "",
        until=until or "",
        speed=speed,
        tick_s=tick,
        say=say,
    )
    is_new = figures["slices"] > 0
    text = f"{figures['slices']} slices published" if is_new else "everything was already published"
    return JobOutcome(f"{text}; {figures['topics']} topics", figures)


def check(
    *,
    path: str,
    job: str,
    to: str,
    since: str | None,
    until: str | None,
    speed: float,
    tick: float,
    **_: object,
) -> None:
    _check(job, to)
    _check_pace(speed, tick)
    for text in (since, until):
        moment(text or "")
    take(root_of(path))


JOB: Final = PipelineJob(
    "replay",
    (
        compaction.PATH,
        registry.SERVERS,
        Option(
            "job", "Name of this replay, under which it resumes.", metavar="NAME", is_required=True
        ),
        Option("subscribe", "Only these topics: names and MQTT filters.", default="#"),
        Option("to", "Topic to publish to.", default=f"replay/{TOPIC}", metavar="TOPIC"),
        Option("since", "Only messages from this time on.", metavar="TIME"),
        Option("until", "Only messages before this time.", metavar="TIME"),
        Option("speed", "1: original speed; 10: ten times faster; 0: no waiting.", "number", 0.0),
        duration("tick", "Length of a slice, if speed is not 0.", "1s"),
    ),
    run,
    says=True,
    check=check,
)
