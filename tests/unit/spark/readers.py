"""What Spark does with a source, in short: plan, read, go on; no JVM."""

import time
from collections.abc import Sequence

import numpy as np
from pyarrow import Table
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.client.queue.blocking import QueueClient
from penstock.spark.columns import ScannedRows, ScannedTopics, strings
from penstock.spark.source import DefaultSource
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import Slice

__all__ = ["Stream", "fill", "payloads", "read", "remove", "scanned", "source", "trickle"]


REMOVE_S_MAX = 30


def source(servers: str, **options: object) -> DefaultSource:
    given = {"servers": servers, "fetchOffset.retryIntervalMs": "20", "pollTimeoutMs": "20"}
    given |= {name.replace("__", "."): str(value) for name, value in options.items()}
    return DefaultSource(CaseInsensitiveDict(given))


def read(servers: str, **options: object) -> list[dict]:
    """A batch, as rows."""
    found = source(servers, **options)
    reader = found.reader(found.schema())
    return rows_of(reader, reader.partitions())


def rows_of(reader, partitions) -> list[dict]:
    batches = [batch for part in partitions for batch in reader.read(part)]
    return Table.from_batches(batches).to_pylist() if batches else []


def fill(client: QueueClient, topic: str, count: int, first: int = 0) -> None:
    """Numbers as payloads, so that one sees which are missing."""
    results = client.produce_many(topic, [b"%d" % number for number in range(first, first + count)])
    assert all(result.error is None for result in results)


def trickle(client: QueueClient, topic: str, count: int, first: int = 0) -> None:
    """The same one by one: each is its own entry, which retention can remove."""
    for number in range(first, first + count):
        client.produce(topic, b"%d" % number)


def remove(broker: Broker, client: QueueClient, topic: str, keep: int) -> None:
    """Have retention remove all but the newest."""
    client.set_retention(topic, max_messages=keep)
    first = client.topic(topic).end_offset - keep
    deadline = time.monotonic() + REMOVE_S_MAX
    while client.locate(topic).first_offset < first:
        assert time.monotonic() < deadline, "retention did not come so far"
        broker.clock.advance(1.1)
        time.sleep(0.01)  # a thread does it, which a busy machine may keep waiting


def payloads(rows: list[dict], topic: str | None = None) -> list[int]:
    return [int(row["payload"]) for row in rows if topic in {None, row["topic"]}]


class Stream:
    """A query as Spark runs it: what it has committed, and a reader that may die."""

    def __init__(self, servers: str, **options: object) -> None:
        self.source = source(servers, **options)
        self.offset: dict | None = None
        """Where the last batch ended."""
        self.logged: tuple[dict, dict] | None = None
        """A batch that was written down, and has not run."""
        self.restart()

    def restart(self) -> None:
        """Kill the driver: all that is left is the log."""
        self.reader = self.source.streamReader(self.source.schema())
        if self.logged is not None and self.offset is None:
            self.logged = (self.reader.initialOffset(), self.logged[1])

    def prepare(self) -> None:
        self.reader.prepareForTriggerAvailableNow()

    def log(self, limit: ReadLimit | None = None) -> bool:
        """Plan the next batch, and write it down; tell whether there is one."""
        start = self.offset or self.reader.initialOffset()
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        if end == start:
            return False
        self.logged = (start, end)
        return True

    def run(self) -> list[dict]:
        """Run the batch that was written down."""
        assert self.logged is not None
        start, end = self.logged
        rows = rows_of(self.reader, self.reader.partitions(start, end))
        self.offset, self.logged = end, None
        return rows

    def next(self, limit: ReadLimit | None = None) -> list[dict]:
        return self.run() if self.log(limit) else []

    def commit(self) -> None:
        self.reader.commit(self.offset)


def scanned(sent: Sequence[tuple[str, Sequence[Slice]]], incarnation: int = 5) -> list[ScannedRows]:
    """Answers, each of one topic: its slices, with a group for each unless it has some."""
    found = []
    for topic, slices in sent:
        for part in slices:
            if not part.group_starts:
                part.group_topics = part.group_starts = bytes(4)
                part.group_offsets = part.first_offset.to_bytes(8, "little")
        found.append(ScannedRows(ScannedTopics(strings([topic]), np.array([incarnation])), slices))
    return found
