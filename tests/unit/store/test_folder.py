"""Folding in the background: in this thread, and in a process that ends with the broker."""

import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.errors import StorageDamaged, StorageError
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.fold import Fold
from penstock.store.blocks.folder import FoldJob, InlineFolder, ProcessFolder
from penstock.store.journal import JournalCursor
from penstock.store.keys import journal_key
from penstock.store.lmdb_store import LmdbStore

WAIT_S = 60.0
ENTRIES = 30


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def store(data):
    found = LmdbStore(data)
    for number in range(ENTRIES):
        batch = Batch()
        batch.append(b"a", [b"a%d" % number], 1_000 + number, 1)
        batch.append(b"b/%d" % (number % 7), [b"b%d" % number] * 3, 1_000 + number, 0)
        found.commit(batch)
    yield found
    found.close()


def job(first, last, number=1):
    """Each entry has four messages."""
    base, end = 1 + 4 * (first - 1), 1 + 4 * last
    return FoldJob(Fold(number, base, end, first, last), first_index=first, last_index=last)


class Waiting:
    """A process folder whose results can be waited for."""

    def __init__(self, data, **options):
        self._ready = threading.Event()
        self.folder = ProcessFolder(data, wake=self._ready.set, **options)

    def run(self, job):
        self.folder.start(job)
        return self.taken()

    def taken(self):
        assert self._ready.wait(WAIT_S)
        self._ready.clear()
        return self.folder.result()


@pytest.fixture
def waiting(data):
    found = Waiting(data)
    yield found
    found.folder.close()


def payloads(data, summary):
    block = BlockFiles(data).open(summary)
    return {block.located(s)[1].payload for s in range(summary.base_sequence, summary.end_sequence)}


def test_a_process_folds_entries_and_then_blocks(data, store, waiting):
    first = waiting.run(job(1, 10))
    second = waiting.run(job(11, ENTRIES, number=2))
    assert (first.count, second.count) == (40, 80)
    both = FoldJob(Fold(3, 1, 1 + 4 * ENTRIES, 1, ENTRIES), blocks=(1, 2))
    whole = waiting.run(both)
    assert whole.count == 120
    expected = {b"a%d" % number for number in range(ENTRIES)}
    assert payloads(data, whole) == expected | {b"b%d" % number for number in range(ENTRIES)}
    assert waiting.folder.result() is None


def test_a_fold_in_this_thread_makes_the_same_file(data, store, waiting):
    theirs = waiting.run(job(3, 20))
    content = BlockFiles(data).file(1).read_bytes()
    BlockFiles(data).remove(1)
    folder = InlineFolder(store._environment, BlockFiles(data))
    folder.start(job(3, 20))
    assert folder.result() == theirs
    assert folder.result() is None
    assert BlockFiles(data).file(1).read_bytes() == content


def test_a_fold_leaves_no_snapshot_open(data, store, waiting):
    waiting.run(job(1, ENTRIES))
    assert "no active readers" in store._environment._lmdb.readers()


def test_an_error_in_the_process_arrives_as_what_it_is(data, store, waiting):
    result = waiting.run(FoldJob(Fold(2, 1, 2, 1, 1), blocks=(77,)))
    assert isinstance(result, StorageDamaged)
    assert f"{77:016x}" in result.message
    assert BlockFiles(data).numbers() == []
    assert waiting.run(job(1, 5)).count == 20  # and the process goes on


def test_a_job_that_does_not_fit_its_entries_is_refused(data, store, waiting):
    wrong = FoldJob(Fold(1, 9, 90, 1, ENTRIES), first_index=1, last_index=ENTRIES)
    assert "before the block" in waiting.run(wrong).message
    late = FoldJob(Fold(1, 1, 9, 1, ENTRIES), first_index=1, last_index=ENTRIES)
    assert "after the block" in waiting.run(late).message
    assert BlockFiles(data).clean(set()) == []
    assert list((data / "blocks").iterdir()) == []


def test_a_process_that_dies_is_an_error_once_and_replaced(data, store):
    forgotten = threading.Event()
    waiting = Waiting(data, forget=forgotten.set)
    waiting.run(job(1, 5))
    pid = waiting.folder.pid
    os.kill(pid, signal.SIGKILL)
    result = waiting.run(job(6, 9, number=2))
    assert isinstance(result, StorageError)
    assert "died: ended by SIGKILL" in result.message
    assert forgotten.is_set()
    assert waiting.run(job(6, 9, number=2)).count == 16
    assert waiting.folder.pid != pid
    waiting.folder.close()
    assert waiting.folder.pid is None


def test_a_process_that_cannot_start_is_an_error(data, store, waiting, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "died" in waiting.run(job(1, 5)).message
    monkeypatch.undo()
    assert waiting.run(job(1, 5)).count == 20


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_closing_ends_a_process_within_a_job_and_leaves_no_descriptor(data, store):
    before = descriptors()
    waiting = Waiting(data)
    waiting.run(job(1, 5))
    pid = waiting.folder.pid
    os.kill(pid, signal.SIGSTOP)  # it will not answer any more
    waiting.folder.start(job(6, 9, number=2))
    waiting.folder.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # no zombie
    assert descriptors() == before


def test_the_process_ignores_an_interrupt_of_the_terminal(data, store, waiting):
    waiting.run(job(1, 5))
    pid = waiting.folder.pid
    os.kill(pid, signal.SIGINT)
    assert waiting.run(job(6, 9, number=2)).count == 16
    assert waiting.folder.pid == pid


def test_the_process_yields_to_the_broker(data, store, waiting):
    waiting.run(job(1, 5))
    assert os.getpriority(os.PRIO_PROCESS, waiting.folder.pid) > os.getpriority(os.PRIO_PROCESS, 0)


BROKER = """
import sys, threading
from pathlib import Path
from penstock.store.blocks.folder import FoldJob, ProcessFolder
from penstock.store.blocks.fold import Fold
ready = threading.Event()
folder = ProcessFolder(Path(sys.argv[1]), wake=ready.set)
folder.start(FoldJob(Fold(1, 1, 41, 1, 10), first_index=1, last_index=10))
ready.wait()
assert folder.result().count == 40
print(folder.pid, flush=True)
threading.Event().wait()
"""


def test_a_killed_broker_takes_the_process_with_it(data, store):
    broker = subprocess.Popen(
        [sys.executable, "-c", BROKER, str(data)], stdout=subprocess.PIPE, text=True
    )
    pid = int(broker.stdout.readline())
    watched = os.pidfd_open(pid)
    broker.kill()
    broker.wait()
    broker.stdout.close()
    waits = threading.Thread(target=_wait_for, args=(watched,), daemon=True)
    waits.start()
    waits.join(WAIT_S)
    os.close(watched)
    assert not waits.is_alive()
    with suppress(FileNotFoundError):
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"  # init has not looked yet


def _wait_for(pidfd):
    select.select([pidfd], [], [])


def test_entries_that_are_gone_are_left_out(data, store, waiting):
    with store._environment.reading() as transaction:
        cursor = JournalCursor(store._environment, transaction, None)
        keys = [(entry.base_sequence, entry.index) for entry in cursor.after(3)][:2]

    def delete(transaction):
        for key in keys:
            transaction.delete(journal_key(*key), db=store._environment["journal"])

    store._environment.write(0, delete)
    assert waiting.run(job(1, 10)).count == 32
