"""``python -m benchmarks.clients``: our clients beside the load generator, and beside MQTT.js.

Each part is one load. In each round every contender runs once, on a broker of its own that has
just started; the ratio is that of runs of the same round, to the first contender: ``mqload``, a C
program that does the same. Everything is on the broker's disk before it counts. The broker has one
core, the client the other. ``imports`` is the time that a program takes to load the client for
Node, with the start of Node itself taken off.

What is not there (Node, g++, MicroPython) is left out, and named at the end. The figures are JSON,
one line for each contender of a part.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.clients.micropython import machines
from tests.clients.node.build import build_node_client, node_missing

from benchmarks import generator, machine
from benchmarks.brokers import HOST, Broker, PenstockBroker
from benchmarks.machine import Cores, pinned
from benchmarks.shapes import CLIENT, MQLOAD

HERE = Path(__file__).parent
ROOT = HERE.parent
NODE = ROOT / "clients/node"
MQTT_JS = ROOT / "tests/interop/mqtt_js"
ARDUINO = ROOT / "clients/arduino/test"
STARTS = 11  # of Node, for one figure


class Figure(NamedTuple):
    per_s: float
    cpu_us: float  # of the client, per message


class Contender(NamedTuple):
    """A client under a load."""

    name: str
    measure: Callable[[Broker, float], Figure]
    missing: Callable[[], str] = lambda: ""  # what it lacks; empty: nothing


# ── contenders ────────────────────────────────────────────────────────────────────────────────


def _mqload(load: str, answered: str = "acked_per_s") -> Contender:
    return Contender("mqload", lambda broker, s: _generated(broker, s, load, answered))


def _python(operation: str, answered: str = "acked_per_s") -> Contender:
    load = f"--op {operation}"
    return Contender("Python", lambda broker, s: _generated(broker, s, load, answered, CLIENT))


def _generated(
    broker: Broker, seconds: float, load: str, answered: str, driver: str = MQLOAD
) -> Figure:
    is_backlog = "-n " in load or "subscribe" in load
    ends = load if is_backlog else f"{load} -d {seconds:g}"
    found = generator.run(
        f"{ends} -W {seconds + 60:.0f}",
        port=broker.port, broker_pid=broker.pid, seed=1, driver=driver,
    )  # fmt: skip
    assert not found.flaws, found.flaws
    return Figure(
        found[answered], found["generator_cpu_s"] / found["seconds"] / found[answered] * 1e6
    )


def _node(what: str) -> Contender:
    def measure(broker: Broker, seconds: float) -> Figure:
        per_s = {"produce": 20_000, "many": 200_000, "push": 40_000}[what]
        return _spoken(
            "node", NODE / "bench/bench.mjs", f"{HOST}:{broker.port}", what, int(per_s * seconds)
        )

    return Contender("Node", measure, node_missing)


def _mqtt_js() -> Contender:
    def measure(broker: Broker, seconds: float) -> Figure:
        count = int(15_000 * seconds)
        return _spoken("node", HERE / "mqtt_js.mjs", MQTT_JS, f"{HOST}:{broker.port}", count)

    return Contender(
        "MQTT.js", measure, lambda: "" if (MQTT_JS / "node_modules/mqtt").exists() else "npm ci"
    )


def _spoken(*command: object) -> Figure:
    said = json.loads(_run(*command))
    return Figure(said["perSecond"], said["cpuUs"])


def _arduino(what: str) -> Contender:
    def measure(broker: Broker, seconds: float) -> Figure:
        count = int(20_000 * seconds)
        program, address = ARDUINO / "build/fast/bench", (HOST, broker.port)
        said = _run(program, *address, "publish", count)
        said = said if what == "publish" else _run(program, *address, "receive", count)
        per_s, cpu_us = re.findall(r"[\d.]+", said.partition(":")[2])
        return Figure(float(per_s), float(cpu_us))

    return Contender("Arduino", measure, lambda: "" if shutil.which("g++") else "g++")


def _micropython(name: str) -> Contender:
    def measure(broker: Broker, seconds: float) -> Figure:
        with machines.Machine(name) as running:
            running.connect(broker.port, client_id="bench")
            load = {"topic": "bench/t0", "size": 32, "width": 8}
            running.ask("many", count=500, **load)
            count, spent = int(3_000 * seconds), _cpu_s(running.pid)
            begun = time.monotonic()
            running.ask("many", count=count, **load)
            took = time.monotonic() - begun
            return Figure(count / took, (_cpu_s(running.pid) - spent) / count * 1e6)

    return Contender(f"MicroPython ({name})", measure, lambda: machines.missing(name))


def _cpu_s(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _run(*command: object) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


PARTS: dict[str, tuple[Contender, ...]] = {
    "produce": (_mqload("-m queue-produce -s 100 -w 32"), _node("produce"), _python("produce")),
    "many": (_mqload("-m queue-produce -s 100 -k 256 -w 8"), _node("many"), _python("many")),
    "push": (
        _mqload("-m queue-push -s 100 -j 64 -n 100000", "settled_per_s"),
        _node("push"),
        _python("subscribe", "settled_per_s"),
    ),
    "mqtt": (_mqload("-m mqtt -q 1 -s 32 -w 32"), _mqtt_js()),
    "publish": (_mqload("-m binary-publish -y -s 64 -w 32"), _arduino("publish")),
    "receive": (_mqload("-m binary-subscribe -s 64 -a", "delivered_per_s"), _arduino("receive")),
    "micropython": (
        _mqload("-m binary-publish -y -s 32 -w 8"),
        *(_micropython(name) for name in machines.DRIVERS),
    ),
}


# ── rounds ────────────────────────────────────────────────────────────────────────────────────


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS, "imports"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement, about")
    parser.add_argument("--data-dir", type=Path, default=HERE / "build" / "data")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - {*PARTS, "imports"}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    generator.compiled()
    left_out: dict[str, str] = {}
    _build(options.parts, left_out)
    for part in options.parts:
        found = _imports() if part == "imports" else _compared(part, options, left_out)
        for line in found:
            print(json.dumps({"part": part, **line}), flush=True)
    for name, why in left_out.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    return 0


def _build(parts: list[str], left_out: dict[str, str]) -> None:
    names = {one.name for part in parts for one in PARTS.get(part, ())}
    if "Node" in names or "imports" in parts:
        if why := node_missing():
            left_out["Node"] = why
        else:
            build_node_client()
    if "Arduino" in names and shutil.which("g++"):
        fast = ["OUT=build/fast", "SANITIZE=", "DEFINES=-O2 -DPENSTOCK_WINDOW=32"]
        _run("make", "--silent", "-C", ARDUINO, *fast, "build/fast/bench")


def _compared(
    part: str, options: argparse.Namespace, left_out: dict[str, str]
) -> list[dict[str, object]]:
    cores = machine.cores()
    contenders = []
    for one in PARTS[part]:
        if why := one.missing():
            left_out[one.name] = why
        else:
            contenders.append(one)
    rounds = [[_measured(one, options, cores) for one in contenders] for _ in range(options.rounds)]
    columns = list(zip(*rounds, strict=True))
    return [
        {
            "client": one.name,
            "per_s": round(median(figure.per_s for figure in column)),
            "ratio": round(median(_ratios(column, columns[0])), 2),
            "ratios": [round(ratio, 2) for ratio in _ratios(column, columns[0])],
            "client_cpu_us": round(median(figure.cpu_us for figure in column), 2),
        }
        for one, column in zip(contenders, columns, strict=True)
    ]


def _ratios(column: tuple[Figure, ...], first: tuple[Figure, ...]) -> list[float]:
    return [one.per_s / other.per_s for one, other in zip(column, first, strict=True)]


def _measured(one: Contender, options: argparse.Namespace, cores: Cores) -> Figure:
    with (
        PenstockBroker.running(options.data_dir, cpu=cores.broker) as broker,
        pinned(cores.generator),
    ):
        return one.measure(broker, options.seconds)


def _imports() -> list[dict[str, object]]:
    """The least of some starts, by wall clock and processor time, without that of Node alone."""
    if node_missing():
        return []
    with_client, alone = [], []
    for _ in range(STARTS):
        with_client.append(_start(f"require({str(NODE)!r})"))
        alone.append(_start(""))
    wall_ms, cpu_ms = (
        round((min(one[k] for one in with_client) - min(one[k] for one in alone)) * 1e3, 1)
        for k in (0, 1)
    )
    return [{"client": "Node", "wall_ms": wall_ms, "cpu_ms": cpu_ms, "goal_ms": 20}]


def _start(program: str) -> tuple[float, float]:
    def used() -> float:
        times = os.times()
        return times.children_user + times.children_system

    begun, before = time.monotonic(), used()
    _run("node", "-e", program)
    return time.monotonic() - begun, used() - before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
