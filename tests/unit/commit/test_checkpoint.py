"""Rounds of the checkpoint: slices, marks, rest, and what a failed commit puts back."""

import pytest

from penstock.commit import checkpoint
from penstock.commit.checkpoint import Checkpointer
from penstock.core.broker import Broker
from penstock.core.commands import Published, SessionOpened, SinkBegan, SinkEnded, SinkForgotten
from penstock.core.effects import Effects
from penstock.core.sinks import SinkCommand
from penstock.obs.counters import Counters
from penstock.store.batch import Batch


class Bench:
    """A broker with dirty sessions and topics; commits are counted here."""

    def __init__(self, sessions: int = 0, topics: int = 0, round_bytes: int = 1 << 40) -> None:
        self.broker = Broker(Counters())
        self.checkpointer = Checkpointer(self.broker, round_bytes)
        self.index = 0
        self.change(sessions, topics)

    def change(self, sessions: int = 0, topics: int = 0) -> None:
        self.index += 1
        self.broker.begin(self.index, 1)
        for number in range(sessions):
            opened = SessionOpened(b"c%d" % number, number, clean=False, will=None)
            self.broker.apply(opened, None, Effects())
        for number in range(topics):
            message = Published(b"t%d" % number, [b"x"], 0, True, 0, 5, [])
            self.broker.apply(message, None, Effects())
        self.checkpointer.committed(self.index)
        self.checkpointer.changed(self.index)

    def fill(self, now: float = 10.0) -> Batch:
        batch = Batch()
        self.checkpointer.fill(batch, now)
        return batch

    def land(self) -> None:
        """The commit of the last batch has been applied."""
        self.index += 1
        self.broker.begin(self.index, 1)
        self.checkpointer.committed(self.index)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch):
    monkeypatch.setattr(checkpoint, "ROWS_PER_COMMIT_MAX", 4)


def test_a_small_round_goes_with_one_commit_and_marks_where_it_began():
    bench = Bench(sessions=2, topics=2)
    batch = bench.fill()
    assert [(table, key) for table, key, _ in batch.rows] == [
        ("sessions", b"c0"), ("sessions", b"c1"), ("retained", b"t0"), ("retained", b"t1"),
    ]  # fmt: skip
    assert batch.checkpoint == 1


def test_the_mark_leaves_out_what_is_applied_but_not_on_disk_yet():
    """As it is with durability "interval": producers are noted with the commit only."""
    bench = Bench(sessions=2)
    bench.index += 1
    bench.broker.begin(bench.index, 1)
    assert bench.fill().checkpoint == 1


def test_a_large_round_goes_in_slices_and_only_the_last_has_the_mark():
    bench = Bench(sessions=6, topics=5)
    batches = []
    for _ in range(3):
        batches.append(bench.fill())
        bench.land()
    assert [len(batch.rows) for batch in batches] == [4, 4, 3]
    assert [batch.checkpoint for batch in batches] == [None, None, 1]
    assert bench.fill(99.0).is_empty


def test_what_changes_during_a_round_is_for_the_next():
    bench = Bench(sessions=6)
    bench.fill()
    bench.land()
    bench.change(sessions=1)
    assert bench.fill().checkpoint == 1
    batch = bench.fill(99.0)
    assert [key for _, key, _ in batch.rows] == [b"c0"]
    assert batch.checkpoint == bench.index


def test_rounds_keep_their_distance():
    bench = Bench(sessions=1)
    bench.fill(10.0)
    bench.change(sessions=1)
    assert not bench.checkpointer.is_due(10.9)
    assert bench.fill(10.9).is_empty
    assert bench.checkpointer.is_due(11.0)


def test_a_round_begins_early_where_much_was_written_since_the_last():
    """Retention waits for it: it removes nothing that a start would replay."""
    bench = Bench(sessions=1, round_bytes=1_000)
    bench.fill(10.0)
    bench.change(sessions=1)
    bench.checkpointer.committed(bench.index, 999)
    assert not bench.checkpointer.is_due(10.1)
    bench.checkpointer.committed(bench.index, 1)
    assert bench.fill(10.1).checkpoint == bench.index


def test_a_round_that_is_overdue_takes_more_rows_with_each_commit():
    bench = Bench(sessions=20, round_bytes=1_000)
    assert len(bench.fill(10.0).rows) == 4
    bench.checkpointer.committed(bench.index, 1_000)
    batch = bench.fill(10.0)
    assert len(batch.rows) == 16
    assert batch.checkpoint == bench.index


def test_its_own_commits_are_no_reason_for_a_round():
    bench = Bench(sessions=1)
    bench.fill(10.0)
    bench.land()
    assert not bench.checkpointer.is_due(1_000.0)


def test_a_session_that_is_gone_has_its_row_deleted():
    bench = Bench(sessions=1)
    del bench.broker.sessions[b"c0"]
    assert bench.fill().rows == [("sessions", b"c0", None)]


def test_a_topic_that_was_cleared_has_its_row_deleted():
    bench = Bench(topics=1)
    bench.broker.apply(Published(b"t0", [b""], 0, True, 0, 5, []), None, Effects())
    assert bench.fill().rows == [("retained", b"t0", None)]


@pytest.mark.parametrize("slices_before", [0, 1, 2])
def test_a_round_whose_commit_failed_is_begun_again_with_all_that_is_missing(slices_before):
    bench = Bench(sessions=6, topics=5)
    written = set()
    for _ in range(slices_before):
        written |= {key for _, key, _ in bench.fill().rows}
        bench.land()
    bench.checkpointer.failed(bench.fill())
    batches = [bench.fill(99.0) for _ in range(4)]
    written |= {key for batch in batches for _, key, _ in batch.rows}
    assert len(written) == 11
    marks = [batch.checkpoint for batch in batches if batch.checkpoint is not None]
    assert marks == [bench.index]


def test_a_failed_commit_without_rows_changes_nothing():
    bench = Bench(sessions=1)
    bench.fill(10.0)
    bench.checkpointer.failed(Batch())
    assert not bench.checkpointer.is_due(99.0)


# ── sinks that are forgotten


def sink(bench: Bench, *commands: SinkCommand) -> None:
    bench.index += 1
    bench.broker.begin(bench.index, 1)
    for command in commands:
        bench.broker.apply(command, None, Effects())
    bench.checkpointer.committed(bench.index)
    bench.checkpointer.changed(bench.index)


def written(batch: Batch) -> list[bytes | None]:
    return [row for table, _key, row in batch.rows if table == "sinks"]


@pytest.fixture
def forgotten() -> Bench:
    bench = Bench()
    sink(bench, SinkBegan(b"s", 1, [], b""), SinkEnded(b"s", 1, 1, 5))
    sink(bench, SinkForgotten(b"s"))
    return bench


def test_the_row_of_a_sink_is_deleted_when_replay_begins_after_its_end(forgotten):
    batches = []
    for number in range(4):
        batches.append(forgotten.fill(10.0 + 10 * number))
        forgotten.change()
    [gone], [deleted], *later = map(written, batches)
    again = Broker(Counters())
    again.sinks.load(gone)
    assert not again.sinks.get(b"s")
    assert batches[0].checkpoint == 3
    assert deleted is None
    assert later == [[], []]


def test_the_row_of_a_sink_stays_if_the_mark_did_not_get_to_the_disk(forgotten):
    forgotten.checkpointer.failed(forgotten.fill())
    [gone] = written(forgotten.fill(20.0))
    assert gone is not None


def test_a_start_deletes_the_rows_of_sinks_that_are_gone_with_its_second_round(forgotten):
    [gone] = written(forgotten.fill())
    again = Bench()
    again.index = forgotten.index
    again.change()
    again.broker.sinks.load(gone)
    assert written(again.fill(10.0)) != [None]
    again.change()
    assert written(again.fill(20.0)) == [None]


def test_a_sink_that_is_made_anew_has_a_row_of_its_own(forgotten):
    sink(forgotten, SinkBegan(b"s", 0, [], b""))
    [row] = written(forgotten.fill())
    again = Broker(Counters())
    again.sinks.load(row)
    assert again.sinks.get(b"s").committing.epoch == 0
