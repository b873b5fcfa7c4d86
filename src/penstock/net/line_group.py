"""What stands in the line together, and goes to the log as one batch."""

from typing import Any

from penstock.core.commands import Command
from penstock.store.batch import Batch

__all__ = ["OVERHEAD_BYTES", "LineGroup", "Step"]

OVERHEAD_BYTES = 512
"""What a message or an event takes in memory beside its topic and payload, about."""

Step = tuple[Command | None, Any, bool]
"""A command, the outlet that waits for its answer (or None), and whether it needs the disk.

None for a command: the outlet only wants to know that its turn has come.
"""


class LineGroup:
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
        self.tell: list[tuple[bytes, int, int, Any, int]] = []
        """Who wants to know offsets: topic, place among its messages, how many, outlet, time."""
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
