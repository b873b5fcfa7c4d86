"""The demo's beginnings and ends: what it refuses, and what it says when Spark fails."""

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.spark.demo.driver import DemoPlan, Driver
from penstock.spark.demo.run import Settings, run_demo


class Silence:
    def step(self, what, why):
        """Says nothing."""

    def status(self, text):
        """Says nothing."""


@pytest.mark.parametrize("minutes", [0, 0.1, 61])
def test_a_demo_that_is_too_short_or_too_long_is_refused(tmp_path, minutes):
    with pytest.raises(ConfigError, match="a demo takes 10 to 3600 seconds"):
        run_demo(Settings(out=tmp_path, minutes=minutes), Silence())


def test_what_an_earlier_demo_has_kept_is_not_touched(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").touch()
    with pytest.raises(ConfigError, match="holds the files of an earlier demo"):
        run_demo(Settings(out=tmp_path, keep=True), Silence())
    assert (tmp_path / "work" / "mine").exists()


@pytest.fixture
def plan(tmp_path) -> DemoPlan:
    return DemoPlan("127.0.0.1:1", str(tmp_path), 1, 1)


def test_a_driver_that_fails_is_quoted(plan):
    driver = Driver(plan, "nonsense")
    with pytest.raises(PenstockError, match=r"(?s)Spark ended with status 1:.*nonsense"):
        driver.wait(30)
    with pytest.raises(PenstockError, match="Spark ended with status 1"):
        driver.check()
    driver.kill()  # there is nothing to kill, and no harm in it


def test_a_driver_that_does_not_end_in_time_is_killed(plan):
    driver = Driver(plan, "live")
    with pytest.raises(PenstockError, match=r"Spark did not end within 0\.01 s"):
        driver.wait(0.01)
    with pytest.raises(PenstockError, match="status -9"):
        driver.check()
