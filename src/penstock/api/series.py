"""What is measured each second, and the rings that keep it.

A series is a number that the broker has anyway: a counter, whose growth a second is kept, a gauge,
or a quantile of a histogram, over what was added since the last look. Nothing is gathered per
message, topic or client.

A row has one value of every series, as 32-bit floats: 900 rows of a second each and 1,440 of a
minute take about 600 KB. What was not measured is not a number (NaN).
"""

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from penstock.admin.view import BrokerView
from penstock.obs.counters import Histogram

SECONDS_KEPT = 900
MINUTES_KEPT = 1_440
NAN = math.nan

Unit = Literal["per_s", "ms", "bytes", "count", "ratio"]
Row = Sequence[float]


class Counted(NamedTuple):
    """The growth of a counter a second."""

    name: str
    unit: Unit
    text: str
    read: Callable[[BrokerView], float]


class Gauged(NamedTuple):
    """A number that is there at any time."""

    name: str
    unit: Unit
    text: str
    read: Callable[[BrokerView], float]


class Quantile(NamedTuple):
    """A quantile of a histogram of seconds, in milliseconds."""

    name: str
    unit: Unit
    text: str
    part: float
    read: Callable[[BrokerView], Histogram]


Series = Counted | Gauged | Quantile


def _logins_refused(view: BrokerView) -> int:
    logins = view.counters.logins
    return sum(count for (_, outcome), count in logins.items() if outcome != "accepted")


SERIES: tuple[Series, ...] = (
    Counted(
        "messages_in",
        "per_s",
        "Messages accepted from publishers.",
        lambda v: sum(v.counters.messages_in_total),
    ),
    Counted(
        "messages_in_qos0",
        "per_s",
        "Messages accepted with QoS 0.",
        lambda v: v.counters.messages_in_total[0],
    ),
    Counted(
        "messages_in_qos1",
        "per_s",
        "Messages accepted with QoS 1.",
        lambda v: v.counters.messages_in_total[1],
    ),
    Counted(
        "messages_in_qos2",
        "per_s",
        "Messages accepted with QoS 2.",
        lambda v: v.counters.messages_in_total[2],
    ),
    Counted(
        "messages_out",
        "per_s",
        "Messages sent to subscribers.",
        lambda v: sum(v.counters.messages_out_total),
    ),
    Counted(
        "messages_out_qos0",
        "per_s",
        "Messages sent with QoS 0.",
        lambda v: v.counters.messages_out_total[0],
    ),
    Counted(
        "messages_out_qos1",
        "per_s",
        "Messages sent with QoS 1.",
        lambda v: v.counters.messages_out_total[1],
    ),
    Counted(
        "messages_out_qos2",
        "per_s",
        "Messages sent with QoS 2.",
        lambda v: v.counters.messages_out_total[2],
    ),
    Counted("bytes_in", "per_s", "Bytes read from sockets.", lambda v: v.counters.bytes_in_total),
    Counted(
        "bytes_out", "per_s", "Bytes written to sockets.", lambda v: v.counters.bytes_out_total
    ),
    Counted(
        "journaled",
        "per_s",
        "Messages written to the journal.",
        lambda v: v.counters.captured_total,
    ),
    Counted(
        "commits",
        "per_s",
        "Commits of the journal.",
        lambda v: sum(v.counters.commit_seconds.counts),
    ),
    Counted(
        "connects",
        "per_s",
        "Connections accepted, all protocols.",
        lambda v: sum(v.counters.connections_total.values()),
    ),
    Counted(
        "ends",
        "per_s",
        "Connections that ended.",
        lambda v: sum(v.counters.disconnects.values()),
    ),
    Counted(
        "drops", "per_s", "Messages or copies dropped.", lambda v: sum(v.counters.drops.values())
    ),
    Counted("subscribes", "per_s", "Subscriptions made.", lambda v: v.counters.subscribed_total),
    Counted(
        "redelivered",
        "per_s",
        "Messages sent again to clients that came back.",
        lambda v: v.counters.redelivered_total,
    ),
    Counted(
        "returned",
        "per_s",
        "Messages that workers returned.",
        lambda v: v.counters.returned_total,
    ),
    Counted(
        "dead_letters",
        "per_s",
        "Messages given up by groups.",
        lambda v: v.counters.dead_letters_total,
    ),
    Counted(
        "denied",
        "per_s",
        "Requests that the access rules denied.",
        lambda v: sum(v.counters.denied.values()),
    ),
    Counted(
        "logins_refused",
        "per_s",
        "Logins refused.",
        _logins_refused,
    ),
    Counted(
        "commit_failures",
        "per_s",
        "Failed commits.",
        lambda v: v.counters.commit_failures_total,
    ),
    Counted(
        "rate_limited",
        "per_s",
        "Requests of queue clients that a rate limit held up.",
        lambda v: v.counters.rate_limited_total,
    ),
    Gauged("clients", "count", "Clients connected.", lambda v: v.connections()),
    Gauged("sessions", "count", "MQTT sessions, connected.", lambda v: v.sessions()[0]),
    Gauged("away", "count", "MQTT sessions whose client is away.", lambda v: v.sessions()[1]),
    Gauged("queued", "count", "Messages in the queues of sessions.", lambda v: v.queued()),
    Gauged("retained", "count", "Retained messages.", lambda v: v.retained()),
    Gauged("workers", "count", "Workers of queues.", lambda v: v.counters.workers_connected),
    Gauged(
        "output_bytes", "bytes", "Bytes waiting to be sent to clients.", lambda v: v.outgoing()[0]
    ),
    Gauged(
        "output_waiting",
        "count",
        "Connections that wait for room to send.",
        lambda v: v.outgoing()[2],
    ),
    Gauged(
        "capture_bytes",
        "bytes",
        "QoS 0 bytes that wait for the disk.",
        lambda v: v.pending_capture_bytes(),
    ),
    Quantile(
        "acknowledge_p50",
        "ms",
        "Half of all publishes were acknowledged within this time.",
        0.5,
        lambda v: v.counters.publish_seconds,
    ),
    Quantile(
        "acknowledge_p99",
        "ms",
        "99 % of all publishes were acknowledged within this time.",
        0.99,
        lambda v: v.counters.publish_seconds,
    ),
    Quantile(
        "delivery_p99",
        "ms",
        "99 % of deliveries that waited for the disk took at most this time.",
        0.99,
        lambda v: v.counters.delivery_seconds,
    ),
    Quantile(
        "commit_p99",
        "ms",
        "99 % of all commits took at most this time.",
        0.99,
        lambda v: v.counters.commit_seconds,
    ),
    Quantile(
        "fsync_p50",
        "ms",
        "Half of all flushes to the disk took at most this time.",
        0.5,
        lambda v: v.counters.fsync_seconds,
    ),
    Quantile(
        "fsync_p99",
        "ms",
        "99 % of all flushes to the disk took at most this time.",
        0.99,
        lambda v: v.counters.fsync_seconds,
    ),
)


NAMES = tuple(series.name for series in SERIES)


class Meter:
    """Turns the broker's numbers into rows. Each row covers the time since the one before."""

    def __init__(self, view: BrokerView, now: float) -> None:
        self._view = view
        self._looked_at = now
        self._totals = [0.0] * len(SERIES)
        self._counts: list[list[int]] = [[] for _ in SERIES]
        self.row(now)

    def row(self, now: float) -> "array[float]":
        elapsed_s = max(now - self._looked_at, 1e-3)
        self._looked_at = now
        return array("f", [self._value(place, elapsed_s) for place in range(len(SERIES))])

    def _value(self, place: int, elapsed_s: float) -> float:
        series = SERIES[place]
        match series:
            case Gauged():
                return series.read(self._view)
            case Counted():
                total = series.read(self._view)
                before, self._totals[place] = self._totals[place], total
                return (total - before) / elapsed_s
            case Quantile():
                histogram = series.read(self._view)
                if histogram.total == self._totals[place] and self._counts[place]:
                    return NAN  # nothing was added
                before_counts, counts = self._counts[place], histogram.counts.copy()
                self._totals[place], self._counts[place] = histogram.total, counts
                if not before_counts:
                    return NAN
                added = [now - then for now, then in zip(counts, before_counts, strict=True)]
                return quantile(histogram.bounds, added, series.part) * 1000


def quantile(bounds: Sequence[float], counts: Sequence[int], part: float) -> float:
    """The value below which a part of all lies, as if those of a bucket were spread evenly."""
    total = sum(counts)
    if total <= 0:
        return NAN
    wanted, below, low = part * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if below + count >= wanted:
            return low + (bound - low) * (wanted - below) / count
        below, low = below + count, bound
    return bounds[-1]  # or more


class Ring:
    """The last rows, at equal distances."""

    def __init__(self, rows_max: int, step_s: int) -> None:
        self.step_s = step_s
        self._rows: deque[array[float]] = deque(maxlen=rows_max)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: "array[float]", missed: int = 0) -> None:
        """``missed``: rows before it that nobody took."""
        nothing = array("f", [NAN] * len(row))
        self._rows.extend(nothing for _ in range(min(missed, self._rows.maxlen or 0)))
        self._rows.append(row)

    def column(self, place: int) -> list[float | None]:
        """All values of a series, the oldest first."""
        return [known(row[place]) for row in self._rows]

    def last(self, count: int) -> list["array[float]"]:
        return list(islice(reversed(self._rows), count))[::-1]


def known(value: float) -> float | None:
    """For people: four digits are enough; None: not measured."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def mean(values: Iterable[float]) -> float | None:
    """The mean of what was measured."""
    found = [value for value in values if not math.isnan(value)]
    return known(sum(found) / len(found)) if found else None
