"""What all benchmarks share: a broker in its own process, a session, rows in topics.

Rows are produced in large batches or, as a fleet of devices does it, one by one to many topics in
turn: a commit has many topics then, and few messages of each.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from benchmarks.brokers import HOST, Broker, PenstockBroker
from penstock.client import connect
from penstock.spark.session import session
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Produce, Request

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

    def fill_fleet(self, prefix: str, topics: int, rows: int) -> str:
        """Ensure that each of many topics has its share of rows, one by one; return a filter."""
        turns = -(-rows // topics) - self._filled.get(prefix, 0)
        if turns > 0:
            produce_in_turn(self.broker.port, prefix, topics, turns)
            self._filled[prefix] = self._filled.get(prefix, 0) + turns
        return f"{prefix}/#"

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
        name = topic.removesuffix("/#").replace("/", "-")
        path = self.directory / f"{name}-{rows}.parquet"
        if not path.exists():
            self.table(topic).write.parquet(str(path))
        return path


def produce_in_turn(port: int, prefix: str, topics: int, turns: int) -> None:
    """Produce a message to each topic in turn, over one connection, some turns ahead."""
    frames = b"".join(
        encode.request(
            Request(produce=Produce(topic=f"{prefix}/{number}", payload=os.urandom(PAYLOAD_BYTES)))
        )
        for number in range(topics)
    )
    with (
        ThreadPoolExecutor(1) as pool,
        socket.create_connection((HOST, port)) as connection,
        connection.makefile("rb") as answers,
    ):
        sending = pool.submit(lambda: [connection.sendall(frames) for _ in range(turns)])
        for _ in range(topics * turns):
            answers.read(int.from_bytes(answers.read(4), "big"))
        sending.result()


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
