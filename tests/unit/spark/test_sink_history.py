"""Whatever is repeated, given up or killed: each batch is published once, as one attempt wrote it.

Random histories of drivers that stage, abort, commit, come back from the dead, and of a broker that
is killed under them. Each is known by its seed: to see one again, name it.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic

import pytest
from tests.unit.spark.test_sink_writers import Driver, payloads

from penstock.client.queue.blocking import QueueClient
from penstock.errors import PenstockError
from penstock.spark.sink import Staged
from penstock.testing import Broker

EPOCHS = 25
ROWS = 700
"""Of a partition: a commit takes several pieces."""
PIECE = 50
KILL_S_MAX = 1

Attempt = list[Staged]


class History:
    """What drivers have staged, and what was confirmed as published."""

    def __init__(self, seed: int, broker: Broker, servers: str, client: QueueClient) -> None:
        self.random = random.Random(seed)
        self.broker, self.client, self.driver = broker, client, Driver(servers)
        self.attempts: dict[int, list[Attempt]] = {}
        self.epoch = 0

    def stage(self) -> Attempt:
        """Run the tasks of the batch; partitions may be cut otherwise each time."""
        attempts = self.attempts.setdefault(self.epoch, [])
        name, parts = f"{self.epoch} {len(attempts)}", self.random.randint(1, 3)
        attempt = [
            self.driver.write(
                self.epoch, *(f"{name} {part} {row}" for row in range(ROWS)), partition=part
            )
            for part in range(parts)
        ]
        attempts.append(attempt)
        return attempt

    def give_up(self) -> None:
        """Die before the commit: the broker is not told."""
        self.stage()

    def fail(self) -> None:
        attempt = self.stage()
        self.driver.writer.abort([*attempt, None], self.epoch)

    def come_back(self) -> None:
        """A driver that was thought dead commits what it has, or aborts it."""
        epoch = self.random.choice([*self.attempts] or [0])
        for attempt in self.attempts.get(epoch, [])[:1]:
            if self.random.random() < 0.3:
                self.driver.writer.abort(attempt, epoch)
            elif epoch < self.epoch:
                with suppress(PenstockError):
                    self.driver.writer.commit(attempt, epoch)

    def commit(self) -> None:
        """Commit, sometimes under a broker that is killed, and sometimes twice at once."""
        attempt = self.stage()
        others = [Thread(target=self._kill)] if self.random.random() < 0.4 else []
        if self.random.random() < 0.3:
            other = self.stage()
            others.append(Thread(target=self._committed, args=(other,)))
        for thread in others:
            thread.start()
        self._committed(attempt)
        for thread in others:
            thread.join()
        self.epoch += 1

    def _kill(self) -> None:
        """Kill the broker when some of the commit is published, or it is over."""
        deadline = monotonic() + KILL_S_MAX
        before = self._end()
        while self._end() == before and monotonic() < deadline:
            pass
        self.broker.restart(kill=True)

    def _end(self) -> int:
        return self.client.locate("t").end_offset

    def _committed(self, attempt: Attempt) -> None:
        self.driver.writer.commit(attempt, attempt[0].target.epoch)


def steps() -> dict[Callable[[History], None], int]:
    return {History.give_up: 2, History.fail: 1, History.come_back: 2, History.commit: 4}


def rows_by_epoch(client: QueueClient) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for payload in payloads(client):
        found.setdefault(int(payload.split()[0]), []).append(payload)
    return found


def rows_of(epoch: int, number: int, attempt: Attempt) -> list[str]:
    return [f"{epoch} {number} {part} {row}" for part in range(len(attempt)) for row in range(ROWS)]


@pytest.mark.parametrize("seed", range(3))
def test_each_batch_is_published_once_as_one_attempt_wrote_it(
    broker, servers, client, monkeypatch, seed
):
    monkeypatch.setattr("penstock.staging.blocks.PIECE_WEIGHT", PIECE)
    history = History(seed, broker, servers, client)
    chances = steps()
    while history.epoch < EPOCHS:
        (step,) = history.random.choices(list(chances), chances.values())
        step(history)
    found = rows_by_epoch(client)
    assert sorted(found) == list(range(EPOCHS))
    for epoch, rows in found.items():
        number = int(rows[0].split()[1])
        assert rows == rows_of(epoch, number, history.attempts[epoch][number])
