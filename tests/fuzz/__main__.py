"""``python -m tests.fuzz [TARGET..] --seconds N``: look for inputs that break a law.

With atheris each target runs in a process of its own, because libFuzzer ends the process that it
runs in. The seconds are shared by the targets. ``--keep`` adds what reached new code to the corpus.
"""

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.live import fuzz_live
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS

HAS_ATHERIS = importlib.util.find_spec("atheris") is not None


def main() -> int:
    arguments = _arguments()
    if arguments.live:
        return fuzz_live(arguments.seconds, arguments.seed)
    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        return 2
    share_s = max(1, arguments.seconds // len(names))
    found = [name for name in names if _fuzz(name, share_s, arguments)]
    print(f"broken: {', '.join(found)}" if found else "no law was broken")
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus")
    parser.add_argument("--live", action="store_true", help="fuzz a running broker instead")
    return parser.parse_args()


def _fuzz(name: str, seconds: int, arguments: argparse.Namespace) -> bool:
    """Fuzz one target; return whether a law was broken."""
    how = "atheris" if HAS_ATHERIS else "mutations"
    print(f"{name}: {seconds} s, {how}, seed {arguments.seed}", flush=True)
    if not HAS_ATHERIS:
        return _mutate(name, seconds, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        return _atheris(name, seconds, arguments, Path(folder))


def _mutate(name: str, seconds: int, seed: int) -> bool:
    chance, seeds, runs = random.Random(seed), corpus.read(name) or [b""], 0
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        data = mutated(chance, seeds)
        runs += 1
        try:
            TARGETS[name](data)
        except Exception as error:  # noqa: BLE001 - that is what we look for
            print(f"  broken by {data.hex()}: {error!r}")
            corpus.write(name, [*corpus.read(name), data])
            return True
    print(f"  {runs} runs")
    return False


# ── atheris ───────────────────────────────────────────────────────────────────────────────────


def _atheris(name: str, seconds: int, arguments: argparse.Namespace, folder: Path) -> bool:
    inputs, crashes = folder / "inputs", folder / "crash-"
    inputs.mkdir()
    for number, data in enumerate(corpus.read(name)):
        (inputs / str(number)).write_bytes(data)
    options = [
        f"-max_total_time={seconds}",
        f"-artifact_prefix={crashes}",
        f"-seed={arguments.seed}",
        f"-max_len={corpus.INPUT_BYTES_MAX}",
        "-rss_limit_mb=2048",
        "-timeout=10",
        "-print_final_stats=1",
    ]
    result = _guided(name, [str(inputs), *options])
    runs = [line for line in result.splitlines() if "number_of_executed_units" in line]
    print("  " + (runs[0].split(":")[-1].strip() + " runs" if runs else "ended early"))
    broken = list(folder.glob("crash-*"))
    if broken:
        print(result[-4_000:])
        corpus.write(name, [*corpus.read(name), *(one.read_bytes() for one in broken)])
    elif arguments.keep:
        found = [one.read_bytes() for one in inputs.iterdir()]
        corpus.write(name, corpus.minimised(TARGETS[name], found))
    return bool(broken)


def _guided(name: str, options: list[str]) -> str:
    command = [sys.executable, "-m", "tests.fuzz.guided", name, *options]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return result.stdout


sys.exit(main())
