"""A real cluster, of processes: a master and two workers; a job runs on it, and one is lost."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet

from penstock.client import connect
from penstock.spark.archived.snapshot import take
from penstock.spark.cluster import SparkCluster
from tests.spark.quick import prepare, quick

ROOT = Path(__file__).parents[2]
ROWS = 4000
PARTS = 40
BEGUN = 6
"""Number of parts read, or being read, when a worker is lost: each of the two has some."""

DRIVER = """
import os, pathlib, sys, time, uuid
import pyarrow as pa
from penstock.spark.session import session
from tests.spark.quick import prepare, quick

url, servers, folder, rows_per_part = sys.argv[1:]

def slowly(batches):
    for batch in batches:
        pathlib.Path(folder, uuid.uuid4().hex).touch()
        time.sleep(0.15)
        payloads = [f"{offset.as_py()} {os.getppid()}" for offset in batch["offset"]]
        yield pa.RecordBatch.from_pydict({"payload": payloads})

prepare()
settings = quick() | {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": quick()["spark.driver.extraJavaOptions"],
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # begin when both are there
}
spark = session("cluster", url, settings)
source = spark.read.format("penstock").options(servers=servers, subscribe="a")
table = source.option("maxRecordsPerPartition", rows_per_part).load()
sink = table.mapInArrow(slowly, "payload string").write.format("penstock")
sink.options(servers=servers, topic="b", jobId="copy").mode("append").save()
spark.stop()
"""


def wait_for_files(folder: Path, count: int, driver: subprocess.Popen[str]) -> None:
    while len(list(folder.iterdir())) < count:
        assert driver.poll() is None, "the driver ended"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a master, two workers and two drivers start, on two cores
def test_two_workers_archive_a_topic_and_copy_it_exactly_once_though_one_is_lost(servers, tmp_path):
    with connect([servers]) as client:
        client.produce_many("a", [b"%d" % number for number in range(ROWS)])
        _copy_and_lose_a_worker(servers, tmp_path)
        copied = [record.payload.split() for record in client.messages("b")]
    assert sorted(int(offset) for offset, _ in copied) == list(range(ROWS))


def _copy_and_lose_a_worker(servers, tmp_path):
    prepare()
    flags = quick()["spark.driver.extraJavaOptions"]
    with SparkCluster(workers=2, memory="512m", java_options=flags) as cluster:
        assert _archived(cluster, servers, tmp_path.with_name("archive")) == ROWS
        arguments = [cluster.url, servers, str(tmp_path), str(ROWS // PARTS)]
        command = [sys.executable, "-c", DRIVER, *arguments]
        with subprocess.Popen(command, cwd=ROOT, text=True) as driver:
            wait_for_files(tmp_path, BEGUN, driver)
            assert len(list(tmp_path.iterdir())) < PARTS
            cluster.kill_worker(0)
            assert driver.wait() == 0
        assert not cluster.is_alive()


def _archived(cluster, servers, path):
    """Run the job as a user does, on the cluster; how many rows the archive has."""
    job = ["archive", "--servers", servers, "--subscribe", "a", "--path", str(path)]
    more = ["--trigger", "available-now", "--master", cluster.url]
    settings = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]
    command = [sys.executable, "-m", "penstock", "spark", "run", *job, *more, *settings]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return sum(parquet.read_metadata(part.path).num_rows for part in take(path).parts)
