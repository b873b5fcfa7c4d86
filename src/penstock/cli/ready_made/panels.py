"""What the dashboard shows: rows of panels, each with its queries.

``{*}`` in a query stands for the selection of the dashboard, jobs and instances; ``{*, a="b"}``
adds to it. ``RATE`` is the window that suits the resolution of the graph.
"""

from typing import Final, Literal, NamedTuple

__all__ = ["ROWS", "Panel", "Query", "Row"]

RATE: Final = "[$__rate_interval]"


class Query(NamedTuple):
    """A query in PromQL, and the legend of each series."""

    expression: str
    legend: str = "{{instance}}"


class Panel(NamedTuple):
    """A graph, or for kind ``stat`` the latest number; ``width`` is of 24."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    text: str = ""
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 8
    steps: tuple[tuple[str, float], ...] = ()  # a colour from each value on; green before
    values: tuple[tuple[str, str, str], ...] = ()  # value, what to show instead, colour


class Row(NamedTuple):
    """Panels under one heading; a collapsed row is opened by a click."""

    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


def _rate(metric: str, by: str = "instance", what: str = "") -> Query:
    labels = [f"{{{{{label}}}}}" for label in by.split(", ")]
    legend = " ".join([*labels, what] if what else labels)
    return Query(f"sum by ({by}) (rate({metric}{{*}}{RATE}))", legend)


def _gauge(metric: str, legend: str = "{{instance}}") -> Query:
    return Query(f"{metric}{{*}}", legend)


def _latency(metric: str) -> tuple[Query, ...]:
    buckets = f"sum by (instance, le) (rate({metric}_bucket{{*}}{RATE}))"
    mean = f"rate({metric}_sum{{*}}{RATE}) / rate({metric}_count{{*}}{RATE})"
    return (
        Query(f"histogram_quantile(0.99, {buckets})", "{{instance}} p99"),
        Query(f"histogram_quantile(0.5, {buckets})", "{{instance}} p50"),
        Query(mean, "{{instance}} mean"),
    )


def _stat(
    title: str,
    query: str,
    unit: str = "short",
    *,
    text: str = "",
    steps: tuple[tuple[str, float], ...] = (),
    values: tuple[tuple[str, str, str], ...] = (),
) -> Panel:
    return Panel(title, (Query(query, ""),), unit, text, "stat", 3, steps, values)


def _occurring(metric: str, labels: str) -> tuple[Query, ...]:
    """Those values of labels that occur; most never do, and would fill the legend."""
    query = _rate(metric, labels)
    return (query._replace(expression=f"{query.expression} > 0"),)


_OVERVIEW: Final = Row(
    "Overview",
    (
        _stat(
            "Ready",
            "min(penstock_ready{*})",
            values=(("0", "NO", "red"), ("1", "yes", "green")),
            text="Whether /ready answers 200 on every broker.",
        ),
        _stat("Brokers", "count(penstock_build_info{*})", text="Brokers that answer."),
        _stat("Clients", "sum(penstock_clients_connected{*})"),
        _stat("Received", f"sum(rate(penstock_messages_received_total{{*}}{RATE}))", "cps"),
        _stat("Sent", f"sum(rate(penstock_messages_sent_total{{*}}{RATE}))", "cps"),
        _stat(
            "Dropped, last hour",
            'sum(increase(penstock_dropped_total{*, reason!~"expired|topic_deleted"}[1h]))',
            steps=(("red", 1),),
            text="Without messages whose time to live was over, and those of deleted topics.",
        ),
        _stat("Least disk free", "min(penstock_disk_free_bytes{*})", "bytes"),
        _stat("Least uptime", "min(penstock_uptime_seconds{*})", "s"),
    ),
)

_TRAFFIC: Final = Row(
    "Traffic",
    (
        Panel(
            "Messages received, by QoS",
            (_rate("penstock_messages_received_total", "qos"),),
            "cps",
        ),
        Panel(
            "Messages sent, by QoS",
            (_rate("penstock_messages_sent_total", "qos"),),
            "cps",
        ),
        Panel(
            "Bytes",
            (
                _rate("penstock_received_bytes_total", what="in"),
                _rate("penstock_sent_bytes_total", what="out"),
            ),
            "Bps",
        ),
        Panel(
            "Connections, by protocol", (_rate("penstock_connections_total", "protocol"),), "cps"
        ),
        Panel("Logins", _occurring("penstock_logins_total", "door, outcome"), "cps"),
        Panel(
            "Denied",
            _occurring("penstock_denied_total", "door, action"),
            "cps",
        ),
        Panel("Publish to acknowledgement", _latency("penstock_publish_seconds"), "s", width=12),
        Panel("Publish to delivery", _latency("penstock_delivery_seconds"), "s", width=12),
    ),
)

_DURABILITY: Final = Row(
    "Durability",
    (
        Panel("Commit", _latency("penstock_commit_seconds"), "s", "From batch to disk."),
        Panel(
            "Flush",
            _latency("penstock_fsync_seconds"),
            "s",
            "The part of a commit that waits for the disk.",
        ),
        Panel(
            "Messages per commit",
            (
                Query(
                    f"rate(penstock_batch_messages_sum{{*}}{RATE})"
                    f" / rate(penstock_batch_messages_count{{*}}{RATE})"
                ),
            ),
            text="What arrives during one commit shares the next.",
        ),
        Panel("Journaled", (_rate("penstock_captured_total"),), "cps"),
        Panel("QoS 0 waiting for the disk", (_gauge("penstock_pending_capture_bytes"),), "bytes"),
        Panel(
            "Failures",
            (
                _rate("penstock_commit_failures_total", what="commits"),
                _rate("penstock_read_failures_total", what="reads"),
            ),
            "cps",
        ),
    ),
)

_QUEUES: Final = Row(
    "Queues and groups",
    (
        Panel(
            "Lag of groups, largest ten",
            (
                Query(
                    "topk(10, max by (topic, group) (penstock_group_lag{*}))", "{{topic}} {{group}}"
                ),
            ),
            text="Unfinished messages. A lag that grows for minutes needs more workers.",
        ),
        Panel(
            "Lag of readers",
            (Query("max by (reader) (penstock_reader_lag{*})", "{{reader}}"),),
            text="Unread messages of Spark queries.",
        ),
        Panel(
            "Jobs",
            (
                Query("max(penstock_queue_pending{*})", "in queues"),
                Query("max(penstock_group_pending{*})", "delivered, not settled"),
                Query("max(penstock_groups_in_flight{*})", "held by consumers"),
            ),
        ),
        Panel(
            "Dead letters, per hour",
            (Query("increase(penstock_dead_letters_total{*}[1h])", "{{instance}}"),),
            text="penstock dlq list shows them.",
        ),
        Panel(
            "Deliveries that failed",
            (
                _rate("penstock_returned_total", what="returned"),
                _rate("penstock_group_redeliveries_total", what="redelivered"),
            ),
            "cps",
        ),
        Panel(
            "Settled, rate-limited",
            (
                _rate("penstock_acknowledgements_total", what="acknowledged"),
                _rate("penstock_rate_limited_total", what="rate-limited"),
            ),
            "cps",
        ),
        Panel(
            "Topics and groups",
            (
                Query("max(penstock_queue_topics{*})", "topics"),
                Query("max(penstock_groups{*})", "groups"),
            ),
        ),
        Panel("Staged by sinks", (_gauge("penstock_staged_bytes"),), "bytes"),
        Panel(
            "Epochs of sinks",
            (
                _rate("penstock_sink_commits_total", what="published"),
                _rate("penstock_sink_repetitions_total", what="repeated"),
            ),
            "cps",
        ),
    ),
)

_SESSIONS: Final = Row(
    "Sessions",
    (
        Panel("Sessions", (_gauge("penstock_sessions", "{{instance}} {{state}}"),)),
        Panel("Messages queued for sessions", (_gauge("penstock_queued_messages"),)),
        Panel("Redelivered after a reconnect", (_rate("penstock_redelivered_total"),), "cps"),
        Panel(
            "Subscriptions",
            (
                _gauge("penstock_subscriptions", "{{instance}} all"),
                _gauge("penstock_followers", "{{instance}} reading the journal"),
            ),
        ),
        Panel("Durable subscribers", (_gauge("penstock_durable_subscribers"),)),
        Panel("Retained messages", (_gauge("penstock_retained_messages"),)),
    ),
)

_LOSSES: Final = Row(
    "Drops and disconnects",
    (
        Panel(
            "Messages dropped, by reason",
            _occurring("penstock_dropped_total", "reason"),
            "cps",
            "Every reason is in docs/reference/reasons.md, with what to change.",
        ),
        Panel(
            "Connections closed, by reason",
            _occurring("penstock_disconnects_total", "reason"),
            "cps",
        ),
        Panel(
            "Signatures refused, by fault",
            _occurring("penstock_signature_failures_total", "fault"),
            "cps",
        ),
        Panel(
            "Waiting to be sent",
            (
                _gauge("penstock_outgoing_bytes"),
                Query("min(penstock_outgoing_bytes_max{*})", "the limit"),
            ),
            "bytes",
            width=12,
        ),
        Panel(
            "Connections that wait because of the limit",
            (_gauge("penstock_outgoing_waiting"),),
            width=12,
        ),
    ),
)

_STORAGE: Final = Row(
    "Storage",
    (
        Panel("Disk free", (_gauge("penstock_disk_free_bytes"),), "bytes"),
        Panel(
            "Journal",
            (
                _gauge("penstock_journal_bytes", "{{instance}} all"),
                _gauge("penstock_journal_block_bytes", "{{instance}} blocks"),
                _gauge("penstock_journal_tail_bytes", "{{instance}} database"),
            ),
            "bytes",
        ),
        Panel("Messages in the journal", (_gauge("penstock_journal_messages"),)),
        Panel("Blocks", (_gauge("penstock_journal_blocks"),)),
        Panel(
            "Damaged places",
            (_gauge("penstock_journal_damage"),),
            text="More than 0: penstock store verify.",
        ),
        Panel(
            "Certificates expire in",
            (_gauge("penstock_tls_certificate_expires_seconds", "{{instance}} {{listener}}"),),
            "s",
        ),
    ),
)

_CLUSTER: Final = Row(
    "Cluster",
    (
        Panel(
            "Leader",
            (_gauge("penstock_raft_leader"),),
            text="The leader's number, as each node sees it; 0: none.",
        ),
        Panel("Term", (_gauge("penstock_raft_term"),)),
        Panel("Elections", (Query("increase(penstock_raft_elections_total{*}[5m])"),)),
        Panel("Members", (_gauge("penstock_raft_members", "{{instance}} {{kind}}"),)),
        Panel(
            "Nodes heard from",
            (_gauge("penstock_raft_follower_active", "node {{node}}"),),
            text="As the leader sees it.",
        ),
        Panel("Entries behind", (_gauge("penstock_raft_follower_lag", "node {{node}}"),)),
        Panel("Sent to nodes", (_rate("penstock_peer_sent_bytes_total", "instance, node"),), "Bps"),
        Panel("Clock, to the leader's", (_gauge("penstock_clock_skew_seconds"),), "s"),
        Panel(
            "Batches for the leader",
            (
                _rate("penstock_raft_forwarded_batches_total", what="forwarded"),
                _rate("penstock_raft_forward_repeats_total", what="repeated"),
            ),
            "cps",
        ),
    ),
    is_collapsed=True,
)

_BRIDGES: Final = Row(
    "Bridges",
    (
        Panel(
            "Connected", (Query("max by (bridge) (penstock_bridge_connected{*})", "{{bridge}}"),)
        ),
        Panel("Copied", (_rate("penstock_bridge_messages_total", "bridge, direction"),), "cps"),
        Panel(
            "Not copied",
            (_rate("penstock_bridge_drops_total", "bridge, direction, reason"),),
            "cps",
        ),
    ),
    is_collapsed=True,
)

_PROCESS: Final = Row(
    "Process",
    (
        Panel("CPU", (_rate("process_cpu_seconds_total"),), "percentunit"),
        Panel("Memory", (_gauge("process_resident_memory_bytes"),), "bytes"),
        Panel(
            "Open files",
            (
                _gauge("process_open_fds"),
                _gauge("process_max_fds", "{{instance}} the limit"),
            ),
        ),
        Panel(
            "Versions",
            (_gauge("penstock_build_info", "{{instance}} {{version}} {{speed}} {{python}}"),),
            width=24,
        ),
    ),
    is_collapsed=True,
)

ROWS: Final = (
    _OVERVIEW,
    _TRAFFIC,
    _DURABILITY,
    _QUEUES,
    _SESSIONS,
    _LOSSES,
    _STORAGE,
    _CLUSTER,
    _BRIDGES,
    _PROCESS,
)
