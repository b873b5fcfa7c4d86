"""``python -m benchmarks``: run workloads, print the table, write all figures as JSON lines."""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import generator, machine, remote
from benchmarks.brokers import BROKERS, Broker, BrokerError, PenstockBroker, earlier
from benchmarks.comparison import Comparison, compare
from benchmarks.curve import measure_curve, render_curve
from benchmarks.generator import GeneratorError
from benchmarks.growth import measure_growth, render_growth
from benchmarks.rounds import Bench, Contender, Measurement, interleaved
from benchmarks.shapes import FIELD, Peer, Workload
from benchmarks.signing import BareVerification
from benchmarks.table import compact, program, render, render_field
from benchmarks.workloads import GROUPS, UnknownWorkloadError, select

HERE = Path(__file__).parent

Write = Callable[[dict[str, object]], None]


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return the command-line parser."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Penstock and, in turn, what each workload compares it with: "
        "Mosquitto for MQTT, Redis for RESP, the bare library for signatures; in the field all "
        "of them and NATS.",
    )
    add = parser.add_argument
    add(
        "workloads",
        nargs="*",
        default=["core"],
        help=f"ids, letters, {', '.join(GROUPS)} or all (core)",
    )
    add("--list", action="store_true", help="list the workloads and exit")
    add("--rounds", type=int, default=5, help="measurements of each broker per workload (5)")
    add("--seconds", type=float, default=2.0, help="duration of one measurement (2)")
    add("--seed", type=int, default=1, help="seed of random topics and sizes (1)")
    add("--ours", choices=BROKERS, default="penstock", help="the broker under test")
    add("--theirs", choices=(*BROKERS, "none"), help="the peer, instead of each workload's own")
    add("--earlier", type=Path, metavar="DIR", help="the peer: the broker of another checkout")
    add(
        "--remote",
        action="store_true",
        help="as if clients were on another machine: the broker's core receives (needs root)",
    )
    add("--grow-to", type=int, metavar="N", help="also fill a journal up to N messages")
    add("--curve", action="store_true", help="also poll queues of up to a million messages")
    add(
        "--data-dir",
        type=Path,
        default=HERE / "build" / "data",
        help="directory for data, on a disk",
    )
    add("--results", type=Path, help="file for the figures (results/DATE.local.jsonl)")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run; return 1 if a measurement failed or did not add up, 2 if none was possible."""
    options = parse_arguments(arguments)
    try:
        workloads = select(options.workloads)
        if options.list:
            print(list_workloads(workloads))
            return 0
        generator.compiled()
        if options.remote:
            remote.enter(machine.cores())
        return run(options, workloads)
    except (BrokerError, GeneratorError, UnknownWorkloadError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def list_workloads(workloads: list[Workload]) -> str:
    """Print the workloads with the options of mqload."""
    return "\n".join(f"{w.id:6} {w.title:26} {w.driver} {w.load}" for w in workloads)


def run(options: argparse.Namespace, workloads: list[Workload]) -> int:
    """Run all measurements, writing figures as they come; print the table at the end."""
    instead = earlier(options.earlier) if options.earlier else options.theirs
    workloads = [fitted(workload, options.ours, instead) for workload in workloads]
    bench = Bench(
        installed(options.ours),
        peers(instead, workloads),
        options.rounds,
        options.seconds,
        options.seed,
        machine.cores(),
        options.data_dir,
    )
    machine.raise_file_limit()
    path = options.results or HERE / "results" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.local.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lines:

        def write(record: dict[str, object]) -> None:
            lines.write(json.dumps(record) + "\n")
            lines.flush()

        write(heading(bench))
        comparisons = [run_workload(workload, bench, write) for workload in workloads]
        print("\n" + tables(comparisons, bench))
        if options.grow_to:
            run_growth(options.grow_to, bench, write)
        if options.curve:
            run_curve(bench, write)
    print(f"\nfigures: {path}")
    return int(any(comparison.ours.best is None for comparison in comparisons))


def installed(name: str) -> type[Broker]:
    """Return the broker of that name; it must be installed."""
    kind = BROKERS[name]
    if kind.program() is None:
        raise BrokerError(f"{name} is not installed")
    return kind


Instead = str | type[Broker] | None
"""The peer instead of each workload's own: by its name, or another checkout."""


def fitted(workload: Workload, ours: str, instead: Instead) -> Workload:
    """Return the workload for the brokers that were asked for.

    Another broker in our place has the load of its own protocol. A peer of our own kind, instead of
    others, has our load and our settings, and takes no part in their targets.
    """
    workload = workload.of_broker(ours)
    kind = BROKERS.get(instead) if isinstance(instead, str) else instead
    if kind is None or not issubclass(kind, PenstockBroker):
        return workload
    own = Peer(kind.name, has_settings=True)
    return replace(workload, peers=(own,), target=None, floor=None)


def peers(instead: Instead, workloads: list[Workload]) -> dict[str, Contender]:
    """Return the installed peers of the workloads, or one ``instead`` of all."""
    known: dict[str, Contender] = {**BROKERS, "nacl": BareVerification}
    found = {}
    for name in dict.fromkeys(peer.name for workload in workloads for peer in workload.peers):
        if instead == "none":
            continue
        kind = known[instead or name] if isinstance(instead, str | None) else instead
        if kind.program() is None:
            print(f"{kind.name} is not installed: figures without ratios")
        else:
            found[name] = kind
    return found


def tables(comparisons: list[Comparison], bench: Bench) -> str:
    """Return one table for the field and one per other peer, in the order of the workloads."""
    field = [c for c in comparisons if c.workload.group == FIELD]
    parts: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.workload.group != FIELD:
            names = [kind.name for _, kind in bench.peers_of(comparison.workload)]
            parts.setdefault(", ".join(names) or "-", []).append(comparison)
    texts = [render_field(field, bench.ours.name)] if field else []
    texts += [render(part, bench.ours.name, theirs) for theirs, part in parts.items()]
    return "\n\n".join([*texts, versions(bench)])


def versions(bench: Bench) -> str:
    """Return what was compared, in one line."""
    told = {program(kind.name): short(kind) for kind in (bench.ours, *bench.peers.values())}
    return "; ".join(f"{name} {version}" for name, version in told.items())


def short(kind: Contender) -> str:
    """Return the number in what a program says of its version, and the speed if it is ours."""
    said = kind.version()
    number = re.search(r"\d+(\.\d+)+", said)
    speed = said.rpartition(", ")[2] if issubclass(kind, PenstockBroker) else ""
    return ", ".join(filter(None, (number[0] if number else said, speed)))


def heading(bench: Bench) -> dict[str, object]:
    """Return the first line of the results: what is needed to repeat the run."""
    return {
        "type": "run",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "seed": bench.seed,
        "rounds": bench.rounds,
        "seconds": bench.seconds,
        "cores": bench.cores._asdict(),
        "brokers": {k.name: k.version() for k in (bench.ours, *bench.peers.values())},
        "machine": machine.describe(),
    }


def run_workload(workload: Workload, bench: Bench, write: Write) -> Comparison:
    """Run all rounds of one workload, printing each as it ends."""
    measurements = []
    for measurement in interleaved(workload, bench):
        write(measurement.record())
        print(progress(workload, measurement), flush=True)
        measurements.append(measurement)
    comparison = compare(workload, measurements)
    write(comparison.record())
    return comparison


def progress(workload: Workload, measurement: Measurement) -> str:
    """Print one measurement on one line."""
    key, unit, _ = workload.figure
    said = "; ".join(measurement.flaws) or f"{compact(measurement.value(key))} {unit}"
    where = (
        f"{workload.id:5} round {measurement.round} {measurement.side:6} {measurement.broker:12}"
    )
    return f"{where} {said}  (others {measurement.others_cores:.2f} cores)"


def run_growth(longest: int, bench: Bench, write: Write) -> None:
    """Measure the journal as it grows, printing each length as it is reached."""
    points = []
    for point in measure_growth(longest, bench):
        write(point.record())
        points.append(point)
        print(f"{point.stored:>12,} stored: {compact(max(point.per_s))} msg/s", flush=True)
    print("\n" + render_growth(points))


def run_curve(bench: Bench, write: Write) -> None:
    """Measure a work queue at several lengths, printing each."""
    points = []
    for point in measure_curve(bench):
        write(point.record())
        points.append(point)
        name = f"{point.backlog:>9,} waiting, {point.in_flight:>7,} in flight"
        print(f"{name}: {compact(min(point.batch_us))} us", flush=True)
    print("\n" + render_curve(points))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
