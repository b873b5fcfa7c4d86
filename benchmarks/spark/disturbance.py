"""Whether a broker that Spark reads at full speed still answers other clients in time.

Spark uses both cores of a small machine, and would disturb even a broker that it does not read. So
there are alternating cases: nothing else runs; Spark reads Parquet; Spark reads the broker, one
topic or many. The second shows the influence of the machine, the others that of the broker.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median, quantiles

from benchmarks.figures import Figure
from benchmarks.spark.ground import Ground
from penstock.client import connect

__all__ = ["disturb"]

PROBE_S = 6.0
PAUSE_S = 0.002
FLEET_TOPICS = 10_000
FLEET_ROWS_MAX = 1_000_000


def disturb(ground: Ground, rows: int) -> Iterator[Figure]:
    """Measure the latency of a durable produce: idle, during Parquet, during a broker read."""
    topic = ground.fill("bench/source", rows)
    path = str(ground.parquet(topic, rows))
    fleet = ground.fill_fleet("bench/fleet", FLEET_TOPICS, min(rows, FLEET_ROWS_MAX))
    situations: dict[str, Callable[[], None] | None] = {
        "idle": None,
        "Spark reads Parquet": lambda: _read(ground.spark.read.parquet(path)),
        "Spark reads the broker": lambda: _read(ground.table(topic)),
        "Spark reads 10,000 topics": lambda: _read(ground.table(fleet)),
    }
    found: dict[str, list[float]] = {name: [] for name in situations}
    for _turn in range(ground.rounds):
        for name, work in situations.items():
            with _beside(work):
                found[name] += _probe(ground)
    for name, waits in found.items():
        yield Figure("disturb", f"produce p50, {name}", median(waits), "ms")
        yield Figure("disturb", f"produce p99, {name}", quantiles(waits, n=100)[-1], "ms")
    idle, parquet, broker, many = (median(waits) for waits in found.values())
    yield Figure("disturb", "p50 under a read, beside idle", broker / idle, "x", "<2")
    yield Figure("disturb", "p50 under a read, beside Parquet", broker / parquet, "x", "<2")
    yield Figure("disturb", "p50 under a read of many, beside idle", many / idle, "x", "<2")
    yield Figure("disturb", "p50 under a read of many, beside Parquet", many / parquet, "x", "<2")


def _read(table: "object") -> None:
    table.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]


@contextmanager
def _beside(work: Callable[[], None] | None) -> Iterator[None]:
    """A job that repeats in the background during a measurement."""
    if work is None:
        yield
        return
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.is_set():
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    time.sleep(1.5)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _probe(ground: Ground) -> list[float]:
    """Return the latencies of durable produces, one at a time, in ms."""
    waits = []
    with connect([ground.servers]) as client:
        deadline = time.perf_counter() + PROBE_S
        while (start := time.perf_counter()) < deadline:
            client.produce("bench/probe", b"x" * 100)
            waits.append((time.perf_counter() - start) * 1000)
            time.sleep(PAUSE_S)
    return waits
