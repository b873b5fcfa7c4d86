"""Interleaved measurements: ours, each peer, ours, each peer.

The load of a shared machine changes from minute to minute. Interleaved brokers see the same
changes, and the ratio of two adjacent measurements is more reliable than that of two averages. A
failed measurement is recorded as a failure; the others continue.
"""

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import generator, machine, signing
from benchmarks.brokers import Broker, BrokerError
from benchmarks.capture import Capture, settled_capture
from benchmarks.generator import GeneratorError, Load
from benchmarks.machine import Cores, Tenancy, pinned
from benchmarks.shapes import FRAMES, IN_FLUSHES, Peer, Workload
from benchmarks.signing import BareVerification, SignedFrames

__all__ = ["Bench", "Contender", "Measurement", "interleaved", "measure"]

Contender = type[Broker] | type[BareVerification]

QUIET_CORES_MAX = 0.15
"""A measurement is noisy if other processes use more cores than this."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements of one run share. ``peers`` are the installed ones."""

    ours: type[Broker]
    peers: Mapping[str, Contender]
    rounds: int
    seconds: float
    seed: int
    cores: Cores
    data: Path

    def peers_of(self, workload: Workload) -> list[tuple[Peer, Contender]]:
        """Return the peers to compare with: the installed ones."""
        return [(peer, self.peers[peer.name]) for peer in workload.peers if peer.name in self.peers]

    def signed_frames(self) -> SignedFrames:
        """Frames for one measurement, created once from the seed."""
        count = int(signing.FRAMES_PER_S * self.seconds)
        self.data.mkdir(parents=True, exist_ok=True)
        return _signed_frames(self.data / f"signed-{self.seed}-{count}.frames", count, self.seed)


_signed_frames = functools.cache(signing.write_frames)


@dataclass(slots=True)
class Measurement:
    """One broker under one workload, once. The target is relative to the peers that are goals."""

    workload: str
    side: str
    broker: str
    round: int
    load: Load | None = None
    capture: Capture | None = None
    flush_us: float | None = None
    others_cores: float = 0.0
    stolen_cores: float = 0.0
    is_goal: bool = True
    flaws: list[str] = field(default_factory=list)

    @property
    def noisy(self) -> bool:
        return self.others_cores + self.stolen_cores > QUIET_CORES_MAX

    def value(self, key: str) -> float | None:
        """Return the figure, or ``None`` if this measurement cannot be compared."""
        return None if self.load is None or self.flaws else self.load[key]

    def record(self) -> dict[str, object]:
        """Return one line of the results."""
        line = {"type": "measurement", **asdict(self)}
        line["load"] = self.load.figures if self.load else None
        line["capture"] = self.capture._asdict() if self.capture else None
        return line


def options_for(workload: Workload, bench: Bench) -> str:
    """Return the driver's options; with a duration, unless a count is given or no messages flow."""
    patience = f"-W {bench.seconds + 60:.0f}"
    if "-P 0" in workload.load or "-n " in workload.load:
        return f"{workload.load} {patience}"
    return f"{workload.load} -d {bench.seconds:g} {patience}"


def measure(
    workload: Workload, kind: Contender, bench: Bench, *, side: str, round_: int
) -> Measurement:
    """Start a broker, run the load, check its counters, stop it."""
    result = Measurement(workload.id, side, kind.name, round_)
    try:
        if issubclass(kind, BareVerification):
            _verify(result, kind, bench)
        else:
            cpu = bench.cores.broker
            with kind.running(bench.data, settings=workload.settings, cpu=cpu) as broker:
                _fill_in(result, workload, broker, bench)
    except (BrokerError, GeneratorError, OSError) as error:
        result.flaws.append(f"failed: {error}")
    return result


def _verify(result: Measurement, kind: type[BareVerification], bench: Bench) -> None:
    frames = bench.signed_frames()
    with Tenancy(os.getpid()) as tenancy:
        result.load = kind.run(frames, bench.seconds, bench.cores.broker)
    result.others_cores, result.stolen_cores = tenancy.others, tenancy.stolen


def _fill_in(result: Measurement, workload: Workload, broker: Broker, bench: Bench) -> None:
    options = options_for(workload, bench)
    if workload.is_signed:
        frames = bench.signed_frames()
        broker.trust(frames.key)
        options = options.replace(FRAMES, str(frames.path))
    if workload.is_flushed:
        result.flush_us = machine.flush_us(broker.directory)
    try:
        with _beside(workload, broker, bench), Tenancy(broker.pid) as tenancy:
            load = _run(options, workload, broker, bench)
    except GeneratorError as error:
        raise BrokerError(f"{error}\n{broker.name}: {broker.last_words()}") from error
    result.load = load
    if workload.figure == IN_FLUSHES and result.flush_us is not None:
        result.flush_us = (result.flush_us + machine.flush_us(broker.directory)) / 2
        load.figures[IN_FLUSHES.key] = load["p50_us"] / result.flush_us
    result.others_cores, result.stolen_cores = tenancy.others, tenancy.stolen
    result.flaws += load.flaws
    if workload.is_fire_and_forget:
        result.capture = settled_capture(broker)
        result.flaws += unexplained(result.capture, int(load["sent"]))


def _run(options: str, workload: Workload, broker: Broker, bench: Bench) -> Load:
    with pinned(bench.cores.generator):
        return generator.run(
            options,
            port=broker.port,
            broker_pid=broker.pid,
            seed=bench.seed,
            driver=workload.driver,
        )


@contextmanager
def _beside(workload: Workload, broker: Broker, bench: Bench) -> Iterator[None]:
    """Run the load beside, if there is one, on the generator's core."""
    if not workload.beside:
        yield
        return
    seconds = bench.seconds + 60
    with (
        pinned(bench.cores.generator),
        generator.flooding(workload.beside, port=broker.port, seconds=seconds),
    ):
        yield


def unexplained(capture: Capture | None, sent: int) -> list[str]:
    """Return the messages that the broker's counters do not account for, if it has counters."""
    if capture is None:
        return []
    flaws = []
    if capture.received != sent:
        flaws.append(f"received {capture.received:,} of {sent:,} sent")
    if not capture.balanced:
        missing = capture.received - capture.captured - capture.dropped
        flaws.append(f"{missing:,} neither captured nor counted as dropped")
    return flaws


def interleaved(workload: Workload, bench: Bench) -> Iterator[Measurement]:
    """Measure each broker once per round, alternating."""
    for round_ in range(1, bench.rounds + 1):
        yield measure(workload, bench.ours, bench, side="ours", round_=round_)
        for peer, kind in bench.peers_of(workload):
            measured = measure(workload.of_peer(peer), kind, bench, side="theirs", round_=round_)
            measured.is_goal = peer.is_goal
            yield measured
