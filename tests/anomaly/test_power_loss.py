"""The power fails at any moment: a disk that has only what was flushed, and any part of the rest.

A script commits, and says so after each commit, while ``strace`` writes down what it does to the
file. From that the disk can be rebuilt as it could be at any moment: everything written before the
last flush began is there; of what was written since, any page may be there in any of its states.
"""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.store import unsettled
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.directory import DATA_NAME
from penstock.store.lmdb_store import LmdbStore

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
PAGE = 4096
LIVES, COMMITS = 2, 24
LARGE = 40_000  # bytes, more than there is room for in a slot
CALL = re.compile(r"^(\w+)\((?:AT_FDCWD|(\d+))(.*)\) += (-?\d+)")
BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
NUMBER = re.compile(r", (\d+)$")
TRACED = "openat,close,pwrite64,writev,lseek,fdatasync,write,ftruncate"

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def live(data: Path) -> None:
    """Commit small and large batches, with and without rows; some transactions are no commits."""
    unsettled.WORTH_RECORDS = 0
    for _ in range(LIVES):
        store = LmdbStore(data, MIB, inline_folder)
        for _ in range(COMMITS):
            number = store.next_index
            batch = Batch()
            size = LARGE if number % 8 == 0 else 10
            batch.append(b"t/%d" % (number % 3), [b"%d " % number + b"x" * size], 1, 1)
            if number % 3 == 0:
                batch.add_row("numbers", b"last", b"%d" % number)
            if number % 6 == 0:
                batch.checkpoint = number - 1
            (store.commit if number % 4 == 0 else store.commit_small)(batch)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            if number % 5 == 0:
                store.prepare()
            if number % 7 == 0:
                store.trim(b"t/0", 1)
        store.close()


class Disk:
    """One file: what is flushed, and what was written since."""

    def __init__(self) -> None:
        self.flushed = bytearray()
        self.written: list[tuple[int, bytes]] = []
        self.acknowledged = 0
        self._files: dict[str, int] = {}  # descriptors of the file, and their position

    def step(self, line: str) -> bool:
        """Take a line of the trace; return whether it changes anything."""
        match = CALL.match(line)
        if match is None:
            return False
        call, file, rest, result = match.groups()
        data = b"".join(bytes.fromhex(part.replace("\\x", "")) for part in BYTES.findall(rest))
        if call == "openat":
            if data.endswith(DATA_NAME.encode()):
                self._files[result] = 0
            return False
        if call == "write" and file == "1":
            self.acknowledged = int(data)
            return True
        return file in self._files and self._changed(call, file, rest, data)

    def _changed(self, call: str, file: str, rest: str, data: bytes) -> bool:
        assert call != "ftruncate"
        if call == "close":
            del self._files[file]
        elif call == "lseek":
            self._files[file] = int(rest.split(",")[1])
        elif call == "pwrite64":
            self.written.append((int(NUMBER.search(rest)[1]), data))
        elif call in {"write", "writev"}:
            self.written.append((self._files[file], data))
        elif call == "fdatasync":
            self.flushed = self._with(self.written)
            self.written = []
        return call not in {"close", "lseek"}

    def _with(self, writes: list[tuple[int, bytes]]) -> bytearray:
        content = bytearray(self.flushed)
        for offset, data in writes:
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
        return content

    def after_a_failure(self, chance: random.Random) -> bytes:
        """Each page in one of the states that it had since the last flush."""
        content = self._with(self.written)
        states: dict[int, list[bytes]] = {}
        for number in range(len(self.written) + 1):
            known = self._with(self.written[:number])
            for page in self._pages(self.written[:number][-1:]):
                before = bytes(self.flushed[page : page + PAGE]).ljust(PAGE, b"\0")
                states.setdefault(page, [before]).append(bytes(known[page : page + PAGE]))
        for page, versions in states.items():
            chosen = chance.choice(versions)
            content[page : page + len(chosen)] = chosen
        return bytes(content)

    @staticmethod
    def _pages(writes: list[tuple[int, bytes]]) -> set[int]:
        return {
            page - page % PAGE
            for offset, data in writes
            for page in (*range(offset, offset + len(data), PAGE), offset + len(data) - 1)
        }


def check(data: Path, acknowledged: int) -> None:
    """Everything acknowledged is there, and at most the commit after it; the rest is whole."""
    store = LmdbStore(data, MIB, inline_folder)
    try:
        last = store.next_index - 1
        assert acknowledged <= last <= acknowledged + 1
        entries = list(store.replay())
        assert [entry.index for entry in entries] == list(range(last - len(entries) + 1, last + 1))
        found = [message for message in store.read(range(1, store.next_sequence)) if message]
        missing = {*range(1, last + 1)} - {int(message.payload.split()[0]) for message in found}
        assert all(number % 3 == 0 for number in missing)  # of the topic that is trimmed
        rows = dict(store.rows("numbers"))
        assert rows == ({b"last": b"%d" % (last - last % 3)} if last >= 3 else {})
        batch = Batch()
        batch.append(b"t/1", [b"goes on"], 1, 1)
        assert store.commit(batch).index == last + 1
    finally:
        store.close()


@pytest.fixture(scope="module")
def life(tmp_path_factory) -> tuple[Path, list[str]]:
    directory = tmp_path_factory.mktemp("life")
    trace = directory / "trace"
    strace = ["strace", "-qq", "-xx", "-s", "1000000", "-e", f"trace={TRACED}", "-o", str(trace)]
    script = [sys.executable, "-m", "tests.anomaly.test_power_loss", str(directory / "data")]
    done = subprocess.run(
        [*strace, *script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    if "not permitted" in done.stderr:
        pytest.skip("strace is not allowed here")
    assert done.returncode == 0, done.stderr
    return directory / "data", trace.read_text().splitlines()


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(3, 40))]
)
def test_a_power_failure_at_any_moment_loses_nothing_acknowledged(life, tmp_path, seed):
    data, lines = life
    chance, disk, failures = random.Random(seed), Disk(), 0
    for line in lines:
        if not disk.step(line) or not disk.acknowledged or chance.random() > 0.1:
            continue
        failures += 1
        left = tmp_path / f"{failures}"
        left.mkdir()
        for file in data.iterdir():
            if file.is_file() and file.name not in {DATA_NAME, "lock.mdb"}:
                shutil.copy(file, left)
        (left / DATA_NAME).write_bytes(disk.after_a_failure(chance))
        check(left, disk.acknowledged)
        shutil.rmtree(left)
    assert disk.acknowledged == LIVES * COMMITS
    assert failures > 10


if __name__ == "__main__":
    live(Path(sys.argv[1]))
