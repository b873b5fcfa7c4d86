"""What happens to the commands of a failed commit.

A command that a client waits for is refused: the client can repeat it. A command without a client
(a will, the end of a connection) is kept and submitted again after a while. A retained message
that is retried late must not replace a newer one of its topic, so the sequence at which it failed
is kept with it.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from penstock.commit.feed import Feed
from penstock.commit.pending_batch import PendingBatch, Step
from penstock.core.commands import Authored, Command, Published, PublishedBy, Received
from penstock.core.completion import Refusable
from penstock.core.retained import Retained
from penstock.core.session import Publisher
from penstock.errors import ClusterError, LeadershipLost, NoQuorum, PenstockError, StorageFull
from penstock.model.message import Extras
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason

_REASONS: Final[dict[type[PenstockError], DisconnectReason]] = {
    StorageFull: DisconnectReason.STORAGE_FULL,
    NoQuorum: DisconnectReason.NO_QUORUM,
    ClusterError: DisconnectReason.NO_QUORUM,  # this node was removed from the cluster
    LeadershipLost: DisconnectReason.LEADERSHIP_LOST,
}

_DROPS: Final = {
    DisconnectReason.STORAGE_FULL: DropReason.STORAGE_FULL,
    DisconnectReason.STORAGE_FAILED: DropReason.STORAGE_FAILED,
    DisconnectReason.NO_QUORUM: DropReason.NO_QUORUM,
    DisconnectReason.LEADERSHIP_LOST: DropReason.LEADERSHIP_LOST,
}


def reason_of(error: PenstockError) -> DisconnectReason:
    """The reason that clients get."""
    return _REASONS.get(type(error), DisconnectReason.STORAGE_FAILED)


def drop_of(reason: DisconnectReason) -> DropReason:
    """The reason under which their messages are counted."""
    return _DROPS[reason]


class Resubmission(Protocol):
    """The pipeline, as far as retries need it."""

    def publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        now_ms: int,
        *,
        qos: int,
        retain: bool,
        keep: bool,
        extras: list[Extras | None] | None,
        marks: int,
    ) -> None: ...

    def submit(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None: ...

    def pending_steps(self) -> Iterable[Step]: ...


class StepApplier(Protocol):
    """Applies steps that need no disk, and forgets QoS 2 ids of those refused."""

    def apply(self, steps: list[Step]) -> None: ...

    def forget(self, command: Received) -> None: ...


class RetryQueue:
    """Commands to submit again."""

    def __init__(self, pipeline: Resubmission, retained: Retained) -> None:
        self._pipeline = pipeline
        self._retained = retained
        self._commands: list[tuple[Command, int]] = []

    def __len__(self) -> int:
        return len(self._commands)

    def add(self, command: Command, sequence: int) -> None:
        """Keep a command; ``sequence`` is that of the next message."""
        self._commands.append((command, sequence))

    def submit_all(self) -> None:
        commands, self._commands = self._commands, []
        for command, sequence in commands:
            if isinstance(command, Published):
                self._pipeline.publish(
                    command.topic,
                    command.payloads,
                    command.time_ms,
                    qos=command.qos,
                    retain=command.retain and not self._has_newer(command.topic, sequence),
                    keep=True,
                    extras=command.extras,
                    marks=command.marks,
                )
            else:
                self._pipeline.submit(command, None, durable=True)

    def _has_newer(self, topic: bytes, sequence: int) -> bool:
        retained = self._retained.get(topic)
        if retained is not None and retained.sequence >= sequence:
            return True
        return any(
            isinstance(command, Published) and command.retain and command.topic == topic
            for command, _, _ in self._pipeline.pending_steps()
        )


class Refusals:
    """Refuses the commands of failed commits, counts them, and keeps those to retry."""

    def __init__(
        self, counters: Counters, feed: Feed, applier: StepApplier, retries: RetryQueue
    ) -> None:
        self._counters = counters
        self._feed = feed
        self._applier = applier
        self._retries = retries

    def refuse(self, failed: PendingBatch, error: PenstockError, next_sequence: int) -> None:
        reason = reason_of(error)
        refused = kept = 0
        self._feed.failed(failed.batch)
        for *_, completion, _time in failed.offset_waiters:
            completion.refused(reason)
        for command, waiter, durable in failed.steps:
            count = len(command.payloads) if isinstance(command, Published) else 0
            if not durable:
                self._applier.apply([(command, waiter, False)])
            elif type(command) is Received:
                self._applier.forget(command)
            elif isinstance(command, Published) and isinstance(waiter, Publisher):
                refused += count
                waiter.publish_refused(command.qos, command.packet_ids, reason)
            elif type(command) in {Authored, PublishedBy}:
                pass  # about a message, whose publisher is told
            elif waiter is not None:
                refused += count
                waiter.refused(reason)
            elif isinstance(command, Published) and not command.keep:
                refused += count
            elif command is not None:
                kept += count
                self._retries.add(command, next_sequence)
        detail = error.message
        self._counters.dropped(drop_of(reason), refused, detail=detail)
        captured = failed.batch.count - refused - kept
        self._counters.dropped(DropReason.CAPTURE_FAILED, captured, detail=detail)
