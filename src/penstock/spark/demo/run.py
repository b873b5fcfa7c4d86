"""The choreography of ``penstock spark demo``.

::

    broker ───────────────────────────────────────────────────────────────────►│
    driver     ├── archive, rollup, silent ─────✗  ├── the same ──────┤├ audit ┤│ report
    doors             ├── mqtt ── binary ── resp ───────────────────┤          │

The fleet begins when Spark is there, so that there is something to see from the beginning. From
then on nobody waits for anybody: it speaks while Spark is dead, and what it says lies in the
journal until somebody reads it. The end is not timed either: when the fleet has fallen silent, what
is left is read to its end, and only then is it audited.

Every child is ended before this returns, however it ends; ``SIGINT`` too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic, time_ns
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from penstock import __version__
from penstock.client import connect
from penstock.errors import ConfigError
from penstock.spark.demo import collect
from penstock.spark.demo.broker import BrokerProcess
from penstock.spark.demo.driver import ALERT_TOPIC, READY, ROLLUP_TOPIC, DemoAudit, DemoPlan, Driver
from penstock.spark.demo.fleet import Door, Script, Sensor, SensorFault, make_fleet
from penstock.spark.demo.gateways import TICK_S, DoorThread, enrolled
from penstock.spark.demo.html_report import html_report
from penstock.spark.demo.results import BatchTiming, DemoResults, Window

SECONDS_MIN: Final = 10
SECONDS_MAX: Final = 3600
"""Beyond an hour the page would have more points than a screen."""

KILL_AT: Final = 0.45
"""When the driver is killed, as a part of the show: the silent ones are silent then."""

KILL_BY: Final = 0.7
"""When it is killed at the latest, though it may not have finished a batch of each job yet."""

READY_S: Final = 60.0
"""How long the fleet waits for Spark; then it begins, and what it says waits in the journal."""

POLL_S: Final = 0.1

JOBS: Final = frozenset({"archive", "rollup", "silent"})

FINISH_S: Final = 300.0
"""How long the audit may take on a machine that is very busy."""

ROLLUP_FIELD: Final = "temperature"


class Narrator(Protocol):
    """Whoever tells the audience what happens and why."""

    def step(self, what: str, why: str) -> None:
        """Something begins."""

    def status(self, text: str) -> None:
        """Something goes on."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be chosen."""

    out: Path
    minutes: float = 2.0
    devices: int = 24
    seed: int = 1
    keep: bool = False
    """Whether journal, archive, checkpoints and logs stay, in ``out/work``."""
    with_kill: bool = True

    @property
    def seconds(self) -> int:
        """How long the fleet speaks."""
        return round(self.minutes * 60)


def run_demo(settings: Settings, narrator: Narrator) -> DemoResults:
    """Play the whole show; return what became of it."""
    if not SECONDS_MIN <= settings.seconds <= SECONDS_MAX:
        raise ConfigError(
            f"a demo takes {SECONDS_MIN} to {SECONDS_MAX} seconds, not {settings.seconds}",
            "2 minutes show everything",
        )
    fleet = make_fleet(settings.devices)
    with _work_directory(settings) as directory:
        narrator.step(
            "Starting a broker",
            "a process of its own, with a journal that is empty: penstock serve",
        )
        with (
            BrokerProcess(directory) as broker,
            _DemoRun(settings, broker, directory, fleet) as stage,
        ):
            stage.perform(narrator)
            return stage.tell()


@contextmanager
def _work_directory(settings: Settings) -> Iterator[Path]:
    """Make the place for everything that the report does not need."""
    settings.out.mkdir(parents=True, exist_ok=True)
    if not settings.keep:
        with TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    kept = settings.out / "work"
    if kept.exists():
        raise ConfigError(
            f"{kept} holds what an earlier demo has kept", "remove it, or choose another --out"
        )
    kept.mkdir()
    yield kept.resolve()


class _DemoRun:
    """One performance: the doors, the drivers, and what was seen of them."""

    def __init__(
        self, settings: Settings, broker: BrokerProcess, directory: Path, fleet: Sequence[Sensor]
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._directory = directory
        self._fleet = fleet
        seconds = settings.seconds
        self._plan = DemoPlan(
            broker.servers,
            str(directory),
            window_s=max(2, seconds // 24),
            silent_s=max(2, seconds // 15),
        )
        self._doors: list[DoorThread] = []
        self._driver: Driver | None = None
        self._lag: dict[str, list[tuple[float, int]]] = {}
        self._killed_at: float | None = None
        self._began_at, self._began_ms = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for door in self._doors:
            door.stop()
        if self._driver is not None:
            self._driver.kill()

    @property
    def _now_s(self) -> float:
        return monotonic() - self._began_at

    # ── What happens ──────────────────────────────────────────────────────────────────────────

    def perform(self, narrator: Narrator) -> None:
        """Do everything, in its order."""
        self._start_spark(narrator)
        self._open_doors(narrator)
        self._watch_until(narrator, self._is_time_to_kill)
        if self._settings.with_kill:
            self._kill(narrator)
        self._watch_until(narrator, lambda: self._now_s >= self._settings.seconds)
        self._close_doors(narrator)
        self._finish(narrator)

    def _start_spark(self, narrator: Narrator) -> None:
        narrator.step(
            "Starting Spark",
            "archive, rollup and silent in one driver; there is nothing to read yet",
        )
        self._driver = Driver(self._plan, "live")
        given_up_at = monotonic() + READY_S
        while not (self._directory / READY).exists() and monotonic() < given_up_at:
            self._check()
            narrator.status("Java is starting")
            Event().wait(POLL_S)

    def _open_doors(self, narrator: Narrator) -> None:
        settings = self._settings
        impostors = sum(sensor.fault is SensorFault.IMPOSTOR for sensor in self._fleet)
        narrator.step(
            f"Letting {settings.devices} sensors and {impostors} impostors speak",
            "signed, at three doors: MQTT, the binary protocol, RESP; some fall silent, repeat"
            " themselves, send garbage or skip numbers",
        )
        keys = enrolled(self._broker, self._fleet, settings.seed)
        script = Script(settings.seed, round(settings.seconds / TICK_S))
        self._began_at, self._began_ms = monotonic(), _time_ms()
        for door in Door:
            thread = DoorThread(door, self._broker.port, self._fleet, keys, script)
            self._doors.append(thread)
            thread.begin(self._began_at)

    def _watch_until(self, narrator: Narrator, is_over: Callable[[], bool]) -> None:
        """Look at everybody once a second."""
        pause = Event()
        while not is_over():
            self._check()
            lag = self._broker.lag()
            at_s = self._now_s
            for reader, count in lag.items():
                self._lag.setdefault(collect.name_of(reader), []).append((at_s, count))
            said = sum(door.ledger.by_second.total() for door in self._doors)
            behind = ", ".join(f"{collect.name_of(r)} {count:,}" for r, count in lag.items())
            waiting = f"; not read yet: {behind}" if behind else ""
            narrator.status(f"{at_s:3.0f} s: {said:,} readings acknowledged{waiting}")
            pause.wait(min(1.0, max(0.05, self._settings.seconds - at_s)))

    def _check(self) -> None:
        if self._driver is not None:
            self._driver.check()
        for door in self._doors:
            if door.error is not None:
                raise door.error

    def _is_time_to_kill(self) -> bool:
        """Wait for a batch of each job: there must be something to lose."""
        part = self._now_s / self._settings.seconds
        return part >= KILL_BY or (part >= KILL_AT and self._batches().keys() >= JOBS)

    def _kill(self, narrator: Narrator) -> None:
        assert self._driver is not None
        narrator.step(
            "Killing the driver with SIGKILL, and starting it again",
            "no goodbye, no last commit: the batch that it was at is run again, and must leave no"
            " trace of having been run twice",
        )
        self._driver.kill()
        self._killed_at = self._now_s
        self._driver = Driver(self._plan, "live")

    def _close_doors(self, narrator: Narrator) -> None:
        narrator.step(
            "The fleet falls silent", "Spark finishes the batches that it is at, and ends"
        )
        for door in self._doors:
            door.stop()
        for door in self._doors:
            door.join()
        self._check()
        assert self._driver is not None
        self._driver.stop()

    def _finish(self, narrator: Narrator) -> None:
        narrator.step(
            "Auditing",
            "the archive is brought to the end of the journal; then every offset must be there"
            " once, every signature verify, and every sensor find what it was told",
        )
        self._driver = Driver(self._plan, "finish")
        self._driver.wait(FINISH_S)

    # ── What became of it ─────────────────────────────────────────────────────────────────────

    def _batches(self) -> dict[str, list[BatchTiming]]:
        path = self._directory / "progress.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return collect.batches_of(lines, self._began_ms)

    def tell(self) -> DemoResults:
        """Put together what everybody has written down."""
        ledgers = {str(door.door): door.ledger for door in self._doors}
        result = msgspec.json.decode((self._directory / "result.json").read_bytes(), type=DemoAudit)
        lines = collect.lines_of(self._fleet, collect.accounts_of(ledgers.values()), result.tallies)
        seconds = self._settings.seconds
        windows, payloads = self._said_by_spark()
        alerts = collect.alerts_of(payloads, self._began_ms, seconds)
        batches = self._batches()
        return DemoResults(
            version=__version__,
            seed=self._settings.seed,
            devices=self._settings.devices,
            seconds=float(seconds),
            traffic=collect.traffic_of(ledgers, seconds),
            killed_at=self._killed_at,
            back_at=self._back_at(batches),
            rollups=self._rollups(windows),
            alerts=alerts,
            lag={reader: self._lag[reader] for reader in sorted(self._lag)},
            batches=collect.until(batches, seconds),
            lines=lines,
            checks=collect.checks_of(lines, result, collect.keys_of(windows), alerts),
        )

    def _said_by_spark(self) -> tuple[dict[str, list[bytes]], list[bytes]]:
        """Read what the jobs have published: windows by topic, and alerts."""
        with connect([self._broker.servers]) as client:
            topics = [topic.name for topic in client.topics(f"{ROLLUP_TOPIC}/")]
            windows = {name: [r.payload for r in client.messages(name)] for name in topics}
            return windows, [record.payload for record in client.messages(ALERT_TOPIC)]

    def _rollups(self, windows: dict[str, list[bytes]]) -> dict[str, list[Window]]:
        """Take the first steady sensor of each door."""
        steady = {s.door: s for s in reversed(self._fleet) if s.fault is SensorFault.STEADY}
        return {
            sensor.name: collect.rollups_of(
                windows.get(f"{ROLLUP_TOPIC}/{sensor.topic}", ()), self._began_ms, ROLLUP_FIELD
            )
            for sensor in sorted(steady.values(), key=lambda sensor: sensor.name)
        }

    def _back_at(self, batches: dict[str, list[BatchTiming]]) -> float | None:
        """Say when the first batch of the second driver was done."""
        if self._killed_at is None:
            return None
        done = [batch.at_s for own in batches.values() for batch in own]
        return min((at_s for at_s in done if at_s > self._killed_at), default=None)


def _time_ms() -> int:
    """Return the time as the journal has it."""
    return time_ns() // 1_000_000


def write_report(story: DemoResults, out: Path) -> list[Path]:
    """Write page, picture and numbers; return where they are."""
    from penstock.spark.demo.png_report import png_report  # noqa: PLC0415 - Matplotlib takes a second

    files = {
        "report.html": html_report(story).encode(),
        "report.png": png_report(story),
        "story.json": msgspec.json.format(msgspec.json.encode(story)),
    }
    for name, content in files.items():
        (out / name).write_bytes(content)
    return [out / name for name in files]
