"""The session that all other tests here use."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pyspark.errors import AnalysisException

from penstock.spark.java import ensure_java
from tests.spark.quick import prepare, quick


def test_a_session_runs_a_job(spark):
    assert spark.range(10).selectExpr("sum(id) total").collect()[0].total == 45


def test_spark_finds_the_data_source_by_itself(spark):
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("penstock").load()
    assert raised.value.getCondition() != "DATA_SOURCE_NOT_FOUND"


def test_python_workers_take_pyspark_from_its_folder(spark):
    """From the zip that Spark ships, each of them imports four times as long."""

    def where(batches):
        import pyspark

        for _ in batches:
            yield pd.DataFrame({"path": [pyspark.__file__]})

    path = spark.range(1).mapInPandas(where, "path string").collect()[0].path
    assert "pyspark.zip" not in path


ASKS = """
from penstock.spark.session import session
spark = session("submitted")
print(spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.master"))
print(spark.conf.get("spark.sql.streaming.stateStore.providerClass").rpartition(".")[2])
spark.stop()
"""


@pytest.mark.slow
def test_what_was_submitted_is_left_alone_and_the_rest_is_ours(tmp_path):
    prepare()
    ensure_java()  # spark-submit itself does not look for one
    program = tmp_path / "asks.py"
    program.write_text(ASKS)
    flags = quick()["spark.driver.extraJavaOptions"]
    wishes = ["spark.sql.session.timeZone=Europe/Paris", "spark.ui.enabled=false"]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[1]"]
    command += [word for wish in wishes for word in ("--conf", wish)]
    done = subprocess.run(
        [*command, "--driver-java-options", flags, program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Europe/Paris local[1]\nRocksDBStateStoreProvider\n", done.stderr
