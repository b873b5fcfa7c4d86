"""The cost of a message must not depend on how many came before it.

The journal of one broker is repeatedly filled to ten times its length; at each length the same load
(QoS 1, so that every message waits for its commit) is measured. The other broker stores nothing
and is not measured. Filling uses QoS 1 too: what is acknowledged is stored.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks import generator
from benchmarks.brokers import Broker
from benchmarks.capture import read_capture
from benchmarks.machine import pinned
from benchmarks.rounds import Bench
from benchmarks.table import columns, compact

__all__ = ["Point", "journal_lengths", "measure_growth", "render_growth"]

FIRST_LENGTH = 100_000
FILL = "-P 8 -S 0 -q 1 -w 1000 -W 3600"
PROBE = "-q 1 -w 100 -n 20000"


@dataclass(frozen=True, slots=True)
class Point:
    """The figures at one length of the journal."""

    stored: int
    per_s: list[float]
    broker_us_per_message: list[float]
    fill_per_s: float | None
    rss_kib: float

    def record(self) -> dict[str, object]:
        """Return one line of the results."""
        return {"type": "growth", "load": PROBE, **asdict(self)}


def journal_lengths(longest: int) -> list[int]:
    """Return 0, every power of ten from the first length up, and the longest length."""
    lengths = [0]
    length = FIRST_LENGTH
    while length < longest:
        lengths.append(length)
        length *= 10
    return [*lengths, longest]


def measure_growth(longest: int, bench: Bench) -> Iterator[Point]:
    """Yield points in order of length, each as soon as it is measured."""
    with bench.ours.running(bench.data, cpu=bench.cores.broker) as broker:
        sent = 0
        for length in journal_lengths(longest):
            filled = None
            if length > sent:
                filled = _run(f"{FILL} -n {length - sent}", broker, bench)["acked_per_s"]
                sent = length
            stored = _stored(broker, sent)
            loads = [_run(PROBE, broker, bench) for _ in range(bench.rounds)]
            sent += sum(int(load["sent"]) for load in loads)
            yield Point(
                stored,
                [load["delivered_per_s"] for load in loads],
                [load["broker_us_per_message"] for load in loads],
                filled,
                loads[-1]["broker_rss_kib"],
            )


def _run(load: str, broker: Broker, bench: Bench) -> generator.Load:
    with pinned(bench.cores.generator):
        return generator.run(load, port=broker.port, broker_pid=broker.pid, seed=bench.seed)


def _stored(broker: Broker, sent: int) -> int:
    """Return the messages that the broker reports in its journal; else those acknowledged."""
    capture = read_capture(broker.metrics())
    return sent if capture is None else capture.captured


def render_growth(points: list[Point]) -> str:
    """A table; the last column is the rate relative to the empty journal's."""
    rows = [("stored", "msg/s best (median)", "CPU us/msg", "RSS MiB", "fill/s", "of empty")]
    first = max(points[0].per_s) if points else 1.0
    rows.extend(
        (
            f"{point.stored:,}",
            f"{compact(max(point.per_s))} ({compact(median(point.per_s))})",
            compact(min(point.broker_us_per_message)),
            compact(point.rss_kib / 1024),
            compact(point.fill_per_s),
            f"{max(point.per_s) / first:.2f}x",
        )
        for point in points
    )
    return columns(rows, left=())
