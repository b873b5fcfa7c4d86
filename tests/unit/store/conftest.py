"""Both stores, small: a map of one MiB must grow under ordinary tests."""

import pytest

from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore

MIB = 1024 * 1024


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    """Each of the two stores in turn; a conformance test takes this."""
    made = MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "data", MIB)
    yield made
    made.close()


@pytest.fixture
def open_store(tmp_path):
    """A function that closes the LMDB store, if it is open, and opens it again."""
    opened = []

    def open_again() -> LmdbStore:
        while opened:
            opened.pop().close()
        opened.append(LmdbStore(tmp_path / "data", MIB))
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()
