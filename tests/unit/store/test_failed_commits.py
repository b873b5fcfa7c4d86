"""A commit that fails: LMDB may be in panic until it is opened again, and nothing is repeated."""

import errno
import threading

import pytest
from tests.conformance.wire_client import wait_until
from tests.failing_writes import with_failing_writes

from penstock.errors import StorageBroken, StorageFull
from penstock.store.batch import Batch

META_AT = (32, 4096 + 32)  # where LMDB writes its part of the two meta pages
PAGES_AT = 8192  # where other pages begin


@pytest.fixture
def store(open_store):
    return open_store()


def commit(store, payload):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    return store.commit(batch)


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def fail_at_the_meta_page(store, payload=b"refused"):
    with pytest.raises(StorageFull):
        with_failing_writes(errno.ENOSPC, lambda: commit(store, payload), at=META_AT)


def fail_at_a_page(store, payload=b"refused"):
    with pytest.raises(StorageFull):
        with_failing_writes(errno.ENOSPC, lambda: commit(store, payload), beyond=PAGES_AT)


@pytest.mark.parametrize("fail", [fail_at_the_meta_page, fail_at_a_page])
@pytest.mark.parametrize("size", [10, 10_000])
def test_a_commit_that_finds_no_room_changes_nothing_and_the_next_succeeds(
    store, open_store, fail, size
):
    """A small one has a redo record, which must not count."""
    commit(store, b"before")
    for _ in range(3):
        fail(store, b"refused" * size)
        assert payloads(store) == [b"before"]
    store = open_store()
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
    fail_at_the_meta_page(store)
    reader.join()
    assert seen == [1]
    assert payloads(store) == [b"before"]


def test_after_any_other_fault_of_the_last_page_nothing_is_written_any_more(store, open_store):
    commit(store, b"before")
    with pytest.raises(StorageBroken):
        with_failing_writes(errno.EPERM, lambda: commit(store, b"refused"), at=META_AT)
    with pytest.raises(StorageBroken):
        commit(store, b"refused")
    assert payloads(open_store()) == [b"before"]
