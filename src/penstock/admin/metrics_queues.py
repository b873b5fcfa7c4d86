"""The metrics of queues, consumer groups, sinks and schedules.

Sums are over the topics and groups of a :class:`~penstock.admin.survey.Survey`. It excludes
dead-letter topics: they are not consumed, and dead letters are counted separately.
"""

from penstock.admin.exposition import Metric, counted, counter, gauge
from penstock.admin.survey import GROUPS_MAX, SERIES_DEFAULT, TOPICS_MAX

QUEUES: tuple[Metric, ...] = (
    gauge(
        "penstock_queue_topics",
        f"Topics that were created or configured, or have groups, up to {TOPICS_MAX:,}.",
        lambda s: s.survey.topics,
    ),
    gauge(
        "penstock_queue_messages",
        "Messages of those topics, within their limits, from the oldest one that some group has not"
        " finished; finished ones behind it are included.",
        lambda s: s.survey.messages,
    ),
    gauge(
        "penstock_groups",
        f"Groups of those topics, up to {GROUPS_MAX:,}, over all protocols.",
        lambda s: s.survey.groups,
    ),
    gauge(
        "penstock_group_pending",
        "Messages delivered by those groups and not settled.",
        lambda s: s.survey.pending,
    ),
    gauge(
        "penstock_groups_in_flight",
        "Those of them that a consumer holds, without those that wait for redelivery.",
        lambda s: s.survey.in_flight,
    ),
    gauge(
        "penstock_groups_lag",
        "Unfinished messages over all those groups; a message counts once per group.",
        lambda s: s.survey.lag,
    ),
    gauge(
        "penstock_group_lag",
        f"The same by group, for the {SERIES_DEFAULT} groups with the largest lag, or as many as"
        " `/metrics?groups=` asks for.",
        lambda s: s.survey.largest_lags,
        "topic, group",
    ),
    gauge(
        "penstock_reader_lag",
        "Unread messages of a reader (a Spark query, by its name), over all its topics; for the"
        f" {SERIES_DEFAULT} readers with the largest lag, or as many as `/metrics?groups=` asks"
        " for.",
        lambda s: s.survey.reader_lags,
        "reader",
    ),
    counter(
        "penstock_group_redeliveries_total",
        "Messages that groups redelivered.",
        lambda s: s.view.queues.groups.redeliveries,
    ),
    counted("returned_total", "Messages that consumers returned (nack)."),
    counted("dead_letters_total", "Messages dead-lettered after too many failed deliveries."),
    counted(
        "rate_limited_total",
        "Times that a topic had messages for a consumer, but its rate limit allowed none yet.",
    ),
    # ── Schedules
    gauge(
        "penstock_schedules",
        "Schedules, those that fire no more included.",
        lambda s: s.view.schedules(),
    ),
    counter(
        "penstock_schedule_firings_total",
        "Firings that this node made, by result: published messages, refused firings, and missed"
        " ones that were skipped.",
        lambda s: s.counters.schedule_firings_total,
        "result",
    ),
    # ── Tracing
    counter(
        "penstock_spans_total",
        "Spans of traced messages: exported, failed (the collector refused them or is away), or"
        " dropped because too many waited.",
        lambda s: s.counters.spans_total,
        "result",
    ),
    # ── Sinks
    counted("staged_bytes", "Bytes that sinks have staged and neither committed nor aborted."),
    counted("staged_parts", "Parts (task attempts) that those bytes belong to."),
    counted("sink_commits_total", "Epochs that sinks published."),
    counted(
        "sink_repetitions_total", "Repeated commits of epochs that had already been published."
    ),
    counted("stages_aborted_total", "Staged parts discarded at the request of their writer."),
    counted("stages_expired_total", "Staged parts discarded after `limits.stage_expiry_s`."),
)
