"""Archives made by hand: the files, logs and positions that the job would leave, without Spark."""

import json
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq
from tests.spark.archives import ARROW, row

from penstock.client.queue.blocking import QueueClient
from penstock.spark.archived import manifest, sink_log
from penstock.spark.archived.layout import CHECKPOINT, LIVE, day_of, root_of, topic_key

__all__ = ["SmallArchive"]


class SmallArchive:
    """An archive of one topic at a broker, and the batches that extend it."""

    def __init__(self, servers: str, client: QueueClient, path: Path, topic: str) -> None:
        self.servers = servers
        self._client = client
        self._topic = topic
        self._batch = 0
        self._next = 0
        self.root = root_of(path)
        manifest.create(self.root, "topic,date", CHECKPOINT)

    def extend(self, end: int) -> None:
        """Archive what the broker has up to this offset, as one batch."""
        found = self._client.messages(self._topic, self._next, end)
        taken = list(found)
        assert [record.offset for record in taken] == list(range(self._next, end))
        incarnation = self._client.locate(self._topic).incarnation
        rows = [
            row(
                self._topic,
                record.offset,
                record.sequence,
                incarnation=incarnation,
                timestamp=record.ts_ms * 1000,
                payload=record.payload,
            )
            for record in taken
        ]
        self._commit(self._write(pa.Table.from_pylist(rows, ARROW)), incarnation, end)

    def _write(self, table: pa.Table) -> Path:
        day = day_of(table.column("timestamp")[0].as_py())
        name = f"topic_key={topic_key(self._topic)}/date={day}/part-{self._batch}.parquet"
        path = self.root / LIVE / "0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        return path

    def _commit(self, file: Path, incarnation: int, end: int) -> None:
        """First the position in the checkpoint, then the log that makes the batch count."""
        offsets = self.root / CHECKPOINT / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        position = {"v": 1, "plan": {}, "topics": {self._topic: [incarnation, end, 0]}}
        text = "\n".join(["v1", "{}", json.dumps(position)])
        (offsets / str(self._batch)).write_text(text)
        log = self.root / LIVE / "0" / sink_log.DIRECTORY
        log.mkdir(exist_ok=True)
        entry = {"path": file.as_uri(), "size": file.stat().st_size, "action": "add"}
        (log / str(self._batch)).write_text(f"v1\n{json.dumps(entry)}")
        self._batch += 1
        self._next = end
