"""Jobs of the table as commands: their flags, their list, and what is said without Spark."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from penstock.cli import spark_run
from penstock.cli.spark_run import command_of
from penstock.errors import ConfigError
from penstock.spark.pipelines import registry
from penstock.spark.pipelines.registry import JOBS, Option, PipelineJob, job


def given(monkeypatch, options, *arguments):
    """Run a command for a job with these options; return what its function would be called with."""
    calls = []

    class Module:
        @staticmethod
        def execute(found, options, **more):
            calls.append((options, more))

    monkeypatch.setattr(spark_run, "import_module", lambda name: Module)
    command = command_of(PipelineJob("probe", options, lambda spark: None))
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception:
        raise result.exception
    return calls[0]


def test_an_option_becomes_a_flag_and_arrives_by_its_name(monkeypatch):
    options = (Option("max_rows", "How many.", "integer"), Option("deep", "Dig.", "flag"))
    values, _ = given(monkeypatch, options, "--max-rows", "7", "--deep")
    assert values == {"max_rows": 7, "deep": True}


def test_a_duration_is_written_with_its_unit_and_arrives_in_seconds(monkeypatch):
    options = (Option("every", "How often.", "duration", default="1m"),)
    assert given(monkeypatch, options)[0] == {"every": 60}
    assert given(monkeypatch, options, "--every", "2h")[0] == {"every": 7200}
    with pytest.raises(click.BadParameter, match="unit"):
        given(monkeypatch, options, "--every", "90")


def test_an_option_that_repeats_arrives_as_a_tuple(monkeypatch):
    options = (Option("field", "A field.", repeats=True),)
    assert given(monkeypatch, options, "--field", "a", "--field", "b")[0] == {"field": ("a", "b")}


def test_a_required_option_is_demanded(monkeypatch):
    with pytest.raises(click.MissingParameter):
        given(monkeypatch, (registry.SUBSCRIBE,))


def test_settings_of_spark_and_the_master_are_passed_on(monkeypatch):
    _, more = given(monkeypatch, (), "--conf", "a.b=c=d", "--master", "spark://h:7077", "--json")
    assert more == {"settings": {"a.b": "c=d"}, "master": "spark://h:7077", "as_json": True}
    with pytest.raises(click.UsageError, match="KEY=VALUE"):
        given(monkeypatch, (), "--conf", "nonsense")


def test_the_list_names_every_job_with_its_help():
    listed = json.loads(CliRunner().invoke(spark_run.run, ["--list", "--json"]).stdout)
    assert {each["name"]: each["help"] for each in listed} == {n: t for n, (_, t) in JOBS.items()}


@pytest.mark.parametrize("name", JOBS)
def test_every_job_of_the_table_is_there_and_explains_itself(name):
    found = job(name)
    assert found.name == name
    assert found.run.__doc__
    assert all(option.help.endswith(".") for option in found.options)
    assert command_of(found).get_short_help_str()


def test_an_unknown_job_is_an_error_that_says_which_there_are():
    with pytest.raises(ConfigError, match="no job 'rolup'"):
        job("rolup")


def test_to_list_jobs_imports_no_spark():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli import penstock;"
        "CliRunner().invoke(penstock, ['spark', 'run', '--list'], catch_exceptions=False);"
        "print({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_without_spark_a_job_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(JOBS, "needy", ("tests.unit.cli.no_such:JOB", "Needs Spark."))

    def missing(name):
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(registry, "import_module", missing)
    result = CliRunner().invoke(spark_run.run, ["needy"])
    assert isinstance(result.exception, ConfigError)
    assert "pip install -e '.[spark]'" in str(result.exception)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--trigger", "soon"], "available-now"),
        (["--subscribe", "a/#/b"], "whole last level"),
        (["--servers", "localhost"], "no port"),
    ],
)
def test_what_is_wrong_is_said_before_spark_is_started(wrong, said, monkeypatch, tmp_path):
    def no_session(*_given, **_settings):
        raise AssertionError("a session was started")

    monkeypatch.setattr("penstock.cli.spark_job.session", no_session)
    arguments = ["--subscribe", "a", "--path", str(tmp_path), *wrong]
    result = CliRunner().invoke(command_of(job("archive")), arguments, standalone_mode=False)
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)
