"""A fold that fails, for lack of room or by damage: nothing is lost, and it is tried again later."""

import pytest

from penstock.errors import StorageBroken, StorageError, StorageFull
from penstock.limits import GIB
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.blocks.work import PAUSE_S, BlockWork
from penstock.store.lmdb_store import LmdbStore
from penstock.store.verify import verify


class Jobs:
    """Work that fails as long as it is told to."""

    def __init__(self, *, is_failing):
        self.is_failing = is_failing
        self.begun = 0

    def begin(self, _last_index, *, is_pressed):
        del is_pressed
        self.begun += 1
        return self._steps()

    def _steps(self):
        yield True
        if self.is_failing:
            raise StorageFull("full")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def steps(work, count):
    for _ in range(count):
        work.step(1)


def test_what_failed_pauses_and_other_work_goes_on():
    clock, first, second = Clock(), Jobs(is_failing=True), Jobs(is_failing=False)
    work = BlockWork(first, second, clock=clock)
    steps(work, 20)
    assert first.begun == 1
    assert second.begun == 9
    assert isinstance(work.failure, StorageFull)
    clock.now = PAUSE_S
    steps(work, 4)
    assert first.begun == 2
    first.is_failing = False
    clock.now = 2 * PAUSE_S
    steps(work, 8)
    assert first.begun == 6
    assert work.failure is None


@pytest.fixture
def store(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 24, inline_folder, 4096)
    store._work._clock = Clock()
    yield store
    store.close()


def commit(store, count=20):
    for _ in range(count):
        batch = Batch()
        batch.append(b"a", [b"%d" % store.next_sequence, b"x" * 500], 1_000, 1)
        batch.checkpoint = store.next_index
        store.commit(batch)
        store.prepare()


def messages(store):
    return [m.sequence for m in store.read_topic(b"a", 0, 10_000, GIB).messages()]


def later(store):
    store._work._clock.now += PAUSE_S
    store.fold()


def test_commits_go_on_while_folds_fail(store, monkeypatch, tmp_path):
    tried = []

    def full(_files, number, _chunks):
        tried.append(number)
        raise StorageFull("full")

    with monkeypatch.context() as patched:
        patched.setattr(BlockFiles, "create", full)
        commit(store)
        assert len(tried) == 1
        later(store)
        assert len(tried) == 2
        assert messages(store) == list(range(1, 41))
        assert store.size().blocks == 0
    later(store)
    assert store.size().blocks > 0
    assert messages(store) == list(range(1, 41))
    store.close()
    assert verify(tmp_path / "data").is_sound


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_block_that_cannot_be_registered_leaves_no_file(store, monkeypatch, tmp_path, nth):
    """Else a disk that is full would get one more file with each attempt."""
    write, count = store._environment.write, 0
    with monkeypatch.context() as patched:
        patched.setattr(store._work, "step", lambda *_given, **_options: False)
        commit(store)

    def failing(size, job):
        nonlocal count
        count += 1
        if count == nth:
            raise StorageFull("full")
        return write(size, job)

    with monkeypatch.context() as patched:
        patched.setattr(store._environment, "write", failing)
        store.fold()
    assert count >= nth
    known = [each.row.summary.number for each in store._blocks.current.blocks]
    assert BlockFiles(tmp_path / "data").numbers() == sorted(known)
    later(store)
    assert messages(store) == list(range(1, 41))
    store.close()
    assert verify(tmp_path / "data").is_sound


def test_after_a_failed_flush_the_file_stays(store):
    """It may be registered: a start finds out."""
    blocks = store._blocks
    commit(store)
    store.fold()
    number = blocks.current.blocks[0].row.summary.number
    with pytest.raises(StorageBroken), blocks.unless_registered(number):
        raise StorageBroken("flush")
    assert number in blocks.files.numbers()
    with pytest.raises(StorageError), blocks.unless_registered(number):
        raise StorageError("other")
    assert number not in blocks.files.numbers()
