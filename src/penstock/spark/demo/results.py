"""What a demo leaves behind: plain numbers, from which the page and the picture are drawn.

Times are seconds since the fleet began to speak. A story is written beside its report as JSON, so
that whoever doubts a chart can look at what it was drawn from.
"""

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
    """What ``silent`` said about a device."""

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
    """One sensor's account beside what the archive has of it."""

    device: str
    door: str
    fault: str
    acknowledged: int
    archived: int
    refused: int
    is_same: bool
    """Whether number and checksum agree."""


class Check(msgspec.Struct, frozen=True):
    """One line of the verdict."""

    claim: str
    expected: str
    found: str
    is_good: bool


class Silence(msgspec.Struct, frozen=True):
    """A stretch in which a device said nothing; without an end it lasted to the end."""

    device: str
    begin_s: float
    end_s: float
    is_over: bool


class DemoResults(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    version: str
    seed: int
    devices: int
    seconds: float
    traffic: dict[str, list[int]]
    """Door → acknowledged readings in each second."""
    killed_at: float | None = None
    back_at: float | None = None
    """When the first batch after the kill was done."""
    rollups: dict[str, list[Window]] = {}
    alerts: list[Alert] = []
    lag: dict[str, list[tuple[float, int]]] = {}
    """Reader → time and messages not read."""
    batches: dict[str, list[BatchTiming]] = {}
    lines: list[SensorComparison] = []
    checks: list[Check] = []

    @property
    def is_good(self) -> bool:
        """Whether everything that was checked holds; a story without checks proves nothing."""
        return bool(self.checks) and all(check.is_good for check in self.checks)

    @property
    def away(self) -> tuple[float, float] | None:
        """From the kill to when Spark was back, if there was a kill; to the end if it never was."""
        if self.killed_at is None:
            return None
        return self.killed_at, self.seconds if self.back_at is None else self.back_at

    @property
    def gaps(self) -> list[Alert]:
        """Where numbers jumped."""
        return [alert for alert in self.alerts if alert.kind == "gap"]

    @property
    def troubled(self) -> list[str]:
        """Devices with something to show in a timeline, those that fell silent first."""
        stretches = silences(self.alerts, self.seconds)
        names = [silence.device for silence in stretches] + [gap.device for gap in self.gaps]
        return list(dict.fromkeys(names))

    @property
    def acknowledged(self) -> int:
        """Readings that the sensors know to be on the broker's disk."""
        return sum(sum(counts) for counts in self.traffic.values())


def silences(alerts: list[Alert], seconds: float) -> list[Silence]:
    """Join each device's ``silent`` and ``back`` to stretches, in the order they began."""
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
