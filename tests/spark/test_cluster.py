"""A real cluster, of processes: a master and two workers, and one of them is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.cluster import Cluster
from tests.spark.quick import prepare, quick

ROOT = Path(__file__).parents[2]
ROWS = 4000
PARTS = 40

DRIVER = """
import sys, time
import pyarrow as pa
from penstock.spark.session import session
from tests.spark.quick import prepare, quick

def slowly(batches):
    import os, time
    for batch in batches:
        time.sleep(0.15)
        yield pa.RecordBatch.from_pydict({"id": batch["id"], "pid": [os.getppid()] * len(batch)})

prepare()
url, rows, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = quick()["spark.driver.extraJavaOptions"]
settings = quick() | {
    "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": options,
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}
spark = session("cluster", url, settings)
while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < 3:  # the driver is one
    time.sleep(0.05)
print("executors", flush=True)
work = spark.range(rows, numPartitions=parts).mapInArrow(slowly, "id long, pid long")
found = [(row.id, row.pid) for row in work.collect()]
print("rows", len(found), "distinct", len({i for i, _ in found}), "sum", sum(i for i, _ in found))
spark.stop()
"""


@pytest.mark.slow
def test_a_job_on_two_workers_is_right_though_one_is_lost_in_the_middle():
    prepare()
    flags = quick()["spark.driver.extraJavaOptions"]
    with Cluster(workers=2, memory="512m", java_options=flags) as cluster:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, cluster.url, str(ROWS), str(PARTS)],
            cwd=ROOT,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            text=True,
        )
        with driver:
            assert driver.stdout.readline() == "executors\n"
            with pytest.raises(subprocess.TimeoutExpired):
                driver.wait(1.5)  # the job takes three seconds at least, on both
            cluster.kill_worker(0)
            assert not cluster.is_alive()
            said = driver.stdout.read()
    assert said == f"rows {ROWS} distinct {ROWS} sum {ROWS * (ROWS - 1) // 2}\n"
