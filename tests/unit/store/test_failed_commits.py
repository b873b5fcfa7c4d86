"""A commit that fails at its last write: LMDB is then in panic until it is opened again."""

import errno
import shutil
import threading

import pytest
from tests.conformance.wire_client import wait_until
from tests.failing_writes import with_failing_writes

from penstock.errors import StorageBroken, StorageFull
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore

MIB = 1 << 20
META_AT = (32, 4096 + 32)  # where LMDB writes its part of the two meta pages


@pytest.fixture
def store(open_store):
    return open_store()


def commit(store, payload):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    return store.commit(batch)


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def fail(store, error, payload=b"refused"):
    """The pages of the transaction are written and flushed, its meta page is not."""
    with_failing_writes(error, lambda: commit(store, payload), at=META_AT)


def fail_for_lack_of_space(store):
    with pytest.raises(StorageFull):
        fail(store, errno.ENOSPC)


def test_a_commit_whose_last_page_finds_no_room_changes_nothing_and_the_next_succeeds(
    store, open_store
):
    commit(store, b"before")
    for _ in range(3):
        fail_for_lack_of_space(store)
        assert payloads(store) == [b"before"]
    commit(store, b"after")
    assert payloads(store) == [b"before", b"after"]
    assert payloads(open_store()) == [b"before", b"after"]


def test_who_reads_during_the_failure_is_not_disturbed(store):
    """The environment is closed and opened again; a reader that has begun is waited for."""
    commit(store, b"before")
    environment, reading, seen = store._environment, threading.Event(), []

    def read():
        with environment.reading() as transaction:
            reading.set()
            wait_until(lambda: environment._gate._shut)
            seen.append(transaction.stat(environment["journal"])["entries"])

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait()
    fail_for_lack_of_space(store)
    reader.join()
    assert seen == [1]
    assert payloads(store) == [b"before"]


def test_after_any_other_fault_of_the_last_page_nothing_is_written_any_more(store, open_store):
    commit(store, b"before")
    for _ in range(2):
        with pytest.raises(StorageBroken):
            fail(store, errno.EPERM)
    assert payloads(open_store()) == [b"before"]


def test_a_commit_that_was_refused_does_not_come_back_after_a_crash(store, open_store, tmp_path):
    """It was written down ahead, and flushed."""
    commit(store, b"before")
    fail_for_lack_of_space(store)
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "data", crashed)
    again = LmdbStore(crashed, MIB, inline_folder)
    assert payloads(again) == [b"before"]
    again.close()


def test_a_commit_that_fails_early_erases_nothing_of_the_one_before(store):
    """The record of that one may be all that a power failure would leave of it."""
    commit(store, b"before")
    with pytest.raises(StorageFull):
        with_failing_writes(errno.ENOSPC, lambda: commit(store, b"x" * 100_000), beyond=2 * 4096)
    assert [record.index for record in store._ahead.records()] == [1]
