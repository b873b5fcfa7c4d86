"""``silent``: devices that fell silent, came back, or skipped numbers, told to an alert topic.

:mod:`penstock.spark.pipelines.presence` decides; this module keeps what is known of each device in
Spark's state (RocksDB), and has it woken by timers.

**Time** is the broker's: when a message was taken, not what a device believes. Spark's event time
follows it, so what is told depends on the messages alone, not on when the job ran: after a pause it
works through what it missed and tells the same, and a batch that is run again tells the same again.
Processing time would be simpler, but wrong there: a job that is an hour behind would find all its
devices silent for an hour.

**When all devices are silent** event time stands still, and no timer would ever fire. So the job
publishes a **heartbeat** now and then, to a topic that it reads along with the others. It is a row
without a device that moves the watermark, and does nothing else. (To filter it out before the
grouping would not do: Spark moves filters in front of the watermark, which then never sees it.)

**Forgetting.** A device is forgotten some days after it was last heard. Spark's own expiry of state
works in processing time only, so a timer does it.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.errors import ConfigError
from penstock.spark.pipelines.heartbeat import Heartbeat
from penstock.spark.pipelines.payloads import check_device, check_path, number
from penstock.spark.pipelines.payloads import device as device_of
from penstock.spark.pipelines.presence import (
    UNNUMBERED,
    DevicePresence,
    Event,
    PresenceTimeouts,
    due_ms,
    elapsed,
    seen,
)
from penstock.spark.pipelines.registry import (
    CHECKPOINT,
    DEVICE,
    IGNORE_LOSS,
    READER,
    SERVERS,
    SUBSCRIBE,
    TRIGGER,
    Option,
    PipelineJob,
)
from penstock.spark.pipelines.streams import (
    check_outputs,
    from_topics,
    prepare,
    to_topics,
    without_heartbeats,
)

STATE: Final = "last_ms bigint, seq bigint, is_silent boolean, wake_ms bigint"
"""What is known of a device, and for when its timer is set."""

EVENT: Final = (
    "device string, kind string, at_ms bigint, last_ms bigint,"
    "first_missing bigint, last_missing bigint"
)

SEQ_MAX: Final = 2.0**53
"""Numbers above are not exact in JSON, and so no numbers to count by."""


class PresenceProcessor(StatefulProcessor):
    """Keeps the presence of each device, and one timer.

    The timer is never later than the next thing that is due. It may be earlier: a device that is
    heard all the time would otherwise have it moved with every batch. Woken too early, it is set
    anew.
    """

    def __init__(self, limits: PresenceTimeouts) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get hold of the state (Spark calls it in each worker)."""
        self._handle = handle
        self._state = handle.getValueState("presence", STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Take what a device sent in this batch; then look whether it is silent by now."""
        readings = _in_order(rows)
        if key[0] is None:
            return  # heartbeats
        known, wake_ms = self._known()
        presence, told = seen(known, readings, self._limits)
        yield from _rows(key[0], [*told, *self._look(presence, wake_ms, timerValues)])

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803 - Spark names it in its call
    ) -> Iterator[Row]:
        """Wake up: the device is silent, or to be forgotten, or was heard meanwhile."""
        presence, _ = self._known()
        if presence is not None:
            yield from _rows(key[0], self._look(presence, 0, timerValues))

    def close(self) -> None:
        """Nothing is held that would have to be let go."""

    def _known(self) -> tuple[DevicePresence | None, int]:
        """Return the presence, and for when the timer is set; 0 if none is."""
        if not self._state.exists():
            return None, 0
        last_ms, seq, is_silent, wake_ms = self._state.get() or (0, 0, False, 0)
        return DevicePresence(last_ms, seq, is_silent), wake_ms

    def _look(
        self, presence: DevicePresence | None, wake_ms: int, timer_values: TimerValues
    ) -> list[Event]:
        """See what time has done to a device, and note what is known of it now.

        A row may be older than the watermark of its own batch, for lateness is judged by that of
        the batch before. So silence is looked for at once: Spark refuses a timer for the past.
        """
        if presence is None:
            return []
        now_ms = timer_values.getCurrentWatermarkInMs()
        after, told = elapsed(presence, now_ms, self._limits)
        due = 0 if after is None else due_ms(after, self._limits)
        is_set = now_ms < wake_ms <= due
        if wake_ms > now_ms and not is_set:
            self._handle.deleteTimer(wake_ms)
        if after is None:
            self._state.clear()
            return told
        if not is_set:
            self._handle.registerTimer(due)
        self._state.update((*after, wake_ms if is_set else due))
        return told


def _in_order(rows: Iterable[Row]) -> Iterator[tuple[int, int]]:
    """Sort readings by time and offset: a shuffle mixes them. In arrays, for they may be many."""
    times, offsets, numbers = array("q"), array("q"), array("q")
    for row in rows:
        times.append(row["at_ms"])
        offsets.append(row["offset"])
        numbers.append(row["seq"])
    order = np.lexsort((np.frombuffer(offsets, np.int64), np.frombuffer(times, np.int64)))
    return ((times[index], numbers[index]) for index in order)


def _rows(device: str, told: Iterable[Event]) -> Iterator[Row]:
    for event in told:
        yield Row(device=device, **event._asdict())


# ── Tables ────────────────────────────────────────────────────────────────────────────────────


def sightings(
    messages: DataFrame, *, device: str = "topic", seq: str | None = None, heartbeat: str = ""
) -> DataFrame:
    """Return ``device``, ``time``, ``at_ms``, ``offset``, ``seq``; heartbeats have no device.

    What names no device is left out, unless it is a heartbeat.
    """
    is_heartbeat = f.col("topic") == heartbeat
    found = messages.select(
        f.when(~is_heartbeat, device_of(device)).alias("device"),
        f.col("timestamp").alias("time"),
        f.unix_millis("timestamp").alias("at_ms"),
        "offset",
        _number(seq).alias("seq"),
        is_heartbeat.alias("is_heartbeat"),
    )
    return found.where("device IS NOT NULL OR is_heartbeat").drop("is_heartbeat")


def _number(seq: str | None) -> Column:
    if seq is None:
        return f.lit(UNNUMBERED).cast("bigint")
    value = number(seq)
    is_count = (value >= 0) & (value < SEQ_MAX) & (value == f.floor(value))
    return f.when(is_count, value.cast("bigint")).otherwise(UNNUMBERED)


def events(sighted: DataFrame, limits: PresenceTimeouts, *, late_s: float = 5) -> DataFrame:
    """Return what happened to devices: ``device``, ``kind``, ``at_ms``, ``last_ms``, and gaps."""
    check_limits(limits)
    marked = sighted.withWatermark("time", f"{round(late_s * 1000)} milliseconds")
    grouped = marked.groupBy("device")
    return grouped.transformWithState(PresenceProcessor(limits), EVENT, "Append", "EventTime")


def check_limits(limits: PresenceTimeouts) -> None:
    """Refuse limits by which a device would be forgotten before it is silent."""
    if not 0 < limits.silent_ms < limits.forget_ms:
        raise ConfigError(
            "a device must be silent before it is forgotten", "give a longer --forget"
        )


def alerts(happened: DataFrame, to: str) -> DataFrame:
    """Make a message of each event, as JSON."""
    document = f.struct(
        "kind",
        "device",
        f.timestamp_millis("at_ms").alias("at"),
        f.timestamp_millis("last_ms").alias("last_seen"),
        f.when(f.col("kind") == "back", f.col("at_ms") - f.col("last_ms")).alias("silent_ms"),
        "first_missing",
        "last_missing",
    )
    return happened.select(
        f.lit(to).alias("topic"),
        f.to_json(document).alias("payload"),
        f.timestamp_millis("at_ms").alias("timestamp"),
        f.lit("json").alias("content_type"),
    )


# ── The job ───────────────────────────────────────────────────────────────────────────────────


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    checkpoint: str,
    device: str = "topic",
    seq: str | None = None,
    after: float = 60,
    forget: float = 7 * 86_400,
    late: float = 5,
    to: str = "alerts/devices",
    heartbeat: float = 10,
    reader: str | None = None,
    trigger: str = "continuous",
    ignore_loss: bool = False,
) -> StreamingQuery:
    """Tell which devices fell silent, came back, or skipped numbers.

    Each event is a message of the topic --to, as JSON, once: silent (nothing for --after), back,
    and gap (numbers of the field --seq are missing). Times are the broker's.
    """
    prepare(spark)
    heart = Heartbeat(servers, reader or "silent", heartbeat)
    heart.beat()  # so that silence until now is seen, also by a job that does not wait
    columns = ["topic", "offset", "timestamp"]
    messages = from_topics(
        spark,
        servers=servers,
        subscribe=f"{subscribe},{heart.topic}",
        reader=reader,
        columns=[*columns, "payload"] if seq or device.startswith("$") else columns,
        ignore_loss=ignore_loss,
    )
    messages = without_heartbeats(messages.where(f.col("topic") != to), but=heart.topic)
    sighted = sightings(messages, device=device, seq=seq, heartbeat=heart.topic)
    happened = events(sighted, _limits(after, forget), late_s=late)
    more: dict[str, Any] = {"servers": servers, "checkpoint": checkpoint, "trigger": trigger}
    query = to_topics(alerts(happened, to), name="silent", **more)
    heart.follow(query)
    return query


def _limits(after: float, forget: float) -> PresenceTimeouts:
    return PresenceTimeouts(round(after * 1000), round(forget * 1000))


def check(
    *, checkpoint: str, device: str, seq: str | None, after: float, forget: float, to: str, **_: Any
) -> None:
    """Refuse options that ``run`` would refuse."""
    check_device(device)
    if seq is not None:
        check_path(seq)
    check_limits(_limits(after, forget))
    check_outputs("silent", checkpoint, to)


def _time(name: str, text: str, default: str) -> Option:
    return Option(name, text, "duration", default=default, metavar="DURATION")


JOB: Final = PipelineJob(
    "silent",
    (
        SERVERS,
        SUBSCRIBE,
        CHECKPOINT,
        DEVICE,
        Option("seq", "The field in which a device numbers its readings.", metavar="PATH"),
        _time("after", "How long a device may say nothing.", "1m"),
        _time("forget", "How long a device is remembered after it was last heard.", "7d"),
        _time("late", "How far apart topics may be in what was read of them.", "5s"),
        Option("to", "The topic for alerts.", default="alerts/devices", metavar="TOPIC"),
        _time("heartbeat", "How often time is marked, in case that all are silent.", "10s"),
        READER,
        TRIGGER,
        IGNORE_LOSS,
    ),
    run,
    check=check,
)
