"""A store of format 1 becomes one of blocks while a broker runs, however often that is cut off."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.store.batch import Batch
from penstock.store.verify import verify
from tests.anomaly.convert_script import DIGEST, MESSAGES, digest, open_store, unpack

ROOT = Path(__file__).parents[2]
ALL = [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 33))]


@pytest.fixture
def path(tmp_path):
    unpack(tmp_path / "data")
    return tmp_path / "data"


def test_it_is_read_as_it_is_and_verified_before_and_after(path):
    assert verify(path).faults == []
    store = open_store(path)
    assert digest(store) == DIGEST
    store.fold()
    assert digest(store) == DIGEST
    marks = store._position.marks
    assert marks.converted == marks.indexed > 0
    with store._environment.reading() as transaction:
        for left in ("index", "live"):
            assert transaction.stat(store._environment[left])["entries"] == 0
    store.close()
    report = verify(path)
    assert (report.faults, report.messages) == ([], MESSAGES)


def test_readers_miss_nothing_at_any_step(path):
    store = open_store(path)
    while store._fold_now():
        assert digest(store) == DIGEST
    store.close()


def test_readers_in_other_threads_miss_nothing_meanwhile(path):
    store = open_store(path)
    faults, is_over = [], threading.Event()

    def read():
        while not is_over.is_set():
            if digest(store) != DIGEST:
                faults.append("something is missing")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    store.fold()
    is_over.set()
    for thread in threads:
        thread.join()
    store.close()
    assert not faults


def test_a_commit_does_not_wait_for_it_while_a_start_needs_the_tail(path):
    store = open_store(path)
    before = store._position.marks
    for _ in range(10):
        batch = Batch()
        batch.append(b"plant/3", [b"x" * 4_000], 1_700_000_999_000, 1)
        store.commit(batch)
    assert store._budget._is_tail_long
    assert store._position.marks.converted == before.converted < before.indexed
    store.close()


def test_what_is_written_meanwhile_is_folded_beyond_what_is_not_converted(path):
    store = open_store(path)
    for number in range(40):
        batch = Batch()
        batch.append(b"plant/3", [b"%d" % number + bytes(500)], 1_700_000_999_000, 1)
        batch.checkpoint = store.next_index - 1
        store.commit(batch)
        store.prepare()
    info = store.topic(b"plant/3")
    found = list(store.read_topic(b"plant/3", 0, 10**6, 10**9).messages())
    assert [message.offset for message in found] == list(range(info.first_offset, info.next_offset))
    assert [message.payload for message in found[-40:]] == [
        b"%d" % n + bytes(500) for n in range(40)
    ]
    store.close()
    assert verify(path).faults == []


@pytest.mark.parametrize("first", ALL)
def test_a_crash_at_any_step_loses_nothing_and_is_made_up_for(tmp_path, first):
    """For n = 1, 2, 3 … until a run completes; every 32nd n in each test."""
    command = [
        sys.executable,
        "-m",
        "tests.anomaly.convert_script",
        str(tmp_path),
        str(first),
        "32",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    lives = [line.split() for line in done.stdout.splitlines() if "[" not in line]  # no log
    *killed, (steps, end, sound) = lives
    assert (end, sound) == ("0", "0"), done.stdout[-3_000:]
    assert all(life[1:] == ["77", "0"] for life in killed)
    assert int(steps) > 100
