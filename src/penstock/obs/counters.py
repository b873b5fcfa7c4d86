"""Counting in plain integers; the exposition reads them when somebody asks.

A slot ``+= 1`` costs a tenth of a Prometheus ``inc()``. All counters are touched by the event loop
only, save those of the writer thread, which has its own histograms (single writer each, so that a
reader at worst sees a value one step old).
"""

from bisect import bisect_left

from penstock.obs.reasons import DisconnectReason, DropReason

LATENCY_S_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
)  # fmt: skip
BATCH_MESSAGES_BOUNDS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


class Histogram:
    """Counts per bucket, and the sum; ``bounds`` are upper bounds, +Inf is implied."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``value``, ``times`` over (a batch shares one measurement)."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class Counters:
    """Everything that is counted, for all protocols. ``_total`` grows; the others are gauges."""

    __slots__ = (
        "acknowledged_total",
        "batch_messages",
        "bytes_in_total",
        "bytes_out_total",
        "captured_total",
        "clients_connected",
        "commit_failures_total",
        "commit_seconds",
        "connections_total",
        "dead_letters_total",
        "delivery_seconds",
        "disconnects",
        "drops",
        "fsync_seconds",
        "messages_in_total",
        "messages_out_total",
        "publish_seconds",
        "rate_limited_total",
        "read_failures_total",
        "redelivered_total",
        "refused_total",
        "returned_total",
        "sink_commits_total",
        "sink_repetitions_total",
        "staged_bytes",
        "staged_parts",
        "stages_aborted_total",
        "stages_expired_total",
        "subscribed_total",
        "unsubscribed_total",
        "workers_connected",
    )

    def __init__(self) -> None:
        self.connections_total: dict[str, int] = {}
        """Accepted connections by protocol ("mqtt", "http")."""
        self.clients_connected = 0
        self.workers_connected = 0
        """Workers of queues that stay and are given jobs (binary protocol), once for each queue."""
        self.subscribed_total = 0
        """Filters subscribed to."""
        self.unsubscribed_total = 0
        """Requests to unsubscribe."""
        self.refused_total = 0
        """Requests answered with an error."""
        self.messages_in_total = [0, 0, 0]
        """PUBLISH packets accepted, by QoS."""
        self.messages_out_total = [0, 0, 0]
        """PUBLISH packets sent, by QoS of the delivery."""
        self.bytes_in_total = 0
        self.bytes_out_total = 0
        self.captured_total = 0
        """Messages written to the journal."""
        self.acknowledged_total = 0
        """ACK frames of durable subscribers and workers (binary protocol)."""
        self.rate_limited_total = 0
        """Times that a topic had messages for somebody, and its rate allowed none yet."""
        self.returned_total = 0
        """Messages that consumers gave back."""
        self.dead_letters_total = 0
        """Messages put with the dead letters."""
        self.staged_bytes = 0
        self.staged_parts = 0
        """What is staged and not committed."""
        self.sink_commits_total = 0
        """Epochs of sinks that were published."""
        self.sink_repetitions_total = 0
        """Commits that were asked for again, and left alone."""
        self.stages_aborted_total = 0
        """Parts that were let go as their writers asked."""
        self.stages_expired_total = 0
        """Parts that were let go as nobody asked for anything."""
        self.read_failures_total = 0
        """Reads of the journal that failed: damage, or a disk that does."""
        self.redelivered_total = 0
        self.commit_failures_total = 0
        self.publish_seconds = Histogram(LATENCY_S_BOUNDS)
        """From reading a QoS 1 or 2 PUBLISH to its acknowledgement."""
        self.delivery_seconds = Histogram(LATENCY_S_BOUNDS)
        """From reading a publish that waits for the disk to handing it to a subscriber."""
        self.commit_seconds = Histogram(LATENCY_S_BOUNDS)
        """One commit of the journal, all of it."""
        self.fsync_seconds = Histogram(LATENCY_S_BOUNDS)
        """The part of a commit spent waiting for the disk."""
        self.batch_messages = Histogram(tuple(float(b) for b in BATCH_MESSAGES_BOUNDS))
        self.disconnects = dict.fromkeys(DisconnectReason, 0)
        self.drops = dict.fromkeys(DropReason, 0)
