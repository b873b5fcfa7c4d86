"""Both stores, small: a map of one MiB must grow under ordinary tests."""

import pytest

from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore

MIB = 1024 * 1024
BLOCK_BYTES = 600  # two or three small entries


class FoldedStore(LmdbStore):
    """All that was written is in small blocks when retention looks at it."""

    def __init__(self, path):
        super().__init__(path, MIB, inline_folder, block_bytes=BLOCK_BYTES)

    def retain(self, request):
        passed = Batch()
        passed.checkpoint = self.next_index - 1
        self.commit(passed)
        self.fold()
        return super().retain(request)


def make_store(kind, path):
    if kind == "memory":
        return MemoryStore()
    return FoldedStore(path) if kind == "blocks" else LmdbStore(path, MIB, inline_folder)


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    """Each of the two stores in turn; a conformance test takes this."""
    made = make_store(request.param, tmp_path / "data")
    yield made
    made.close()


@pytest.fixture(params=["memory", "lmdb", "blocks"])
def retained(request, tmp_path):
    """The same for tests of retention, which finds messages in the tail or in blocks."""
    made = make_store(request.param, tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def open_store(tmp_path):
    """A function that closes the LMDB store, if it is open, and opens it again."""
    opened = []

    def open_again() -> LmdbStore:
        while opened:
            opened.pop().close()
        opened.append(LmdbStore(tmp_path / "data", MIB, inline_folder))
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()
