"""What needs attention, found in numbers that are there. Pure.

A finding says what is wrong, what to do, and which page shows more. What is normal is no finding:
clients come and go, retention removes what is old.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.admin.view import JournalView
from penstock.api.documents.overview import Finding, Health, Rates, Storage
from penstock.obs.reasons import DisconnectReason, DropReason, advice_for

LAG_MIN = 1_000
ENDS_MIN = 20  # in the window: fewer are everyday
FSYNC_MS_MAX = 100.0
FULL_SOON_S = 3 * 24 * 3600
FULL_VERY_SOON_S = 6 * 3600
CERTIFICATE_DAYS = 30
GROUPS_SHOWN = 5  # of each kind

ORDINARY_ENDS = {
    DisconnectReason.CLIENT_DISCONNECT.value,
    DisconnectReason.CONNECTION_LOST.value,
    DisconnectReason.HTTP_IDLE.value,
    DisconnectReason.SERVER_SHUTDOWN.value,
}
ORDINARY_DROPS = {
    DropReason.TOPIC_DELETED.value,
    DropReason.SESSION_EXPIRED.value,
    DropReason.EXPIRED.value,
}


class GroupLag(NamedTuple):
    """A group that is behind."""

    topic: str
    group: str
    lag: int
    workers: int


class Letters(NamedTuple):
    """Dead letters of one group."""

    topic: str
    group: str
    letters: int


class Recent(NamedTuple):
    """What was counted in the window of the last minutes."""

    window_s: float
    ends: Mapping[str, int]
    drops: Mapping[str, int]
    commit_failures: int


class Facts(NamedTuple):
    """What is looked at."""

    health: Health
    rates: Rates
    storage: Storage
    journal: JournalView
    lags: list[GroupLag]
    letters: list[Letters]
    recent: Recent
    certificates: Mapping[str, float]  # seconds until they expire, by listener


def findings(facts: Facts) -> list[Finding]:
    """The worst first."""
    found = [
        *_health(facts.health),
        *_storage(facts),
        *_groups(facts.lags),
        *_letters(facts.letters),
        *_counted(facts.recent),
        *_certificates(facts.certificates),
    ]
    return sorted(found, key=lambda finding: finding.severity != "bad")


def _health(health: Health) -> Iterator[Finding]:
    if health.state != "healthy":
        yield Finding(
            severity="bad" if health.state == "unavailable" else "warn",
            code=health.state,
            text=health.text,
            advice="the page of the cluster has the state of each node",
            page="cluster",
        )


def _storage(facts: Facts) -> Iterator[Finding]:
    journal, recent, fsync_ms = facts.journal, facts.recent, facts.rates.fsync_p99_ms
    if recent.commit_failures:
        yield Finding(
            severity="bad",
            code="commit_failures",
            text=f"{recent.commit_failures} commits failed in the last {_time(recent.window_s)}",
            advice="check the disk and the log (commit_failed)",
            page="overview",
            count=recent.commit_failures,
        )
    if journal.damage:
        yield Finding(
            severity="bad",
            code="journal_damage",
            text=f"{journal.damage} places of the journal are damaged",
            advice="penstock store verify names them; their messages are as if removed",
            page="overview",
            count=journal.damage,
        )
    if fsync_ms is not None and fsync_ms > FSYNC_MS_MAX:
        yield Finding(
            severity="warn",
            code="slow_disk",
            text=f"the disk needs up to {fsync_ms:.0f} ms for a flush",
            advice="acknowledgements wait for it: look for what else writes to this disk",
            page="overview",
        )
    full_s = facts.storage.full_in_s
    if full_s is not None and full_s < FULL_SOON_S and facts.storage.full_means.startswith("the d"):
        yield Finding(
            severity="bad" if full_s < FULL_VERY_SOON_S else "warn",
            code="disk_full_soon",
            text=f"the disk is full in {_time(full_s)}, as it grows now",
            advice="make room on it, or lower journal.total_bytes_max",
            page="overview",
        )


def _groups(lags: list[GroupLag]) -> Iterator[Finding]:
    idle = [found for found in lags if found.lag and not found.workers]
    slow = [found for found in lags if found.lag >= LAG_MIN and found.workers]
    for found in idle[:GROUPS_SHOWN]:
        yield Finding(
            severity="warn",
            code="no_workers",
            text=f"{_named(found)} has {_messages(found.lag)} to do and no workers",
            advice="start workers, or delete the group if nobody needs it",
            page="groups",
            topic=found.topic,
            group=found.group,
            count=found.lag,
        )
    for found in slow[:GROUPS_SHOWN]:
        yield Finding(
            severity="warn",
            code="group_lag",
            text=f"{_named(found)} is {_messages(found.lag)} behind, with {found.workers} workers",
            advice="add workers, or find out what slows them down",
            page="groups",
            topic=found.topic,
            group=found.group,
            count=found.lag,
        )


def _letters(letters: list[Letters]) -> Iterator[Finding]:
    for found in letters[:GROUPS_SHOWN]:
        yield Finding(
            severity="warn",
            code="dead_letters",
            text=f"{_letter_count(found.letters)} in group {found.group} of {found.topic}",
            advice="fix the cause, redrive one, then the rest",
            page="groups",
            topic=found.topic,
            group=found.group,
            count=found.letters,
        )


def _counted(recent: Recent) -> Iterator[Finding]:
    window = _time(recent.window_s)
    for reason, count in sorted(recent.ends.items(), key=lambda item: -item[1]):
        if count >= ENDS_MIN and reason not in ORDINARY_ENDS:
            yield Finding(
                severity="warn",
                code="many_ends",
                text=f"{count:,} connections ended in {window}: {reason}",
                advice=advice_for(reason, is_drop=False),
                page="clients",
                reason=reason,
                count=count,
            )
    for reason, count in sorted(recent.drops.items(), key=lambda item: -item[1]):
        if count and reason not in ORDINARY_DROPS:
            yield Finding(
                severity="warn",
                code="drops",
                text=f"{_messages(count)} dropped in {window}: {reason}",
                advice=advice_for(reason, is_drop=True),
                page="clients",
                reason=reason,
                count=count,
            )


def _certificates(expiry: Mapping[str, float]) -> Iterator[Finding]:
    for listener, seconds in expiry.items():
        days = seconds / (24 * 3600)
        if days < CERTIFICATE_DAYS:
            is_over = days <= 0
            yield Finding(
                severity="bad" if days < 1 else "warn",
                code="certificate_expires",
                text=f"the certificate of {listener} "
                + ("has expired" if is_over else f"expires in {_time(seconds)}"),
                advice="put the new one in its place: the broker takes it without a restart",
                page="security",
            )


def _messages(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"


def _letter_count(count: int) -> str:
    return f"{count:,} dead letter{'s' * (count != 1)}"


def _named(found: GroupLag) -> str:
    return f"group {found.group} of {found.topic}"


def _time(seconds: float) -> str:
    for unit, name in ((24 * 3600, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            count = int(seconds / unit)
            return f"{count} {name}{'s' * (count != 1)}"
    return f"{int(seconds)} seconds"
