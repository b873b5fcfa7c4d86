"""``archive --compact`` as a process: killed with files written that do not count yet."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client import connect
from penstock.spark.archived.snapshot import take
from penstock.spark.pipelines import archive, audit
from penstock.spark.pipelines.registry import QueryFollowUp
from tests.spark.test_run_command import command, until

TOPICS = 40
ROWS = 5


def produce(servers: str) -> None:
    with connect([servers]) as client:
        for number in range(TOPICS):
            client.produce_many(f"s/{number}", [b"%d" % n for n in range(ROWS)])


@pytest.mark.slow
def test_an_archive_that_was_killed_amid_its_files_is_compacted_to_each_row_once(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    produce(servers)
    root = tmp_path / "a"
    where = ["--servers", servers, "--subscribe", "s/#", "--path", str(root), "--trigger", "1s"]
    process = subprocess.Popen(
        command("archive", *where, "--compact", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(lambda: any((root / "live" / "0").rglob("*.parquet")), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert take(root).batch == -1  # it was before they counted

    produce(servers)
    job = archive.run(
        spark,
        servers=servers,
        subscribe="s/#",
        path=str(root),
        trigger="available-now",
        compact=True,
    )
    assert isinstance(job, QueryFollowUp)
    assert job.query.awaitTermination(120)
    written = len(list((root / "live").rglob("*.parquet")))
    assert written > len(take(root).parts) == 2 * TOPICS  # the previous run has left some
    assert job.action().document["files_after"] == TOPICS
    report = audit.audit(spark, root, servers=servers, subscribe="s/#")
    assert report.is_ok, report.faults()
    assert report.rows == 2 * TOPICS * ROWS
