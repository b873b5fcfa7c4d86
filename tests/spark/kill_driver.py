"""A driver that copies topics, and is killed at a given point.

``python -m tests.spark.kill_driver SERVERS DIRECTORY RUN POINT NTH``: copies ``in/#`` to ``out/#``
until everything there is has been copied, with its checkpoint in the directory. Each message that
it writes says which run wrote it, and has a number that no other attempt would have.

When it gets to POINT for the NTH time, driver and JVM are gone, and so is whoever was at that point.
Other Python workers live on until they notice, as they would on another machine. The source and the
sink are the real ones; what is wrapped around them counts, and kills.

It starts, says that it is there, and begins when it reads a line: the next driver can be started
while the last one works.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock.spark.session import session
from penstock.spark.sink import StreamWriter
from penstock.spark.source import DefaultSource
from penstock.spark.stream import StreamReader

POINTS = (
    "plan",  # before the offset log has the batch
    "partitions",  # the offset log has it, no task runs
    "read",  # a task reads
    "write",  # a task writes, and has staged nothing or something
    "staged",  # a task has staged everything
    "commit",  # all tasks are done, nothing is published
    "committing",  # the broker was asked to publish, and has not answered
    "committed",  # it is published, Spark's commit log does not have it
    "source",  # the source is notified, while the next batch begins
)

TROUBLES = {"task fails": 1, "worker dies": 2}
"""What happens to first attempts in the run "last", and to that of which write."""

SERVERS, DIRECTORY, RUN, POINT, NTH = sys.argv[1:] if len(sys.argv) == 6 else ("", "", "", "", "0")
GROUP = os.getpgid(0)


def count(point: str) -> int:
    """How often this run has been here, this time included; processes count together."""
    path = Path(DIRECTORY, f"{RUN}.{point}")
    with path.open("ab") as file:
        file.write(b".")
        return file.tell()


def at(point: str) -> None:
    if count(point) == int(NTH) and point == POINT:
        die()


def die() -> None:
    os.killpg(GROUP, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class KillingReader(StreamReader):
    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802 - Spark's
        end = super().latestOffset(start, limit)
        at("plan")
        return end

    def partitions(self, start: Any, end: Any) -> Any:
        found = super().partitions(start, end)
        at("partitions")
        return found

    def read(self, partition: Any) -> Any:
        for batch in super().read(partition):
            at("read")
            yield batch

    def commit(self, end: Any) -> None:
        at("source")
        super().commit(end)


class KillingWriter(StreamWriter):
    def write(self, iterator: Any) -> Any:
        at("write")
        staged = super().write(iterator)
        if RUN == "last" and TaskContext.get().attemptNumber() == 0:
            number = count("trouble")
            if number == TROUBLES["task fails"]:
                raise RuntimeError("planned: a task fails after it has staged everything")
            if number == TROUBLES["worker dies"]:
                os.kill(os.getpid(), signal.SIGKILL)
        at("staged")
        return staged

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's
        at("commit")
        if POINT == "committing" and count("committing") == int(NTH):
            commit = super().commit
            threading.Thread(target=commit, args=(messages, batchId), daemon=True).start()
            time.sleep(0.01)
            die()
        super().commit(messages, batchId)
        at("committed")


class KillingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's
        reader = super().streamReader(schema)
        reader.__class__ = KillingReader
        return reader

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = KillingWriter
        return writer


def main() -> None:
    from tests.spark.quick import prepare, quick

    prepare()
    spark = session("kills", "local[2,4]", quick())
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(KillingSource)
    print("there", flush=True)
    sys.stdin.readline()
    rows = (
        spark.readStream.format("killing")
        .option("servers", SERVERS)
        .option("subscribe", "in/#")
        .option("maxOffsetsPerTrigger", "60")
        .option("minPartitions", "3")
        .load()
    )
    copied = rows.selectExpr(
        "replace(topic, 'in/', 'out/') AS topic",
        f"concat_ws(',', decode(payload, 'UTF-8'), '{RUN}', uuid()) AS payload",
    )
    query = (
        copied.writeStream.format("killing")
        .option("servers", SERVERS)
        .option("checkpointLocation", str(Path(DIRECTORY, "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
