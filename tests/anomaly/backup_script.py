"""A backup or a restore, killed at each of its steps; and the check of what it left behind.

Run as ``python -m tests.anomaly.backup_script backup|restore DIRECTORY FIRST STRIDE``. For n =
FIRST, FIRST + STRIDE … a fork does it and is killed at its n-th step on the disk; another fork
checks the result and does it again to the end. One line per n: exit codes of the two, until a run
completes.
"""

import os
import shutil
import sys
from pathlib import Path

from penstock.store.backup import back_up
from penstock.store.restore import restore
from penstock.store.verify import verify
from tests.anomaly.store_script import KILLED, Killer, in_a_fork, open_store, scripted_batch


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


def campaign(what: str, directory: Path, first: int, stride: int) -> None:
    data, second = prepared(directory)
    for number in range(first, 10_000, stride):
        folder = directory / f"{number}"
        folder.mkdir()
        os.link(directory / "first", folder / "first")

        def run(number: int = number, folder: Path = folder) -> None:
            steps = Steps(number)
            steps.watch()
            if what == "backup":
                back_up(data, folder / "third", folder / "first", steps.progress)
            else:
                restore(second, folder / "data", steps.progress)

        def check(folder: Path = folder) -> None:
            if what == "backup":
                check_backup(data, folder, folder / "first")
            else:
                check_restore(data, folder / "data", second)

        ends = in_a_fork(run), in_a_fork(check)
        print(number, *ends, flush=True)
        if ends != (KILLED, 0):
            return
        shutil.rmtree(folder)


if __name__ == "__main__":
    campaign(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
