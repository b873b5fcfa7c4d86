"""What needs attention, and how well a broker is, from numbers alone."""

import pytest

from penstock.admin.view import JournalView
from penstock.api.documents.overview import Rates, Storage
from penstock.api.findings import Facts, GroupLag, Letters, Recent, findings
from penstock.api.health import acknowledgement, health_of
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState
from penstock.config.schema import Config

LONE = ClusterStatus(node_id=1, leader=1)
DISK = "the disk is full: publishes that need it are refused"
DAY_S = 24 * 3600


def cluster(*active):
    """Node 1 leads; the others are active or not."""
    others = [MemberStatus(id=n, is_active=is_active) for n, is_active in enumerate(active, 2)]
    members = (MemberStatus(id=1), *others)
    return ClusterStatus(node_id=1, leader=1, state=NodeState.MEMBER, members=members)


@pytest.mark.parametrize(
    ("status", "state", "survives", "promise"),
    [
        (LONE, "healthy", 0, "on the disk of this node"),
        (cluster(True, True), "healthy", 1, "on the disks of 2 of 3 nodes"),
        (cluster(True, False), "degraded", 0, "on the disks of 2 of 3 nodes"),
        (cluster(True, True, True, True), "healthy", 2, "on the disks of 3 of 5 nodes"),
        (cluster(True, True, True, False), "degraded", 1, "on the disks of 3 of 5 nodes"),
        (cluster(True), "degraded", 0, "on the disks of 2 of 2 nodes"),
    ],
)
def test_health_says_what_may_fail(status, state, survives, promise):
    health = health_of(status, "", Config())
    assert (health.state, health.survives, health.acknowledgement) == (state, survives, promise)


def test_what_is_not_ready_is_unavailable():
    health = health_of(LONE, "the disk is full", Config())
    assert (health.state, health.ready) == ("unavailable", False)
    assert health.text == "unavailable: the disk is full"


def test_weaker_promise_is_told():
    config = Config(durability="interval", durability_interval_ms=50)
    assert acknowledgement(LONE, config) == "accepted in memory; a crash loses up to 50 ms"


def rates(fsync_ms=1.0):
    numbers = dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), 0.0)
    numbers |= {"commits": 0.0, "drops": 0.0, "ends": 0.0}
    times = dict.fromkeys(("acknowledge_p50_ms", "acknowledge_p99_ms", "commit_p99_ms"), 1.0)
    return Rates(**numbers, **times, fsync_p99_ms=fsync_ms)


def storage(full_in_s=None, full_means=DISK):
    sizes = {"bytes": 1, "bytes_max": 2, "disk_free_bytes": 3, "messages": 4}
    return Storage(
        **sizes,
        oldest_sequence=1,
        newest_sequence=2,
        growth_bytes_per_s=1.0,
        full_in_s=full_in_s,
        full_means=full_means,
    )


def found(**changes):
    """Severity and code of each finding."""
    facts = Facts(
        health=changes.pop("health", health_of(LONE, "", Config())),
        rates=changes.pop("rates", rates()),
        storage=changes.pop("storage", storage()),
        journal=changes.pop("journal", JournalView(1, 2, 3, 4, 5, 6)),
        lags=changes.pop("lags", []),
        letters=changes.pop("letters", []),
        recent=changes.pop("recent", Recent(300, {}, {}, 0)),
        certificates=changes.pop("certificates", {}),
    )
    assert not changes
    return [(finding.severity, finding.code) for finding in findings(facts)]


def test_all_well_is_no_finding():
    ends = {"client_disconnect": 10_000, "connection_lost": 10_000, "keep_alive_timeout": 19}
    drops = {"expired": 5, "retention": 0}
    assert found(recent=Recent(300, ends, drops, 0)) == []
    assert found(lags=[GroupLag("a", "g", 999, 1), GroupLag("a", "h", 0, 0)]) == []
    assert found(storage=storage(3_600, "the limit of the journal is reached")) == []
    assert found(certificates={"x": 31 * DAY_S}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"health": health_of(LONE, "stopping", Config())}, ("bad", "unavailable")),
        ({"health": health_of(cluster(True, False), "", Config())}, ("warn", "degraded")),
        ({"recent": Recent(60, {}, {}, 2)}, ("bad", "commit_failures")),
        ({"journal": JournalView(1, 2, 3, 4, 5, 6, damage=1)}, ("bad", "journal_damage")),
        ({"rates": rates(fsync_ms=250.0)}, ("warn", "slow_disk")),
        ({"storage": storage(DAY_S)}, ("warn", "disk_full_soon")),
        ({"storage": storage(3_600)}, ("bad", "disk_full_soon")),
        ({"lags": [GroupLag("mail", "send", 1, 0)]}, ("warn", "no_workers")),
        ({"lags": [GroupLag("mail", "send", 1_000, 2)]}, ("warn", "group_lag")),
        ({"letters": [Letters("mail", "send", 2)]}, ("warn", "dead_letters")),
        ({"recent": Recent(300, {"session_taken_over": 42}, {}, 0)}, ("warn", "many_ends")),
        ({"recent": Recent(300, {}, {"queue_full_oldest": 1}, 0)}, ("warn", "drops")),
        ({"certificates": {"0.0.0.0:8883": 29 * DAY_S}}, ("warn", "certificate_expires")),
        ({"certificates": {"0.0.0.0:8883": -5}}, ("bad", "certificate_expires")),
    ],
)
def test_what_needs_attention_is_found(changes, expected):
    assert found(**changes) == [expected]


def test_worst_comes_first():
    assert found(letters=[Letters("mail", "send", 2)], recent=Recent(60, {}, {}, 2)) == [
        ("bad", "commit_failures"),
        ("warn", "dead_letters"),
    ]
