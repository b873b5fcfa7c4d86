"""A driver that is killed at the phases of a batch copies each row once, in order.

One query lives through all of it, as in the field: each life is killed at another point, and the
next goes on from the checkpoint. What it writes is different in each attempt, so a mixture of two
would show. The suite kills where rows could be lost or doubled: while a batch is read, while the
broker commits it, and before Spark notes that it was. ``make nightly`` kills at every phase.
``python -m tests.spark.kill_campaign`` kills more often, and the broker as well.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.client import connect
from penstock.testing import Broker
from tests.spark.killing import Driver, batches, disorder, mixtures, produce

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROWS_PER_LIFE = 60

LIVES = {
    "plan": 2,
    "partitions": 2,
    "read": 4,
    "commit": 2,
    "committing": 2,
    "committed": 2,
    "source": 1,
}
"""Where each run ends (see ``kill_driver``), when it gets there for the n-th time."""


DECISIVE = ("read", "committing", "committed")


class Killed(NamedTuple):
    servers: str
    directory: Path
    points: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Messages published to each topic: enough for each run to reach its point."""
        return ROWS_PER_LIFE * (len(self.points) + 1)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(DECISIVE, id="decisive"),
        pytest.param(tuple(LIVES), id="all", marks=pytest.mark.nightly),
    ],
)
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Killed]:
    """A query that was killed at each point, and then came to its end."""
    directory = tmp_path_factory.mktemp("kills")
    lives = [(point, point, LIVES[point]) for point in request.param] + [("last", "", 0)]
    with Broker() as broker, ExitStack() as stack:
        servers = f"{broker.host}:{broker.port}"
        made = Killed(servers, directory, request.param)
        produce(servers, made.rows)
        driver = stack.enter_context(Driver(servers, directory, *lives[0]))
        for run, *_ in lives[1:]:
            driver.go()
            following = Driver(servers, directory, run, *_)  # starts while the other works
            stack.enter_context(following)
            driver.check(-signal.SIGKILL)
            driver = following
        driver.go()
        driver.check(0)
        yield made


def test_each_row_is_copied_once_and_in_order(killed):
    assert disorder(killed.servers, killed.rows) == []


def test_a_batch_is_published_as_one_attempt_wrote_it(killed):
    assert mixtures(killed.servers, killed.directory) == []


def test_each_life_was_killed_where_it_should_be_and_tasks_failed_in_the_last(killed):
    """Else all of it would show nothing."""
    for point in killed.points:
        assert (killed.directory / f"{point}.{point}").stat().st_size >= LIVES[point]
    assert (killed.directory / "last.trouble").stat().st_size > 2


def test_nothing_stays_staged(killed):
    with connect([killed.servers]) as client:
        (sink,) = client.sinks()
    assert sink.staged_parts == 0
    assert sink.epoch == len(list(batches(killed.directory))) - 1
