"""Declaring tasks, and how a worker finds them: mistakes are told at once, with what to do."""

import logging
import sys

import pytest

from penstock.cli.worker import _OneLine
from penstock.client.errors import ArgumentError
from penstock.errors import PenstockError
from penstock.tasks import App, cron, current, every
from penstock.tasks.loading import load_app
from penstock.tasks.worker import Worker


@pytest.fixture
def app():
    return App("shop", ["127.0.0.1:1"])


def plain() -> None:
    """Do nothing."""


def needs(one: int) -> None:
    """Need something."""


def test_a_task_is_still_its_function(app):
    @app.task
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert double(4) == 8
    assert (double.__name__, double.__doc__, double.topic) == (
        "double",
        "Twice.",
        "tasks/shop/double",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": -1}, "retries must be from 0"),
        ({"priority": 8}, "priority must be from 0 to 7"),
        ({"concurrency": 0}, "concurrency must be from 1"),
        ({"time_limit_s": 0}, "time_limit_s must be more than 0"),
        ({"ttl_s": -1}, "ttl_s must be 0 seconds or more"),
        ({"backoff_s": 90}, "the longest pause cannot be less than the first"),
        ({"name": "a/b"}, "contains /"),
        ({"name": "a#"}, "wildcard"),
        ({"retrys": 1}, "it takes name, retries"),
    ],
)
def test_an_option_that_cannot_be_is_refused_where_it_is_written(app, options, said):
    with pytest.raises(ArgumentError, match=said):
        app.task(**options)(plain)
    assert app.tasks == {}


def test_a_lambda_needs_a_name(app):
    with pytest.raises(ArgumentError, match="no name"):
        app.task(lambda: None)
    assert app.task(name="nothing")(lambda: None).name == "nothing"


def test_two_tasks_of_one_name_are_refused(app):
    app.task(plain)
    with pytest.raises(ArgumentError, match="two tasks plain"):
        app.task(plain)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: cron("0 8 * *"), "five fields"),
        (lambda: cron("0 8 * * *", timezone="Europe/Atlantis"), "no time zone"),
        (lambda: every(0.5), "1 second to 366 days"),
    ],
)
def test_a_schedule_that_the_broker_would_refuse_is_refused_where_it_is_written(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()


def test_a_scheduled_task_needs_no_arguments(app):
    with pytest.raises(ArgumentError, match="give defaults to one"):
        app.task(schedule=every(60))(needs)


def test_an_unknown_task_is_not_sent(app):
    app.task(plain)
    with pytest.raises(ArgumentError, match="it has: plain"):
        app.send("plane")


def test_wrong_arguments_are_told_before_anything_is_sent(app):
    """There is no broker at this address."""
    with pytest.raises(ArgumentError, match="Expected `int`, got `str`"):
        app.task(needs).delay("one")


def test_a_worker_of_unknown_tasks_does_not_start(app):
    with pytest.raises(ArgumentError, match="has no tasks"):
        Worker(app, "shop:app")
    app.task(plain)
    with pytest.raises(ArgumentError, match="it has: plain"):
        Worker(app, "shop:app", only=["plane"])


def test_outside_of_a_task_there_is_no_attempt():
    with pytest.raises(ArgumentError, match="within a task"):
        current()


def test_an_app_is_found_in_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "jobs_of_a_test.py").write_text(
        "from penstock.tasks import App\napp = App('found')\nother = App('other')\nno_app = 7\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "jobs_of_a_test", raising=False)
    assert load_app("jobs_of_a_test").name == "found"
    assert load_app("jobs_of_a_test:other").name == "other"
    with pytest.raises(PenstockError, match=r"no penstock\.tasks\.App named no_app"):
        load_app("jobs_of_a_test:no_app")
    del sys.modules["jobs_of_a_test"]


@pytest.mark.parametrize(
    ("named", "said"),
    [("no_such_module:app", "no module no_such_module"), (":app", "names no module")],
)
def test_a_name_without_a_module_is_explained(named, said):
    with pytest.raises(PenstockError, match=said):
        load_app(named)


def test_a_module_that_misses_another_one_keeps_its_traceback(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_app("needs_another")


def test_what_a_job_says_cannot_steer_a_terminal():
    record = logging.LogRecord("x", logging.INFO, "", 1, "a\x1b[2Jb\nc", (), None)
    assert "\x1b" not in _OneLine("%(message)s").format(record)
