"""``python -m benchmarks.cluster``: measure three nodes, or one against an earlier revision.

::

    python -m benchmarks.cluster                                   # all cases of three nodes
    python -m benchmarks.cluster produce failover --rounds 3       # some of them
    python -m benchmarks.cluster produce qos1 --delay-ms 0 10      # near, and 20 ms away and back
    python -m benchmarks.cluster produce --earlier ../before       # both revisions, in turn
    python -m benchmarks.cluster single --earlier ../before        # a checkout of that revision

Each round has its own cluster, which runs all its loads one after the other. Rates are the best of
the rounds, with all of them listed; latencies and times are medians.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from benchmarks import generator, machine
from benchmarks.brokers import BrokerError, PenstockBroker, earlier
from benchmarks.comparison import Comparison, compare
from benchmarks.figures import Figure, render
from benchmarks.generator import GeneratorError
from benchmarks.rounds import Bench, Measurement, measure
from benchmarks.shapes import Peer, Target, Workload
from benchmarks.table import render as render_comparisons
from benchmarks.trio import Node, Trio
from benchmarks.workloads import select
from penstock.client import connect
from penstock.errors import PenstockError

BUILD = Path(__file__).parent / "build" / "data"

FAILOVERS_PER_ROUND = 3

SINGLE = ("Q1", "Q32", "Q50", "QM", "QL", "E", "F", "A1", "R1w", "X1", "X50", "BP1", "BP64", "ACK")
"""Workloads for comparing revisions: all that wait for the disk, and some others."""

AS_FAST = Target(0.97)
"""Tolerance: two runs of the same revision differ by up to this."""


@dataclass(frozen=True, slots=True)
class Case:
    """A load on three nodes, as options of the generator, with its figure and goal."""

    id: str
    what: str
    load: str
    key: str = "acked_per_s"
    unit: str = "msg/s"
    goal: str = ""
    on_follower: bool = False
    beside: tuple[str, ...] = ()
    """Further figures to show."""

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.key.endswith("_per_s")


LOADS = (
    Case("produce", "64 in flight, 100 B", "-m queue-produce -s 100 -w 64", goal="10000"),
    Case("many", "batches of 64, 8 at a time", "-m queue-produce -s 100 -k 64 -w 8", goal="60000"),
    Case("crowd", "50 connections x 32", "-m queue-produce -s 100 -P 50"),
    Case("wide", "64 connections x 64", "-m queue-produce -s 100 -P 64 -w 64"),
    Case("many64", "batches of 64, 64 at a time", "-m queue-produce -s 100 -k 64 -w 64"),
    Case(
        "latency",
        "1,000 a second",
        "-m queue-produce -s 100 -w 1000 -r 1000 -z",
        "p50_us",
        "us p50",
        "<5000",
        beside=("p99_us",),
    ),
    Case("sequential", "one at a time", "-m queue-produce -s 100 -w 1", "p50_us", "us p50"),
    Case("mqtt", "QoS 1 at a follower", "-q 1 -w 100 -S 0 -s 100", on_follower=True),
    Case("qos1", "QoS 1, 50 clients, one at a time", "-q 1 -w 1 -S 0 -s 100 -P 50"),
    Case("qos1f", "the same at a follower", "-q 1 -w 1 -S 0 -s 100 -P 50", on_follower=True),
)
CASES = (*(case.id for case in LOADS), "failover")


@dataclass(slots=True)
class Findings:
    """The figures of every round."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Record a figure of this round."""
        self.values.setdefault(name, []).append(value)


# ── Three nodes


def run_load(case: Case, trio: Trio, seconds: float, found: Findings) -> None:
    """Run one load on a cluster; record its figures and the CPU time of each node."""
    leader = trio.leader()
    entry = trio.follower() if case.on_follower else leader
    costs = [-node.cpu_s for node in trio.nodes]
    load = generator.run(
        f"{case.load} -x {case.id} -d {seconds:g} -W {seconds + 60:.0f}",
        port=entry.port,
        broker_pid=leader.pid,
        seed=1,
    )
    if load.flaws:
        raise BrokerError(f"{case.id}: {', '.join(load.flaws)}")
    costs = [cost + node.cpu_s for cost, node in zip(costs, trio.nodes, strict=True)]
    for key in (case.key, *case.beside):
        found.add(f"{case.id} {key}", load[key])
    us = 1e6 / max(load["acked"], 1)
    lead = costs[trio.nodes.index(leader)]
    found.add(f"{case.id} leader", lead * us)
    found.add(f"{case.id} follower", (sum(costs) - lead) / (len(costs) - 1) * us)
    trio.settled()


def fail_over(trio: Trio, found: Findings) -> None:
    """Kill the leader; measure the time until a client gets the next acknowledgement."""
    with connect(trio.addresses, timeout_s=60) as client:
        client.produce("failover", b"before")
        for _ in range(FAILOVERS_PER_ROUND):
            leader = trio.leader()
            started = time.perf_counter()
            leader.kill()
            client.produce("failover", b"after")
            found.add("failover", time.perf_counter() - started)
            leader.start(None)
            trio.settled()


def run_cluster(options: argparse.Namespace) -> list[Figure]:
    """Run all rounds of the requested cases: each delay and each revision in every round."""
    kinds: dict[str, type[Node]] = {"": Node}
    if options.earlier is not None:
        fields = {"launcher": earlier(options.earlier).launcher}
        kinds["earlier"] = type("EarlierNode", (Node,), fields)
    runs = [(delay_ms, name) for delay_ms in options.delay_ms for name in kinds]
    found = {run: Findings() for run in runs}
    for round_ in range(1, options.rounds + 1):
        for run in runs if round_ % 2 else runs[::-1]:
            delay_ms, name = run
            with Trio.running(options.data_dir, delay_ms, kinds[name]) as trio:
                run_cases(trio, options, found[run])
        print(f"round {round_} of {options.rounds}", flush=True)
    return [figure for run in runs for figure in figures_of(found[run], _words(*run))]


def _words(delay_ms: float, name: str) -> str:
    """Return what a run differs in, for the table."""
    words = [f"{2 * delay_ms:g} ms away and back"] if delay_ms else []
    return "".join(f", {word}" for word in [*words, name] if word)


def run_cases(trio: Trio, options: argparse.Namespace, found: Findings) -> None:
    """Run the requested cases on one cluster."""
    for case in LOADS:
        if case.id in options.cases:
            run_load(case, trio, options.seconds, found)
    if "failover" in options.cases:
        fail_over(trio, found)


def figures_of(found: Findings, where: str = "") -> Iterator[Figure]:
    """Return the lines of the table."""
    for case in LOADS:
        values = found.values.get(f"{case.id} {case.key}")
        if values is None:
            continue
        best = max(values) if case.is_rate else median(values)
        goal = "" if where else case.goal
        yield Figure(case.id, case.what + where, best, case.unit, goal, tuple(values))
        for key in case.beside:
            told = found.values[f"{case.id} {key}"]
            yield Figure("", "", median(told), key.replace("_us", " us"), "", tuple(told))
        for who in ("leader", "follower"):
            told = found.values[f"{case.id} {who}"]
            yield Figure("", f"CPU of {who}", median(told), "us/msg", "", tuple(told))
    times = found.values.get("failover")
    if times is not None:
        what = "leader killed, to an acknowledgement" + where
        yield Figure("failover", what, max(times), "s, the worst", "<3", tuple(times))


# ── One node, against an earlier revision


def run_single(options: argparse.Namespace) -> list[Comparison]:
    """Run each workload on both revisions, alternating; the order changes every round."""
    then = earlier(options.earlier)
    now = type("Now", (earlier(Path(__file__).parents[1]),), {"name": "now"})
    bench = Bench(
        now,
        {"earlier": then},
        options.rounds,
        options.seconds,
        1,
        machine.cores(),
        options.data_dir,
    )
    comparisons = []
    for workload in select(options.workloads):
        ours = replace(workload, peers=(Peer("earlier"),), target=AS_FAST, floor=None)
        if ours.figure.smaller_is_better:
            ours = replace(ours, target=Target(1 / AS_FAST.bound))
        comparisons.append(compare(ours, _in_turn(ours, bench, now, then)))
        print(render_comparisons(comparisons[-1:], "now", "earlier").splitlines()[-1], flush=True)
    return comparisons


def _in_turn(
    workload: Workload, bench: Bench, now: type[PenstockBroker], then: type[PenstockBroker]
) -> Iterator[Measurement]:
    sides = [("ours", now), ("theirs", then)]
    for round_ in range(1, bench.rounds + 1):
        for side, kind in sides if round_ % 2 else sides[::-1]:
            yield measure(workload, kind, bench, side=side, round_=round_)


# ── The command


def main(arguments: list[str]) -> int:
    """Run; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}, single")
    add("--rounds", type=int, default=5, help="measurements per case (5; single: 7)")
    add("--seconds", type=float, default=4.0, help="duration of one measurement (4)")
    add("--data-dir", type=Path, default=BUILD, help="directory for data, on a disk")
    add("--json", action="store_true", help="print figures as JSON lines")
    add("--earlier", type=Path, help="a checkout of the revision to compare with")
    add(
        "--delay-ms",
        type=float,
        nargs="+",
        default=[0.0],
        help="one way between two nodes, of three; several are measured in turn (0)",
    )
    add("--workloads", nargs="+", default=SINGLE, help=f"single: {' '.join(SINGLE)}")
    options = parser.parse_args(arguments)
    unknown = set(options.cases) - {*CASES, "single"}
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    if "single" in options.cases and options.earlier is None:
        parser.error("single needs --earlier DIRECTORY, a checkout of what to compare with")
    try:
        generator.compiled()
        return max([run(options) for run in _parts(options)], default=0)
    except (BrokerError, GeneratorError, PenstockError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2


def _parts(options: argparse.Namespace) -> Iterator[Callable[[argparse.Namespace], int]]:
    if "single" in options.cases:
        yield _single
    if set(options.cases) - {"single"}:
        yield _cluster


def _single(options: argparse.Namespace) -> int:
    comparisons = run_single(options)
    if options.json:
        print("\n".join(json.dumps(comparison.record()) for comparison in comparisons))
    else:
        print("\n" + render_comparisons(comparisons, "now", "earlier"))
    return int(any(comparison.met.startswith("no") for comparison in comparisons))


def _cluster(options: argparse.Namespace) -> int:
    figures = run_cluster(options)
    lines = "\n".join(json.dumps(figure.record()) for figure in figures)
    print(lines if options.json else "\n" + render(figures))
    return int(any(figure.is_met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
