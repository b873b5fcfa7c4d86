"""A socket left open fails the next test, unless a failed test left it: then one failure is enough."""

import pytest

from tests.test_run import run

pytestmark = pytest.mark.slow

SUITE = """
import gc, socket

class Client:
    def __init__(self):
        self.socket = socket.socket()
        self.itself = self  # so that only the collector finds it

def test_first():
    client = Client()
    assert {passes}

def test_second():
    gc.collect()
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "conftest.py").write_text("from tests.leftovers import pytest_runtest_protocol\n")
    return tmp_path


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("passes", "blamed"), [(False, "test_it.py::test_first"), (True, "test_it.py::test_second")]
)
def test_one_test_is_blamed(suite, passes, blamed, workers):
    (suite / "test_it.py").write_text(SUITE.format(passes=passes))
    _, output = run(suite, "-n", workers)
    assert f"FAILED {blamed}" in output
    assert "1 failed, 1 passed" in output
