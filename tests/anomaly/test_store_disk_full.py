"""A full disk: commits fail with the right error, nothing is lost, and work resumes with room."""

import resource
import subprocess
import sys
from pathlib import Path

from penstock.errors import StorageFull
from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore

ROOT = Path(__file__).parents[2]
LIMIT_BYTES = 512 * 1024


def batch_of(store) -> Batch:
    batch = Batch()
    for sequence in range(store.next_sequence, store.next_sequence + 5):
        batch.append(b"t/%d" % (sequence % 3), [b"%d " % sequence + b"x" * 3_000], 1, 0)
    batch.add_row("numbers", b"last", b"%d" % store.next_index)
    return batch


def fill(store) -> int:
    """Commit until it fails; return how often it failed in a row, with nothing changed."""
    while True:
        batch = batch_of(store)
        before = (store.next_sequence, store.next_index, list(store.topics()))
        try:
            store.commit(batch)
        except StorageFull:
            assert before == (store.next_sequence, store.next_index, list(store.topics()))
            break
    failures = 1
    for _ in range(5):
        try:
            store.commit(batch_of(store))
        except StorageFull:
            failures += 1
    return failures


def check(store) -> None:
    sequences = range(1, store.next_sequence)
    for sequence, message in zip(sequences, store.read(sequences), strict=True):
        assert message.payload.split()[0] == b"%d" % sequence
    assert dict(store.rows("numbers")) == {b"last": b"%d" % (store.next_index - 1)}


def scenario(path: Path) -> None:
    """Runs in a separate process, because the limit applies to the process."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    store = LmdbStore(path)
    failures = fill(store)
    assert failures >= 5, failures
    check(store)
    full_at = store.next_sequence
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.commit(batch_of(store))
    check(store)
    store.close()
    store = LmdbStore(path)
    assert store.next_sequence == full_at + 5
    check(store)
    store.close()
    print("recovered")


def test_a_full_disk_is_reported_and_survived(tmp_path):
    command = [sys.executable, "-m", "tests.anomaly.test_store_disk_full", str(tmp_path / "data")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=55
    )
    assert done.stdout == "recovered\n", done.stderr


if __name__ == "__main__":
    scenario(Path(sys.argv[1]))
