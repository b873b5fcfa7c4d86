"""The tables from which ``/metrics`` and the reference page are made.

To add a metric, add a row here, or in the module of its subject: ``metrics_queues``,
``metrics_cluster``, ``metrics_bridges``. A scrape walks the tables; there is no global state.

Every possible label value is always present, as 0 if need be, so that a rate over a first event is
not lost. Names follow the Prometheus conventions: prefix, subject, unit last, then ``_total``.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import product
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from penstock import kernel
from penstock.admin.exposition import (
    Metric,
    Scrape,
    counted,
    counter,
    exposition,
    families,
    gauge,
    read_stored,
)
from penstock.admin.metrics_bridges import BRIDGES
from penstock.admin.metrics_cluster import CLUSTER
from penstock.admin.metrics_hermesmq import HERMESMQ
from penstock.admin.metrics_metricmq import METRICMQ, PER_TOPIC
from penstock.admin.metrics_queues import QUEUES
from penstock.admin.survey import SERIES_DEFAULT, Survey
from penstock.admin.view import BrokerView, JournalView
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import KINDS
from penstock.trust.rules import Action

__all__ = ["CONTENT_TYPE", "METRICS", "Metric", "render", "render_off_loop"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # understood by old scrapers, too

_Reason = TypeVar("_Reason", bound=Enum)

DOORS = ("mqtt", "binary", "redis", "queue", "http")  # as principals name them
LOGIN_REASONS = (
    DisconnectReason.BAD_CREDENTIALS,
    DisconnectReason.LOGIN_BACKOFF,
    DisconnectReason.LOGIN_BUSY,
    DisconnectReason.BANNED,
    DisconnectReason.QUOTA,
    DisconnectReason.TLS_REQUIRED,
    DisconnectReason.NO_QUORUM,
)
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
# label values that are always present; a WebSocket begins as HTTP, and is counted as both
PROTOCOLS = ("mqtt", "binary", "resp", "queue", "http", "websocket")


def _by_protocol(scrape: Scrape) -> Mapping[str, float]:
    return dict.fromkeys(PROTOCOLS, 0) | scrape.counters.connections_total


def _logins(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    outcomes = ("accepted", *(reason.value for reason in LOGIN_REASONS))
    none: dict[tuple[str, ...], float] = dict.fromkeys(product(DOORS, outcomes), 0)
    return none | scrape.counters.logins


def _denied(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    actions = (action.word for action in Action)
    none: dict[tuple[str, ...], float] = dict.fromkeys(product(DOORS, actions), 0)
    return none | scrape.counters.denied


def _by_qos(counts: Iterable[int]) -> Mapping[str, float]:
    return {str(qos): count for qos, count in enumerate(counts)}


def _by_reason(counts: Mapping[_Reason, int]) -> Mapping[str, float]:
    return {reason.value: count for reason, count in counts.items()}


def _build(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    return {(scrape.view.version, kernel.speed, platform.python_version()): 1}


def _journal(name: str, text: str, read: Callable[[JournalView], float]) -> Metric:
    return gauge(f"penstock_journal_{name}", text, lambda s: read(s.stored.journal))


METRICS: tuple[Metric, ...] = (
    # ── Connections
    counter(
        "penstock_connections_total", "Connections accepted, by protocol.", _by_protocol, "protocol"
    ),
    counted("clients_connected", "Clients connected now."),
    counter(
        "penstock_disconnects_total",
        "Connections closed, by reason.",
        lambda s: _by_reason(s.counters.disconnects),
        "reason",
    ),
    # ── Logins
    counter(
        "penstock_logins_total",
        "Logins, by protocol and outcome: accepted, or the reason of the refusal.",
        _logins,
        "door, outcome",
    ),
    counter(
        "penstock_logins_accepted_total",
        "Accepted logins, by kind of credentials.",
        lambda s: dict.fromkeys(KINDS, 0) | s.counters.login_kinds,
        "kind",
    ),
    counted(
        "logins_clear_text_total",
        "Accepted logins whose password or token was sent from another machine without TLS.",
    ),
    counted("logins_waiting", "Logins waiting for a thread that hashes passwords."),
    counted("login_seconds", "Time from presenting credentials to the answer."),
    counter(
        "penstock_denied_total",
        "Requests that the access rules denied, by protocol and action.",
        _denied,
        "door, action",
    ),
    counted(
        "api_throttled_total",
        "Requests of the HTTP API refused with 429, because their caller asked too often.",
    ),
    counted(
        "csp_reports_total",
        "Reports of browsers that something was blocked on a page of the console.",
    ),
    # ── TLS
    counter(
        "penstock_tls_handshakes_total",
        "TLS handshakes done, by version; failed ones are disconnects with reason tls_failed.",
        lambda s: dict.fromkeys(TLS_VERSIONS, 0) | s.counters.tls_handshakes_total,
        "version",
    ),
    gauge(
        "penstock_tls_certificate_expires_seconds",
        "Time until the certificate expires, by listener; negative if it has.",
        lambda s: s.view.certificate_expiry(),
        "listener",
    ),
    counter(
        "penstock_tls_reloads_total",
        "Reloads of certificates, by outcome; after refused ones the old certificate is in use.",
        lambda s: s.view.reloads(),
        "outcome",
    ),
    # ── Messages
    counter(
        "penstock_messages_received_total",
        "Messages accepted from publishers, by QoS.",
        lambda s: _by_qos(s.counters.messages_in_total),
        "qos",
    ),
    counter(
        "penstock_messages_sent_total",
        "Messages sent to subscribers, by QoS of the delivery.",
        lambda s: _by_qos(s.counters.messages_out_total),
        "qos",
    ),
    counted("bytes_in_total", "Bytes read from sockets.", "penstock_received_bytes_total"),
    counted("bytes_out_total", "Bytes written to sockets.", "penstock_sent_bytes_total"),
    counted(
        "redelivered_total",
        "Messages redelivered to a client that reconnected without acknowledging them.",
    ),
    gauge(
        "penstock_outgoing_bytes",
        "Bytes waiting to be sent to clients, HTTP excluded.",
        lambda s: s.view.outgoing()[0],
    ),
    gauge(
        "penstock_outgoing_bytes_max",
        "The limit of these bytes: `limits.outgoing_bytes_max`.",
        lambda s: s.view.outgoing()[1],
    ),
    gauge(
        "penstock_outgoing_waiting",
        "Connections that have data to send and wait because the limit is nearly reached.",
        lambda s: s.view.outgoing()[2],
    ),
    counter(
        "penstock_dropped_total",
        "Messages, or single copies of one, that were dropped, by reason.",
        lambda s: _by_reason(s.counters.drops),
        "reason",
    ),
    counted(
        "publish_seconds",
        "Time from reading a QoS 1, QoS 2 or binary publish to its acknowledgement.",
    ),
    counted(
        "delivery_seconds",
        "Time from reading a publish that waits for the disk to passing it to a subscriber, per"
        " delivery.",
    ),
    counted(
        "acknowledged_total",
        "Acknowledgements from durable subscribers and workers.",
        "penstock_acknowledgements_total",
    ),
    counted(
        "repeated_publishes_total",
        "Publishes of the binary protocol that were stored before: acknowledged, not stored again.",
    ),
    # ── Signatures
    counter(
        "penstock_signature_verifications_total",
        "Signed publishes that were verified, valid or not.",
        lambda s: s.view.gate.verifications_total,
    ),
    counter(
        "penstock_signature_failures_total",
        "Publishes refused for a bad or missing signature, by fault.",
        lambda s: _by_reason(s.view.gate.failures),
        "fault",
    ),
    # ── The journal
    counted("captured_total", "Messages written to the journal."),
    counted("commit_seconds", "Duration of a journal commit."),
    counted("fsync_seconds", "Part of a commit spent waiting for the disk."),
    counted("batch_messages", "Messages per commit."),
    counted(
        "read_failures_total",
        "Failed reads of the journal; `penstock store verify` finds the extent of the damage.",
    ),
    counted(
        "commit_failures_total",
        "Failed commits; their messages were refused or counted as dropped.",
    ),
    gauge(
        "penstock_pending_capture_bytes",
        "Bytes of QoS 0 messages waiting to be journaled.",
        lambda s: s.view.pending_capture_bytes(),
    ),
    _journal("bytes", "Disk used by the store.", lambda j: j.bytes),
    _journal(
        "map_bytes",
        "Address space of the store; it grows before it is full.",
        lambda j: j.map_bytes,
    ),
    _journal("entries", "Entries (commits) in the journal.", lambda j: j.entries),
    _journal("messages", "Messages in the journal.", lambda j: j.messages),
    _journal(
        "first_sequence",
        "Sequence number of the oldest message in the journal; 0 if it is empty.",
        lambda j: j.oldest_sequence,
    ),
    _journal(
        "last_sequence",
        "Sequence number of the newest message in the journal; 0 if it is empty.",
        lambda j: j.newest_sequence,
    ),
    _journal("blocks", "Blocks of the journal.", lambda j: j.blocks),
    _journal("block_bytes", "Disk used by the files of blocks.", lambda j: j.block_bytes),
    _journal(
        "tail_bytes",
        "Size of the database: messages that are not in blocks yet, topics, sessions.",
        lambda j: j.tail_bytes,
    ),
    _journal(
        "damage",
        "Places in blocks found damaged since the start; their messages are as if removed.",
        lambda j: j.damage,
    ),
    gauge(
        "penstock_disk_free_bytes",
        "Bytes that the broker may still use on the file system of its data directory.",
        lambda s: s.stored.journal.disk_free_bytes,
    ),
    # ── State
    gauge(
        "penstock_sessions",
        "Sessions, connected or away.",
        lambda s: dict(zip(("connected", "away"), s.view.sessions(), strict=True)),
        "state",
    ),
    gauge(
        "penstock_queued_messages",
        "Messages waiting in the queues of all sessions.",
        lambda s: s.view.queued(),
    ),
    gauge("penstock_retained_messages", "Retained messages.", lambda s: s.view.retained()),
    gauge(
        "penstock_subscriptions",
        "Subscriptions of all clients and protocols, queue workers included.",
        lambda s: s.view.subscriptions(),
    ),
    gauge(
        "penstock_followers",
        "Subscriptions that read from the journal: those of binary clients.",
        lambda s: s.view.followers(),
    ),
    gauge(
        "penstock_durable_subscribers",
        "Client ids of the binary protocol whose acknowledgements are stored.",
        lambda s: s.view.durable_subscribers(),
    ),
    gauge(
        "penstock_queue_pending",
        "Jobs waiting in queues or in progress, in up to 1,000 queues.",
        lambda s: s.stored.queue_pending,
    ),
    gauge(
        "penstock_ready", "1 while /ready answers 200, otherwise 0.", lambda s: s.view.ready()[0]
    ),
    gauge(
        "penstock_uptime_seconds",
        "Time since the broker started to listen.",
        lambda s: s.view.uptime_s(),
    ),
    gauge(
        "penstock_build_info",
        "Always 1; the labels are the running version, its speed (compiled or interpreted) and that"
        " of Python.",
        _build,
        "version, speed, python",
    ),
)


_ALWAYS = (*METRICS, *QUEUES, *CLUSTER, *BRIDGES, *METRICMQ, *HERMESMQ)


def render(view: BrokerView) -> bytes:
    stored = read_stored(view, with_topics=False)
    survey = Survey(view.queues)
    for _ in survey.slices():
        pass
    return exposition(families(_ALWAYS, Scrape(view, stored, survey)))


async def render_off_loop(
    view: BrokerView,
    surveying: asyncio.Lock,
    *,
    with_topics: bool = False,
    group_series: int = SERIES_DEFAULT,
) -> bytes:
    # One survey at a time: a slice each of a hundred surveys would block the loop.
    table = (*_ALWAYS, *PER_TOPIC) if with_topics else _ALWAYS
    stored = await run_in_threadpool(read_stored, view, with_topics=with_topics)
    survey = Survey(view.queues, group_series)
    async with surveying:
        for _ in survey.slices():
            await asyncio.sleep(0)
    return await run_in_threadpool(exposition, families(table, Scrape(view, stored, survey)))
