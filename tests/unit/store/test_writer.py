"""The writer thread: order, answers whatever happens, a clean end."""

import threading

import pytest
from structlog.testing import capture_logs
from tests.conformance.wire_client import wait_until

from penstock.errors import StorageError, StorageFull
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import Commit
from penstock.store.writer import PREPARE_AFTER, PREPARE_BYTES, Writer


class BrokenStore(MemoryStore):
    """Raises the given error, once."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error: Exception | None = error

    def commit(self, batch: Batch):
        error, self._error = self._error, None
        if error:
            raise error
        return super().commit(batch)


def batch_of(payload: bytes) -> Batch:
    batch = Batch()
    batch.append(b"a", [payload], 1, 0)
    return batch


def run(store, *work):
    """Hand over everything, close, and return what ``done`` was called with."""
    answers = []
    writer = Writer(store, lambda batch, result: answers.append((batch, result)))
    writer.start()
    for item in work:
        (writer.submit if isinstance(item, Batch) else writer.run)(item)
    writer.close()
    return answers


def test_batches_are_answered_in_order_before_close_returns():
    batches = [batch_of(b"%d" % number) for number in range(50)]
    answers = run(MemoryStore(), *batches)
    assert [batch for batch, _ in answers] == batches
    assert [commit.index for _, commit in answers] == list(range(1, 51))


def test_jobs_run_between_commits_on_the_writer_thread():
    seen = []
    store = MemoryStore()
    run(
        store,
        batch_of(b"1"),
        lambda: seen.append((store.next_sequence, threading.current_thread().name)),
        batch_of(b"2"),
    )
    assert seen == [(2, "penstock-writer")]


def test_a_storage_error_is_the_answer_and_the_next_batch_is_tried():
    error = StorageFull("no room")
    answers = run(BrokenStore(error), batch_of(b"1"), batch_of(b"2"))
    assert answers[0][1] is error
    assert answers[1][1].base_sequence == 1


def test_a_bug_is_answered_as_well():
    with capture_logs() as logs:
        answers = run(BrokenStore(ValueError("bug")), batch_of(b"1"), batch_of(b"2"))
    assert isinstance(answers[0][1], StorageError)
    assert answers[1][1].base_sequence == 1
    assert [entry["event"] for entry in logs] == ["commit_failed"]


def test_a_job_that_raises_does_not_end_the_thread():
    def broken() -> None:
        raise ValueError

    with capture_logs() as logs:
        answers = run(MemoryStore(), broken, batch_of(b"1"))
    assert len(answers) == 1
    assert [entry["event"] for entry in logs] == ["writer_job_failed"]


def test_closing_twice_is_fine():
    writer = Writer(MemoryStore(), lambda _batch, _result: None)
    writer.start()
    writer.close()
    writer.close()


def test_the_submitting_thread_may_commit_while_the_writer_has_nothing_to_do():
    store, busy, go_on = MemoryStore(), threading.Event(), threading.Event()
    answers = []
    writer = Writer(store, lambda batch, result: answers.append((batch, result)))
    writer.start()
    assert writer.is_idle
    assert writer.commit_here(batch_of(b"1")).index == 1
    assert not answers  # ``commit_here`` itself returns the outcome

    def job() -> None:
        busy.set()
        go_on.wait(10)

    writer.run(job)
    assert busy.wait(10)
    assert not writer.is_idle
    with pytest.raises(AssertionError):
        writer.commit_here(batch_of(b"2"))
    go_on.set()
    writer.close()
    assert not writer.is_idle
    assert store.next_index == 2


def test_commits_of_the_submitting_thread_fail_as_those_of_the_writer_do():
    error = StorageFull("no room")
    writer = Writer(BrokenStore(error), lambda _batch, _result: None)
    writer.start()
    assert writer.commit_here(batch_of(b"1")) is error
    assert writer.commit_here(batch_of(b"2")).base_sequence == 1
    writer.close()


def test_the_writer_prepares_after_some_small_commits_and_after_every_large_one():
    calls: list[str] = []

    class Store(MemoryStore):
        def commit(self, batch: Batch) -> Commit:
            calls.append("large" if batch.payload_bytes > PREPARE_BYTES else "small")
            return super().commit(batch)

        def prepare(self) -> None:
            calls.append("prepared")

    writer = Writer(Store(), lambda _batch, _result: None)
    writer.start()
    for _ in range(PREPARE_AFTER):
        writer.submit(batch_of(b"x"))
    writer.submit(batch_of(b"x" * (PREPARE_BYTES + 1)))
    writer.close()
    assert calls == ["small"] * PREPARE_AFTER + ["prepared", "large", "prepared"]


def test_the_writer_extends_the_file_after_some_commits_of_the_submitting_thread():
    threads: list[str] = []

    class Store(MemoryStore):
        def prepare(self) -> None:
            threads.append(threading.current_thread().name)

    writer = Writer(Store(), lambda _batch, _result: None)
    writer.start()
    for _ in range(2 * PREPARE_AFTER):
        wait_until(lambda: writer.is_idle)
        writer.commit_here(batch_of(b"x"))
    writer.close()
    assert threads == ["penstock-writer"] * 2
