"""A fold that fails, hangs or cannot be registered costs no message, no commit and no disk space."""

import errno
import os
import signal

import pytest
from tests.failing_writes import with_failing_writes

from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import ProcessFolder, inline_folder
from penstock.store.lmdb_store import LmdbStore

MIB = 1 << 20
META_AT = (32, 4096 + 32)  # where LMDB writes its part of the two meta pages
BLOCK_BYTES = 2_000


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def write(store, numbers):
    for number in numbers:
        batch = Batch()
        batch.append(b"t/%d" % (number % 3), [b"%d" % number * 30], 1_000, 1)
        batch.checkpoint = store.next_index - 1
        store.commit(batch)


def counts(store):
    found = {}
    for topic in (b"t/0", b"t/1", b"t/2"):
        messages = list(store.read_topic(topic, 0, 10**6, 10**9).messages())
        assert [message.offset for message in messages] == list(range(len(messages)))
        found[topic] = len(messages)
    return found


def registered(store):
    return sorted(each.row.summary.number for each in store._blocks.current.blocks)


def test_commits_do_not_wait_forever_for_a_process_that_hangs(data):
    folders = []

    def folder(path, environment, _files):
        found = ProcessFolder(path, forget=environment.forget_dead_readers)
        folders.append(found)
        return found

    store = LmdbStore(data, MIB, folder, block_bytes=BLOCK_BYTES)
    try:
        write(store, range(30))
        store.fold()
        hanging = folders[0].pid
        folders[0].answer_s = 0.5
        os.kill(hanging, signal.SIGSTOP)
        write(store, range(30, 150))  # more than the tail may have: they wait for the fold
        assert counts(store) == dict.fromkeys((b"t/0", b"t/1", b"t/2"), 50)
        assert folders[0].pid != hanging
    finally:
        store.close()


def test_a_block_that_cannot_be_registered_leaves_no_file(data):
    store = LmdbStore(data, MIB, inline_folder, block_bytes=BLOCK_BYTES)
    try:
        write(store, range(30))
        for _ in range(3):
            store._work._paused.clear()
            with_failing_writes(errno.ENOSPC, store.fold, at=META_AT)
            assert BlockFiles(data).numbers() == registered(store)
        store._work._paused.clear()
        store.fold()
        assert registered(store)
        assert BlockFiles(data).numbers() == registered(store)
        assert counts(store) == dict.fromkeys((b"t/0", b"t/1", b"t/2"), 10)
    finally:
        store.close()


def test_a_file_stays_whose_registration_may_have_become_durable(data):
    """The disk broke within the transaction: only the next start learns what it has."""
    store = LmdbStore(data, MIB, inline_folder, block_bytes=BLOCK_BYTES)
    write(store, range(9))
    with_failing_writes(errno.EPERM, store.fold, at=META_AT)
    assert len(BlockFiles(data).numbers()) > len(registered(store))
    store.close()
    store = LmdbStore(data, MIB, inline_folder, block_bytes=BLOCK_BYTES)
    assert BlockFiles(data).numbers() == registered(store)
    assert counts(store) == dict.fromkeys((b"t/0", b"t/1", b"t/2"), 3)
    store.close()
