"""Archives without a broker: rows by hand, written by the very file sink that the job uses."""

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from penstock.spark.archived.layout import LIVE, PARTITIONINGS, SCHEMA, root_of
from penstock.spark.archived.snapshot import take
from penstock.spark.pipelines import archive

BEGIN = datetime(2026, 1, 1, 23, 59, 50, tzinfo=UTC)
"""Ten seconds before a day ends."""

_HEADER = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
_SIGNATURE = pa.struct(
    {
        "version": pa.int32(),
        "key_id": pa.int64(),
        "signature": pa.binary(),
        "signed_ms": pa.int64(),
        "nonce": pa.binary(),
    }
)
ARROW = pa.schema(
    {
        "topic": pa.string(),
        "incarnation": pa.int64(),
        "offset": pa.int64(),
        "sequence": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "payload": pa.binary(),
        "content_type": pa.string(),
        "priority": pa.int32(),
        "producer": pa.string(),
        "producer_seq": pa.int64(),
        "signer": pa.int64(),
        "signature_verdict": pa.string(),
        "headers": _HEADER,
        "signature": _SIGNATURE,
    }
)


def row(topic: str, offset: int, sequence: int, **more: object) -> dict[str, object]:
    """A row as the source would give it, a second after the one before."""
    return {
        "topic": topic,
        "incarnation": 1,
        "offset": offset,
        "sequence": sequence,
        "timestamp": BEGIN + timedelta(seconds=sequence),
        "payload": f"{topic} {offset}".encode(),
        "content_type": "raw",
        "priority": 0,
        "signature_verdict": None,
        **more,
    }


def rows(topics: Iterable[str], begin: int, end: int) -> list[dict[str, object]]:
    """Offsets of each of these topics, one after the other."""
    names = list(topics)
    pairs = [(offset, name) for offset in range(begin, end) for name in names]
    first = begin * len(names)
    return [row(name, offset, first + i) for i, (offset, name) in enumerate(pairs)]


class Archive:
    """An archive, and the batches that make it."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self.root = root_of(path / "archive")
        self._inbox = path / "inbox"
        self._inbox.mkdir()
        self._batches = 0

    def put(self, *batches: list[dict[str, object]]) -> None:
        """Have each of these be a batch of the next run."""
        for batch in batches:
            path = self._inbox / f"{self._batches:05}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, ARROW), path)
            os.utime(path, (self._batches, self._batches))  # Spark takes the oldest first
            self._batches += 1

    def run(
        self, entries_max: int = archive.SEGMENT_ENTRIES_MAX, partition_by: str = "topic,date"
    ) -> None:
        """Archive what was put, as the job would."""
        manifest = archive.prepare(self.root, partition_by, entries_max=entries_max)
        source = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            archive.transform(source.parquet(str(self._inbox)))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.root / manifest.checkpoint))
            .partitionBy(*PARTITIONINGS[partition_by])
            .trigger(availableNow=True)
            .start(str(self.root / LIVE / manifest.current.name))
        )
        query.awaitTermination()

    def mark(self, **topics: tuple[int, int, int]) -> None:
        """Note for the last batch what the source would: incarnation, next and first offset.

        The file source, which stands in for it, notes something else, and cannot go on after this.
        """
        snapshot = take(self.root)
        path = self.root / snapshot.manifest.checkpoint / "offsets" / str(snapshot.batch)
        text = json.dumps({"v": 1, "plan": {}, "topics": topics})
        path.write_text("\n".join([*path.read_text().split("\n")[:2], text]))

    def found(self) -> list[tuple[str, int]]:
        """Topic and offset of every row, as a reader sees them."""
        frame = archive.read(self._spark, self.root).select("topic", "offset")
        return sorted((r["topic"], r["offset"]) for r in frame.collect())


def expected(topics: Iterable[str], begin: int, end: int) -> list[tuple[str, int]]:
    return sorted((name, offset) for name in topics for offset in range(begin, end))
