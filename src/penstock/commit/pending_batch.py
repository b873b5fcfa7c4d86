"""What stands in the line together, and goes to the log as one batch."""

from penstock.core.commands import Command, Published
from penstock.core.completion import Completion, Journaled, Refusable
from penstock.model.message import FLAG_QOS
from penstock.store.batch import RUN_WIDTH, Batch, TopicBatch

OVERHEAD_BYTES = 512
"""What a message or an event takes in memory beside its topic and payload, about."""

Step = tuple[Command | None, Refusable | None, bool]
"""A command, its waiter, and whether it needs the disk.
"""

Wanted = tuple[bytes, int, int, Completion[Journaled], int]
"""Who waits for an offset: topic, place among its messages, how many, waiter, time."""


class PendingBatch:
    """What is committed together: the batch, the commands it holds, and since when they wait."""

    __slots__ = (
        "batch",
        "began_at",
        "bound",
        "is_patient",
        "is_urgent",
        "opened_at",
        "overhead_bytes",
        "steps",
        "tell",
    )

    def __init__(self) -> None:
        self.batch = Batch()
        self.steps: list[Step] = []
        self.tell: list[Wanted] = []
        """Who wants to know offsets."""
        self.bound: list[range] = []
        """Numbers of the steps that count in the batch's term only."""
        self.began_at = 0.0
        """When the first command that needs the disk joined; 0 if none has."""
        self.opened_at = 0.0
        """The same of those that are not applied yet."""
        self.overhead_bytes = 0
        """Memory that commands take beside the payloads, about."""
        self.is_patient = False
        """Whether some command needs the disk, but not at once."""
        self.is_urgent = False
        """Whether some command waits for the disk: captured messages alone can take their time."""

    @property
    def bound_steps(self) -> set[int]:
        """``bound``, one by one."""
        return {number for numbers in self.bound for number in numbers}


def retained_live(steps: list[Step]) -> set[bytes]:
    """Topics of which there is a message to retain that was delivered already."""
    return {
        command.topic
        for command, _, _ in steps
        if type(command) is Published and command.retain and not command.qos
    }


def captured(group: TopicBatch) -> list[bytes]:
    """The messages of one topic that nobody waits for: they were delivered when they came."""
    found: list[bytes] = []
    start = 0
    for count, flags in zip(group.runs[1::RUN_WIDTH], group.runs[3::RUN_WIDTH], strict=True):
        if not flags & FLAG_QOS:
            found += group.payloads[start : start + count]
        start += count
    return found
