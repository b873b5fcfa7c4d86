"""A scripted run of a store, to be killed anywhere; and the check of what it left behind.

Run as ``python -m tests.anomaly.store_script live DIRECTORY`` it runs once and writes an
acknowledgement to standard output after each commit, as a broker would. As ``… campaign
DIRECTORY FIRST STRIDE`` it forks one such run per n = FIRST, FIRST + STRIDE …, kills it at its
n-th step on the disk, checks the result in another fork, and prints one line per run, until a run
reaches its end.
"""

import os
import sys
import traceback
from pathlib import Path

import lmdb
import structlog

from penstock.model.message import Message
from penstock.store import unsettled
from penstock.store.batch import Batch
from penstock.store.blocks import tail_folding
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.retention import engine as retention
from penstock.store.retention import total_limit
from penstock.store.store import (
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionRules,
    TopicRetentionRule,
)
from penstock.store.verify import verify

MAP_BYTES = 128 * 1024
BLOCK_BYTES = 2_000
KILLED = 77
ERASED = b"t/1"
DROPPED = b"t/2"
RULES = RetentionRules(
    rules=(TopicRetentionRule(lambda topic: topic == b"short", RetentionLimits(messages_max=3)),)
)


def live(path: Path, acknowledge) -> None:
    """Create a store, commit, delete, trim, drop, retain, make room, open: a bit of everything."""
    tail_folding.TOPICS_PER_STEP = tail_folding.ENTRIES_PER_STEP = 2  # slices within a short run
    retention.SLICE_STEPS = total_limit.SHRINK_GROUPS = 3
    unsettled.WORTH_RECORDS = 0
    for _ in range(2):
        store = open_store(path)
        for number in range(9):
            batch = scripted_batch(store)
            commit = store.commit_small(batch) if number % 3 else store.commit(batch)
            acknowledge(f"{commit.base_sequence} {commit.count}\n")
            if number % 3 == 0:
                store.prepare()  # folds a little
        remove(store, acknowledge)
        drop(store, acknowledge)
        store.retain(RetentionRequest(RULES, 0, 10**9))
        store.fold()
        store.retain(RetentionRequest(RULES, 0, 10**9))
        make_room(store, acknowledge)
        store.fold()
        store.close()


def open_store(path: Path) -> LmdbStore:
    """A store that folds in this thread, a few entries at a time."""
    return LmdbStore(path, MAP_BYTES, folder=inline_folder, block_bytes=BLOCK_BYTES)


def remove(store: LmdbStore, acknowledge) -> None:
    """Delete the ends of one topic, then trim what is between; print when each is done."""
    oldest, *between, newest = store.read_topic(ERASED, 0, 10**6, 10**9).messages()
    assert store.delete(ERASED, [oldest.offset, newest.offset]) == 2
    acknowledge(f"gone {oldest.sequence}\ngone {newest.sequence}\n")
    assert store.trim(ERASED, newest.offset) == len(between)
    acknowledge("".join(f"gone {message.sequence}\n" for message in between))


def drop(store: LmdbStore, acknowledge) -> None:
    """Drop a topic, recreate it immediately, drop that too, recreate it later."""
    for _ in range(2):
        gone = [message.sequence for message in store.read_topic(DROPPED, 0, 99, 9_999).messages()]
        assert gone
        acknowledge("".join(f"doomed {sequence}\n" for sequence in gone))
        batch = scripted_batch(store)
        batch.drop(DROPPED)
        batch.append(DROPPED, [b"%d" % (store.next_sequence + batch.count)], 1, 1)
        commit = store.commit(batch)
        acknowledge(f"{commit.base_sequence} {commit.count}\n")
        acknowledge("".join(f"gone {sequence}\n" for sequence in gone))


def make_room(store: LmdbStore, acknowledge) -> None:
    """Remove the oldest block, in slices, but for a topic that is kept; that is folded again."""
    blocks = store._blocks.current
    summary = blocks.blocks[0].row.summary
    found = store.read(range(summary.base_sequence, summary.end_sequence))
    oldest = [message.sequence for message in found if message and message.topic != DROPPED]
    acknowledge("".join(f"oldest {sequence}\n" for sequence in oldest))
    request = RetentionRequest(RULES, 0, 1, ProtectedTopics(kept=(DROPPED,)))
    goal = sum(total_limit.bytes_left(each.row) for each in blocks.blocks) - 1
    while store._remove(request, goal).more:
        pass
    acknowledge("".join(f"gone {sequence}\n" for sequence in oldest))


def scripted_batch(store: LmdbStore) -> Batch:
    """Some messages, whose payloads begin with their own sequence; an event, a row, a mark."""
    batch = Batch()
    number = store.next_index
    for sequence in range(store.next_sequence, store.next_sequence + number % 4 + 1):
        topic = b"short" if sequence % 3 == 0 else b"t/%d" % (sequence % 5)
        batch.append(topic, [b"%d " % sequence + b"x" * 300 * (number % 3)], sequence, 1)
    batch.add_event(("entry", number))
    batch.add_row("numbers", b"last", b"%d" % number)
    if number % 4 == 0:
        batch.checkpoint = number - 2
    return batch


def check(path: Path, acknowledged: str) -> None:
    """Everything acknowledged is there, once, in order; the rest is all or nothing."""
    store = open_store(path)
    end = 1
    lines = [line.split() for line in acknowledged.splitlines()]
    for base, count in ((int(a), int(b)) for a, b in lines if a.isdigit()):
        assert base == end, f"sequence {base} was given where {end} was due"
        end = base + count
    assert store.next_sequence >= end, f"{end} was acknowledged, {store.next_sequence} is next"
    doomed, oldest = (
        {int(sequence) for word, sequence in lines if word == kind} for kind in ("doomed", "oldest")
    )
    check_messages(store, doomed, oldest)
    gone = [int(sequence) for word, sequence in lines if word == "gone"]
    assert store.read(gone) == [None] * len(gone), f"of {gone} some came back"
    check_rows(store)
    store.commit(scripted_batch(store))
    store.close()
    report = verify(path)
    assert report.is_sound, report.faults


def check_messages(store: LmdbStore, doomed: set[int], oldest: set[int]) -> None:
    for sequence, message in enumerate(store.read(range(1, store.next_sequence)), start=1):
        if message is None:
            is_limited = sequence % 3 == 0 or sequence % 5 == 1
            may_be_gone = is_limited or sequence in doomed | oldest
            assert may_be_gone, f"sequence {sequence} is gone"
        else:
            assert message.payload.split()[0] == b"%d" % sequence
    seen = []
    for topic in store.topics():
        messages = list(store.read_topic(topic.name, 0, 10**6, 10**9).messages())
        offsets = {message.offset for message in messages}
        assert len(offsets) == len(messages) == topic.count
        assert offsets <= set(range(topic.first_offset, topic.next_offset))
        assert topic.name == ERASED or not topic.deleted
        seen += [message.sequence for message in messages]
        check_life(topic.name, messages, doomed)
    assert len(seen) == len(set(seen)) == store.size().messages


def check_life(topic: bytes, messages: list[Message], doomed: set[int]) -> None:
    """A topic that was being dropped is either complete or a new one, from offset 0."""
    left = [message.sequence in doomed for message in messages]
    assert topic != DROPPED or left == sorted(left, reverse=True)
    assert topic != DROPPED or messages[0].offset == 0


def check_rows(store: LmdbStore) -> None:
    """Events and rows belong to the same commit as the messages."""
    entries = list(store.replay())
    last = store.next_index - 1
    assert [entry.index for entry in entries] == list(range(last - len(entries) + 1, last + 1))
    assert all(entry.events[0][1] == ("entry", entry.index) for entry in entries)
    if last:
        assert dict(store.rows("numbers")) == {b"last": b"%d" % last}


class Killer:
    """Counts steps on the disk and ends the process at the n-th, before or after it is taken."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(KILLED)

    def watched(self, function):
        def call(*arguments, **options):
            self.step()
            result = function(*arguments, **options)
            self.step()
            return result

        return call

    def watch(self) -> None:
        """Stand between the store and LMDB, and before the marker file."""
        os.fsync = self.watched(os.fsync)
        os.fdatasync = self.watched(os.fdatasync)
        os.pwrite = self.watched(os.pwrite)
        Path.rename = self.watched(Path.rename)
        Path.unlink = self.watched(Path.unlink)
        opened = lmdb.open
        lmdb.open = lambda *a, **o: Watched(self.watched(opened)(*a, **o), self, {"begin"})


class Watched:
    """An environment whose write transactions are watched, or such a transaction."""

    def __init__(self, inner, killer: Killer, names: set[str]) -> None:
        self._inner = inner
        self._killer = killer
        self._names = names

    def __getattr__(self, name: str):
        value = getattr(self._inner, name)
        if name == "begin" and name in self._names:
            return self._begin
        return self._killer.watched(value) if name in self._names else value

    def _begin(self, **options):
        transaction = self._inner.begin(**options)
        if not options.get("write"):
            return transaction
        return Watched(transaction, self._killer, {"put", "delete", "commit"})


def in_a_fork(job) -> int:
    """Run ``job`` in a fork; return its exit code."""
    child = os.fork()
    if child == 0:
        # a start says that it repeated a commit, and the output is read
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
        try:
            job()
        except BaseException:  # noqa: BLE001 - whatever it was, the parent must see it
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def campaign(directory: Path, first: int, stride: int) -> None:
    for steps in range(first, 10_000, stride):
        path, log = directory / f"{steps}", directory / f"{steps}.log"

        def life(path=path, log=log, steps=steps) -> None:
            Killer(steps).watch()
            with log.open("w", buffering=1) as file:
                live(path, file.write)

        end = in_a_fork(life)
        sound = in_a_fork(lambda path=path, log=log: check(path, log.read_text()))
        print(f"{steps} {end} {sound}", flush=True)
        if end != KILLED or sound:
            return


def main() -> None:
    command, directory = sys.argv[1], Path(sys.argv[2])
    if command == "campaign":
        campaign(directory, *map(int, sys.argv[3:]))
    elif command == "check":
        check(directory, sys.stdin.read())
    else:
        live(directory, lambda line: os.write(1, line.encode()))


if __name__ == "__main__":
    main()
