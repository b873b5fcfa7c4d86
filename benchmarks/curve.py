"""A poll must cost the same however many messages wait, and however many are in flight.

For each point a fresh broker gets a backlog, and a consumer takes some of it and keeps it. Then
another consumer repeatedly polls 256 messages and acknowledges them, while as many new ones are
produced: the length of the backlog stays the same. The figure is the median time from a poll to the
answer to its acknowledgements; it includes two commits, so the disk's flush time is shown next to
it. The broker's CPU time is that of the whole cycle, including the produce.

The state machine alone (:mod:`benchmarks.micro_queue`) is measured at the same points.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks import generator, machine
from benchmarks.machine import pinned
from benchmarks.micro_queue import BACKLOGS, BATCH, IN_FLIGHT, Case, settled_per_s
from benchmarks.rounds import Bench
from benchmarks.table import columns, compact

__all__ = ["Point", "measure_curve", "render_curve"]

MEASURED = 25_600
LOAD = f"-m queue-poll -A turn -s 100 -k {BATCH} -j {BATCH} -w 4 -n {MEASURED} -W 300"


@dataclass(frozen=True, slots=True)
class Point:
    """The figures at one length of the queue, by round."""

    backlog: int
    in_flight: int
    batch_us: list[float]
    broker_us_per_message: list[float]
    core_us_per_message: list[float]
    flush_us: list[float]
    rss_kib: float
    flaws: list[str]

    def record(self) -> dict[str, object]:
        """Return one line of the results."""
        return {"type": "curve", "load": LOAD, **asdict(self)}


def measure_curve(bench: Bench) -> Iterator[Point]:
    """Yield all points, each as soon as it is measured."""
    for in_flight in IN_FLIGHT:
        for backlog in BACKLOGS:
            yield _measure(backlog, in_flight, bench)


def _measure(backlog: int, in_flight: int, bench: Bench) -> Point:
    loads, flushes, core = [], [], []
    for _ in range(bench.rounds):
        with bench.ours.running(bench.data, cpu=bench.cores.broker) as broker:
            flushes.append(machine.flush_us(broker.directory))
            with pinned(bench.cores.generator):
                loads.append(
                    generator.run(
                        f"{LOAD} -u {backlog} -l {in_flight}",
                        port=broker.port,
                        broker_pid=broker.pid,
                        seed=bench.seed,
                    )
                )
        core.append(1e6 / settled_per_s(Case(backlog, in_flight, 1)))
    return Point(
        backlog,
        in_flight,
        [load["p50_us"] for load in loads],
        [load["broker_us_per_message"] for load in loads],
        core,
        flushes,
        max(load["broker_rss_kib"] for load in loads),
        [flaw for load in loads for flaw in load.flaws],
    )


def render_curve(points: list[Point]) -> str:
    """A table; the last column compares with the shortest queue."""
    head = ("waiting", "in flight", "batch us", "CPU us/msg", "core us/msg", "flush us", "RSS MiB")
    rows = [(*head, "of first", "flaws")]
    first = min(points[0].batch_us) if points else 1.0
    rows.extend(
        (
            f"{point.backlog:,}",
            f"{point.in_flight:,}",
            compact(min(point.batch_us)),
            compact(min(point.broker_us_per_message)),
            compact(min(point.core_us_per_message)),
            compact(min(point.flush_us)),
            compact(point.rss_kib / 1024),
            f"{min(point.batch_us) / first:.2f}x",
            "; ".join(point.flaws),
        )
        for point in points
    )
    return columns(rows, left=(len(head) + 1,))
