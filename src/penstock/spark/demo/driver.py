"""The process that runs Spark; the one that is killed.

``live`` runs the three jobs in one session, as ``penstock spark run`` would each for itself: a
laptop has no room for three. ``finish`` has them read what is left, audits the archive, and adds up
what it has of each topic, for the sensors to compare.

It is a process of its own so that it can be killed as the system would: no goodbye to the broker,
no last commit, whatever it was doing. What it did is in a file of lines, one for each batch; the
last line of one that was killed may be half a line.
"""

import signal
import subprocess
import sys
import threading
from os import killpg
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.errors import PenstockError
from penstock.spark.demo.fleet import FLEET_FILTER

ALERT_TOPIC: Final = "alerts/fleet"
ROLLUP_TOPIC: Final = "rollup/fleet"

TRIGGER: Final = "1s"
"""How often each job looks: seldom enough for three of them on two cores."""

STOP_S: Final = 90.0
"""How long the last batches may take when it is asked to stop."""

READY: Final = "ready"
"""A file that is there once the jobs have been started."""

LOG_TAIL: Final = 15
"""Lines of its log that are shown when it failed."""

SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    # One partition of state for each job: each writes files for each batch, and there is little.
    "spark.sql.shuffle.partitions": "1",
    # It lives for a minute or two, so it must start fast rather than run fast in the end.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class DemoPlan(msgspec.Struct, frozen=True):
    """What a driver has to know; it finds it in a file."""

    servers: str
    directory: str
    window_s: float
    silent_s: float

    @property
    def archive(self) -> str:
        """Where the Parquet files are."""
        return f"{self.directory}/fleet"

    def checkpoint(self, name: str) -> str:
        """Where a job notes how far it is; what makes it go on after a kill."""
        return f"{self.directory}/checkpoints/{name}"


class DemoAudit(msgspec.Struct, frozen=True):
    """What ``finish`` found."""

    is_good: bool
    text: str
    audit: dict[str, Any]
    tallies: dict[str, tuple[int, int]]
    """Topic → rows in the archive, and the sum of the CRC-32 of their payloads."""


# ── Seen from outside ─────────────────────────────────────────────────────────────────────────


class Driver:
    """A driver as a child process, with all that it starts in a group of its own."""

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
        """Raise if it has ended by itself."""
        if self._child.poll() is not None:
            raise self._failure()

    def kill(self) -> None:
        """Kill Python and Java at once: no more instruction of either is carried out."""
        if self._child.poll() is None:
            killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def stop(self) -> None:
        """Ask it to end when its batches are done."""
        self._child.send_signal(signal.SIGTERM)
        self.wait(STOP_S)

    def wait(self, timeout_s: float) -> None:
        """Wait until it has done its work; raise if it could not."""
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PenstockError(
                f"Spark did not end within {timeout_s:g} s", f"its log: {self._log_path}"
            ) from None
        if status:
            raise self._failure()

    def _failure(self) -> PenstockError:
        lines = self._log_path.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        said = "\n    ".join(lines)
        return PenstockError(
            f"Spark ended with status {self._child.returncode}:\n    {said}",
            "penstock spark doctor says whether Spark can run here; --keep keeps all logs",
        )


# ── Seen from inside ──────────────────────────────────────────────────────────────────────────


def _live(plan: DemoPlan) -> None:
    """Run the jobs until SIGTERM comes, or SIGKILL."""
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
    """Bring all jobs up to the end of the journal, and prove that the archive is whole.

    However slow the machine was until now: what is told in the end does not depend on it.
    """
    spark = _session()
    for query in _jobs(spark, plan, "available-now"):
        query.awaitTermination()
    result = _audited(spark, plan)
    Path(plan.directory, "result.json").write_bytes(msgspec.json.encode(result))
    spark.stop()


def _session() -> Any:
    from penstock.spark.session import session  # noqa: PLC0415 - loads Spark

    return session("penstock demo", settings=SETTINGS)


def _jobs(spark: Any, plan: DemoPlan, trigger: str) -> list[Any]:
    """Start all three, or let them go on where they were."""
    return [job for start in (_archive, _rollup, _silent) for job in start(spark, plan, trigger)]


def _archive(spark: Any, plan: DemoPlan, trigger: str) -> list[Any]:
    from penstock.spark.pipelines import archive  # noqa: PLC0415 - loads Spark

    # Divided by date alone: by topic as well, every batch would write a file for each sensor.
    query = archive.run(
        spark,
        servers=plan.servers,
        subscribe=FLEET_FILTER,
        path=plan.archive,
        reader="archive",
        trigger=trigger,
        partition_by="date",
    )
    return [query]


def _rollup(spark: Any, plan: DemoPlan, trigger: str) -> list[Any]:
    from penstock.spark.pipelines import rollup  # noqa: PLC0415 - loads Spark

    return rollup.run(
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


def _silent(spark: Any, plan: DemoPlan, trigger: str) -> list[Any]:
    from penstock.spark.pipelines import silent  # noqa: PLC0415 - loads Spark

    query = silent.run(
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
    return [query]


def _audited(spark: Any, plan: DemoPlan) -> DemoAudit:
    from pyspark.sql import functions as f  # noqa: PLC0415 - loads Spark

    from penstock.spark.pipelines import archive, audit  # noqa: PLC0415 - the same

    outcome = audit.run(spark, path=plan.archive, servers=plan.servers, subscribe=FLEET_FILTER)
    rows = archive.read(spark, plan.archive).groupBy("topic")
    tallies = rows.agg(f.count("*"), f.sum(f.crc32("payload")))
    return DemoAudit(
        outcome.is_ok,
        outcome.text,
        outcome.document,
        {topic: (count, checksum) for topic, count, checksum in tallies.collect()},
    )


def _main() -> None:
    what, path = sys.argv[1:]
    plan = msgspec.json.decode(Path(path).read_bytes(), type=DemoPlan)
    {"live": _live, "finish": _finish}[what](plan)


if __name__ == "__main__":
    _main()
