"""``python -m benchmarks.field``: the journal with many topics, a bound, and a past.

::

    python -m benchmarks.field                                  # all cases
    python -m benchmarks.field bound --seconds 180              # some of them
    python -m benchmarks.field topics --rounds 5
    python -m benchmarks.field restart --gigabytes 10
    python -m benchmarks.field disk --revision ../before         # a checkout of that revision

Unlike the workloads of ``python -m benchmarks`` these need minutes and gigabytes, and look at the
disk as well as at the rate. The kernel chooses the cores, as for users, except in ``topics``.
"""

import argparse
import json
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Thread

from benchmarks import generator, machine
from benchmarks.brokers import HOST, BrokerError, Metrics, PenstockBroker, earlier
from benchmarks.capture import CAPTURED, DROPPED
from benchmarks.disk_usage import DiskWatch, evict, usage_of
from benchmarks.figures import Figure, render
from benchmarks.generator import GeneratorError, Load
from benchmarks.machine import pinned

BUILD = Path(__file__).parent / "build" / "data"
MIB = 1024 * 1024
GIB = 1024 * MIB

BOUND_BYTES = 64 * MIB
BOUND_SLACK = 1.1
BLOCKS_PER_TOTAL = 16  # a block is at most so much of the total
TOPICS = (1_000, 10_000, 100_000)
TOPICS_GOAL = 0.8
RESTART_GOAL_S = 3.0
READY_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 60.0
USED = "penstock_journal_bytes"


class FieldBroker(PenstockBroker):
    """A broker that can be killed and started again over its data."""

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def kill(self) -> None:
        """Kill it, like a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def is_ready(self) -> bool:
        """Whether ``/ready`` answers 200."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def await_ready(self) -> float:
        """Wait until it is ready; return for how long."""
        started = time.perf_counter()
        while not self.is_ready():
            if time.perf_counter() - started > READY_TIMEOUT_S:
                raise BrokerError(f"not ready after {READY_TIMEOUT_S:.0f} s; {self.last_words()}")
            time.sleep(0.01)
        return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Field:
    """What all cases of a run share."""

    options: argparse.Namespace
    kind: type[FieldBroker]

    @contextmanager
    def broker(
        self, settings: Mapping[str, str] | None = None, cpu: int | None = None
    ) -> Iterator[FieldBroker]:
        """A fresh broker over an empty directory."""
        with self.kind.running(self.options.data_dir, settings=settings, cpu=cpu) as broker:
            assert isinstance(broker, FieldBroker)
            yield broker


Figures = Iterator[Figure]


def note(text: str) -> None:
    """Tell what happens, beside the table."""
    print(text, file=sys.stderr, flush=True)


# ── bound: does the size on disk stay within the limit?


@dataclass(frozen=True, slots=True)
class Traffic:
    """A load of ``bound``, as options of the generator."""

    id: str
    what: str
    load: str
    is_answered: bool


TRAFFIC = (
    *(
        Traffic(
            f"{name}-{topics // 1000}k",
            f"{topics:,} topics, {what}, full rate",
            f"-P 4 -S 0 -v -R -t {topics} -s 16:512 {load}",
            is_answered,
        )
        for topics in (2_000, 20_000)
        for name, what, load, is_answered in (
            ("qos0", "QoS 0", "", False),
            ("qos1", "QoS 1", "-q 1 -w 1000", True),
        )
    ),
    Traffic(
        "fleet",
        "10,000 topics, QoS 1, 10,000 msg/s",
        "-P 20 -S 0 -v -t 10000 -s 16:512 -q 1 -w 1000 -r 10000 -z",
        is_answered=True,
    ),
)


def dropped(metrics: Metrics) -> dict[str, int]:
    """What the broker counts as dropped, by reason."""
    prefix = f'{DROPPED}{{reason="'
    return {
        name[len(prefix) :].rstrip('"}'): int(value)
        for name, value in metrics.items()
        if name.startswith(prefix) and value
    }


def run_bound(field: Field) -> Figures:
    """Put every kind of traffic on a broker with a small journal."""
    for traffic in TRAFFIC:
        if field.options.only and traffic.id not in field.options.only:
            continue
        yield from measure_bound(field, traffic)


def measure_bound(field: Field, traffic: Traffic) -> Figures:
    """Run one load for the given time; watch the disk."""
    seconds, bound = field.options.seconds, field.options.bound_bytes
    limit = BOUND_SLACK * bound + bound // BLOCKS_PER_TOTAL
    with field.broker({"journal.total_bytes_max": str(bound)}) as broker:
        with DiskWatch(broker.data) as watch:
            load = generator.run(
                f"{traffic.load} -d {seconds:g} -W {seconds + 60:.0f}",
                port=broker.port,
                broker_pid=broker.pid,
                seed=1,
            )
        metrics = broker.metrics()
    rate = load["acked_per_s"] if traffic.is_answered else load["sent"] / load["seconds"]
    captured = sum(v for name, v in metrics.items() if name.split("{", 1)[0] == CAPTURED)
    lost = dropped(metrics)
    goal = f"<{limit / MIB:.6g}"
    yield Figure(traffic.id, traffic.what, watch.allocated_max / MIB, "MiB on disk at most", goal)
    yield Figure("", "of the bound", watch.allocated_max / bound, "x")
    yield Figure("", "time beyond the goal", 100 * watch.over(limit), "% of samples")
    yield Figure("", "length of all files", watch.apparent_max / MIB, "MiB at most")
    yield Figure("", "in use at the end", metrics.get(USED, 0.0) / MIB, "MiB")
    yield Figure("", "acknowledged" if traffic.is_answered else "sent", rate, "msg/s")
    yield Figure("", "journaled", captured / load["seconds"], "msg/s")
    yield Figure("", "CPU of the broker", load["broker_us_per_message"], "us/msg")
    for reason, count in sorted(lost.items()):
        yield Figure("", f"dropped: {reason}", count, "messages")
    if field.options.samples:
        name = field.options.samples / f"bound-{traffic.id}.jsonl"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text("".join(json.dumps(sample) + "\n" for sample in watch.samples))


# ── topics: does a message cost more where more topics are in use?


def run_topics(field: Field) -> Figures:
    """As many topics in turn; ratios are of adjacent measurements."""
    rates: dict[int, list[float]] = {topics: [] for topics in TOPICS}
    costs: dict[int, list[float]] = {topics: [] for topics in TOPICS}
    for round_ in range(field.options.rounds):
        for topics in TOPICS if round_ % 2 == 0 else TOPICS[::-1]:
            load = measure_topics(field, topics)
            rates[topics].append(load["delivered_per_s"])
            costs[topics].append(load["broker_us_per_message"])
            note(f"topics: {topics:,}: {load['delivered_per_s']:,.0f} msg/s")
    for topics in TOPICS:
        yield from topic_figures(topics, rates, costs)


def topic_figures(
    topics: int, rates: dict[int, list[float]], costs: dict[int, list[float]]
) -> Figures:
    """Rate and cost with so many topics, and both relative to the fewest."""
    few, mine = TOPICS[0], tuple(rates[topics])
    name = f"{topics // 1000}k"
    yield Figure(name, f"{topics:,} topics in use", max(mine), "msg/s", "", mine)
    yield Figure("", "CPU", min(costs[topics]), "us/msg", "", tuple(costs[topics]))
    if topics == few:
        return
    faster = tuple(many / one for many, one in zip(mine, rates[few], strict=True))
    yield Figure("", f"rate, of {few:,}", median(faster), "x", str(TOPICS_GOAL), faster)
    cheaper = tuple(one / many for many, one in zip(costs[topics], costs[few], strict=True))
    yield Figure("", f"messages per CPU second, of {few:,}", median(cheaper), "x", "", cheaper)


def measure_topics(field: Field, topics: int) -> Load:
    """One measurement, the broker and the generator on a core each.

    Every topic has had a message since the subscriber came: the first one creates it and finds its
    subscribers, which costs more, and a fleet does it once.
    """
    cores, seconds = machine.cores(), field.options.round_seconds
    load = f"-t {topics} -o {2 * topics} -R -F wild {field.options.load}"
    with field.broker(cpu=cores.broker) as broker, pinned(cores.generator):
        found = generator.run(
            f"{load} -d {seconds:g} -W {seconds + 120:.0f}",
            port=broker.port,
            broker_pid=broker.pid,
            seed=1,
        )
    if found.flaws:
        raise BrokerError(f"topics: {', '.join(found.flaws)}")
    return found


# ── disk: what do a million readings take?

DEVICES = 1_000
WINDOW = 1_000
PUBACK_BYTES = 4


def reading(device: int, number: int, chance: random.Random) -> bytes:
    """A reading of 100 bytes of JSON, as a sensor of a plant would send it."""
    values = {
        "device": f"press-{device:05d}",
        "ts": 1_790_000_000_000 + number * 1_000 + chance.randrange(1_000),
        "temp": round(chance.gauss(71.5, 3.0), 2),
        "bar": round(chance.gauss(4.2, 0.2), 3),
        "ok": True,
    }
    text = json.dumps(values, separators=(",", ":"))
    pad = f',"seq":"{number:010d}"'
    text = text[:-1] + pad + "}"
    return text.ljust(100).encode()[:100]


def run_disk(field: Field) -> Figures:
    """Publish readings at QoS 1, each device in turn; wait until the size no longer changes."""
    count = field.options.readings
    with field.broker() as broker:
        empty = usage_of(broker.data).allocated
        started = time.perf_counter()
        payload_bytes = publish_readings(broker.port, count)
        seconds = time.perf_counter() - started
        await_settled(broker.data, field.options.settled_seconds)
        found = usage_of(broker.data)
        used = broker.metrics().get(USED, 0.0)
    million = count / 1e6
    what = f"{DEVICES:,} devices in turn, 100 B of JSON"
    yield Figure("disk", what, (found.allocated - empty) / MIB / million, "MiB per million")
    yield Figure("", "of the payloads", (found.allocated - empty) / payload_bytes, "x")
    yield Figure("", "in use", used / MIB / million, "MiB per million")
    yield Figure("", "bytes per reading", (found.allocated - empty) / count, "B")
    for kind, size in sorted(found.by_kind.items()):
        if size > MIB:
            yield Figure("", f"files {kind}", size / MIB / million, "MiB per million")
    yield Figure("", "published", count / seconds, "msg/s")


def publish_readings(port: int, count: int) -> int:
    """Send readings over one MQTT connection, ``WINDOW`` unacknowledged; return their bytes."""
    chance = random.Random(1)
    total = 0
    with socket.create_connection((HOST, port)) as link:
        link.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x00\x00\x04disk")
        _receive(link, 4)
        for first in range(0, count, WINDOW):
            frames = []
            for number in range(first, min(first + WINDOW, count)):
                payload = reading(number % DEVICES, number // DEVICES, chance)
                total += len(payload)
                frames.append(_publish_frame(number, payload))
            link.sendall(b"".join(frames))
            _receive(link, PUBACK_BYTES * len(frames))
    return total


def _publish_frame(number: int, payload: bytes) -> bytes:
    topic = f"plant/line-{number % DEVICES // 100}/press-{number % DEVICES:05d}/reading".encode()
    packet_id = number % WINDOW + 1
    body = len(topic).to_bytes(2) + topic + packet_id.to_bytes(2) + payload
    assert 128 <= len(body) < 16_384, "a remaining length of two bytes"
    return bytes((0x32, len(body) & 0x7F | 0x80, len(body) >> 7)) + body


def _receive(link: socket.socket, count: int) -> None:
    while count:
        chunk = link.recv(min(count, 65_536))
        if not chunk:
            raise BrokerError("the broker closed the connection")
        count -= len(chunk)


def await_settled(directory: Path, seconds: float) -> None:
    """Wait until what runs in the background is done: until the size stays the same."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    seen, since = usage_of(directory), time.monotonic()
    while time.monotonic() - since < seconds and time.monotonic() < deadline:
        time.sleep(0.1)
        found = usage_of(directory)
        if found != seen:
            seen, since = found, time.monotonic()


# ── restart: how long after a crash?


def run_restart(field: Field) -> Figures:
    """Fill a journal, kill the broker under full load, start it with a cold cache."""
    gigabytes = field.options.gigabytes
    size = int(gigabytes * GIB)
    settings = {"journal.total_bytes_max": str(2 * size + GIB)}
    times, rss = [], 0.0
    with field.broker(settings) as broker:
        fill_and_kill(broker, size, field.options.restart_load)
        stored = usage_of(broker.data)
        for _ in range(field.options.rounds):
            broker.kill()
            evict(broker.data)
            started = time.perf_counter()
            broker.start(None)
            broker.await_ready()
            times.append(time.perf_counter() - started)
            rss = _resident_mib(broker.pid)
    what = f"{stored.allocated / GIB:.2f} GiB stored, killed under load"
    yield Figure(
        "restart", what, max(times), "s to ready, the worst", f"<{RESTART_GOAL_S:g}", tuple(times)
    )
    yield Figure("", "resident memory when ready", rss, "MiB")


def fill_and_kill(broker: FieldBroker, size: int, load: str) -> None:
    """Kill the broker while a load runs, as soon as so much is on its disk."""
    seconds = 24 * 3600
    command = f"{load} -d {seconds} -W {seconds}"
    filling = Thread(target=_cut_off, args=(command, broker), daemon=True)
    filling.start()
    told = 0
    while (found := usage_of(broker.data).allocated) < size:
        if not filling.is_alive():
            raise BrokerError(f"the load ended at {found / MIB:.0f} MiB; {broker.last_words()}")
        if found - told > GIB:
            told = found
            note(f"restart: {found / GIB:.1f} GiB stored")
        time.sleep(0.1)
    broker.kill()
    filling.join()


def _cut_off(command: str, broker: FieldBroker) -> None:
    try:
        generator.run(command, port=broker.port, broker_pid=broker.pid, seed=1)
    except GeneratorError:
        return  # the broker was killed


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / MIB


# ── The command

RUNS: dict[str, Callable[[Field], Figures]] = {
    "bound": run_bound,
    "topics": run_topics,
    "disk": run_disk,
    "restart": run_restart,
}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.field",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("cases", nargs="*", default=list(RUNS), help=f"of {', '.join(RUNS)}")
    add("--rounds", type=int, default=3, help="topics, restart: measurements (3)")
    add("--seconds", type=float, default=60.0, help="bound: duration of each load (60)")
    add("--only", nargs="+", help=f"bound: of {' '.join(t.id for t in TRAFFIC)}")
    add("--bound-bytes", type=int, default=BOUND_BYTES, help="bound: total_bytes_max (64 MiB)")
    add("--samples", type=Path, help="bound: directory for all samples of the disk")
    add("--round-seconds", type=float, default=4.0, help="topics: duration of a round (4)")
    add("--load", default="-s 64", help="topics: further options of the generator (-s 64)")
    add("--readings", type=int, default=1_000_000, help="disk: how many (1,000,000)")
    add("--settled-seconds", type=float, default=3.0, help="disk: size is final after (3)")
    add("--gigabytes", type=float, default=1.0, help="restart: how much is stored (1)")
    add(
        "--restart-load",
        default="-P 4 -S 0 -v -R -t 10000 -s 1024 -q 1 -w 1000",
        help="restart: options of the generator that fills it",
    )
    add("--data-dir", type=Path, default=BUILD, help="directory for data, on a disk")
    add("--revision", type=Path, help="a checkout whose broker is measured instead")
    add("--json", action="store_true", help="print figures as JSON lines")
    options = parser.parse_args(arguments)
    unknown = set(options.cases) - set(RUNS)
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    return options


def broker_kind(revision: Path | None) -> type[FieldBroker]:
    """The broker of this checkout, or of another one."""
    if revision is None:
        return FieldBroker
    return type("Revision", (FieldBroker,), {"launcher": earlier(revision).launcher})


def main(arguments: list[str]) -> int:
    """Run; return 1 if a goal was missed, 2 if nothing could be measured."""
    options = parse_arguments(arguments)
    figures: list[Figure] = []
    try:
        generator.compiled()
        field = Field(options, broker_kind(options.revision))
        for case in options.cases:
            for figure in RUNS[case](field):
                figures.append(figure)
                if options.json:
                    print(json.dumps({"case": case, **figure.record()}), flush=True)
    except (BrokerError, GeneratorError, subprocess.SubprocessError) as error:
        print(f"field: {error}", file=sys.stderr)
        return 2
    if not options.json:
        print(render(figures))
    return int(any(figure.is_met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
