"""The benchmarks, each a function from the ground to its figures; ``CASES`` maps names."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame

from benchmarks.figures import Figure
from benchmarks.spark.disturbance import disturb
from benchmarks.spark.ground import Ground, interleaved, rate, ratio
from penstock.client import connect

__all__ = ["CASES"]

Case = Callable[[Ground, int], Iterator[Figure]]

SEEN_S_MAX = 60
FLEET = "bench/fleet"
FLEET_TOPICS = 10_000
FLEET_ROWS_MAX = 1_000_000
SETTLE_S = 5.0


def _noop(table: DataFrame) -> None:
    table.write.format("noop").mode("overwrite").save()


def source(ground: Ground, rows: int) -> Iterator[Figure]:
    """Read a topic to ``noop``, compared with Parquet to ``noop``."""
    topic = ground.fill("bench/source", rows)
    path = ground.parquet(topic, rows)
    seconds = interleaved(
        ground.rounds,
        topic=lambda: _noop(ground.table(topic)),
        payload=lambda: _noop(ground.table(topic, columns="payload")),
        parquet=lambda: _noop(ground.spark.read.parquet(str(path))),
    )
    best, rates = rate(rows, seconds["topic"])
    yield Figure("source", "topic → noop", best, "rows/s", ">1500000", rates)
    yield Figure("source", "… payload only", *_part(rows, seconds["payload"]))
    yield Figure("source", "Parquet → noop", *_part(rows, seconds["parquet"]))
    beside = ratio(seconds["topic"], seconds["parquet"])
    yield Figure("source", "topic beside Parquet, medians", beside, "x", ">0.5")


def _part(rows: int, seconds: list[float]) -> tuple[float, str, str, tuple[float, ...]]:
    best, rates = rate(rows, seconds)
    return best, "rows/s", "", rates


def fleet(ground: Ground, rows: int) -> Iterator[Figure]:
    """Read 10,000 topics with a few messages per commit each, compared with one topic."""
    rows = max(min(rows, FLEET_ROWS_MAX), FLEET_TOPICS)
    topics, topic = _filled_fleet(ground, rows), ground.fill("bench/one", rows)
    seconds = interleaved(
        ground.rounds,
        fleet=lambda: _noop(ground.table(topics)),
        one=lambda: _noop(ground.table(topic)),
    )
    best, rates = rate(rows, seconds["fleet"])
    yield Figure("fleet", f"{FLEET_TOPICS:,} topics → noop", best, "rows/s", ">1200000", rates)
    yield Figure("fleet", "one topic → noop", *_part(rows, seconds["one"]))
    yield Figure("fleet", "fleet beside one topic", ratio(seconds["fleet"], seconds["one"]), "x")


def _filled_fleet(ground: Ground, rows: int) -> str:
    """Wait until the journal has put the rows in order, as it does with all but the newest."""
    topics = ground.fill_fleet(FLEET, FLEET_TOPICS, rows)
    time.sleep(SETTLE_S)
    return topics


def fleet_archive(ground: Ground, rows: int) -> Iterator[Figure]:
    """Write 10,000 topics to Parquet like the archive job, compared with Parquet to Parquet."""
    rows = max(min(rows, FLEET_ROWS_MAX), FLEET_TOPICS)
    topics = _filled_fleet(ground, rows)
    seconds = _archived(ground, topics, ground.parquet(topics, rows))
    best, rates = rate(rows, seconds["archive"])
    yield Figure("fleet_archive", "topics → Parquet, streamed", best, "rows/s", "", rates)
    yield Figure("fleet_archive", "Parquet → Parquet, streamed", *_part(rows, seconds["copy"]))
    beside = ratio(seconds["archive"], seconds["copy"])
    yield Figure("fleet_archive", "topics beside Parquet, streamed", beside, "x", ">0.5")


def archive(ground: Ground, rows: int) -> Iterator[Figure]:
    """Write a topic to Parquet like the archive job, compared with Parquet to Parquet."""
    topic = ground.fill("bench/source", rows)
    seconds = _archived(ground, topic, ground.parquet(topic, rows))
    best, rates = rate(rows, seconds["archive"])
    yield Figure("archive", "topic → Parquet, streamed", best, "rows/s", "", rates)
    yield Figure("archive", "Parquet → Parquet, streamed", *_part(rows, seconds["copy"]))
    yield Figure("archive", "Parquet → Parquet, batch", *_part(rows, seconds["batch_copy"]))
    beside = ratio(seconds["archive"], seconds["copy"])
    yield Figure("archive", "topic beside Parquet, streamed", beside, "x", ">0.6")
    beside = ratio(seconds["archive"], seconds["batch_copy"])
    yield Figure("archive", "topic streamed beside Parquet batch", beside, "x", ">0.6")


def _archived(ground: Ground, topics: str, path: Path) -> dict[str, list[float]]:
    """Seconds of the archive job, and of the same from Parquet as a stream and as a batch."""

    def batch_copy() -> None:
        target = ground.directory / uuid4().hex
        ground.spark.read.parquet(str(path)).write.parquet(str(target))
        shutil.rmtree(target)

    def run(stream: DataFrame) -> None:
        target = ground.directory / uuid4().hex
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(target / "data"))
            .option("checkpointLocation", str(target / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(target)

    schema = ground.spark.read.parquet(str(path)).schema
    return interleaved(
        ground.rounds,
        archive=lambda: run(ground.stream(topics)),
        copy=lambda: run(ground.spark.readStream.schema(schema).parquet(str(path))),
        batch_copy=batch_copy,
    )


def sink(ground: Ground, rows: int) -> Iterator[Figure]:
    """Write Parquet to a topic, durable when the job ends."""
    rows = min(rows, 1_000_000)
    path = ground.parquet(ground.fill("bench/sink-source", rows), rows)

    def write() -> None:
        topic = f"bench/sink/{uuid4().hex}"
        table = ground.spark.read.parquet(str(path)).select("payload")
        options = {"servers": ground.servers, "topic": topic, "jobId": uuid4().hex}
        table.write.format("penstock").options(**options).mode("append").save()

    seconds = interleaved(ground.rounds, sink=write)
    best, rates = rate(rows, seconds["sink"])
    yield Figure("sink", "Parquet → topic, durable", best, "rows/s", ">150000", rates)


def latency(ground: Ground, _rows: int) -> Iterator[Figure]:
    """Measure from publish until a row is in a table in memory; one at a time."""
    topic = ground.fill("bench/latency", 1)
    stream = ground.stream(topic, columns="offset")
    query = stream.writeStream.format("memory").queryName("seen").start()
    _until_seen(ground, 0)  # it runs; with "latest" it would begin after our first message
    waits = []
    with connect([ground.servers]) as client:
        for turn in range(60):
            start = time.perf_counter()
            _until_seen(ground, client.produce(topic, b"x" * 100))
            if turn >= 10:
                waits.append((time.perf_counter() - start) * 1000)
    query.stop()
    p50, p95 = median(waits), quantiles(waits, n=20)[-1]
    yield Figure("latency", "publish → row in memory, p50", p50, "ms", "<400")
    yield Figure("latency", "… p95", p95, "ms")


def _until_seen(ground: Ground, offset: int) -> None:
    deadline = time.perf_counter() + SEEN_S_MAX
    while not ground.spark.sql(f"select 1 from seen where offset = {offset}").head():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"offset {offset} was not seen for {SEEN_S_MAX} s")
        time.sleep(0.002)


def tail(ground: Ground, rows: int) -> Iterator[Figure]:
    """Read the last 1 % of many rows, compared with as many rows of a topic without others."""
    rows = max(rows, 10_000_000)
    part = rows // 100
    long = ground.fill("bench/long", rows)
    short = ground.fill("bench/short", part)
    last = f'{{"{long}": {rows - part}}}'
    seconds = interleaved(
        ground.rounds,
        last=lambda: _noop(ground.table(long, startingOffsets=last)),
        alone=lambda: _noop(ground.table(short)),
    )
    others = [f"bench/other/{number}" for number in range(10_000)]
    with connect([ground.servers], timeout_s=60) as client:
        for name in others:
            client.produce(name, b"x")
    beside_others = interleaved(
        ground.rounds,
        last=lambda: _noop(ground.table(long, startingOffsets=last)),
        alone=lambda: _noop(ground.table(short)),
    )
    best, rates = rate(part, seconds["last"])
    yield Figure("tail", f"the last {part:,} of {rows:,}", best, "rows/s", "", rates)
    yield Figure("tail", f"{part:,} of {part:,}", *_part(part, seconds["alone"]))
    yield Figure("tail", "last 1 % beside alone", ratio(seconds["last"], seconds["alone"]), "x")
    times = ratio(beside_others["last"], seconds["last"])
    yield Figure("tail", "with 10,000 other topics beside without", times, "x")


CASES: Final[dict[str, Case]] = {
    "source": source,
    "fleet": fleet,
    "archive": archive,
    "fleet_archive": fleet_archive,
    "sink": sink,
    "latency": latency,
    "tail": tail,
    "disturb": disturb,
}
