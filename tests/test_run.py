"""Failed tests get a second run, alone; only few of them, and only if nothing else went wrong."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import FEW

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

FAILS_FIRST = """
import pathlib, pytest
seen = pathlib.Path(__file__).with_name("seen")

def test_fails_first():
    assert seen.exists() or seen.touch()

def test_passes():
    with open(pathlib.Path(__file__).with_name("runs"), "a") as runs:
        runs.write("x")
"""
FAILS_TWICE = "def test_fails_twice(): assert False\n"
HEADING = "A second run, alone"


@pytest.fixture
def suite(tmp_path):
    """A folder for a tiny suite, with nothing of ours in it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return tmp_path


def command(*arguments):
    return [sys.executable, "-bb", "-m", "tests.run", "-p", "no:cacheprovider", *arguments]


def environment():
    """That of a shell, not that of the pytest around it; of all plugins only xdist, to start fast."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return {**inherited, **plugins, "PYTHONPATH": str(ROOT)}


def run(suite, *arguments):
    done = subprocess.run(
        command(*arguments),
        cwd=suite,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_that_passes_the_second_time_is_named_at_the_very_end(suite, workers):
    (suite / "test_it.py").write_text(FAILS_FIRST)
    code, output = run(suite, "-n", workers)
    assert code == 0, output
    assert output.endswith(
        "FLAKY: passed only on the second run:\n  test_it.py::test_fails_first\n"
    )
    assert (suite / "runs").read_text() == "x", "a test that passed ran again"


def test_a_test_that_fails_twice_fails_the_run_and_the_flaky_one_is_named_all_the_same(suite):
    (suite / "test_it.py").write_text(FAILS_FIRST + FAILS_TWICE)
    code, output = run(suite, "-n", "1")
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert output.endswith(":\n  test_it.py::test_fails_first\n")


@pytest.mark.parametrize("failures", [FEW, FEW + 1])
def test_only_a_few_failures_get_a_second_run(suite, failures):
    (suite / "test_it.py").write_text(
        "import pytest\n"
        "import pathlib\n"
        f"@pytest.mark.parametrize('value', ['a b::[{{}}]'.format(i) for i in range({failures})])\n"
        "def test_it(value):\n"
        "    seen = pathlib.Path(__file__).with_name(f'seen{value}')\n"
        "    assert seen.exists() or seen.touch()\n"
    )
    code, output = run(suite, "-n", "1")
    assert (code == 0, HEADING in output) == (failures <= FEW, failures <= FEW), output


def test_a_run_without_failures_is_an_ordinary_run(suite):
    (suite / "test_it.py").write_text("def test_passes(): pass\n")
    code, output = run(suite)
    assert (code, "1 passed" in output, "FLAKY" in output) == (0, True, False)


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        pytest.param("import nowhere\n", ["--continue-on-collection-errors"], id="not collected"),
        pytest.param("import nowhere\n", ["-n", "1"], id="not collected by workers"),
        pytest.param("def test_(): __import__('os').abort()\n", ["-n", "1"], id="worker crashed"),
        pytest.param(FAILS_TWICE, ["-x"], id="stopped early"),
        pytest.param(FAILS_TWICE, ["-x", "-n", "1"], id="stopped early by workers"),
    ],
)
def test_whatever_is_worse_than_a_failed_test_fails_at_once(suite, source, arguments):
    (suite / "test_bad.py").write_text(source)
    (suite / "test_it.py").write_text(FAILS_FIRST)
    code, output = run(suite, *arguments)
    assert code in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}, output
    assert HEADING not in output, output


def test_a_test_that_the_second_run_skips_has_not_passed(suite):
    (suite / "test_it.py").write_text(
        FAILS_FIRST.replace(
            "    assert seen", "    if seen.exists(): pytest.skip()\n    assert seen"
        )
    )
    code, output = run(suite)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "FLAKY" not in output


@pytest.mark.parametrize("at_second_run", [False, True])
def test_an_interrupted_run_fails_and_does_not_go_on(suite, at_second_run):
    (suite / "test_it.py").write_text(
        "import pathlib, threading\n"
        "folder = pathlib.Path(__file__).parent\n"
        "seen = folder / 'seen'\n"
        "def test_hangs():\n"
        f"    if {at_second_run} and not seen.exists(): assert seen.touch()\n"
        "    (folder / 'hangs').write_text('now')\n"
        "    threading.Event().wait()\n"
        "def test_passes(): pass\n"
    )
    os.mkfifo(suite / "hangs")
    with subprocess.Popen(
        command(), cwd=suite, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert (suite / "hangs").read_text() == "now"
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate()
        finally:
            process.kill()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert (HEADING in output) == at_second_run
    assert "FLAKY" not in output
