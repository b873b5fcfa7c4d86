"""Converts a store of format 1, to be killed anywhere; and the check of what it left behind.

``python -m tests.anomaly.convert_script DIRECTORY FIRST STRIDE`` unpacks the store, kills a
conversion of it at its n-th step on the disk for n = FIRST, FIRST + STRIDE …, checks the result in
another fork, and prints one line per run, until a run reaches its end.
"""

import sys
import tarfile
from hashlib import blake2b
from pathlib import Path

from penstock.store.batch import Batch
from penstock.store.blocks import conversion, tail_folding
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.verify import verify
from tests.anomaly.store_script import KILLED, Killer, in_a_fork

ARCHIVE = Path(__file__).parent / "earlier" / "before_blocks.tar.xz"
# of all messages, as the version that wrote them read them
DIGEST = "f04cbad53e20679b638b9c13470e2799"
MESSAGES = 423
BLOCK_BYTES = 4_000


def unpack(path: Path) -> None:
    """Debian 12's Python 3.11.2 has no ``filter`` for archives yet; this one is our own."""
    path.mkdir()
    with tarfile.open(ARCHIVE) as archive:
        for member in archive.getmembers():
            source = archive.extractfile(member)
            assert source is not None
            (path / member.name).write_bytes(source.read())


def open_store(path: Path) -> LmdbStore:
    return LmdbStore(path, 1 << 20, inline_folder, block_bytes=BLOCK_BYTES)


def digest(store: LmdbStore) -> str:
    """Of all messages of all topics, with everything that belongs to them."""
    found = blake2b(digest_size=16)
    for info in sorted(store.topics(), key=lambda info: info.name):
        for m in store.read_topic(info.name, 0, 10**6, 10**9).messages():
            row = (m.topic, m.payload, m.sequence, m.offset, m.time_ms, m.flags, m.extras)
            found.update(repr(row).encode())
    return found.hexdigest()


def convert(path: Path) -> None:
    """Convert in small steps, with commits in between, some of which are folded too."""
    conversion.ROWS_PER_STEP = tail_folding.ENTRIES_PER_STEP = 7
    tail_folding.TOPICS_PER_STEP = 5
    store = open_store(path)
    while store._fold_now():
        pass
    store.close()


def check(path: Path) -> None:
    """Everything is there once, wherever it is; and the conversion goes on to its end."""
    store = open_store(path)
    assert digest(store) == DIGEST
    assert store.size().messages == MESSAGES
    store.close()
    assert verify(path).faults == []
    convert(path)
    store = open_store(path)
    assert digest(store) == DIGEST
    batch = Batch()
    batch.append(b"plant/3", [b"after"], 1_700_000_999_000, 1)
    store.commit(batch)
    store.close()
    report = verify(path)
    assert (report.faults, report.messages) == ([], MESSAGES + 1)


def main() -> None:
    directory, first, stride = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for steps in range(first, 10_000, stride):
        path = directory / f"{steps}"
        unpack(path)

        def life(path=path, steps=steps) -> None:
            Killer(steps).watch()
            convert(path)

        end = in_a_fork(life)
        sound = in_a_fork(lambda path=path: check(path))
        print(f"{steps} {end} {sound}", flush=True)
        if end != KILLED or sound:
            return


if __name__ == "__main__":
    main()
