"""What the store costs: appending, encoding, committing, reading.

Run as ``python -m benchmarks.micro_store``. Prints one line per operation: the best of several
rounds, because noise only adds time.
"""

import sys
import tempfile
import time
from pathlib import Path

from penstock.store.batch import Batch
from penstock.store.entry import Placement, decode, encode
from penstock.store.lmdb_store import LmdbStore

ROUNDS = 7
PAYLOAD = b"x" * 64


def best(job, times: int, rounds: int = ROUNDS) -> float:
    """Return seconds per unit of work, if one call of ``job`` does ``times`` units."""
    fastest = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        job()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / times


def report(name: str, seconds: float, unit: str) -> None:
    print(f"{name:<58}{seconds * 1e6:>12.3f} us per {unit:<10}{1 / seconds:>16,.0f} /s")


def filled(calls: int, topics: int, run: int = 1) -> Batch:
    batch = Batch()
    names = [b"site/%d/temperature" % number for number in range(topics)]
    payloads = [PAYLOAD] * run
    for number in range(calls):
        batch.append(names[number % topics], payloads, 1_000, 1)
    return batch


def batches() -> None:
    for topics in (1, 100, 10_000):
        per_call = best(lambda topics=topics: filled(20_000, topics), 20_000)
        report(f"append, one payload, {topics:,} topics", per_call, "call")
    report("append, runs of 100 payloads", best(lambda: filled(2_000, 10, 100), 200_000), "payload")
    for calls, topics, run in ((100, 1, 1), (65_536, 1, 1), (65_536, 100, 1), (10_000, 10_000, 1)):
        batch = filled(calls, topics, run)
        places = [Placement(number, 0) for number in range(topics)]
        seconds = best(lambda b=batch, p=places: encode(b, 1, 1, p), calls)
        report(f"encode {calls:,} x 64 B, {topics:,} topics", seconds, "message")
        data = encode(batch, 1, 1, places)
        seconds = best(lambda d=data: decode(d), calls)
        report(f"decode and verify {calls:,} x 64 B, {topics:,} topics", seconds, "message")


def commits(store: LmdbStore) -> None:
    for name, calls, topics, times in (
        ("commit 1 x 64 B", 1, 1, 50),
        ("commit 100 x 64 B, 1 topic", 100, 1, 50),
        ("commit 100 x 64 B, 100 topics", 100, 100, 50),
        ("commit 65,536 x 64 B (4 MiB), 1 topic", 65_536, 1, 4),
        ("commit 65,536 x 64 B (4 MiB), 100 topics", 65_536, 100, 4),
        ("commit 10,000 x 64 B, 10,000 topics", 10_000, 10_000, 4),
    ):
        batch = filled(calls, topics)
        fsync = []

        def job(batch=batch, times=times, fsync=fsync) -> None:
            for _ in range(times):
                fsync.append(store.commit(batch).fsync_s)

        report(name, best(job, times), "commit")
        report(
            "  of which LMDB's commit (write and sync), median",
            sorted(fsync)[len(fsync) // 2],
            "commit",
        )


def reads(store: LmdbStore) -> None:
    newest = store.next_sequence - 1
    scattered = range(1, newest, max(newest // 1_000, 1))
    report(
        "read, scattered sequences", best(lambda: store.read(scattered), len(scattered)), "message"
    )
    together = range(newest // 2, newest // 2 + 1_000)
    report("read, 1,000 sequences in a row", best(lambda: store.read(together), 1_000), "message")
    topic = b"site/0/temperature"
    found = store.read_topic(topic, 0, 10**6, 64 * 1024 * 1024)
    seconds = best(lambda: store.read_topic(topic, 0, 10**6, 64 * 1024 * 1024), found.count)
    report(f"read_topic, columns, {found.count:,} rows", seconds, "row")
    last = store.topic(topic).next_offset - 10
    report(
        "read_topic, the last 10 rows",
        best(lambda: store.read_topic(topic, last, 10, 10**6), 1),
        "call",
    )


def starts(path: Path) -> None:
    def job() -> None:
        LmdbStore(path).close()

    report("open and close", best(job, 1, 3), "start")


def main() -> None:
    print(f"Python {sys.version.split()[0]}, payloads of 64 B, best of {ROUNDS}")
    batches()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        store = LmdbStore(Path(directory) / "data")
        commits(store)
        reads(store)
        print(store.size())
        store.close()
        starts(Path(directory) / "data")


if __name__ == "__main__":
    main()
