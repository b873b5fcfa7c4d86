"""Commands of failed commits that nobody is there to repeat: wills, connections that ended.

They join the line again after a while. A retained message that comes late must not replace a newer
one of its topic, so the sequence of that time is kept with each command.
"""

from collections.abc import Iterable
from typing import Protocol

from penstock.commit.pending_batch import Step
from penstock.core.commands import Command, Published
from penstock.core.completion import Refusable
from penstock.core.retained import Retained


class Line(Protocol):
    """What they came from, and join again."""

    def publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        now_ms: int,
        *,
        qos: int,
        retain: bool,
        keep: bool,
    ) -> None:
        """Journal messages; ``keep``: nobody else will repeat them."""

    def submit(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None:
        """Journal and apply a command."""

    def pending_steps(self) -> Iterable[Step]:
        """All that is in the line."""


class RetryQueue:
    """What is to be tried again."""

    def __init__(self, line: Line, retained: Retained) -> None:
        self._line = line
        self._retained = retained
        self._commands: list[tuple[Command, int]] = []

    def __len__(self) -> int:
        return len(self._commands)

    def add(self, command: Command, sequence: int) -> None:
        """Keep a command; ``sequence`` is that of the next message."""
        self._commands.append((command, sequence))

    def try_again(self) -> None:
        """Put all of them in the line once more."""
        commands, self._commands = self._commands, []
        for command, sequence in commands:
            if isinstance(command, Published):
                self._line.publish(
                    command.topic,
                    command.payloads,
                    command.time_ms,
                    qos=command.qos,
                    retain=command.retain and not self._has_newer(command.topic, sequence),
                    keep=True,
                )
            else:
                self._line.submit(command, None, durable=True)

    def _has_newer(self, topic: bytes, sequence: int) -> bool:
        """Whether a topic was given another retained message since, or is about to be."""
        retained = self._retained.get(topic)
        if retained is not None and retained.sequence >= sequence:
            return True
        return any(
            isinstance(command, Published) and command.retain and command.topic == topic
            for command, _, _ in self._line.pending_steps()
        )
