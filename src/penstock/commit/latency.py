"""What the line counts: how long publishers waited, how long messages were on their way."""

from collections.abc import Callable, Iterable

from penstock.core.commands import Command, Published
from penstock.obs.counters import Counters
from penstock.store.store import Commit


class CommitLatency:
    """The figures of one line."""

    def __init__(self, counters: Counters, monotonic: Callable[[], float]) -> None:
        self._counters = counters
        self._monotonic = monotonic

    @property
    def sent(self) -> int:
        """Messages that were sent to anybody so far."""
        return sum(self._counters.messages_out_total)

    def committed(self, commit: Commit) -> None:
        """A batch is durable."""
        counters = self._counters
        counters.captured_total += commit.count
        counters.commit_seconds.observe(commit.commit_s)
        counters.fsync_seconds.observe(commit.fsync_s)
        counters.batch_messages.observe(commit.count)

    def waited(self, commands: Iterable[Command | None], opened_at: float) -> None:
        """Count the wait of the publishers, the first one's for all: an upper bound."""
        waiting = sum(len(found.packet_ids) for found in commands if type(found) is Published)
        if waiting:
            self.told(waiting, opened_at)

    def told(self, count: int, opened_at: float) -> None:
        """Somebody waited for so many messages since then."""
        self._counters.publish_seconds.observe(self._monotonic() - opened_at, count)

    def delivered(self, began_at: float, sent_before: int) -> None:
        """Count the way of each message that was sent since, as long as that of the first.

        Captured messages are not measured where nobody waited with them: they are late on purpose.
        """
        deliveries = self.sent - sent_before
        if began_at and deliveries > 0:
            self._counters.delivery_seconds.observe(self._monotonic() - began_at, deliveries)
