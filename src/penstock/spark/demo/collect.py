"""Turns what the demo wrote into results; unreadable input, such as a cut line, is skipped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from penstock.spark.demo.fleet import Sensor
from penstock.spark.demo.ledger import Account, Ledger
from penstock.spark.demo.results import Alert, BatchTiming, Check, SensorComparison, Window
from penstock.spark.pipelines.audit_report import AuditReport

CURTAIN_S: Final = 2.0  # a device heard in the last seconds did not fall silent


def seconds_of(time: str, began_ms: int) -> float:
    moment = datetime.fromisoformat(time)
    return moment.timestamp() - began_ms / 1000


def traffic_of(ledgers: Mapping[str, Ledger], seconds: float) -> dict[str, list[int]]:
    shown = max(1, int(seconds))
    traffic = {}
    for door, ledger in ledgers.items():
        counts = [0] * shown
        for second, count in ledger.by_second.items():
            counts[min(second, shown - 1)] += count
        traffic[door] = counts
    return traffic


def accounts_of(ledgers: Iterable[Ledger]) -> dict[str, Account]:
    return {topic: account for ledger in ledgers for topic, account in ledger.accounts.items()}


def batches_of(lines: Iterable[str], began_ms: int) -> dict[str, list[BatchTiming]]:
    found: dict[str, list[BatchTiming]] = {}
    for line in lines:
        try:
            document = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if document["rows"]:
            took_s = document["duration_ms"] / 1000
            at_s = seconds_of(document["time"], began_ms) + took_s
            found.setdefault(name_of(document["query"]), []).append(
                BatchTiming(at_s, took_s, document["rows"])
            )
    return {query: found[query] for query in sorted(found)}


def until(batches: Mapping[str, list[BatchTiming]], seconds: float) -> dict[str, list[BatchTiming]]:
    return {
        query: [batch for batch in own if batch.at_s <= seconds] for query, own in batches.items()
    }


def name_of(query: str) -> str:
    return query.partition("-")[0]


def rollups_of(payloads: Iterable[bytes], began_ms: int, field: str) -> list[Window]:
    windows = []
    for payload in payloads:
        try:
            document = msgspec.json.decode(payload)
            if document["field"] == field:
                start_s = seconds_of(document["start"], began_ms)
                figures = (document["min"], document["mean"], document["max"])
                windows.append(Window(start_s, document["count"], *figures))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return sorted(windows, key=lambda window: window.start_s)


def alerts_of(payloads: Iterable[bytes], began_ms: int, seconds: float) -> list[Alert]:
    """Parse alerts. A silence is dated by the last message; silence after the end is dropped."""
    alerts = []
    for payload in payloads:
        try:
            document = msgspec.json.decode(payload)
            kind, device = document["kind"], document["device"]
            at_s = seconds_of(document["last_seen" if kind == "silent" else "at"], began_ms)
            text = ""
            if kind == "gap":
                text = f"{document['first_missing']} to {document['last_missing']} are missing"
            if kind != "silent" or at_s < seconds - CURTAIN_S:
                alerts.append(Alert(device, kind, at_s, text))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return sorted(alerts, key=lambda alert: (alert.at_s, alert.device))


def keys_of(windows: Mapping[str, Iterable[bytes]]) -> Counter[tuple[str, str, str]]:
    keys: Counter[tuple[str, str, str]] = Counter()
    for topic, payloads in windows.items():
        for payload in payloads:
            document = msgspec.json.decode(payload)
            keys[topic, document["field"], document["start"]] += 1
    return keys


def lines_of(
    fleet: Sequence[Sensor], accounts: Mapping[str, Account], tallies: Mapping[str, tuple[int, int]]
) -> list[SensorComparison]:
    lines = []
    for sensor in fleet:
        account = accounts.get(sensor.topic, Account())
        archived, checksum = tallies.get(sensor.topic, (0, 0))
        is_same = (account.acknowledged, account.checksum) == (archived, checksum)
        counts = (account.acknowledged, archived, account.refused)
        lines.append(
            SensorComparison(sensor.name, sensor.door, sensor.fault, *counts, is_same=is_same)
        )
    return lines


def checks_of(
    lines: Sequence[SensorComparison],
    report: AuditReport,
    windows: Counter[tuple[str, str, str]],
    alerts: Sequence[Alert],
) -> list[Check]:
    acknowledged = sum(line.acknowledged for line in lines)
    archived = sum(line.archived for line in lines)
    same = sum(line.is_same for line in lines)
    forged = sum(line.archived for line in lines if line.fault == "impostor")
    twice = windows.total() - len(windows)
    is_whole, is_once = acknowledged == archived > 0, twice == 0 and bool(windows)
    reported = {(alert.device, alert.kind) for alert in alerts}
    due = {(x.device, _EXPECTED_ALERTS[x.fault]) for x in lines if x.fault in _EXPECTED_ALERTS}
    return [
        *_audited(report),
        _check("acknowledged readings in the archive", acknowledged, archived, is_good=is_whole),
        _check("sensors whose checksum matches", len(lines), same),
        _check("forged readings in the archive", 0, forged),
        Check("windows that came twice", f"0 of {len(windows):,}", f"{twice:,}", is_once),
        _check("silences and gaps that were reported", len(due), len(due & reported)),
    ]


def _check(claim: str, expected: int, found: int, *, is_good: bool | None = None) -> Check:
    is_good = expected == found if is_good is None else is_good
    return Check(claim, f"{expected:,}", f"{found:,}", is_good)


_EXPECTED_ALERTS: Final = {"silent": "silent", "gone": "silent", "jump": "gap"}


def _audited(report: AuditReport) -> list[Check]:
    holes = sum(hole.end - hole.begin for hole in report.holes)
    expected = report.rows - report.doubled + holes
    is_whole = not holes and not report.doubled and report.rows > 0
    faults = "; ".join(report.faults()) or "passed"
    return [
        Check("audit of the archive", "passed", faults, report.is_ok),
        _check("offsets in the archive, each once", expected, report.rows, is_good=is_whole),
        _check("messages that only the broker has", 0, report.waiting),
        _check("signatures that verify", report.rows, report.valid),
    ]
