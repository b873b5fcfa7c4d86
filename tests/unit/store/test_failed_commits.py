"""A commit that fails at its last write: LMDB is then in panic until it is opened again.

LMDB writes the meta page by a file descriptor of its own, so a test can replace that one alone.
"""

import fcntl
import os
import threading
from pathlib import Path

import pytest
from tests.conformance.wire_client import wait_until

from penstock.errors import StorageBroken, StorageFull
from penstock.store.batch import Batch


@pytest.fixture
def store(open_store):
    return open_store()


def commit(store, payload):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    return store.commit(batch)


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def meta_descriptor(directory):
    """The descriptor of the data file that writes synchronously."""
    path = directory / "data.mdb"
    found = [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if is_link(entry, path)]
    [meta] = [number for number in found if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_DSYNC]
    return meta


def is_link(entry, path):
    try:
        return entry.readlink() == path
    except FileNotFoundError:  # the descriptor by which the directory was listed
        return False


def replace(descriptor, path, flags):
    other = os.open(path, flags)
    os.dup2(other, descriptor)
    os.close(other)


def fail_for_lack_of_space(store, tmp_path, payload=b"refused"):
    replace(meta_descriptor(tmp_path / "data"), "/dev/full", os.O_WRONLY)
    with pytest.raises(StorageFull):
        commit(store, payload)


def test_a_commit_whose_last_page_finds_no_room_changes_nothing_and_the_next_succeeds(
    store, open_store, tmp_path
):
    commit(store, b"before")
    for _ in range(3):
        fail_for_lack_of_space(store, tmp_path)
        assert payloads(store) == [b"before"]
    commit(store, b"after")
    assert payloads(store) == [b"before", b"after"]
    assert payloads(open_store()) == [b"before", b"after"]


def test_who_reads_during_the_failure_is_not_disturbed(store, tmp_path):
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
    fail_for_lack_of_space(store, tmp_path)
    reader.join()
    assert seen == [1]
    assert payloads(store) == [b"before"]


def test_after_any_other_fault_of_the_last_page_nothing_is_written_any_more(
    store, open_store, tmp_path
):
    """Its descriptor may only be read from, which is no lack of space."""
    commit(store, b"before")
    replace(meta_descriptor(tmp_path / "data"), tmp_path / "data" / "data.mdb", os.O_RDONLY)
    for _ in range(2):
        with pytest.raises(StorageBroken):
            commit(store, b"refused")
    assert payloads(open_store()) == [b"before"]
