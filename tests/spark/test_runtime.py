"""The session that all other tests here use."""

import pandas as pd
import pytest
from pyspark.errors import AnalysisException


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
