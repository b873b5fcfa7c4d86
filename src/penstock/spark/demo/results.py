"""The results of a demo, which the reports show; times are seconds since the fleet started."""

from itertools import pairwise

import msgspec


class Window(msgspec.Struct, frozen=True):
    """A rollup of one sensor over one window."""

    start_s: float
    count: int
    low: float
    mean: float
    high: float


class Alert(msgspec.Struct, frozen=True):
    """An alert of ``silent``."""

    device: str
    kind: str
    at_s: float
    text: str = ""


class BatchTiming(msgspec.Struct, frozen=True):
    """One micro-batch of one query."""

    at_s: float
    took_s: float
    rows: int


class SensorComparison(msgspec.Struct, frozen=True):
    """One sensor's account, and what the archive has; ``is_same``: count and checksum agree."""

    device: str
    door: str
    fault: str
    acknowledged: int
    archived: int
    refused: int
    is_same: bool


class Check(msgspec.Struct, frozen=True):
    """One line of the verdict."""

    claim: str
    expected: str
    found: str
    is_good: bool


class Silence(msgspec.Struct, frozen=True):
    """A silence of a device; if not ``is_over``, it lasted to the end."""

    device: str
    begin_s: float
    end_s: float
    is_over: bool


class DemoResults(msgspec.Struct, frozen=True, kw_only=True):
    """All that the reports show."""

    version: str
    seed: int
    devices: int
    seconds: float
    traffic: dict[str, list[int]]  # protocol → acknowledged readings per second
    killed_at: float | None = None
    back_at: float | None = None  # end of the first batch after the kill
    rollups: dict[str, list[Window]] = {}
    alerts: list[Alert] = []
    lag: dict[str, list[tuple[float, int]]] = {}  # reader → time and unread messages
    batches: dict[str, list[BatchTiming]] = {}
    lines: list[SensorComparison] = []
    checks: list[Check] = []

    @property
    def is_good(self) -> bool:
        return bool(self.checks) and all(check.is_good for check in self.checks)

    @property
    def away(self) -> tuple[float, float] | None:
        if self.killed_at is None:
            return None
        return self.killed_at, self.seconds if self.back_at is None else self.back_at

    @property
    def gaps(self) -> list[Alert]:
        return [alert for alert in self.alerts if alert.kind == "gap"]

    @property
    def troubled(self) -> list[str]:
        silent = [silence.device for silence in silences(self.alerts, self.seconds)]
        names = silent + [gap.device for gap in self.gaps]
        return list(dict.fromkeys(names))

    @property
    def acknowledged(self) -> int:
        return sum(sum(counts) for counts in self.traffic.values())


def silences(alerts: list[Alert], seconds: float) -> list[Silence]:
    found = []
    for device in sorted({alert.device for alert in alerts}):
        own = [a for a in alerts if a.device == device and a.kind in {"silent", "back"}]
        own.sort(key=lambda alert: alert.at_s)
        for alert, after in pairwise([*own, None]):
            if alert is None or alert.kind != "silent":
                continue
            is_over = after is not None and after.kind == "back"
            end_s = after.at_s if after is not None else max(seconds, alert.at_s)
            found.append(Silence(device, alert.at_s, end_s, is_over))
    return sorted(found, key=lambda silence: (silence.begin_s, silence.device))
