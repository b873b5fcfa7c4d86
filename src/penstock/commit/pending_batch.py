"""The batches of the pipeline that are not applied yet: the open one and those in flight."""

from collections import deque

from penstock.commit.replay import live_of
from penstock.core.commands import Command, Published
from penstock.core.completion import Completion, Journaled, Refusable
from penstock.model.message import FLAG_QOS, Extras
from penstock.store.batch import Batch
from penstock.store.message_columns import RUN_WIDTH, TopicBatch

OVERHEAD_BYTES = 512  # rough memory of a message or an event beside its topic and payload

Step = tuple[Command | None, Refusable | None, bool]
"""A command, its waiter, and whether it must be durable."""

OffsetWaiter = tuple[bytes, int, int, Completion[Journaled], int]
"""Who waits for an offset: topic, index among its messages, message count, completion, time."""


class PendingBatch:
    """A batch, and the commands that are applied when it is committed."""

    __slots__ = (
        "batch",
        "began_at",
        "bound",
        "is_patient",
        "is_urgent",
        "offset_waiters",
        "opened_at",
        "overhead_bytes",
        "steps",
    )

    def __init__(self) -> None:
        self.batch = Batch()
        self.steps: list[Step] = []
        self.offset_waiters: list[OffsetWaiter] = []
        self.bound: list[range] = []  # numbers of the steps that are valid in the batch's term only
        self.began_at = 0.0  # when the first durable command joined; 0: none has
        self.opened_at = 0.0  # when the first command joined that is not applied yet
        self.overhead_bytes = 0  # rough memory of the commands beside the payloads
        self.is_patient = False  # a durable command is there, but may wait for others
        self.is_urgent = False  # a client waits for the commit

    @property
    def bound_steps(self) -> set[int]:
        return {number for numbers in self.bound for number in numbers}


class PendingBatches:
    """The open batch, the batches in flight, and what they contain.

    Several are in flight only in a cluster, where a commit may take long; oldest first.

    Base of ``Pipeline``, not a part of it: publishing uses the open batch for every message.
    """

    def __init__(self, next_sequence: int, *, applies_first: bool) -> None:
        self._applies_first = applies_first
        self._open = PendingBatch()
        self._in_flight: deque[PendingBatch] = deque()
        self.next_sequence = next_sequence  # after the last message that was applied

    def _has_steps(self) -> bool:
        return bool(self._open.steps or any(pending.steps for pending in self._in_flight))

    def pending_steps(self) -> list[Step]:
        return [step for pending in (*self._in_flight, self._open) for step in pending.steps]

    @property
    def pending_bytes(self) -> int:
        pending_bytes = self._open.batch.payload_bytes
        for pending in self._in_flight:
            pending_bytes += pending.batch.payload_bytes
        return pending_bytes

    def holds(self, topic: bytes) -> bool:
        return any(topic in pending.batch.topics for pending in (*self._in_flight, self._open))

    def is_dropping(self, topic: bytes) -> bool:
        """Whether the deletion of a topic is pending: what the store has of it is obsolete."""
        return any(topic in pending.batch.drops for pending in (*self._in_flight, self._open))

    def topics_to_retain(self) -> set[bytes]:
        """Topics with a pending retained message that was delivered live already."""
        return {
            command.topic
            for command, _, _ in self.pending_steps()
            if type(command) is Published and command.retain and not command.qos
        }

    @property
    def settled_sequence(self) -> int:
        """Messages below this are on disk and applied; ``unsettled`` gives the others."""
        if self._applies_first and self._in_flight:
            return self.next_sequence - self._in_flight[0].batch.count
        return self.next_sequence

    def seam(self) -> tuple[int, list[tuple[bytes, list[bytes], list[Extras | None] | None, int]]]:
        """Where to end reading the journal, and what comes behind, to go live in this turn.

        Messages below the sequence are on disk and applied, or will be (durability "interval"):
        ``Pipeline.when_readable``. The others are those that were delivered live already.
        """
        if self._applies_first:
            return self.next_sequence + self._open.batch.count, []
        batches = [pending.batch for pending in (*self._in_flight, self._open)]
        return self.next_sequence, [found for batch in batches for found in live_of(batch)]

    @property
    def received_sequence(self) -> int:
        """What ``settled_sequence`` will be when all that was received is written."""
        waiting = self._open.batch.count
        if not self._applies_first:
            waiting += sum([pending.batch.count for pending in self._in_flight])
        return self.next_sequence + waiting

    @property
    def is_unsettled(self) -> bool:
        """Whether messages were acknowledged that cannot be read yet."""
        end = self.next_sequence + self._open.batch.count
        return self._applies_first and self.settled_sequence < end


def captured(group: TopicBatch) -> list[bytes]:
    """The QoS 0 messages of a topic: they were delivered when they arrived."""
    found: list[bytes] = []
    start = 0
    for count, flags in zip(group.runs[1::RUN_WIDTH], group.runs[3::RUN_WIDTH], strict=True):
        if not flags & FLAG_QOS:
            found += group.payloads[start : start + count]
        start += count
    return found
