"""Dependencies point down, and nobody pays for what they do not use."""

import subprocess
import sys

import pytest

from tests.tidy.files import ROOT

LAYERS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def run(code, *arguments):
    """Run a program in a fresh interpreter; return its exit code and what it said."""
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


def test_the_broker_does_without_what_is_optional():
    """It starts where neither Spark nor the command line's colours are installed."""
    blocked = "sys.modules.update({'rich': None, 'pyspark': None, 'pyarrow': None})"
    code, said = run(f"import sys; {blocked}; import penstock.server")
    assert code == 0, said
