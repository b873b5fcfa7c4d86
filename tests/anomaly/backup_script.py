"""Work on a data directory, killed at each of its steps; and the check of what it left behind.

Run as ``python -m tests.anomaly.backup_script backup|restore|compact|convert DIRECTORY FIRST
STRIDE``. For n =
FIRST, FIRST + STRIDE … a fork does it and is killed at its n-th step on the disk; another fork
checks the result and does it again to the end. One line per n: exit codes of the two, until a run
completes.
"""

import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from penstock.obs.log import configure
from penstock.store.copies.backup import back_up
from penstock.store.copies.restore import restore
from penstock.store.maintenance import compact, convert
from penstock.store.verify import verify
from tests.anomaly.store_script import KILLED, Killer, in_a_fork, open_store, scripted_batch
from tests.anomaly.test_earlier_data import EARLIER, _extract


class Steps(Killer):
    """Also counts what is done to files and folders."""

    def watch(self) -> None:
        super().watch()
        os.link = self.watched(os.link)
        os.open = self.watched(os.open)
        Path.mkdir = self.watched(Path.mkdir)
        shutil.rmtree = self.watched(shutil.rmtree)

    def progress(self, _done: int, _of: int) -> None:
        self.step()


def messages(path: Path) -> list[object]:
    store = open_store(path)
    try:
        topics = [topic.name for topic in store.topics()]
        return [
            (topic, message.sequence, message.offset, bytes(message.payload))
            for topic in topics
            for message in store.read_topic(topic, 0, 10**6, 10**9).messages()
        ]
    finally:
        store.close()


def grow(path: Path) -> None:
    """Add a block or two, and a tail."""
    store = open_store(path)
    for number in range(3):
        batch = scripted_batch(store)
        batch.append(b"large", [os.urandom(1_500)], 1, 1)
        batch.checkpoint = store.next_index
        store.commit(batch)
        if number == 1:
            store.fold()
    store.close()


def prepared(directory: Path) -> tuple[Path, Path]:
    """A store and a backup of it, which continues an earlier one."""
    data, first = directory / "data", directory / "first"
    grow(data)
    back_up(data, first, None)
    grow(data)
    back_up(data, directory / "second", first)
    return data, directory / "second"


def check_backup(data: Path, folder: Path, first: Path) -> None:
    """There is no file, or a complete one; and another backup can be made."""
    file = folder / "third"
    if not file.exists():
        back_up(data, file, first)
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    assert names == ["first", "third"], names
    restore(file, folder / "restored")
    assert messages(folder / "restored") == messages(data)


def check_restore(data: Path, target: Path, file: Path) -> None:
    """There is nothing, or everything; and nothing is left of another attempt."""
    if not target.exists():
        restore(file, target)
    assert not [path for path in target.parent.iterdir() if path.name.startswith(".")]
    assert verify(target).is_sound
    assert messages(target) == messages(data)


def check_work(path: Path, expected: list[object], work: Callable[[Path], object]) -> None:
    """The store has what it had, at once and after the work was done to its end."""
    for _ in range(2):
        assert messages(path) == expected
        assert verify(path).is_sound
        work(path)
    assert not list(path.glob("copy.*"))


def earlier(directory: Path) -> Path:
    """A data directory that is to be converted."""
    data = directory / "earlier"
    data.mkdir()
    with tarfile.open(EARLIER / "before_work_queues.tar.xz") as archive:
        _extract(archive, data)
    return data


class Campaign:
    """What to do, and what must hold, by name."""

    def __init__(self, what: str, directory: Path) -> None:
        self.directory = directory
        self.what = what
        if what in {"backup", "restore"}:
            self.data, self.second = prepared(directory)
        else:
            self.data = earlier(directory) if what == "convert" else prepared(directory)[0]
            shutil.copytree(self.data, directory / "read")
            self.expected = messages(directory / "read")
        self.work = convert if what == "convert" else compact

    def prepare(self, folder: Path) -> None:
        folder.mkdir()
        if self.what == "backup":
            os.link(self.directory / "first", folder / "first")
        elif self.what != "restore":
            shutil.copytree(self.data, folder / "data")

    def run(self, folder: Path, steps: Steps) -> None:
        if self.what == "backup":
            back_up(self.data, folder / "third", folder / "first", steps.progress)
        elif self.what == "restore":
            restore(self.second, folder / "data", steps.progress)
        else:
            self.work(folder / "data", steps.progress)

    def check(self, folder: Path) -> None:
        if self.what == "backup":
            check_backup(self.data, folder, folder / "first")
        elif self.what == "restore":
            check_restore(self.data, folder / "data", self.second)
        else:
            check_work(folder / "data", self.expected, self.work)


def main(what: str, directory: Path, first: int, stride: int) -> None:
    campaign = Campaign(what, directory)
    for number in range(first, 10_000, stride):
        folder = directory / f"{number}"
        campaign.prepare(folder)

        def run(number: int = number, folder: Path = folder) -> None:
            steps = Steps(number)
            steps.watch()
            campaign.run(folder, steps)

        ends = in_a_fork(run), in_a_fork(lambda folder=folder: campaign.check(folder))
        print(number, *ends, flush=True)
        if ends != (KILLED, 0):
            return
        shutil.rmtree(folder)


if __name__ == "__main__":
    configure("error", "auto")
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
