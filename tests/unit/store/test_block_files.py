"""Files of blocks: there as a whole or not at all, whatever happens while they are written."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from penstock.errors import StorageDamaged, StorageError, StorageFull
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.fold import Fold, fold
from penstock.store.blocks.format import RAW
from penstock.store.entry import Placement, decode, encode

ROOT = Path(__file__).parents[3]
MESSAGES = 50
SIZE = 4_000


def chunks(number, **options):
    batch = Batch()
    batch.append(b"a", [b"%d" % n + bytes(SIZE) for n in range(MESSAGES)], 1_000, 1)
    entry = decode(encode(batch, 1, 1, [Placement(3, 0)]))
    return fold([entry], Fold(number, 1, 1 + MESSAGES, 1, 1, codec=RAW, **options))


def test_a_block_is_created_opened_listed_and_removed(tmp_path):
    files = BlockFiles(tmp_path)
    assert files.numbers() == []
    summaries = [files.create(number, chunks(number)) for number in (2, 1)]
    assert files.numbers() == [1, 2]
    assert [files.summary(number) for number in (2, 1)] == summaries
    assert files.file(2).stat().st_size == summaries[0].file_bytes
    block = files.open(summaries[0])
    assert list(block.verify()) == []
    files.remove(2)
    files.remove(2)
    assert files.numbers() == [1]
    assert block.located(5)[1].payload.startswith(b"4")  # removed while it is read
    assert oct(files.path.stat().st_mode & 0o777) == "0o700"


def test_a_start_removes_what_has_no_row_and_drafts_and_nothing_else(tmp_path):
    files = BlockFiles(tmp_path)
    for number in (1, 2, 3):
        files.create(number, chunks(number))
    (files.path / f"{4:016x}.77.new").write_bytes(b"half")
    (files.path / "notes.txt").write_bytes(b"somebody's")
    assert files.clean({2}) == [1, 3]
    assert sorted(path.name for path in files.path.iterdir()) == [f"{2:016x}.blk", "notes.txt"]


def test_a_missing_a_cut_and_a_changed_file_are_damage_of_that_block(tmp_path):
    files = BlockFiles(tmp_path)
    summaries = [files.create(number, chunks(number)) for number in range(4)]
    files.file(0).unlink()
    os.truncate(files.file(1), 5_000)
    os.truncate(files.file(2), 0)
    shutil.copy(files.file(3), files.file(2).with_name("spare"))
    for number, fault in ((0, "missing"), (1, "footer"), (2, "cannot be read")):
        with pytest.raises(StorageDamaged, match=f"{number:016x}.*{fault}"):
            files.open(summaries[number])
        with pytest.raises(StorageDamaged, match=f"{number:016x}"):
            files.summary(number)
    (files.path / "spare").rename(files.file(0))
    with pytest.raises(StorageDamaged, match="not the block that was registered"):
        files.open(summaries[0])
    assert list(files.open(summaries[3]).verify()) == []


def test_a_fold_that_fails_leaves_nothing_behind(tmp_path):
    def failing():
        yield from list(chunks(1))[:3]
        raise StorageDamaged("an entry is damaged")

    files = BlockFiles(tmp_path)
    with pytest.raises(StorageDamaged, match="an entry is damaged"):
        files.create(1, failing())
    assert list(files.path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    (tmp_path / "blocks").write_bytes(b"a file")
    with pytest.raises(StorageError, match="could not be written"):
        BlockFiles(tmp_path).create(1, chunks(1))


@pytest.mark.parametrize("limit", [0, 10_000, SIZE * MESSAGES])
def test_a_full_disk_leaves_nothing_behind(tmp_path, limit):
    """In a child: the limit applies to a process."""
    done = script("full", tmp_path, str(limit))
    assert done.stdout == "full\n", done.stderr
    assert list((tmp_path / "blocks").iterdir()) == []
    BlockFiles(tmp_path).create(1, chunks(1))


STRACE = shutil.which("strace")
TRACED = "trace=openat,write,fsync,fdatasync,rename,renameat,renameat2"


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_a_file_is_flushed_before_its_name_and_its_name_before_it_counts(tmp_path):
    trace = tmp_path / "trace"
    done = script("create", tmp_path, before=(STRACE, "-f", "-y", "-o", str(trace), "-e", TRACED))
    if "not permitted" in done.stderr:
        pytest.skip("strace is not allowed here")
    assert done.stdout == "created\n", done.stderr
    calls = [line for line in trace.read_text().splitlines() if "blocks" in line]
    steps = [step for call in calls for step in _steps(call)]
    assert steps == ["write", "flush file", "rename", "flush directory"]


def _steps(call):
    for step, pattern in (
        ("write", r"write\(\d+<.*\.new>"),
        ("flush file", r"f(data)?sync\(\d+<.*\.new>\)"),
        ("rename", r"rename.*\.new.*\.blk"),
        ("flush directory", r"fsync\(\d+<.*/blocks>\)"),
    ):
        if re.search(pattern, call):
            yield step


RENAMES = "rename,renameat,renameat2"


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize(
    ("call", "when", "remains"),
    [
        ("write", 1, ".new"),
        ("fsync", 1, ".new"),
        (RENAMES, 1, ".new"),
        ("fsync", 2, ".blk"),  # of the directory: the name is there, and may be lost
        ("write", 2, ".blk"),  # of the answer
    ],
)
def test_a_kill_at_a_system_call_leaves_a_whole_block_or_a_draft(tmp_path, call, when, remains):
    (tmp_path / "blocks").mkdir()
    inject = f"inject={call}:signal=KILL:when={when}"
    strace = (STRACE, "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", inject)
    done = script("create", tmp_path, before=strace)
    if "not permitted" in done.stderr:
        pytest.skip("strace is not allowed here")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    files = BlockFiles(tmp_path)
    assert [path.suffix for path in files.path.iterdir()] == [remains]
    for number in files.numbers():
        assert list(files.open(files.summary(number)).verify()) == []
    files.clean(set())
    assert list(files.path.iterdir()) == []


def script(*words, before=()):
    command = [*before, sys.executable, __file__]
    return subprocess.run(
        [*command, *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=55,
    )  # fmt: skip


def main(what, path, limit="0"):
    if what == "full":
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), hard))
    # one write: what is tested is the order of the others
    whole = b"".join(chain(chunks(1)))
    try:
        BlockFiles(Path(path)).create(1, [whole])
    except StorageFull:
        print("full")
    else:
        print("created")


if __name__ == "__main__":
    main(*sys.argv[1:])
