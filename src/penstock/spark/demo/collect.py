"""From what was written down to a story: pure functions, each of one source.

Times come as the broker's and Spark's clocks had them, and are turned into seconds since the fleet
began. What cannot be read (a line that a kill cut in half, a message of another form) is left out:
a chart may lack a dot. The verdict does not rest on any of this but on the audit, on sums, and on
counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from penstock.spark.demo.driver import DemoAudit
from penstock.spark.demo.fleet import Sensor
from penstock.spark.demo.ledger import Account, Ledger
from penstock.spark.demo.results import Alert, BatchTiming, Check, SensorComparison, Window

CURTAIN_S: Final = 2.0
"""Who said something in the last seconds of the show did not fall silent."""


def seconds_of(time: str, began_ms: int) -> float:
    """Turn a time as JSON has it (2030-01-01T00:00:00.000Z) into seconds since the beginning."""
    moment = datetime.fromisoformat(time)
    return moment.timestamp() - began_ms / 1000


def traffic_of(ledgers: Mapping[str, Ledger], seconds: float) -> dict[str, list[int]]:
    """Count the acknowledgements of each second, by door; those after the end are in the last."""
    shown = max(1, int(seconds))
    traffic = {}
    for door, ledger in ledgers.items():
        counts = [0] * shown
        for second, count in ledger.by_second.items():
            counts[min(second, shown - 1)] += count
        traffic[door] = counts
    return traffic


def accounts_of(ledgers: Iterable[Ledger]) -> dict[str, Account]:
    """Put the accounts of all doors together, by topic."""
    return {topic: account for ledger in ledgers for topic, account in ledger.accounts.items()}


def batches_of(lines: Iterable[str], began_ms: int) -> dict[str, list[BatchTiming]]:
    """Read what the drivers wrote about their batches; those without rows are no work."""
    found: dict[str, list[BatchTiming]] = {}
    for line in lines:
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if said["rows"]:
            took_s = said["duration_ms"] / 1000
            at_s = seconds_of(said["time"], began_ms) + took_s
            found.setdefault(name_of(said["query"]), []).append(
                BatchTiming(at_s, took_s, said["rows"])
            )
    return {query: found[query] for query in sorted(found)}


def until(batches: Mapping[str, list[BatchTiming]], seconds: float) -> dict[str, list[BatchTiming]]:
    """Leave out what was done after the show."""
    return {
        query: [batch for batch in own if batch.at_s <= seconds] for query, own in batches.items()
    }


def name_of(query: str) -> str:
    """Take a job's name from the name of its query."""
    return query.partition("-")[0]


def rollups_of(payloads: Iterable[bytes], began_ms: int, field: str) -> list[Window]:
    """Read the windows of one sensor, in the order of time."""
    windows = []
    for payload in payloads:
        try:
            said = msgspec.json.decode(payload)
            if said["field"] == field:
                start_s = seconds_of(said["start"], began_ms)
                figures = (said["min"], said["mean"], said["max"])
                windows.append(Window(start_s, said["count"], *figures))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return sorted(windows, key=lambda window: window.start_s)


def alerts_of(payloads: Iterable[bytes], began_ms: int, seconds: float) -> list[Alert]:
    """Read what ``silent`` told. A silence is dated by when the device was last heard.

    When the show is over all are silent, which is no news.
    """
    alerts = []
    for payload in payloads:
        try:
            said = msgspec.json.decode(payload)
            kind, device = said["kind"], said["device"]
            at_s = seconds_of(said["last_seen" if kind == "silent" else "at"], began_ms)
            text = ""
            if kind == "gap":
                text = f"{said['first_missing']} to {said['last_missing']} are missing"
            if kind != "silent" or at_s < seconds - CURTAIN_S:
                alerts.append(Alert(device, kind, at_s, text))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return sorted(alerts, key=lambda alert: (alert.at_s, alert.device))


def keys_of(windows: Mapping[str, Iterable[bytes]]) -> Counter[tuple[str, str, str]]:
    """Count how often each window came, by topic, field and start: once is right."""
    keys: Counter[tuple[str, str, str]] = Counter()
    for topic, payloads in windows.items():
        for payload in payloads:
            said = msgspec.json.decode(payload)
            keys[topic, said["field"], said["start"]] += 1
    return keys


# ── The verdict ───────────────────────────────────────────────────────────────────────────────


def lines_of(
    fleet: Sequence[Sensor], accounts: Mapping[str, Account], tallies: Mapping[str, tuple[int, int]]
) -> list[SensorComparison]:
    """Put each sensor's account beside what the archive has of its topic."""
    lines = []
    for sensor in fleet:
        account = accounts.get(sensor.topic, Account())
        archived, checksum = tallies.get(sensor.topic, (0, 0))
        is_same = (account.acknowledged, account.checksum) == (archived, checksum)
        facts: tuple[Any, ...] = (account.acknowledged, archived, account.refused, is_same)
        lines.append(SensorComparison(sensor.name, sensor.door, sensor.fault, *facts))
    return lines


def checks_of(
    lines: Sequence[SensorComparison],
    result: DemoAudit,
    windows: Counter[Any],
    alerts: Sequence[Alert],
) -> list[Check]:
    """Say what was checked and what was found; the audit's own findings first."""
    acknowledged = sum(line.acknowledged for line in lines)
    archived = sum(line.archived for line in lines)
    same = sum(line.is_same for line in lines)
    forged = sum(line.archived for line in lines if line.fault == "impostor")
    twice = windows.total() - len(windows)
    return [
        *_audited(result),
        Check(
            "readings that sensors know of, in the archive",
            f"{acknowledged:,}",
            f"{archived:,}",
            acknowledged == archived and acknowledged > 0,
        ),
        Check(
            "sensors that find their own checksum there",
            f"{len(lines):,}",
            f"{same:,}",
            same == len(lines),
        ),
        Check("forged readings in the archive", "0", f"{forged:,}", forged == 0),
        Check(
            "windows that came twice",
            f"0 of {len(windows):,}",
            f"{twice:,}",
            twice == 0 and bool(windows),
        ),
        _noticed(lines, alerts),
    ]


_TOLD: Final = {"silent": "silent", "gone": "silent", "jump": "gap"}
"""Which alert each fault must have led to."""


def _noticed(lines: Sequence[SensorComparison], alerts: Sequence[Alert]) -> Check:
    told = {(alert.device, alert.kind) for alert in alerts}
    due = {(line.device, _TOLD[line.fault]) for line in lines if line.fault in _TOLD}
    claim = "silences and jumps that were told of"
    return Check(claim, f"{len(due):,}", f"{len(due & told):,}", due <= told)


def _audited(result: DemoAudit) -> list[Check]:
    audit = result.audit
    holes = sum(end - begin for _, _, begin, end in audit["holes"])
    expected = audit["rows"] - audit["doubled"] + holes
    faults = "; ".join(audit["faults"])
    return [
        Check("audit of the archive", "passed", faults or "passed", result.is_good),
        Check(
            "offsets in the archive, each once",
            f"{expected:,}",
            f"{audit['rows']:,}",
            not holes and not audit["doubled"] and audit["rows"] > 0,
        ),
        Check(
            "messages that only the broker has", "0", f"{audit['waiting']:,}", audit["waiting"] == 0
        ),
        Check(
            "signatures that verify",
            f"{audit['rows']:,}",
            f"{audit['valid']:,}",
            audit["valid"] == audit["rows"],
        ),
    ]
