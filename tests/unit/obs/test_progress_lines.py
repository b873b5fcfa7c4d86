"""What takes long says how far it is; what does not, says nothing."""

import pytest

from penstock.obs import progress
from penstock.obs.progress import ProgressLog
from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore


class Lines(list[dict[str, object]]):
    """A logger that keeps its lines, whatever level the log of this process has."""

    def info(self, event: str, **values: object) -> None:
        self.append({"event": event, **values})


@pytest.fixture
def logged(monkeypatch) -> Lines:
    lines = Lines()
    monkeypatch.setattr(progress, "_log", lines)
    return lines


def test_nothing_is_said_in_the_first_moments_and_then_now_and_again(logged):
    now = [100.0]
    going = ProgressLog("counting", lambda: now[0])
    for number in range(100):
        now[0] = 100.0 + number / 10
        going.reached(number, 100)
    assert [(line["done"], line["of"], line["seconds"]) for line in logged] == [
        (20, 100, 2.0),
        (70, 100, 7.0),
    ]
    assert {line["event"] for line in logged} == {"starting"}


def test_items_are_counted_on_their_way(monkeypatch, logged):
    monkeypatch.setattr(progress, "FIRST_AFTER_S", 0.0)
    assert list(ProgressLog("loading").each("abc")) == ["a", "b", "c"]
    assert [line["done"] for line in logged] == [0]


def test_a_store_says_how_far_its_start_is(tmp_path, monkeypatch, logged):
    store = LmdbStore(tmp_path, 1 << 20)
    for _ in range(3):
        batch = Batch()
        batch.append(b"t", [b"x"], 1_000, 1)
        store.commit(batch)
    store.close()
    monkeypatch.setattr(progress, "FIRST_AFTER_S", 0.0)
    LmdbStore(tmp_path, 1 << 20).close()
    assert [(line["done"], line["of"]) for line in logged] == [(1, 3)]
