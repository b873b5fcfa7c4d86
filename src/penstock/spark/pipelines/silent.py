"""``silent``: alerts on devices that fell silent, came back, or skipped numbers.

:mod:`penstock.spark.pipelines.presence` decides; this module keeps the state of each device in
Spark's state store and wakes it with timers. Time is the broker's arrival time: with processing
time, a job that is an hour behind would report every device as silent.

If all devices are silent, event time stands still and no timer fires. So the job publishes a
**heartbeat** to a topic that it also reads: a row without a device that only moves the watermark.
(Spark would push a filter for it below the watermark, which would then never see it.)
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

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
from penstock.spark.pipelines import payloads, registry, streams
from penstock.spark.pipelines.heartbeat import JobHeartbeat
from penstock.spark.pipelines.presence import (
    UNNUMBERED,
    DevicePresence,
    Event,
    PresenceTimeouts,
    due_ms,
    elapsed,
    seen,
)
from penstock.spark.pipelines.registry import Option, PipelineJob, duration

# the presence, and the time of the timer
STATE: Final = "last_ms bigint, seq bigint, is_silent boolean, wake_ms bigint"

EVENT: Final = (
    "device string, kind string, at_ms bigint, last_ms bigint,"
    "first_missing bigint, last_missing bigint"
)

SEQ_MAX: Final = 2.0**53  # larger numbers are not exact in JSON


class PresenceProcessor(StatefulProcessor):
    """Keeps the presence of each device, and one timer.

    The timer is never later than the next event that is due. It may be earlier, so that a busy
    device does not move it with every batch; a timer that fires too early is set again.
    """

    def __init__(self, limits: PresenceTimeouts) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("presence", STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str | None, ...],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        readings = _in_order(rows)
        device = key[0]
        if device is None:
            return  # heartbeats
        known, wake_ms = self._known()
        presence, found = seen(known, readings, self._limits)
        yield from _rows(device, [*found, *self._look(presence, wake_ms, timerValues)])

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        presence, _ = self._known()
        if presence is not None:
            yield from _rows(key[0], self._look(presence, 0, timerValues))

    def close(self) -> None:
        """Nothing to release."""

    def _known(self) -> tuple[DevicePresence | None, int]:
        if not self._state.exists():
            return None, 0
        last_ms, seq, is_silent, wake_ms = self._state.get() or (0, 0, False, 0)
        return DevicePresence(last_ms, seq, is_silent), wake_ms

    def _look(
        self, presence: DevicePresence | None, wake_ms: int, timer_values: TimerValues
    ) -> list[Event]:
        """Apply the passage of time, and store the state; Spark refuses a timer in the past."""
        if presence is None:
            return []
        now_ms = timer_values.getCurrentWatermarkInMs()
        after, found = elapsed(presence, now_ms, self._limits)
        due = 0 if after is None else due_ms(after, self._limits)
        is_set = now_ms < wake_ms <= due
        if wake_ms > now_ms and not is_set:
            self._handle.deleteTimer(wake_ms)
        if after is None:
            self._state.clear()
            return found
        if not is_set:
            self._handle.registerTimer(due)
        self._state.update((*after, wake_ms if is_set else due))
        return found


def _in_order(rows: Iterable[Row]) -> Iterator[tuple[int, int]]:
    """Sort readings by time and offset, which a shuffle mixes; in arrays, as there may be many."""
    times, offsets, numbers = array("q"), array("q"), array("q")
    for row in rows:
        times.append(row["at_ms"])
        offsets.append(row["offset"])
        numbers.append(row["seq"])
    order = np.lexsort((np.frombuffer(offsets, np.int64), np.frombuffer(times, np.int64)))
    return ((times[index], numbers[index]) for index in order)


def _rows(device: str, found: Iterable[Event]) -> Iterator[Row]:
    for event in found:
        yield Row(device=device, **event._asdict())


def sightings(
    messages: DataFrame, *, device: str = "topic", seq: str | None = None, heartbeat: str = ""
) -> DataFrame:
    is_heartbeat = f.col("topic") == heartbeat
    found = messages.select(
        f.when(~is_heartbeat, payloads.device(device)).alias("device"),
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
    value = payloads.number(seq)
    is_count = (value >= 0) & (value < SEQ_MAX) & (value == f.floor(value))
    return f.when(is_count, value.cast("bigint")).otherwise(UNNUMBERED)


def events(sighted: DataFrame, limits: PresenceTimeouts, *, late_s: float = 5) -> DataFrame:
    check_limits(limits)
    marked = sighted.withWatermark("time", f"{round(late_s * 1000)} milliseconds")
    grouped = marked.groupBy("device")
    return grouped.transformWithState(PresenceProcessor(limits), EVENT, "Append", "EventTime")


def check_limits(limits: PresenceTimeouts) -> None:
    if not 0 < limits.silent_ms < limits.forget_ms:
        raise ConfigError(
            "--forget must be longer than --after, and both positive", "give a longer --forget"
        )


def alerts(happened: DataFrame, to: str) -> DataFrame:
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
    """Alert on devices that fell silent, came back, or skipped numbers.

    Each event is published once to the topic --to, as JSON: silent (no message for --after), back,
    and gap (missing numbers of the field --seq). Times are the broker's.
    """
    streams.prepare(spark)
    heartbeats = JobHeartbeat(servers, reader or "silent", heartbeat)
    heartbeats.beat()  # so that an available-now run sees silence up to now
    columns = ["topic", "offset", "timestamp"]
    columns += ["payload"] if seq or device.startswith("$") else []
    topics = f"{subscribe},{heartbeats.topic}"
    messages = streams.from_topics(spark, servers, topics, reader, columns, ignore_loss=ignore_loss)
    messages = messages.where(f.col("topic") != to)
    messages = streams.without_heartbeats(messages, but=heartbeats.topic)
    sighted = sightings(messages, device=device, seq=seq, heartbeat=heartbeats.topic)
    happened = events(sighted, _limits(after, forget), late_s=late)
    query = streams.to_topics(
        alerts(happened, to), name="silent", servers=servers, checkpoint=checkpoint, trigger=trigger
    )
    heartbeats.follow(query)
    return query


def _limits(after: float, forget: float) -> PresenceTimeouts:
    return PresenceTimeouts(round(after * 1000), round(forget * 1000))


def check(
    *,
    checkpoint: str,
    device: str,
    seq: str | None,
    after: float,
    forget: float,
    to: str,
    **_: object,
) -> None:
    payloads.check_device(device)
    if seq is not None:
        payloads.check_path(seq)
    check_limits(_limits(after, forget))
    streams.check_outputs("silent", checkpoint, to)


JOB: Final = PipelineJob(
    "silent",
    (
        *registry.INPUT,
        registry.DEVICE,
        Option("seq", "Field with a device's sequence numbers.", metavar="PATH"),
        duration("after", "Silence after which to alert.", "1m"),
        duration("forget", "Forget a device this long after its last message.", "7d"),
        duration("late", "How far apart topics may be while reading.", "5s"),
        Option("to", "Topic for alerts.", default="alerts/devices", metavar="TOPIC"),
        duration("heartbeat", "Interval of heartbeats, for when all devices are silent.", "10s"),
        *registry.CONTROL,
    ),
    run,
    check=check,
)
