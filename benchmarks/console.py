"""``python -m benchmarks.console``: what the console costs the broker, and how it feels.

* ``idle``: the share of a core that an idle broker uses, alone and while the console is open on
  five pages.
* ``load``: workloads A, E and M while five pages look at this broker, next to five pages that look
  at another, idle one. The browser is there in both cases, so the ratio is what the *broker* loses.
* ``ring``: A, M and E next to a broker that records no events, in turn; and how many records a run
  makes at all.
* ``paint``: from the request of a page to its first contentful paint, by a browser that has nothing
  of it yet.
* ``size``: times of frames while the tree of 100,000 topics and the list of 10,000 clients are
  scrolled, and the longest task that kept the page from answering.

The broker has one core, the browser and the load generator the other. Pages are those of a real
Chromium. Each figure is a line of JSON; the last lines say in words which goals were met.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.console.browser import launched
from tests.console.large import ask, make_clients, make_topics, scroll

from benchmarks import generator, machine
from benchmarks.brokers import Broker, PenstockBroker
from benchmarks.machine import Cores, pinned
from benchmarks.workloads import select

HERE = Path(__file__).parent
PAGES = ("", "topics", "clients", "groups", "live")
PARTS = ("idle", "load", "ring", "paint", "size")
SETTLE_S = 3.0  # until pages that were opened have loaded
IDLE_S = 20.0
PAINTS = 5  # of each page
GOALS = {"idle": 0.02, "load": 0.98, "ring": 0.99, "paint_ms": 300, "frame_ms": 17.5}
_NO_RING = """
import sys
from penstock.obs.events import Event, Events
nothing = Event(0, 0, "", "")
Events.note = lambda *_arguments, **_more: nothing
sys.argv[0] = "penstock"
from penstock.cli import main
main()
"""
_PAINT = """() => performance.getEntriesByType('paint')
  .find((entry) => entry.name === 'first-contentful-paint')?.startTime ?? null"""
_NOTE_LONG_TASKS = """window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: 'longtask', buffered: true });"""


class RinglessBroker(PenstockBroker):
    """The same broker, but nothing is recorded for ``why``."""

    name = "penstock-without-ring"

    def command(self) -> list[str]:
        program, *options = super().command()
        return [str(Path(program).with_name("python")), "-c", _NO_RING, *options]


class Run(NamedTuple):
    """One run of a workload. Its processor time is the same whoever else uses the machine."""

    per_s: float
    cpu_us: float  # of the broker, per message


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement of a load")
    parser.add_argument("--data-dir", type=Path, default=HERE / "build" / "data")
    options = parser.parse_args(arguments)
    generator.compiled()
    measures = {"idle": idle, "load": load, "ring": ring, "paint": paint, "size": size}
    cores = machine.cores()
    machine.raise_file_limit()
    said = []
    for part in options.parts:
        for figure in measures[part](options, cores):
            print(json.dumps({"part": part, **figure}), flush=True)
            said.append(f"{'met   ' if figure['ok'] else 'MISSED'}  {in_words(part, figure)}")
    print("\n".join(["", *said]))
    return 0


def in_words(part: str, figure: dict[str, Any]) -> str:
    """One figure beside its goal."""
    match part:
        case "idle":
            alone, watched = figure["alone"], figure["five_pages"]
            shares = f"{alone:.2%} of a core alone, {watched:.2%} with five pages"
            return f"idle: {shares}; goal below {figure['goal']:.0%}"
        case "load" | "ring":
            what = "five pages" if part == "load" else "the ring"
            rates = f"{figure['per_s']:,}/s with {what}, {figure['without']:,}/s without"
            ratios = f"ratio {figure['ratio']:.3f}, by processor time {figure['cpu_ratio']:.3f}"
            return f"{part} {figure['workload']}: {rates}; {ratios}; goal {figure['goal']}"
        case "paint":
            times = f"{figure['median_ms']} ms, at worst {figure['worst_ms']} ms"
            return f"first paint of {figure['page']}: {times}; goal {figure['goal']} ms"
        case _:
            frames = f"median {figure['median_ms']} ms, 95 % {figure['p95_ms']} ms"
            longest = f"longest task {figure['longest_task_ms']} ms"
            goal = f"goal {figure['goal']} ms"
            return f"frames of {figure['page']}: {frames}, {longest}; {goal}"


@contextmanager
def browser_on(cpu: int | None) -> Iterator[Any]:
    with pinned(cpu), launched() as browser:
        yield browser


@contextmanager
def pages_of(browser: Any, port: int) -> Iterator[None]:
    """Five pages, as in five tabs that are all in view."""
    with ExitStack() as stack:
        for page in PAGES:
            stack.enter_context(browser.window(port)).open(page)
        time.sleep(SETTLE_S)
        yield


def cpu_s(pid: int) -> float:
    """The time that all threads of a process have used, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def share_of_a_core(broker: Broker, seconds: float) -> float:
    before, began = cpu_s(broker.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(broker.pid) - before) / (time.monotonic() - began)


# ── what it costs ─────────────────────────────────────────────────────────────────────────────


def idle(options: argparse.Namespace, cores: Cores) -> Iterator[dict[str, object]]:
    with (
        browser_on(cores.generator) as browser,
        PenstockBroker.running(options.data_dir, cpu=cores.broker) as broker,
    ):
        time.sleep(SETTLE_S)
        alone = share_of_a_core(broker, IDLE_S)
        with pages_of(browser, broker.port):
            watched = share_of_a_core(broker, IDLE_S)
    yield {
        "alone": round(alone, 4),
        "five_pages": round(watched, 4),
        "goal": GOALS["idle"],
        "ok": watched < GOALS["idle"],
    }


def load(options: argparse.Namespace, cores: Cores) -> Iterator[dict[str, object]]:
    with browser_on(cores.generator) as browser:
        for workload in select(["A", "E", "M"]):
            pairs = []
            for _ in range(options.rounds):
                watched = _under_load(options, cores, workload, browser, is_watched=True)
                unwatched = _under_load(options, cores, workload, browser, is_watched=False)
                pairs.append((watched, unwatched))
            yield {"workload": workload.id} | _compared(pairs, GOALS["load"])


def _under_load(
    options: argparse.Namespace, cores: Cores, workload: Any, browser: Any, *, is_watched: bool
) -> Run:
    """A run, while five pages look at the broker or at another one."""
    with (
        PenstockBroker.running(options.data_dir, cpu=cores.broker) as broker,
        PenstockBroker.running(options.data_dir, cpu=cores.generator) as other,
        pages_of(browser, (broker if is_watched else other).port),
    ):
        return _run(options, cores, workload, broker)


def ring(options: argparse.Namespace, cores: Cores) -> Iterator[dict[str, object]]:
    for workload in select(["A", "M", "E"]):
        pairs, records = [], 0
        for _ in range(options.rounds):
            with PenstockBroker.running(options.data_dir, cpu=cores.broker) as broker:
                with_ring = _run(options, cores, workload, broker)
                records = len(ask(broker.port, "events?limit=1000")["items"])
            with RinglessBroker.running(options.data_dir, cpu=cores.broker) as broker:
                pairs.append((with_ring, _run(options, cores, workload, broker)))
                assert not ask(broker.port, "events?limit=1")["items"], "its ring is off"
        yield {"workload": workload.id, "records": records} | _compared(pairs, GOALS["ring"])


def _run(options: argparse.Namespace, cores: Cores, workload: Any, broker: Broker) -> Run:
    with pinned(cores.generator):
        found = generator.run(
            f"{workload.load} -d {options.seconds:g} -W {options.seconds + 60:.0f}",
            port=broker.port,
            broker_pid=broker.pid,
            seed=1,
        )
    assert not found.flaws, found.flaws
    per_s = found[workload.figure.key]
    return Run(per_s, found["broker_cpu_s"] / found["seconds"] / per_s * 1e6)


def _compared(pairs: list[tuple[Run, Run]], goal: float) -> dict[str, object]:
    """Medians, and the ratios of runs that followed each other."""
    ratios = sorted(ours.per_s / theirs.per_s for ours, theirs in pairs)
    spent = sorted(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs)
    return {
        "per_s": round(median(ours.per_s for ours, _ in pairs)),
        "without": round(median(theirs.per_s for _, theirs in pairs)),
        "ratio": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "cpu_ratio": round(median(spent), 3),
        "cpu_ratios": [round(ratio, 3) for ratio in spent],
        "goal": goal,
        "ok": median(ratios) >= goal,
    }


# ── how it feels ──────────────────────────────────────────────────────────────────────────────


def paint(options: argparse.Namespace, cores: Cores) -> Iterator[dict[str, object]]:
    with (
        browser_on(cores.generator) as browser,
        PenstockBroker.running(options.data_dir, cpu=cores.broker) as broker,
    ):
        for page in PAGES:
            times = sorted(_painted(browser, broker.port, page) for _ in range(PAINTS))
            yield {
                "page": page or "overview",
                "median_ms": round(median(times)),
                "worst_ms": round(times[-1]),
                "goal": GOALS["paint_ms"],
                "ok": median(times) <= GOALS["paint_ms"],
            }


def _painted(browser: Any, port: int, page: str) -> float:
    with browser.window(port) as window:  # with a cache of its own, which is empty
        window.open(page)
        return window.page.evaluate(_PAINT)


def size(options: argparse.Namespace, cores: Cores) -> Iterator[dict[str, object]]:
    settings = {"limits.clients_max": "20000"}
    with (
        browser_on(cores.generator) as browser,
        PenstockBroker.running(options.data_dir, settings=settings, cpu=cores.broker) as broker,
    ):
        make_topics(broker.port)
        make_clients(broker.port)
        with browser.window(broker.port) as window:
            window.page.add_init_script(_NOTE_LONG_TASKS)
            window.open("topics")
            window.page.get_by_role("treeitem", name="wide").locator(".twist").click()
            window.see("00007", ".tree")
            yield {"page": "100,000 topics"} | _scrolled(window, ".tree")
        with browser.window(broker.port) as window:
            window.page.add_init_script(_NOTE_LONG_TASKS)
            window.open("clients")
            window.see("device-00001", "tbody")
            yield {"page": "10,000 clients"} | _scrolled(window, ".table")


def _scrolled(window: Any, selector: str) -> dict[str, object]:
    times: list[float] = []
    for _ in range(10):  # the next pages are loaded when their place comes into view
        times += scroll(window, selector)
    times.sort()
    return {
        "frames": len(times),
        "median_ms": round(median(times), 1),
        "p95_ms": round(times[int(len(times) * 0.95)], 1),
        "worst_ms": round(times[-1], 1),
        "longest_task_ms": round(window.page.evaluate("window.longest")),
        "nodes": window.nodes(),
        "goal": GOALS["frame_ms"],
        "ok": median(times) <= GOALS["frame_ms"],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
