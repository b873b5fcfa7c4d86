"""Applies commands to the broker, carries out the effects, and measures how long it all took."""

from collections.abc import Callable

from penstock.commit.completion import Callback
from penstock.commit.pending_batch import PendingBatch, Step
from penstock.core.broker import Broker
from penstock.core.commands import Published, Received
from penstock.core.effects import Effects, Outcome
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Commit

_log = get_logger("pipeline")


class Applier:
    """Applies the commands of a pipeline."""

    def __init__(self, broker: Broker, execute: Callable[[Effects], None]) -> None:
        self._broker = broker
        self.execute = execute
        # QoS 2 ids whose message is in the pipeline: a repetition must not be taken for a new one
        self.receiving: set[tuple[bytes, int]] = set()

    def apply(self, steps: list[Step]) -> None:
        effects = Effects()
        apply, receiving = self._broker.apply, self.receiving
        for command, waiter, _durable in steps:
            if command is None:
                assert isinstance(waiter, Callback)  # see ``Pipeline.barrier``
                effects.controls.append(Outcome(waiter, None))
                continue
            try:
                apply(command, waiter, effects)
            except Exception:  # noqa: BLE001 - an internal error must affect its own client only
                _log.exception("apply_failed", command=type(command).__name__)
                if waiter is not None:
                    waiter.refused(DisconnectReason.INTERNAL_ERROR)
            if receiving and type(command) is Received:
                self.forget(command)
        self.execute(effects)

    def forget(self, command: Received) -> None:
        self.receiving -= {(command.client_id, number) for number in command.packet_ids}


class CommitLatency:
    """Observes commits, the waits of publishers, and the delay of deliveries."""

    def __init__(self, counters: Counters, monotonic: Callable[[], float]) -> None:
        self._counters = counters
        self._monotonic = monotonic

    @property
    def sent(self) -> int:
        """Messages sent to subscribers so far."""
        return sum(self._counters.messages_out_total)

    def committed(self, commit: Commit) -> None:
        counters = self._counters
        counters.captured_total += commit.count
        counters.commit_seconds.observe(commit.commit_s)
        counters.fsync_seconds.observe(commit.fsync_s)
        counters.batch_messages.observe(commit.count)

    def waited(self, pending: PendingBatch) -> None:
        """Count the wait of the first publisher for all of them: an upper bound."""
        waiting = sum(
            len(command.packet_ids) for command, _, _ in pending.steps if type(command) is Published
        )
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
