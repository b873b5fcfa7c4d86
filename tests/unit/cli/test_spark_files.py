"""``penstock spark files``: what it lists is the archive, and other programs read it right."""

import json
import subprocess
import sys

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from tests.unit.spark.small_archives import SmallArchive

from penstock.cli.spark import spark
from penstock.client import connect
from penstock.errors import ConfigError
from penstock.testing import Broker


@pytest.fixture
def archive(tmp_path):
    """Two batches of six rows, and a file of a batch that was killed, which does not count."""
    with Broker() as broker, connect([f"{broker.host}:{broker.port}"]) as client:
        client.produce_many("it's/a", [b"%d" % number for number in range(6)])
        made = SmallArchive("", client, tmp_path / "it's", "it's/a")
        made.extend(4)
        made.extend(6)
    first = next(made.root.rglob("part-0.parquet"))
    first.with_name("part-killed.parquet").write_bytes(first.read_bytes())
    return made


def listed(archive, *arguments):
    command = ["files", "--path", str(archive.root), *arguments]
    result = CliRunner().invoke(spark, command, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


def test_only_files_that_count_are_listed(archive):
    names = [line.rpartition("/")[2] for line in listed(archive).splitlines()]
    assert names == ["part-0.parquet", "part-1.parquet"]
    assert json.loads(listed(archive, "--json")) == listed(archive).splitlines()
    assert listed(archive, "--topic", "another") == "\n"


def test_pandas_reads_each_row_once(archive):
    rows = pd.read_parquet(json.loads(listed(archive, "--json")))
    assert list(rows["offset"]) == [0, 1, 2, 3, 4, 5]
    assert set(rows["topic"]) == {"it's/a"}


def test_a_list_for_sql_has_its_quotes_doubled(archive):
    text = listed(archive, "--sql")
    assert text.startswith("['/")
    assert text.count("it''s/live") == 2
    with pytest.raises(click.UsageError):
        listed(archive, "--sql", "--json")


def test_it_needs_no_spark():
    code = (
        "import sys, penstock.cli.spark_files;"
        "print({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_directory_that_is_no_archive_is_refused(tmp_path):
    result = CliRunner().invoke(spark, ["files", "--path", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
