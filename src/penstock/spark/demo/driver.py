"""The Spark driver of the demo: the process that is killed.

It is a process of its own so that SIGKILL ends it as a crash would: without a last commit.
"""

import signal
import subprocess
import sys
import threading
from os import killpg
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import PenstockError
from penstock.spark.demo.fleet import FLEET_FILTER
from penstock.spark.pipelines.audit_report import AuditReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ALERT_TOPIC: Final = "alerts/fleet"
ROLLUP_TOPIC: Final = "rollup/fleet"
TRIGGER: Final = "1s"  # interval of each job: three of them share two cores
STOP_S: Final = 90.0  # for the last batches after SIGTERM
READY: Final = "ready"  # created when the jobs have started
LOG_TAIL: Final = 15  # lines to show when it failed

SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    # One partition of state per job: each writes files at every batch.
    "spark.sql.shuffle.partitions": "1",
    # It runs for a minute or two, so a fast start matters more than peak speed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class DemoPlan(msgspec.Struct, frozen=True):
    """The arguments of a driver, passed in a file."""

    servers: str
    directory: str
    window_s: float
    silent_s: float

    @property
    def archive(self) -> str:
        return f"{self.directory}/fleet"

    def checkpoint(self, name: str) -> str:
        return f"{self.directory}/checkpoints/{name}"


class DemoAudit(msgspec.Struct, frozen=True):
    """What ``finish`` found; ``tallies``: rows and sum of the payloads' CRC-32, by topic."""

    report: AuditReport
    tallies: dict[str, tuple[int, int]]


class Driver:
    """A driver as a child process, in a process group with all that it starts."""

    def __init__(self, plan: DemoPlan, what: str) -> None:
        directory = Path(plan.directory)
        plan_path = directory / "plan.json"
        plan_path.write_bytes(msgspec.json.encode(plan))
        self._log_path = directory / "driver.log"
        with self._log_path.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "penstock.spark.demo.driver", what, str(plan_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check(self) -> None:
        if self._child.poll() is not None:
            raise self._failure()

    def kill(self) -> None:
        if self._child.poll() is None:
            killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def stop(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        self.wait(STOP_S)

    def wait(self, timeout_s: float) -> None:
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PenstockError(
                f"Spark did not end within {timeout_s:g} s", f"see its log: {self._log_path}"
            ) from None
        if status:
            raise self._failure()

    def _failure(self) -> PenstockError:
        lines = self._log_path.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        said = "\n    ".join(lines)
        return PenstockError(
            f"Spark ended with status {self._child.returncode}:\n    {said}",
            "run penstock spark doctor to check the setup; --keep keeps all logs",
        )


def _live(plan: DemoPlan) -> None:
    from penstock.spark.pipelines.monitor import monitor  # noqa: PLC0415 - the same
    from penstock.spark.pipelines.progress import JsonLines  # noqa: PLC0415 - loads Spark

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    spark = _session()
    jobs = _jobs(spark, plan, TRIGGER)
    Path(plan.directory, READY).touch()
    with Path(plan.directory, "progress.jsonl").open("a") as lines:
        monitor(jobs, JsonLines(lines), stop)
    spark.stop()


def _finish(plan: DemoPlan) -> None:
    spark = _session()
    for query in _jobs(spark, plan, "available-now"):
        query.awaitTermination()
    result = _audited(spark, plan)
    Path(plan.directory, "result.json").write_bytes(msgspec.json.encode(result))
    spark.stop()


def _session() -> "SparkSession":
    from penstock.spark.session import session  # noqa: PLC0415 - loads Spark

    return session("penstock demo", settings=SETTINGS)


def _jobs(spark: "SparkSession", plan: DemoPlan, trigger: str) -> "list[StreamingQuery]":
    from penstock.spark.pipelines import archive, rollup, silent  # noqa: PLC0415 - loads Spark

    # Partitioned by date only; with topics, every batch would write a file per sensor.
    archiving = archive.start(
        spark,
        plan.servers,
        FLEET_FILTER,
        plan.archive,
        reader="archive",
        trigger=trigger,
        partition_by="date",
    )
    windows = rollup.run(
        spark,
        servers=plan.servers,
        subscribe=FLEET_FILTER,
        checkpoint=plan.checkpoint("rollup"),
        field=["$.temperature"],
        every=plan.window_s,
        late=plan.window_s / 2,
        to=ROLLUP_TOPIC,
        reader="rollup",
        trigger=trigger,
    )
    presence = silent.run(
        spark,
        servers=plan.servers,
        subscribe=FLEET_FILTER,
        checkpoint=plan.checkpoint("silent"),
        device="level:4",
        seq="$.seq",
        after=plan.silent_s,
        late=1,
        to=ALERT_TOPIC,
        heartbeat=2,
        reader="silent",
        trigger=trigger,
    )
    return [archiving, *windows, presence]


def _audited(spark: "SparkSession", plan: DemoPlan) -> DemoAudit:
    from pyspark.sql import functions as f  # noqa: PLC0415 - loads Spark

    from penstock.spark.pipelines import archive, audit  # noqa: PLC0415 - the same

    report = audit.audit(spark, plan.archive, servers=plan.servers, subscribe=FLEET_FILTER)
    by_topic = archive.read(spark, plan.archive).groupBy("topic")
    tallies = by_topic.agg(f.count("*"), f.sum(f.crc32("payload")))
    return DemoAudit(report, {topic: (rows, crc) for topic, rows, crc in tallies.collect()})


if __name__ == "__main__":
    command, plan_file = sys.argv[1:]
    commands = {"live": _live, "finish": _finish}
    commands[command](msgspec.json.decode(Path(plan_file).read_bytes(), type=DemoPlan))
