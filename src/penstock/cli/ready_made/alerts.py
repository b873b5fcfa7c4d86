"""Alert rules for Prometheus: what is wrong, and what to do about it.

An alert that nobody can act on is noise, so each says what to do. Thresholds are cautious: what a
healthy broker does in everyday operation fires nothing. Rates look back over five minutes, so that
one scrape that is missed changes nothing.

Nodes of a cluster report the same groups, so alerts about groups take the maximum over all nodes.
"""

from typing import Final, Literal, NamedTuple

from penstock.cli.ready_made.scrape import JOB
from penstock.cli.ready_made.yaml_text import Yaml, to_yaml

__all__ = ["ALERTS", "Alert", "alert_rules"]

Severity = Literal["critical", "warning", "info"]

HEAD = """\
# Alerts for Penstock. Made by `penstock generate alerts`; check them with
#   promtool check rules FILE
# critical: somebody must act now. warning: today. info: worth knowing.
"""


class Alert(NamedTuple):
    """One rule; ``lasting`` is how long the expression must be true first."""

    name: str
    expression: str
    lasting: str
    severity: Severity
    summary: str
    advice: str


CERTIFICATE_S: Final = 14 * 86_400
"""A certificate that lives shorter than this should have been renewed by itself."""

_BROKER: Final = (
    Alert(
        "PenstockDown",
        f'up{{job="{JOB}"}} == 0 or absent(up{{job="{JOB}"}})',
        "1m",
        "critical",
        "{{ $labels.instance }} does not answer",
        "Look whether the process runs and what its log says last. If it does run, look at the"
        " target in Prometheus: a wrong or expired token answers 401.",
    ),
    Alert(
        "PenstockNotReady",
        "penstock_ready == 0",
        "1m",
        "critical",
        "{{ $labels.instance }} is not ready",
        "Ask /ready for the reason: a full disk, no leader, or a node that is catching up. Do not"
        " restart it for that; it continues by itself once the cause is gone.",
    ),
    Alert(
        "PenstockFilesShort",
        f'process_open_fds{{job="{JOB}"}} / process_max_fds{{job="{JOB}"}} > 0.8',
        "5m",
        "warning",
        "{{ $labels.instance }} has used {{ $value | humanizePercentage }} of its open files",
        "Raise LimitNOFILE= (ulimit -Hn), or lower limits.clients_max. Beyond the limit clients are"
        " refused.",
    ),
    Alert(
        "PenstockSlowReaders",
        "penstock_outgoing_bytes / penstock_outgoing_bytes_max > 0.5",
        "5m",
        "warning",
        "{{ $labels.instance }} holds much data for clients that read slowly",
        "Find them with penstock clients. QoS 0 messages for them are being dropped. Raise"
        " limits.outgoing_bytes_max if the memory is there.",
    ),
    Alert(
        "PenstockInterpreted",
        'penstock_build_info{speed="interpreted"} == 1',
        "1h",
        "info",
        "{{ $labels.instance }} runs without its compiled code",
        "penstock doctor says why, and what to install. It is correct, but slower.",
    ),
    Alert(
        "PenstockCertificateExpires",
        f"penstock_tls_certificate_expires_seconds < {CERTIFICATE_S}",
        "1h",
        "warning",
        "The certificate of {{ $labels.listener }} on {{ $labels.instance }} expires in"
        " {{ $value | humanizeDuration }}",
        "Renew it. The broker reads the new files by itself, within seconds.",
    ),
)

_DISK: Final = (
    Alert(
        "PenstockDiskFull",
        "penstock_disk_free_bytes < 536870912",
        "1m",
        "critical",
        "{{ $labels.instance }} has {{ $value | humanize1024 }}B of disk left",
        "Make room, or lower journal.total_bytes_max. On a full disk nothing is acknowledged.",
    ),
    Alert(
        "PenstockDiskFillsUp",
        "predict_linear(penstock_disk_free_bytes[1h], 14400) < 0",
        "15m",
        "warning",
        "The disk of {{ $labels.instance }} will be full within four hours",
        "Look what grows: the journal (bounded by journal.total_bytes_max) or something else on the"
        " same disk. Make room, or lower the bound.",
    ),
    Alert(
        "PenstockCommitsFail",
        "increase(penstock_commit_failures_total[5m]) > 0",
        "0m",
        "critical",
        "{{ $labels.instance }} could not write to its journal",
        "Look for commit_failed in the log: the disk is full or fails. What was not written was not"
        " acknowledged; publishers send it again.",
    ),
    Alert(
        "PenstockCommitsSlow",
        "histogram_quantile(0.99, rate(penstock_commit_seconds_bucket[5m])) > 0.25",
        "10m",
        "warning",
        "One commit in a hundred takes over {{ $value | humanizeDuration }} on"
        " {{ $labels.instance }}",
        "Publishers wait that long. Compare with penstock_fsync_seconds: if that explains it, the"
        " disk is slow or shared with others; if not, the machine is overloaded.",
    ),
    Alert(
        "PenstockJournalDamaged",
        "penstock_journal_damage > 0 or increase(penstock_read_failures_total[1h]) > 0",
        "0m",
        "critical",
        "The journal of {{ $labels.instance }} is damaged",
        "Run penstock store verify, which finds the extent. Then restore a backup; in a cluster,"
        " replace the node.",
    ),
)

_MESSAGES: Final = (
    Alert(
        "PenstockCaptureDrops",
        'sum without (reason) (rate(penstock_dropped_total{reason=~"capture_.*"}[5m])) > 0',
        "5m",
        "warning",
        "{{ $labels.instance }} does not journal all QoS 0 messages",
        "They were delivered, but history lacks them. The disk is slower than the traffic: exclude"
        " topics (journal.capture_exclude), raise journal.capture_pending_bytes_max for bursts, or"
        " use a faster disk.",
    ),
    Alert(
        "PenstockDropsMessages",
        'rate(penstock_dropped_total{reason!~"capture_.*|expired|topic_deleted"}[5m]) > 0',
        "5m",
        "warning",
        "{{ $labels.instance }} drops messages: {{ $labels.reason }}",
        "The reason says what to change: see the reference page of reasons. retention means that"
        " limits removed what a session or group had not finished.",
    ),
    Alert(
        "PenstockDisconnects",
        'rate(penstock_disconnects_total{reason!~"client_disconnect|client_ended|connection_lost'
        '|server_shutdown|session_taken_over"}[5m]) > 0.1',
        "10m",
        "info",
        "{{ $labels.instance }} closes connections: {{ $labels.reason }}",
        "The reference page of reasons has advice for each; the log names the clients.",
    ),
    Alert(
        "PenstockLoginsRefused",
        'sum without (door, outcome) (rate(penstock_logins_total{outcome!="accepted"}[5m])) > 1',
        "10m",
        "warning",
        "{{ $labels.instance }} refuses {{ $value | humanize }} logins per second",
        "A client with old credentials, or somebody who tries passwords: the log has addresses."
        " penstock bans add keeps one out.",
    ),
    Alert(
        "PenstockSignaturesRefused",
        "rate(penstock_signature_failures_total[5m]) > 0",
        "10m",
        "warning",
        "{{ $labels.instance }} refuses signatures: {{ $labels.fault }}",
        "A device with a wrong key or clock, or without permission for the topic: penstock keys"
        " list.",
    ),
)

_QUEUES: Final = (
    Alert(
        "PenstockDeadLetters",
        "increase(penstock_dead_letters_total[1h]) > 0",
        "0m",
        "warning",
        "Jobs failed for good on {{ $labels.instance }}",
        "penstock dlq list shows them, with the last error. Fix the cause, then penstock dlq"
        " redrive.",
    ),
    Alert(
        "PenstockGroupFallsBehind",
        "max by (job, topic, group) (penstock_group_lag) > 1000"
        " and max by (job, topic, group) (deriv(penstock_group_lag[10m])) > 0",
        "10m",
        "warning",
        "Group {{ $labels.group }} of {{ $labels.topic }} is {{ $value | humanize }} messages"
        " behind, and the lag grows",
        "Add workers, or find out why they are slow: penstock groups show. If"
        " penstock_rate_limited_total grows, the topic's rate limit is too low.",
    ),
    Alert(
        "PenstockReaderFallsBehind",
        "max by (job, reader) (penstock_reader_lag) > 10000"
        " and max by (job, reader) (deriv(penstock_reader_lag[30m])) > 0",
        "30m",
        "warning",
        "The Spark query {{ $labels.reader }} is {{ $value | humanize }} messages behind",
        "Give the query more cores or larger batches, before retention removes unread messages.",
    ),
)

_BRIDGES: Final = (
    Alert(
        "PenstockBridgeDown",
        "max by (job, bridge) (penstock_bridge_connected) == 0",
        "5m",
        "warning",
        "The bridge {{ $labels.bridge }} copies nothing",
        "What it copies waits at both brokers, up to their limits. penstock bridges says why it"
        " cannot connect.",
    ),
    Alert(
        "PenstockBridgeDrops",
        "sum by (job, bridge, direction, reason) (increase(penstock_bridge_drops_total[10m])) > 0",
        "0m",
        "warning",
        "The bridge {{ $labels.bridge }} does not copy some messages: {{ $labels.reason }}",
        "The page of bridges says what each reason means, and what to do.",
    ),
)

_CLUSTER: Final = (
    Alert(
        "PenstockNoLeader",
        "max by (job) (penstock_raft_leader) == 0",
        "15s",
        "critical",
        "The cluster has no leader: nothing is acknowledged",
        "Bring nodes back until a majority runs, and look at the network between them:"
        " penstock cluster status.",
    ),
    Alert(
        "PenstockNoQuorumMargin",
        "sum by (job, instance) (1 - penstock_raft_follower_active)"
        ' >= floor((max by (job, instance) (penstock_raft_members{kind="voter"}) - 1) / 2)'
        ' and max by (job, instance) (penstock_raft_members{kind="voter"}) > 2',
        "1m",
        "critical",
        "The loss of one more node stops the cluster",
        "Bring the missing node back, or replace it: penstock cluster status names it.",
    ),
    Alert(
        "PenstockNodeAway",
        "min by (job, node) (penstock_raft_follower_active) == 0",
        "1m",
        "warning",
        "The leader does not hear from node {{ $labels.node }}",
        "Look whether it runs, and what it says of the others: penstock cluster status there.",
    ),
    Alert(
        "PenstockNodeBehind",
        "max by (job, node) (penstock_raft_follower_lag) > 1000",
        "5m",
        "warning",
        "Node {{ $labels.node }} is {{ $value | humanize }} entries behind",
        "Its disk or network is slower than those of the others. A node that just came back catches"
        " up by itself.",
    ),
    Alert(
        "PenstockElections",
        "max by (job) (increase(penstock_raft_elections_total[1h])) > 5",
        "0m",
        "warning",
        "The leader changes often",
        "Machines are overloaded, their disks are slow, or the network between them is bad.",
    ),
    Alert(
        "PenstockClockWrong",
        "abs(penstock_clock_skew_seconds) > 1",
        "5m",
        "warning",
        "The clock of {{ $labels.instance }} differs from the leader's",
        "Synchronize it (NTP). Times of messages, leases and sessions depend on it.",
    ),
)

ALERTS: Final = {
    "penstock": _BROKER,
    "penstock-disk": _DISK,
    "penstock-messages": _MESSAGES,
    "penstock-queues": _QUEUES,
    "penstock-bridges": _BRIDGES,
    "penstock-cluster": _CLUSTER,
}
"""Groups of rules, by name."""


def alert_rules() -> str:
    """Return a rule file."""
    groups: list[Yaml] = [
        {"name": name, "rules": [_rule(alert) for alert in alerts]}
        for name, alerts in ALERTS.items()
    ]
    return HEAD + "\n" + to_yaml({"groups": groups})


def _rule(alert: Alert) -> Yaml:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.advice},
    }
