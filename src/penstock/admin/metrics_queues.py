"""The metrics of topics that are worked on, and of the groups that do.

Sums are over what a scrape looks at (:mod:`penstock.admin.survey`). Topics of dead letters are not
among them: nobody works on those, and what is in them is counted on its own.
"""

from penstock.admin.exposition import Metric, counted
from penstock.admin.survey import GROUPS_MAX, SERIES_DEFAULT, TOPICS_MAX

QUEUES: tuple[Metric, ...] = (
    Metric(
        "penstock_queue_topics",
        "gauge",
        f"Topics that were made or steered, or have groups, up to {TOPICS_MAX:,}.",
        lambda scrape: scrape.survey.topics,
    ),
    Metric(
        "penstock_queue_messages",
        "gauge",
        "Messages of those topics that are within their limits, from the oldest that some group has"
        " not done; those behind it that are done count, too.",
        lambda scrape: scrape.survey.messages,
    ),
    Metric(
        "penstock_groups",
        "gauge",
        f"Groups of those topics, up to {GROUPS_MAX:,}: of streams, of queues, of any protocol.",
        lambda scrape: scrape.survey.groups,
    ),
    Metric(
        "penstock_group_pending",
        "gauge",
        "Messages handed out by those groups and not settled.",
        lambda scrape: scrape.survey.pending,
    ),
    Metric(
        "penstock_groups_in_flight",
        "gauge",
        "Those of them that a consumer has: not those that are to be handed out again.",
        lambda scrape: scrape.survey.in_flight,
    ),
    Metric(
        "penstock_groups_lag",
        "gauge",
        "Messages not done, over all those groups; a message counts once for each.",
        lambda scrape: scrape.survey.lag,
    ),
    Metric(
        "penstock_group_lag",
        "gauge",
        f"The same by group, for the {SERIES_DEFAULT} that are furthest behind, or as many as"
        " `/metrics?groups=` says.",
        lambda scrape: scrape.survey.largest_lags,
        "topic, group",
    ),
    Metric(
        "penstock_reader_lag",
        "gauge",
        f"Messages not read by a reader (a Spark query, by its name), over all its topics; for the"
        f" {SERIES_DEFAULT} that are furthest behind, or as many as `/metrics?groups=` says.",
        lambda scrape: scrape.survey.reader_lags,
        "reader",
    ),
    Metric(
        "penstock_group_redeliveries_total",
        "counter",
        "Messages that groups handed out again.",
        lambda scrape: scrape.view.queues.groups.redeliveries,
    ),
    counted(
        "penstock_returned_total",
        "counter",
        "returned_total",
        "Messages that consumers gave back.",
    ),
    counted(
        "penstock_dead_letters_total",
        "counter",
        "dead_letters_total",
        "Messages put with the dead letters: they failed as often as their group allows.",
    ),
    counted(
        "penstock_rate_limited_total",
        "counter",
        "rate_limited_total",
        "Times that a topic had messages for a consumer, and its rate allowed none yet.",
    ),
    # ── Sinks
    counted(
        "penstock_staged_bytes",
        "gauge",
        "staged_bytes",
        "Bytes that sinks have staged and neither committed nor aborted.",
    ),
    counted(
        "penstock_staged_parts",
        "gauge",
        "staged_parts",
        "Parts that those bytes belong to: attempts of tasks.",
    ),
    counted(
        "penstock_sink_commits_total",
        "counter",
        "sink_commits_total",
        "Epochs of sinks that were published.",
    ),
    counted(
        "penstock_sink_repetitions_total",
        "counter",
        "sink_repetitions_total",
        "Commits of epochs that were published before, and were left as they are.",
    ),
    counted(
        "penstock_stages_aborted_total",
        "counter",
        "stages_aborted_total",
        "Staged parts that were let go as their writers asked.",
    ),
    counted(
        "penstock_stages_expired_total",
        "counter",
        "stages_expired_total",
        "Staged parts that were let go after `limits.stage_expiry_s`.",
    ),
)
