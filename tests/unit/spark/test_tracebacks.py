"""Errors for users reach them without a traceback; others keep theirs. As Spark's processes do it."""

import subprocess
import sys

import pytest

CODE = """
import io, sys
from importlib.machinery import ModuleSpec
from pyspark.util import handle_worker_exception
from penstock.errors import ConfigError
from penstock.spark.tracebacks import hide_traceback, hide_traceback_of_rows

sys.modules["__main__"].__spec__ = ModuleSpec({main!r}, None)

@hide_traceback
def call():
    raise {error}

@hide_traceback_of_rows
def rows():
    yield 1
    raise {error}

try:
    {use}
except Exception as error:
    told = io.BytesIO()
    handle_worker_exception(error, told)
    print(told.getvalue()[8:].decode())
"""


def told(use, error='ConfigError("option x: will not do", "write y")', main="pyspark.daemon"):
    code = CODE.format(use=use, error=error, main=main)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("use", ["call()", "list(rows())"])
def test_spark_is_told_the_cause_alone(use):
    assert told(use) == "penstock.errors.ConfigError: option x: will not do\n  write y"


@pytest.mark.parametrize("use", ["call()", "list(rows())"])
def test_an_error_that_is_a_bug_keeps_its_traceback(use):
    assert told(use, "KeyError('x')").startswith("Traceback")


def test_a_process_that_is_not_sparks_is_left_alone():
    assert told("call()", main="my.program").startswith("Traceback")
