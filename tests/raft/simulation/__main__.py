"""Run one seed or a campaign of many: ``python -m tests.raft.simulation --help``."""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

from tests.raft.simulation.verdict import PACKAGE, Verdict, run

STORY_LINES = 60
PROGRESS_S = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.raft.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of many")
    parser.add_argument("--steps", type=int, default=1000, help="steps with faults, per seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds; on all cores")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--package", default=PACKAGE, help="where the core is loaded from")
    parser.add_argument(
        "--bold", action="store_true", help="make changes that depend on the node they are about"
    )
    options = parser.parse_args()
    if options.seeds == 1:
        tell = print if options.trace else None
        verdict = run(options.seed, options.steps, options.package, tell, is_bold=options.bold)
        report(verdict, lines=0 if options.trace else STORY_LINES)
        print(summary(verdict.seen))
        return 0 if verdict.is_ok else 1
    return campaign(range(options.seed, options.seed + options.seeds), options)


def campaign(seeds: range, options: argparse.Namespace) -> int:
    """Run many seeds on all cores; say now and then how far it is, and at once what fails."""
    one = partial(run, steps=options.steps, package=options.package, is_bold=options.bold)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        seen, failed = _gather(pool.imap_unordered(one, seeds, chunksize=4), len(seeds))
    print(summary(seen))
    print(f"{len(seeds)} seeds of {options.steps} steps: {len(failed)} failed {sorted(failed)}")
    return 1 if failed else 0


def _gather(verdicts: Iterable[Verdict], count: int) -> tuple[Counter[str], list[int]]:
    seen: Counter[str] = Counter()
    failed: list[int] = []
    began = told = time.monotonic()
    for done, verdict in enumerate(verdicts, 1):
        seen += verdict.seen
        if not verdict.is_ok:
            failed.append(verdict.seed)
            report(verdict, lines=0)
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(
                f"{done} of {count} seeds, {told - began:.0f} s, {len(failed)} failed", flush=True
            )
    return seen, failed


def report(verdict: Verdict, lines: int) -> None:
    if verdict.is_ok:
        return
    print("\n".join(verdict.story[-lines:] if lines else ()))
    print(f"seed {verdict.seed} failed: {verdict.fault}\n  again: {verdict.command}", flush=True)


def summary(seen: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(seen.items()))


if __name__ == "__main__":
    sys.exit(main())
