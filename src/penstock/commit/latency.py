"""Latency metrics of the pipeline: commits, waits of publishers, delays of deliveries."""

from collections.abc import Callable

from penstock.commit.pending_batch import PendingBatch
from penstock.core.commands import Published
from penstock.obs.counters import Counters
from penstock.store.store import Commit


class CommitLatency:
    """Observes commits, the waits of publishers, and the delay of deliveries."""

    def __init__(self, counters: Counters, monotonic: Callable[[], float]) -> None:
        self._counters = counters
        self._monotonic = monotonic

    @property
    def sent(self) -> int:
        return sum(self._counters.messages_out_total)

    def committed(self, commit: Commit) -> None:
        counters = self._counters
        counters.captured_total += commit.count
        counters.commit_seconds.observe(commit.commit_s)
        counters.fsync_seconds.observe(commit.fsync_s)
        counters.batch_messages.observe(commit.count)

    def waited(self, pending: PendingBatch) -> None:
        """Count the wait of the first publisher for all of them: an upper bound."""
        waiting = 0
        for command, _, _ in pending.steps:
            if type(command) is Published:
                waiting += len(command.packet_ids)
        if waiting:
            self.acknowledged(waiting, pending.opened_at)

    def acknowledged(self, count: int, opened_at: float) -> None:
        self._counters.publish_seconds.observe(self._monotonic() - opened_at, count)

    def delivered(self, began_at: float, sent_before: int) -> None:
        """Count the delay of the first message for all that were sent since ``sent_before``.

        A batch of captured messages alone (``began_at`` 0) is not measured: it is late on purpose.
        """
        deliveries = self.sent - sent_before
        if began_at and deliveries > 0:
            self._counters.delivery_seconds.observe(self._monotonic() - began_at, deliveries)
