"""An archive back to topics: in the original order, at a chosen speed, once.

**What is replayed is settled at the first run** and written into the archive, as the plan of the
job: which topics, which times, and how far each topic was archived then. Later runs of the same
job go by it, whatever has been archived since. So a job is one thing: it can be finished, and
repeated.

**How far it is, the broker knows.** Rows are published in *slices*, by the order in which the
broker once took them (``sequence``). A slice is one epoch of the sink ``job/replay/<job>``:
published as a whole or not at all, and with it, atomically, a note: up to which sequence everything
is done. Each slice begins where the note of the one before says. Killed anywhere, the next run goes
on from the note; run again when all is done, it does nothing; two at once do not disturb each
other, for of two slices with the same number one is published, and both go on from its note.

**Order**: each topic has its messages in the original order. Across topics the order is kept from
slice to slice, and within a slice up to the blocks that the sink sends, of a mebibyte.

**Times**: a message's own time is when it is published; when it was first is in the header ``time``
(unless it had that header before, from an event or an earlier replay). With ``speed`` 1 slices are
a second long and follow each other as they once did, with 10 in a tenth of the time, and with 0
nobody waits.

Signatures stay in the archive: they say that a device published this to that topic then, which is
not what happens now.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.errors import ConfigError
from penstock.model.topic import topic_fault
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.layout import root_of
from penstock.spark.archived.snapshot import take
from penstock.spark.filters import filters_of, topic_regex
from penstock.spark.pipelines import archive, registry
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob
from penstock.spark.sink import last_epoch

SLICE_ROWS: Final = 500_000
"""Rows of a slice where nobody waits: what is staged at a time, some hundred megabytes."""

TICK_S: Final = 1.0
"""How long a slice lasts where somebody does: a Spark job takes some tenths of a second."""

TICKS_MAX: Final = 100_000
"""Slices of a paced replay: a day has 86,400 seconds. For more, choose longer ticks."""

RELOAD_S: Final = 600.0
"""How long a replay goes by the files it has found. Compaction replaces files while it runs, and
deletes them a day later: a replay may take longer."""

SAID_S: Final = 600.0
PAUSE_S: Final = 5.0
"""How often it is said that a replay waits, and from which pause on."""

NAME_CHARACTERS_MAX: Final = 200

PLANS: Final = "replays"
TOPIC: Final = "{topic}"

Say = Callable[[Mapping[str, Any]], None]


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
        """What tells this plan from others."""
        return blake2b(msgspec.json.encode(self, order="sorted"), digest_size=16).hexdigest()


class _Note(msgspec.Struct, frozen=True):
    """What the broker keeps with each slice: everything up to this sequence is published."""

    done: int
    plan: str


# ── The plan ──────────────────────────────────────────────────────────────────────────────────


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
    """Return the plan of a job; if it has none yet, ``look`` how far topics are archived now."""
    _check(job, to)
    path = root / PLANS / _file_of(job)
    if not path.exists():
        made = ReplayPlan(job, subscribe, to, since, until, look(subscribe))
        path.parent.mkdir(exist_ok=True)
        manifests.write_once(path, msgspec.json.encode(made, order="sorted"))
    plan = msgspec.json.decode(path.read_bytes(), type=ReplayPlan)
    if (plan.subscribe, plan.to, plan.since, plan.until) != (subscribe, to, since, until):
        raise ConfigError(
            f"replay {job!r} was begun with subscribe={plan.subscribe!r}, to={plan.to!r}, "
            f"since={plan.since!r}, until={plan.until!r}",
            "Go on with the same, or give this one another name.",
        )
    return plan


def _file_of(job: str) -> str:
    """Name the file of a plan. A name may have 189 bytes of any characters, a file's 255."""
    quoted = quote(job, safe="")
    if len(quoted) > NAME_CHARACTERS_MAX:
        quoted = (
            f"{quoted[:NAME_CHARACTERS_MAX]}-{blake2b(job.encode(), digest_size=8).hexdigest()}"
        )
    return f"{quoted}.json"


def _check(job: str, to: str) -> None:
    if fault := topic_fault(f"job/replay/{job}".encode(), 200):
        raise ConfigError(f"{job!r} is no name for a replay: {fault}")
    if fault := topic_fault(to.replace(TOPIC, "topic").encode()):
        raise ConfigError(f"{to!r} is no topic: {fault}", f"Write a name, with {TOPIC} in it.")


def ends_of(rows: DataFrame, subscribe: str, to: str = "") -> dict[str, tuple[int, int]]:
    """Return how far each topic is archived: its last incarnation, and the offset after the last.

    By the rows themselves. The checkpoint would tell it too, but not of topics that were deleted.
    What lies where this job writes ``to`` is from an earlier replay, and is left out unless it is
    asked for by name: each replay of ``#`` would otherwise repeat all those before it.
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


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────


def planned(spark: SparkSession, root: Path, plan: ReplayPlan) -> DataFrame:
    """Return the rows of a plan. Incarnations rise: what is below was complete at that time."""
    known = [(name, incarnation, end) for name, (incarnation, end) in plan.ends.items()]
    ends = spark.createDataFrame(known, "name string, last bigint, end bigint")
    rows = archive.read(spark, root, since=moment(plan.since), until=moment(plan.until))
    is_planned = (f.col("topic") == f.col("name")) & (
        (f.col("incarnation") < f.col("last"))
        | ((f.col("incarnation") == f.col("last")) & (f.col("offset") < f.col("end")))
    )
    return rows.join(f.broadcast(ends), is_planned, "left_semi")


def as_messages(rows: DataFrame, to: str) -> DataFrame:
    """Make what the sink takes, and keep the order's number."""
    has_time = f.exists(f.coalesce("headers", f.array()), _is_time)
    return rows.select(
        _target(to).alias("topic"),
        "payload",
        "headers",
        "priority",
        "content_type",
        f.when(~has_time, f.col("timestamp")).alias("timestamp"),
        "sequence",
    )


def _is_time(header: Column) -> Column:
    return header["key"] == "time"


def _target(to: str) -> Column:
    before, found, after = to.partition(TOPIC)
    if not found:
        return f.lit(to)
    return f.concat(f.lit(before), f.col("topic"), f.lit(after))


def moment(text: str) -> datetime | None:
    """Read a time, in UTC unless it says otherwise; an empty text is none."""
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no time", "Write it as in 2030-01-31 or 2030-01-31T08:00:00+01:00."
        ) from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


# ── Slices ────────────────────────────────────────────────────────────────────────────────────


def _bounds(rows: DataFrame, slice_rows: int) -> list[int]:
    """Return where slices end, with about so many rows each."""
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
    """Return for each stretch of the original time that has rows when it ends (ms), and where."""
    number = f.floor(f.unix_millis("timestamp") / tick_ms)
    found = rows.groupBy(number.alias("tick")).agg(f.max("sequence")).orderBy("tick")
    listed = found.limit(TICKS_MAX + 1).collect()
    if len(listed) > TICKS_MAX:
        raise ConfigError(
            f"a replay of more than {TICKS_MAX:,} slices at this pace",
            "Choose a higher speed or a longer tick, or replay less time.",
        )
    return [((tick + 1) * tick_ms, sequence) for tick, sequence in listed]


def paced(
    ticks: list[tuple[int, int]], speed: float, clock: Callable[[], float]
) -> Iterator[tuple[float, int]]:
    """Yield how long to wait before each slice, and where it ends. Pure but for the clock.

    Who is late does not wait, and so catches up. Where the broker's clock was once set back, a
    slice ends where the latest before it did: bounds only rise.
    """
    if not ticks:
        return
    began, origin, highest = clock(), ticks[0][0], 0
    for due_ms, sequence in ticks:
        highest = max(highest, sequence)
        yield max(0.0, began + (due_ms - origin) / 1000 / speed - clock()), highest


def pauses(wait_s: float) -> Iterator[tuple[float, float]]:
    """Cut a wait into pieces: how long each is, and how much is left when it begins.

    Where nothing was published for hours, nothing is now. Whoever looks should not wonder.
    """
    while wait_s > 0:
        yield min(wait_s, SAID_S), wait_s
        wait_s -= SAID_S


# ── Replaying ─────────────────────────────────────────────────────────────────────────────────


class _Replay:
    """One run of a job."""

    def __init__(self, load: Callable[[], DataFrame], plan: ReplayPlan, servers: str) -> None:
        self._load = load
        self._loaded_at = time.monotonic()
        self._rows = load()
        self._plan = plan
        self._servers = servers

    def rows(self) -> DataFrame:
        """Return all rows of the plan, from files that are there."""
        if time.monotonic() - self._loaded_at > RELOAD_S:
            self._loaded_at = time.monotonic()
            self._rows = self._load()
        return self._rows

    def progress(self) -> tuple[int, int]:
        """Return the number of the next slice, and up to which sequence all is published."""
        epoch, note = last_epoch(self._servers, f"job/replay/{self._plan.job}")
        if epoch is None:
            return 0, 0
        known = msgspec.json.decode(note, type=_Note)
        if known.plan != self._plan.digest:
            raise ConfigError(
                f"the broker knows another replay by the name of {self._plan.job!r}",
                "Give this one another name; or, to begin anew, have the broker forget it: "
                f"penstock spark sinks forget job/replay/{self._plan.job}",
            )
        return epoch + 1, known.done

    def publish(self, bound: int, *, is_small: bool) -> int:
        """Publish what is not done up to a sequence, if anything; return the next slice's number.

        Somebody else may be at the same job. Then our slice may count as published already: with
        other rows, but whose note says which, and from there the next one begins. If they are
        further still, the broker refuses ours, and that is as well.
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
    """Replay an archive, or go on with it; return how many slices were and are published."""
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
            "speed, tick and rows of a slice are positive", "Speed 0 waits for nobody."
        )


# ── The job ───────────────────────────────────────────────────────────────────────────────────


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
    """Publish an archive again, in the original order, once.

    The same command goes on where it was broken off, and does nothing when all is done.
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
    text = f"{figures['slices']} slices published" if is_new else "all was published before"
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
    **_: Any,
) -> None:
    """Refuse options that ``run`` would refuse."""
    _check(job, to)
    _check_pace(speed, tick)
    for text in (since, until):
        moment(text or "")
    take(root_of(path))


JOB: Final = PipelineJob(
    "replay",
    (
        archive.PATH,
        registry.SERVERS,
        Option(
            "job",
            "The name of this replay; under it a repetition is harmless.",
            metavar="NAME",
            is_required=True,
        ),
        Option("subscribe", "Only these topics: names and MQTT filters.", default="#"),
        Option("to", "Where messages go.", default=f"replay/{TOPIC}", metavar="TOPIC"),
        Option("since", "Only messages from this time on.", metavar="TIME"),
        Option("until", "Only messages before this time.", metavar="TIME"),
        Option("speed", "1: as it was; 10: ten times as fast; 0: without waiting.", "number", 0.0),
        Option("tick", "How long a slice lasts where somebody waits.", "duration", "1s"),
    ),
    run,
    says=True,
    check=check,
)
