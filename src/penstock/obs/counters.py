"""Counters and histograms as plain numbers; ``/metrics`` reads them on request.

``+= 1`` on a slot costs a tenth of a Prometheus ``inc()``. The event loop writes all counters,
except those of the writer thread, which has its own histograms: each has a single writer, so a
reader sees a value that is at most one step old.

To add one, declare it here and add a row to a table of :mod:`penstock.admin.metrics`.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from penstock.obs.events import CONNECTED, DROPPED, REFUSED, Events
from penstock.obs.reasons import DisconnectReason, DropReason

LATENCY_S_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
)  # fmt: skip
BATCH_MESSAGES_BOUNDS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


class Histogram:
    """Counts per bucket, and the sum; ``bounds`` are upper bounds, +Inf is implied."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_S_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``value``, ``times`` over (a batch shares one measurement)."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


@dataclass(slots=True, eq=False)
class Counters:
    """Everything that is counted, for all protocols. ``_total`` only grows; others are gauges."""

    connections_total: dict[str, int] = field(default_factory=dict)  # accepted, by protocol
    tls_handshakes_total: dict[str, int] = field(default_factory=dict)  # done, by version
    clients_connected: int = 0
    workers_connected: int = 0  # of the binary protocol, once per queue
    subscribed_total: int = 0
    unsubscribed_total: int = 0
    refused_total: int = 0  # requests answered with an error
    messages_in_total: list[int] = field(default_factory=lambda: [0, 0, 0])  # by QoS
    messages_out_total: list[int] = field(default_factory=lambda: [0, 0, 0])  # by delivery QoS
    bytes_in_total: int = 0
    bytes_out_total: int = 0
    captured_total: int = 0  # messages written to the journal
    acknowledged_total: int = 0  # by durable subscribers and workers of the binary protocol
    repeated_publishes_total: int = 0  # binary: acknowledged again, not stored again
    rate_limited_total: int = 0
    returned_total: int = 0  # nacked by consumers
    dead_letters_total: int = 0
    staged_bytes: int = 0
    staged_parts: int = 0
    sink_commits_total: int = 0
    sink_repetitions_total: int = 0
    stages_aborted_total: int = 0
    stages_expired_total: int = 0
    # messages published for schedules; firings refused, or missed without a message
    schedule_firings_total: dict[str, int] = field(
        default_factory=lambda: {"published": 0, "refused": 0, "skipped": 0}
    )
    spans_total: dict[str, int] = field(
        default_factory=lambda: {"exported": 0, "dropped": 0, "failed": 0}
    )
    read_failures_total: int = 0
    redelivered_total: int = 0
    commit_failures_total: int = 0
    logins: dict[tuple[str, str], int] = field(default_factory=dict)  # by door and outcome
    denied: dict[tuple[str, str], int] = field(default_factory=dict)  # by door and action
    login_kinds: dict[str, int] = field(default_factory=dict)  # accepted, by kind of credentials
    logins_clear_text_total: int = 0
    logins_waiting: int = 0  # for a thread that hashes passwords
    api_throttled_total: int = 0
    csp_reports_total: int = 0
    login_seconds: Histogram = field(default_factory=Histogram)
    publish_seconds: Histogram = field(default_factory=Histogram)
    delivery_seconds: Histogram = field(default_factory=Histogram)
    commit_seconds: Histogram = field(default_factory=Histogram)
    fsync_seconds: Histogram = field(default_factory=Histogram)
    batch_messages: Histogram = field(default_factory=lambda: Histogram(BATCH_MESSAGES_BOUNDS))
    disconnects: dict[DisconnectReason, int] = field(
        default_factory=lambda: dict.fromkeys(DisconnectReason, 0)
    )
    drops: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DropReason, 0))
    events: Events = field(default_factory=Events)  # the same in words, for ``why``

    def dropped(
        self,
        reason: DropReason,
        count: int = 1,
        client: bytes = b"",
        topic: bytes = b"",
        *,
        group: bytes = b"",
        offset: int = -1,
        sequences: tuple[int, int] = (0, 0),
        user: str = "",
        detail: str = "",
    ) -> None:
        """Count dropped messages, and record whose they were."""
        if count:
            self.drops[reason] += count
            self.events.note(
                DROPPED,
                reason.value,
                client,
                topic,
                group=group,
                count=count,
                offset=offset,
                sequences=sequences,
                user=user,
                detail=detail,
            )

    def refused(
        self,
        reason: DisconnectReason,
        client: bytes = b"",
        *,
        user: str = "",
        peer: str = "",
        detail: str = "",
    ) -> None:
        """Count a connection that ended before it was accepted, and record it."""
        self.disconnects[reason] += 1
        self.events.note(REFUSED, reason.value, client, user=user, peer=peer, detail=detail)

    def ended(
        self,
        reason: DisconnectReason,
        client: bytes,
        *,
        user: str = "",
        peer: str = "",
        detail: str = "",
    ) -> None:
        """Count the end of an accepted client's connection, and record it."""
        self.disconnects[reason] += 1
        self.events.ended(reason.value, client, user=user, peer=peer, detail=detail)

    def connected(self, client: bytes, *, user: str = "", peer: str = "", detail: str = "") -> None:
        """Record that a client was accepted."""
        self.events.note(CONNECTED, "", client, user=user, peer=peer, detail=detail)
