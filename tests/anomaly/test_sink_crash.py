"""A sink, killed at every commit of a script, just before and just after it.

As in ``test_queue_crash``: each run plays the same script on real sockets until commit number *n*,
the last one that the disk sees. Whether it took effect is the run's parameter; it is not answered.
Pieces are so small that an epoch takes several, so that there is a crash before and after each step:
staged, begun, advanced, ended, dropped. Then the broker restarts, and before its client reconnects:

* an epoch whose commit was answered is there, each row once, in its order;
* one whose commit was requested is there completely, or not at all;
* one whose commit was not requested is not there.

Then the client repeats everything, like a driver without memory, under other names of parts: each
row of each epoch is there once. What was staged is gone, or is gone after a day.
"""

from contextlib import ExitStack
from typing import Any

import pytest

from penstock.errors import StorageFull
from penstock.model.stages import Stage
from penstock.server import Server
from penstock.staging import blocks as staged_blocks
from penstock.staging import sink_commits, stages
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import Commit
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import Response, Sink, StagedBlock
from tests.anomaly.test_broker_crash import Disk
from tests.conformance_queue.test_sinks import read
from tests.conformance_queue.wire_client import QueueClient, wait_until

SINK = "job/1"
EPOCHS = range(3)
PIECE = 3
DAY_S = 24 * 3600


def rows(epoch: int) -> list[bytes]:
    """What an epoch publishes: two parts of two blocks, each with rows for two topics."""
    return [b"%d-%d" % (epoch, number) for number in range(16)]


def blocks(epoch: int, part: int) -> list[bytes]:
    """The blocks of a part; rows of the topics lie side by side."""
    own = rows(epoch)[part * 8 : part * 8 + 8]
    return [
        StagedBlock(
            lots=[{"topic": "a", "payloads": some[:2]}, {"topic": "b", "payloads": some[2:]}]
        ).SerializeToString()
        for some in (own[:4], own[4:])
    ]


def expected(epochs: list[int]) -> dict[str, list[bytes]]:
    """What the topics have when these epochs are committed."""
    every = [row for epoch in epochs for row in rows(epoch)]
    numbered = list(enumerate(every))
    return {
        "a": [row for number, row in numbered if number % 4 < 2],
        "b": [row for number, row in numbered if number % 4 >= 2],
    }


class Day:
    """The script, and a record of requests and answers before it ended."""

    def __init__(self, broker: Broker, connections: ExitStack) -> None:
        self.broker = broker
        self._connections = connections
        self.client = self.dial()
        self.asked: list[int] = []
        self.answered: list[int] = []

    def dial(self) -> QueueClient:
        return self._connections.enter_context(QueueClient(self.broker.host, self.broker.port))

    def play(self) -> None:
        """Raises AssertionError or OSError when the broker's death is noticed."""
        for epoch in EPOCHS:
            self._stage(epoch, "lost", 0)
            self.client.ok(abort_stage={"sink": SINK, "epoch": epoch, "parts": ["0-lost"]})
            self._stage(epoch, "zombie", 1)
            self.commit(epoch, "first")
            self.broker.clock.advance(2)  # time for a round of the checkpoint

    def _stage(self, epoch: int, attempt: str, part: int) -> None:
        for number, block in enumerate(blocks(epoch, part)):
            place = {"sink": SINK, "epoch": epoch, "part": f"{part}-{attempt}"}
            self.client.ok(stage={**place, "number": number, "block": block})

    def commit(self, epoch: int, attempt: str) -> None:
        """Stage the parts of an epoch and commit them."""
        for part in (0, 1):
            self._stage(epoch, attempt, part)
        parts = [{"part": f"{part}-{attempt}", "blocks": 2} for part in (0, 1)]
        self.asked.append(epoch)
        request = {"sink": SINK, "epoch": epoch, "parts": parts}
        response = self.client.ask(commit_stage=request)
        while response.stage_committed.is_under_way:  # not finished yet on a busy machine
            response = self.client.ask(commit_stage=request)
        assert response.HasField("stage_committed"), response
        assert response.stage_committed.epoch == epoch
        self.answered.append(epoch)

    # ── after the restart ─────────────────────────────────────────────────────────────────────

    def sink(self) -> Sink:
        found = self.client.ask(list_sinks={"name": SINK}).sinks.sinks
        return found[0] if found else Sink()

    def found(self) -> dict[str, list[bytes]]:
        """All that the topics have."""
        return {topic: read(self.client, topic) for topic in ("a", "b")}

    def check(self) -> None:
        self.client = self.dial()
        wait_until(lambda: not self.sink().is_committing)
        found = self.found()
        assert found in (expected(self.asked), expected(self.answered)), "some of an epoch"
        wait_until(lambda: not self.left_over())

    def left_over(self) -> list[Stage]:
        """What is staged for epochs that are committed."""
        found, name = self.sink(), SINK.encode()
        staged = self.broker.call(self.broker.server.parts.sinks.stages.of_sink, name)
        return [stage for stage in staged if found.committed_ms and stage.epoch <= found.epoch]

    def do_again(self) -> None:
        asked, self.asked, self.answered = self.asked, [], []
        last = max(asked, default=0)
        for epoch in EPOCHS:
            if epoch >= last:
                self.commit(epoch, "again")
        assert self.found() == expected(list(EPOCHS))
        self.broker.clock.advance(DAY_S + 2)
        self.broker.clock.advance(2)
        wait_until(lambda: not self.sink().staged_parts)
        assert not list(self.broker.server.store.whole.topics(b"$stage/"))


def live_through(deadly: int, *, takes_effect: bool, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do one run; return whether commit number ``deadly`` was reached."""
    disk = Disk(deadly, takes_effect=takes_effect)
    monkeypatch.setattr(Server, "_open_store", lambda _server: disk.opened())
    with Broker() as broker, ExitStack() as connections:
        day = Day(broker, connections)
        try:
            day.play()
        except (AssertionError, OSError):
            assert disk.is_dead, "the broker failed before its disk did"
        was_met = disk.is_dead
        if was_met:
            broker.restart(kill=True)
        day.check()
        day.do_again()
        return was_met


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
def test_each_row_is_published_once_whichever_commit_the_broker_dies_at(
    takes_effect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_blocks, "PIECE_WEIGHT", PIECE)
    deadly = 1
    while live_through(deadly, takes_effect=takes_effect, monkeypatch=monkeypatch):
        deadly += 1
    assert deadly > 40, "the script has become too short to prove much"


# ── a disk that refuses now and then ──────────────────────────────────────────────────────────


class Faltering(MemoryStore):
    """A disk that refuses every third commit."""

    def __init__(self) -> None:
        super().__init__()
        self._commits = 0
        self.refusals = 0

    def commit(self, batch: Batch) -> Commit:
        self._commits += 1
        if self._commits % 3 == 0:
            self.refusals += 1
            raise StorageFull("no room")
        return super().commit(batch)

    def close(self) -> None:
        """The broker closes it; the bytes stay."""


class Patient(QueueClient):
    """A client that retries when the broker's disk has refused."""

    def ask(self, request_id: int = 0, **kind: Any) -> Response:
        while True:
            response = super().ask(request_id, **kind)
            if response.error.code != "internal":
                return response


def test_each_row_is_published_once_though_the_disk_refuses_every_third_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged_blocks, "PIECE_WEIGHT", PIECE)
    monkeypatch.setattr(sink_commits, "RETRY_S", 0.01)
    monkeypatch.setattr(stages, "RETRY_S", 0.01)
    disk = Faltering()
    monkeypatch.setattr(Server, "_open_store", lambda _server: disk)
    with Broker() as broker, ExitStack() as connections:
        day = Day(broker, connections)
        day.client = connections.enter_context(Patient(broker.host, broker.port))
        for epoch in EPOCHS:
            day.commit(epoch, "first")
        assert day.found() == expected(list(EPOCHS))
        wait_until(lambda: not day.sink().staged_parts)
    assert disk.refusals > 5, "the disk was too good to prove much"
