"""A loss of power right after a commit that was flushed once: the redo record repeats it.

The page cache of the kernel survives every test, so the loss is played: a copy of the data
directory gets the meta pages as they were before the commit. Everything else was flushed.
"""

import shutil

import pytest
from structlog.testing import capture_logs

from penstock.store import environment as module
from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore
from penstock.store.redo import MAGIC, RECORD_AT

PAGE = 4096
PAGES = (0, PAGE)
MIB = 1 << 20


class Disk:
    """A store whose last commit can be undone as a loss of power does it."""

    def __init__(self, path):
        self._path = path
        self.store = LmdbStore(path, MIB)
        self._opened = [self.store]
        self._copies = 0
        self._metas = self._read_metas()

    def _read_metas(self):
        data = (self._path / "data.mdb").read_bytes()
        return [data[start : start + RECORD_AT] for start in PAGES]

    def commit(self, *payloads, topic=b"t", rows=()):
        self._metas = self._read_metas()
        batch = Batch()
        if payloads:
            batch.append(topic, list(payloads), 1_000, 1)
        for row in rows:
            batch.add_row(*row)
        return self.store.commit(batch)

    def after_power_loss(self, *, damage=None):
        """The store as a start finds it. ``damage``: what else happens to the file."""
        self._copies += 1
        copy = self._path.with_name(f"copy{self._copies}")
        shutil.copytree(self._path, copy, ignore=shutil.ignore_patterns("lock*"))
        with (copy / "data.mdb").open("r+b") as file:
            for start, meta in zip(PAGES, self._metas, strict=True):
                file.seek(start)
                file.write(meta)
            if damage:
                damage(file)
        store = LmdbStore(copy, MIB)
        self._opened.append(store)
        return store

    def close(self):
        for store in self._opened:
            store.close()


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path / "data")
    yield disk
    disk.close()


def payloads(store, topic=b"t"):
    return [message.payload for message in store.read_topic(topic, 0, 1_000, 10**6).messages()]


def forget_records(file):
    for start in PAGES:
        file.seek(start + RECORD_AT)
        file.write(bytes(len(MAGIC)))


def damage_records(file):
    for start in PAGES:
        file.seek(start + RECORD_AT + 60)
        file.write(b"?")


def test_after_every_commit_a_loss_of_power_loses_nothing(disk):
    expected = []
    for number in range(8):
        expected.append(b"%d" % number)
        disk.commit(expected[-1])
        found = disk.after_power_loss()
        assert payloads(found) == expected
        assert found.next_index == disk.store.next_index


def test_without_the_record_it_would_lose_the_last_commit(disk):
    """So the other tests can fail."""
    disk.commit(b"1")
    disk.commit(b"2")
    assert payloads(disk.after_power_loss(damage=forget_records)) == [b"1"]


def test_a_record_that_is_not_whole_is_not_repeated(disk):
    disk.commit(b"1")
    disk.commit(b"2")
    assert payloads(disk.after_power_loss(damage=damage_records)) == [b"1"]


def test_a_start_says_that_it_repeated_something_and_does_so_once(disk):
    disk.commit(b"1")
    with capture_logs() as logs:
        found = disk.after_power_loss()
    assert [entry["event"] for entry in logs if "repeat" in entry["event"]] == [
        "last_write_repeated"
    ]
    path = found._environment._path
    found.close()
    with capture_logs() as logs:
        disk._opened[-1] = LmdbStore(path, MIB)
    assert not logs
    assert payloads(disk._opened[-1]) == [b"1"]


def test_rows_and_deletions_of_rows_are_repeated_too(disk):
    disk.commit(rows=[("sessions", b"ann", b"1"), ("sessions", b"bob", b"2")])
    disk.commit(b"x", rows=[("sessions", b"ann", None), ("sessions", b"cy", b"3")])
    assert dict(disk.after_power_loss().rows("sessions")) == {b"bob": b"2", b"cy": b"3"}


def test_the_repeated_commit_counts_and_later_ones_follow_it(disk):
    disk.commit(b"1")
    disk.commit(b"2")
    found = disk.after_power_loss()
    batch = Batch()
    batch.append(b"t", [b"3"], 1_000, 1)
    assert found.commit(batch).index == 3
    assert payloads(found) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("size", "flushes"), [(10, 0), (3_000, 0), (4_000, 1), (100_000, 1)])
def test_what_does_not_fit_is_flushed_twice(disk, monkeypatch, size, flushes):
    counted = []
    real = module.Environment._flush_meta
    monkeypatch.setattr(module.Environment, "_flush_meta", lambda self: counted.append(real(self)))
    disk.commit(bytes(size))
    assert len(counted) == flushes


def test_a_write_that_used_a_cursor_is_flushed_twice(disk, monkeypatch):
    counted = []
    real = module.Environment._flush_meta
    monkeypatch.setattr(module.Environment, "_flush_meta", lambda self: counted.append(real(self)))
    environment = disk.store._environment

    def job(transaction):
        transaction.cursor(environment["rows"]).put(b"key", b"value")

    environment.write(0, job)
    assert len(counted) == 1


def test_a_record_from_long_ago_is_not_repeated(disk):
    disk.commit(b"small")
    for number in range(3):
        disk.commit(b"%d" % number * 10_000)
    with capture_logs() as logs:
        found = disk.after_power_loss()  # as if the flush of the meta page had not been made
    assert not [entry for entry in logs if "repeat" in entry["event"]]
    assert len(payloads(found)) == 3


def test_a_write_that_changes_nothing_leaves_nothing_to_repeat(disk, tmp_path):
    environment = disk.store._environment
    for job in (
        lambda _transaction: None,
        lambda transaction: transaction.delete(b"no such key", db=environment["rows"]),
    ):
        disk.commit(b"x")
        environment.write(0, job)
        shutil.copytree(
            tmp_path / "data", copy := tmp_path / "other", ignore=shutil.ignore_patterns("lock*")
        )
        with capture_logs() as logs:
            LmdbStore(copy, MIB).close()
        assert not logs
        shutil.rmtree(copy)
