"""Kill a copying driver over and over, by chance, and the broker now and then.

``python -m tests.spark.kill_campaign KILLS [SEED]`` prints what it does; exit status 1 if a row is
missing, doubled, out of place, or a batch mixed of two attempts.
"""

import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from penstock.client import connect
from penstock.testing import Broker
from tests.spark.kill_driver import POINTS
from tests.spark.killing import Driver, batches, disorder, mixtures, produce

ROWS_PER_LIFE = 90
LIFE_S_MAX = 900
"""The last run has to catch up with what the others have left."""
BROKER_DIES = 0.4
"""Probability that the broker is killed during a run, too."""


class Campaign:
    def __init__(self, broker: Broker, directory: Path, seed: int) -> None:
        self._broker = broker
        self._directory = directory
        self._chance = random.Random(seed)
        self.servers = f"{broker.host}:{broker.port}"
        self.rows = 0
        self.lives = 0
        self.kills = 0
        self.broker_kills = 0

    def start(self, *, to_the_end: bool = False) -> Driver:
        self.lives += 1
        run = "last" if to_the_end else f"life{self.lives}"
        is_by_point = not to_the_end and self._chance.random() < 0.7
        point = self._chance.choice(POINTS) if is_by_point else ""
        nth = self._chance.randint(1, 4) if point else 0
        return Driver(self.servers, self._directory, run, point, nth)

    def live(self, driver: Driver, *, to_the_end: bool = False) -> None:
        """One run, until it is killed or has nothing more to do."""
        produce(self.servers, ROWS_PER_LIFE, self.rows)
        self.rows += ROWS_PER_LIFE
        driver.go()
        began = time.monotonic()
        if self._chance.random() < BROKER_DIES:
            time.sleep(self._chance.uniform(0, 8))
            self._broker.restart(kill=True)
            self.broker_kills += 1
        timer = None
        if not driver.point and not to_the_end:
            timer = threading.Timer(self._chance.uniform(2, 20), driver.kill)
            timer.start()
        status = driver.wait(LIFE_S_MAX)
        if timer is not None:
            timer.cancel()
        assert status in {0, -signal.SIGKILL}, driver.logged()
        self.kills += status != 0
        what = f"{driver.point} {driver.nth}" if driver.point else "by time"
        print(f"{driver.run:8} {what:14} {status:4} {time.monotonic() - began:5.1f} s", flush=True)

    def faults(self) -> list[str]:
        with connect([self.servers]) as client:
            staged = [
                f"{sink.name} has parts staged" for sink in client.sinks() if sink.staged_parts
            ]
        return [
            *disorder(self.servers, self.rows),
            *mixtures(self.servers, self._directory),
            *staged,
        ]


def main() -> None:
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1_000_000)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as path, Broker() as broker:
        campaign = Campaign(broker, Path(path), seed)
        driver = campaign.start()
        while campaign.kills < kills:
            with driver:
                following = campaign.start()
                campaign.live(driver)
            driver = following
        with driver:
            campaign.live(driver)
        with campaign.start(to_the_end=True) as driver:
            campaign.live(driver, to_the_end=True)
        faults = campaign.faults()
        count = len(list(batches(Path(path))))
    print(*faults, sep="\n")
    print(
        f"{campaign.kills} drivers and {campaign.broker_kills} brokers killed,"
        f" {2 * campaign.rows} rows in {count} batches: {'wrong' if faults else 'each once, in order'}"
    )
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
