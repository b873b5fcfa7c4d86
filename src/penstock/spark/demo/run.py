"""The sequence of ``penstock spark demo``; sensors publish also while Spark is dead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic, time_ns
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
SECONDS_MAX: Final = 3600  # more points would not fit the page
KILL_AT: Final = 0.45  # as a share of the time; silent sensors are silent then
KILL_BY: Final = 0.7  # at the latest, even if not every job has finished a batch
READY_S: Final = 60.0  # start the fleet after this time, even if Spark is not ready
POLL_S: Final = 0.1
JOBS: Final = frozenset({"archive", "rollup", "silent"})
FINISH_S: Final = 300.0  # for the audit on a very busy machine
ROLLUP_FIELD: Final = "temperature"


class Narrator(Protocol):
    """Tells the audience what happens, and why."""

    def step(self, what: str, why: str) -> None: ...

    def status(self, text: str) -> None: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a demo."""

    out: Path
    minutes: float = 2.0
    devices: int = 24
    seed: int = 1
    keep: bool = False  # keep journal, archive, checkpoints and logs in out/work
    with_kill: bool = True

    @property
    def seconds(self) -> int:
        return round(self.minutes * 60)


def run_demo(settings: Settings, narrator: Narrator) -> DemoResults:
    if not SECONDS_MIN <= settings.seconds <= SECONDS_MAX:
        raise ConfigError(
            f"a demo takes {SECONDS_MIN} to {SECONDS_MAX} seconds, not {settings.seconds}",
            "2 minutes are enough to see everything",
        )
    fleet = make_fleet(settings.devices)
    with _work_directory(settings) as directory:
        narrator.step(
            "Starting a broker", "penstock serve, as a child process with an empty journal"
        )
        with (
            BrokerProcess(directory) as broker,
            _DemoRun(settings, broker, directory, fleet) as demo,
        ):
            demo.perform(narrator)
            return demo.results()


@contextmanager
def _work_directory(settings: Settings) -> Iterator[Path]:
    settings.out.mkdir(parents=True, exist_ok=True)
    if not settings.keep:
        with TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    kept = settings.out / "work"
    if kept.exists():
        raise ConfigError(
            f"{kept} holds the files of an earlier demo", "remove it, or choose another --out"
        )
    kept.mkdir()
    yield kept.resolve()


class _DemoRun:
    """One run: the gateways, the drivers, and what was observed."""

    def __init__(
        self, settings: Settings, broker: BrokerProcess, directory: Path, fleet: Sequence[Sensor]
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._directory = directory
        self._fleet = fleet
        seconds = settings.seconds
        window_s, silent_s = max(2, seconds // 24), max(2, seconds // 15)
        self._plan = DemoPlan(broker.servers, str(directory), window_s, silent_s)
        self._gateways: list[DoorThread] = []
        self._driver: Driver | None = None
        self._lag: dict[str, list[tuple[float, int]]] = {}
        self._killed_at: float | None = None
        self._began_at, self._began_ms = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for door in self._gateways:
            door.stop()
        if self._driver is not None:
            self._driver.kill()

    @property
    def _now_s(self) -> float:
        return monotonic() - self._began_at

    def perform(self, narrator: Narrator) -> None:
        self._start_spark(narrator)
        self._start_fleet(narrator)
        self._watch_until(narrator, self._is_time_to_kill)
        if self._settings.with_kill:
            self._kill(narrator)
        self._watch_until(narrator, lambda: self._now_s >= self._settings.seconds)
        self._stop_fleet(narrator)
        self._finish(narrator)

    def _start_spark(self, narrator: Narrator) -> None:
        narrator.step(
            "Starting Spark", "archive, rollup and silent in one driver, with nothing to read yet"
        )
        self._driver = Driver(self._plan, "live")
        given_up_at = monotonic() + READY_S
        while not (self._directory / READY).exists() and monotonic() < given_up_at:
            self._check()
            narrator.status("Java is starting")
            Event().wait(POLL_S)

    def _start_fleet(self, narrator: Narrator) -> None:
        settings = self._settings
        impostors = sum(sensor.fault is SensorFault.IMPOSTOR for sensor in self._fleet)
        narrator.step(
            f"Starting {settings.devices} sensors and {impostors} impostors",
            "signed, over MQTT, the binary protocol and RESP; some fall silent, repeat"
            " themselves, send garbage or skip numbers",
        )
        keys = enrolled(self._broker, self._fleet, settings.seed)
        script = Script(settings.seed, round(settings.seconds / TICK_S))
        self._began_at, self._began_ms = monotonic(), time_ns() // 1_000_000
        for door in Door:
            thread = DoorThread(door, self._broker.port, self._fleet, keys, script)
            self._gateways.append(thread)
            thread.begin(self._began_at)

    def _watch_until(self, narrator: Narrator, is_over: Callable[[], bool]) -> None:
        pause = Event()
        while not is_over():
            self._check()
            lag = self._broker.lag()
            at_s = self._now_s
            for reader, count in lag.items():
                self._lag.setdefault(collect.name_of(reader), []).append((at_s, count))
            said = sum(door.ledger.by_second.total() for door in self._gateways)
            behind = ", ".join(f"{collect.name_of(r)} {count:,}" for r, count in lag.items())
            waiting = f"; unread: {behind}" if behind else ""
            narrator.status(f"{at_s:3.0f} s: {said:,} readings acknowledged{waiting}")
            pause.wait(min(1.0, max(0.05, self._settings.seconds - at_s)))

    def _check(self) -> None:
        if self._driver is not None:
            self._driver.check()
        for door in self._gateways:
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
            "without a last commit: the running batch is repeated, and its rows must not appear"
            " twice",
        )
        self._driver.kill()
        self._killed_at = self._now_s
        self._driver = Driver(self._plan, "live")

    def _stop_fleet(self, narrator: Narrator) -> None:
        narrator.step("Stopping the fleet", "Spark finishes its batches, and ends")
        for door in self._gateways:
            door.stop()
        for door in self._gateways:
            door.join()
        self._check()
        assert self._driver is not None
        self._driver.stop()

    def _finish(self, narrator: Narrator) -> None:
        narrator.step(
            "Auditing",
            "Spark reads to the end of the journal; then every offset must be archived once, every"
            " signature must verify, and every sensor must find its readings",
        )
        self._driver = Driver(self._plan, "finish")
        self._driver.wait(FINISH_S)

    def _batches(self) -> dict[str, list[BatchTiming]]:
        path = self._directory / "progress.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return collect.batches_of(lines, self._began_ms)

    def results(self) -> DemoResults:
        ledgers = {str(door.door): door.ledger for door in self._gateways}
        result = msgspec.json.decode((self._directory / "result.json").read_bytes(), type=DemoAudit)
        lines = collect.lines_of(self._fleet, collect.accounts_of(ledgers.values()), result.tallies)
        seconds = self._settings.seconds
        with connect([self._broker.servers]) as client:
            topics = [topic.name for topic in client.topics(f"{ROLLUP_TOPIC}/")]
            windows = {name: [r.payload for r in client.messages(name)] for name in topics}
            payloads = [record.payload for record in client.messages(ALERT_TOPIC)]
        alerts = collect.alerts_of(payloads, self._began_ms, seconds)
        batches = self._batches()
        killed_at = self._killed_at
        done = [batch.at_s for own in batches.values() for batch in own]
        after = [at_s for at_s in done if killed_at is not None and at_s > killed_at]
        return DemoResults(
            version=__version__,
            seed=self._settings.seed,
            devices=self._settings.devices,
            seconds=float(seconds),
            traffic=collect.traffic_of(ledgers, seconds),
            killed_at=killed_at,
            back_at=min(after, default=None),
            rollups=self._rollups(windows),
            alerts=alerts,
            lag={reader: self._lag[reader] for reader in sorted(self._lag)},
            batches=collect.until(batches, seconds),
            lines=lines,
            checks=collect.checks_of(lines, result.report, collect.keys_of(windows), alerts),
        )

    def _rollups(self, windows: dict[str, list[bytes]]) -> dict[str, list[Window]]:
        steady = {s.door: s for s in reversed(self._fleet) if s.fault is SensorFault.STEADY}
        return {
            sensor.name: collect.rollups_of(
                windows.get(f"{ROLLUP_TOPIC}/{sensor.topic}", ()), self._began_ms, ROLLUP_FIELD
            )
            for sensor in sorted(steady.values(), key=lambda sensor: sensor.name)
        }


def write_report(results: DemoResults, out: Path) -> list[Path]:
    from penstock.spark.demo.png_report import png_report  # noqa: PLC0415 - Matplotlib takes a second

    files = {
        "report.html": html_report(results).encode(),
        "report.png": png_report(results),
        "story.json": msgspec.json.format(msgspec.json.encode(results)),
    }
    for name, content in files.items():
        (out / name).write_bytes(content)
    return [out / name for name in files]
