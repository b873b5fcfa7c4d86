"""What all benchmarks share: a broker in its own process, a session, rows in topics.

Rows are produced in large batches or, to see the cost, one by one from many devices at once, which
makes commits of few messages each.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from benchmarks.brokers import HOST, Broker, PenstockBroker
from penstock.client import connect
from penstock.spark.session import session

__all__ = ["Ground", "interleaved", "timed"]

PAYLOAD_BYTES = 100
BATCH = 8_192


class Ground:
    """A broker, a session, a directory."""

    def __init__(self, broker: Broker, spark: SparkSession, directory: Path, rounds: int) -> None:
        self.broker = broker
        self.spark = spark
        self.directory = directory
        self.rounds = rounds
        self.servers = f"{HOST}:{broker.port}"
        self._filled: dict[str, int] = {}

    @classmethod
    @contextmanager
    def ready(cls, data: Path, rounds: int, master: str) -> "Iterator[Ground]":
        """Provide the ground inside the ``with`` block."""
        with (
            PenstockBroker.running(data, settings={}) as broker,
            TemporaryDirectory(prefix="spark-", dir=data) as directory,
        ):
            settings = {
                "spark.ui.enabled": "false",
                "spark.driver.memory": "3g",
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.host": HOST,
                "spark.driver.bindAddress": HOST,
            }
            spark = session("benchmarks", master, settings)
            spark.sparkContext.setLogLevel("ERROR")
            try:
                yield cls(broker, spark, Path(directory), rounds)
            finally:
                spark.stop()

    def fill(self, topic: str, rows: int) -> str:
        """Ensure that a topic has this many rows of random bytes; return its name."""
        missing = rows - self._filled.get(topic, 0)
        pool = [os.urandom(PAYLOAD_BYTES) for _ in range(BATCH)]
        with connect([self.servers], timeout_s=60) as client:
            client.create_topic(topic, keep=True)
            for first in range(0, missing, BATCH * 8):
                count = min(BATCH * 8, missing - first)
                client.produce_many(topic, (pool * 8)[:count])
        self._filled[topic] = max(rows, self._filled.get(topic, 0))
        return topic

    def table(self, topics: str, **options: object) -> DataFrame:
        """Return topics as a table, planned now."""
        reader = self.spark.read.format("penstock").option("servers", self.servers)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.option("subscribe", topics).load()

    def stream(self, topics: str, **options: object) -> DataFrame:
        """Return topics as a stream."""
        reader = self.spark.readStream.format("penstock").option("servers", self.servers)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.option("subscribe", topics).load()

    def parquet(self, topic: str, rows: int) -> Path:
        """Return the same rows as Parquet, written once, with one file per core."""
        path = self.directory / f"{topic.replace('/', '-')}-{rows}.parquet"
        if not path.exists():
            self.table(topic).write.parquet(str(path))
        return path


def timed(job: Callable[[], object]) -> float:
    """Return the seconds that a job takes."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def interleaved(rounds: int, **jobs: Callable[[], object]) -> dict[str, list[float]]:
    """Return the seconds of each job, alternating; the first round warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            taken = timed(job)
            if turn:
                seconds[name].append(taken)
                print(f"  {name:24} round {turn}: {taken:.2f} s", flush=True)
    return seconds


def rate(rows: int, seconds: list[float]) -> tuple[float, tuple[float, ...]]:
    """Return rows per second: the best, and all."""
    rates = tuple(rows / taken for taken in seconds)
    return max(rates), rates


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the ratio of the medians, theirs to ours."""
    return median(theirs) / median(ours)
