"""The order of the suite: what takes long begins first, and one worker has the session of Spark."""

import ast
from pathlib import Path

import pytest

from tests.scheduling import LONG, SPARK, WITH_PROCESSES, rank, scope
from tests.test_run import run

ROOT = Path(__file__).parents[1]

SCHEDULER = """
import tests.scheduling as scheduling

scheduling.LONG = ("test_long.py",)
scheduling.WITH_PROCESSES = ("test_medium",)

def pytest_xdist_make_scheduler(config, log):
    return scheduling.ByTime(config, log)
"""
TESTS = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    with pathlib.Path(__file__).with_name("order").open("a") as order:
        order.write("{name} ")
"""


@pytest.mark.parametrize("path", [*LONG, *WITH_PROCESSES])
def test_what_is_named_is_there(path):
    assert (ROOT / path).exists()


def test_tests_of_the_session_stay_together_and_drivers_of_their_own_apart():
    assert scope("tests/spark/test_sink.py::test_a[b]") == SPARK
    assert scope("tests/spark/test_demo.py::test_a[b::c]") == "tests/spark/test_demo.py"
    assert scope("tests/unit/test_server.py::test_a") == "tests/unit/test_server.py"


def test_no_driver_of_its_own_asks_for_the_session():
    apart = [name for name in LONG if name.startswith(SPARK) and name != SPARK]
    assert apart
    for name in apart:
        nodes = ast.walk(ast.parse((ROOT / name).read_text()))
        assert "spark" not in {node.arg for node in nodes if isinstance(node, ast.arg)}, name


def test_long_files_come_first_then_those_with_processes_then_those_with_most_tests():
    names = ["tests/unit/a.py", "tests/unit/b.py", "tests/e2e/c.py", "tests/e2e/d.py", *LONG[::-1]]
    tests = dict(zip(names, [5, 500, 1, 2, *range(len(LONG))], strict=True))
    ordered = sorted(names, key=lambda name: rank(name, tests[name]))
    assert ordered == [*LONG, *("tests/e2e/d.py", "tests/e2e/c.py"), *names[1::-1]]


@pytest.mark.slow
def test_workers_are_given_all_tests_in_this_order(tmp_path):
    counts = {"short": 3, "shorter": 2, "medium": 4, "long": 5}
    for name, count in counts.items():
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(name=name, count=count))
    (tmp_path / "conftest.py").write_text(SCHEDULER)
    (tmp_path / "pytest.ini").touch()
    code, output = run(tmp_path, "-n", "1", "--dist", "loadfile")
    assert code == 0, output
    order = (tmp_path / "order").read_text().split()
    assert order == ["long"] * 5 + ["medium"] * 4 + ["short"] * 3 + ["shorter"] * 2
