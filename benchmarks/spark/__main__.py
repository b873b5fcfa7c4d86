"""``python -m benchmarks.spark``: run the cases, print their figures and goals."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.figures import Figure, render
from benchmarks.spark.cases import CASES
from benchmarks.spark.ground import Ground

BUILD = Path(__file__).parents[1] / "build" / "data"


def main(arguments: list[str]) -> int:
    """Run; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    add = parser.add_argument
    add("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}; default: all")
    add("--rows", type=int, default=4_000_000, help="rows to read (4000000)")
    add("--rounds", type=int, default=5, help="measurements per case (5), after a warm-up")
    add("--master", default="local[2]", help="where the jobs run (local[2])")
    add("--data-dir", type=Path, default=BUILD, help="directory for data, on a disk")
    add("--json", action="store_true", help="print figures as JSON lines")
    options = parser.parse_args(arguments)
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    figures: list[Figure] = []
    with Ground.ready(options.data_dir, options.rounds, options.master) as ground:
        for name in options.cases:
            print(f"{name}: {(CASES[name].__doc__ or '').splitlines()[0]}", flush=True)
            figures += CASES[name](ground, options.rows)
    lines = "\n".join(json.dumps(figure.record()) for figure in figures)
    print(lines if options.json else "\n" + render(figures))
    return int(any(figure.is_met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
