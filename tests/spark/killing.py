"""Drivers that are killed (``kill_driver``), and what they leave behind, row by row."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from penstock.client import connect

TOPICS = ("in/a", "in/b")
ROOT = Path(__file__).parents[2]
DRIVER_S_MAX = 120


class Row(NamedTuple):
    """A message that was copied."""

    number: int
    run: str
    nonce: str


MISSING = Row(-1, "nobody", "")


class Driver:
    """One run of the query."""

    def __init__(
        self, servers: str, directory: Path, run: str, point: str = "", nth: int = 0
    ) -> None:
        self.run, self.point, self.nth = run, point, nth
        self._log = (directory / f"{run}.log").open("w+")
        self._child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.spark.kill_driver",
                servers,
                str(directory),
                run,
                point,
                str(nth),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def go(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        said = self._child.stdout.readline()
        assert said == "there\n", self.logged()
        self._child.stdin.write("go\n")
        self._child.stdin.flush()

    def kill(self) -> None:
        os.killpg(self._child.pid, signal.SIGKILL)

    def wait(self, seconds: float = DRIVER_S_MAX) -> int:
        """How it ended: 0, or the signal, less than 0."""
        return self._child.wait(seconds)

    def check(self, status: int) -> None:
        assert self.wait() == status, f"{self.run}: {self.logged()}"

    def logged(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._child.poll() is None:
            self.kill()
            self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._log):
            assert stream is not None
            stream.close()


def produce(servers: str, rows: int, first: int = 0) -> None:
    """Put numbers in a row into each topic."""
    with connect([servers]) as client:
        for topic in TOPICS:
            client.produce_many(topic, [b"%d" % n for n in range(first, first + rows)])


def copied(servers: str) -> dict[str, list[Row]]:
    """What is in the topics that were written."""
    with connect([servers]) as client:
        return {
            topic: [
                _row(record.payload) for record in client.messages(topic.replace("in/", "out/"))
            ]
            for topic in TOPICS
        }


def _row(payload: bytes) -> Row:
    number, run, nonce = payload.decode().split(",")
    return Row(int(number), run, nonce)


def disorder(servers: str, rows: int) -> list[str]:
    """What differs from each number once, in order."""
    return [
        f"{topic}: {at} is {row.number}, by {row.run}"
        for topic, found in copied(servers).items()
        for at, row in enumerate([*found, *[MISSING] * (rows - len(found))])
        if row.number != at or at >= rows
    ]


def mixtures(servers: str, directory: Path) -> list[str]:
    """Batches that were published as more than one run wrote them."""
    found = copied(servers)
    runs = [
        {found[topic][number].run for topic, numbers in batch.items() for number in numbers}
        for batch in batches(directory)
    ]
    return [f"batch {number}: {names}" for number, names in enumerate(runs) if len(names) > 1]


def batches(directory: Path) -> Iterator[dict[str, range]]:
    """The offsets of each batch, as Spark has written them down."""
    last = dict.fromkeys(TOPICS, 0)
    logs = (directory / "checkpoint" / "offsets").glob("[0-9]*")
    for log in sorted(logs, key=lambda path: int(path.name)):
        topics = json.loads(log.read_text().splitlines()[-1])["topics"]
        ends = {topic: topics[topic][1] for topic in TOPICS if topic in topics}
        yield {topic: range(last[topic], end) for topic, end in ends.items()}
        last |= ends
