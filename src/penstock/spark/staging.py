"""Blocks on their way to the broker: some under way at once, stored in their order.

The broker stores the blocks of a part by their numbers, one after the other. A block that it has is
not stored again, so after trouble all that were not acknowledged are sent once more, in order.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.client.queue.blocking import QueueClient
from penstock.spark.broker import with_retries
from penstock.spark.options import RetryPolicy

WINDOW: Final = 8
"""Blocks under way at once: the broker commits those that came together in one go."""


class SinkEpoch(NamedTuple):
    """What is written is this epoch of this sink."""

    sink: str
    epoch: int


class StagedPart(NamedTuple):
    """What one attempt of one task writes."""

    place: SinkEpoch
    name: str


class _InFlightBlock(NamedTuple):
    number: int
    block: bytes
    pending: Any


def stage(
    client: QueueClient, patience: RetryPolicy, part: StagedPart, blocks: Iterable[bytes]
) -> int:
    """Send blocks; tells how many there were once the broker's disk has all of them."""
    line = _BlockWindow(client, patience, part)
    count = 0
    for count, block in enumerate(blocks, 1):
        line.send(count - 1, block)
    line.settle(0)
    return count


class _BlockWindow:
    """The blocks that are not acknowledged yet, in order."""

    def __init__(self, client: QueueClient, patience: RetryPolicy, part: StagedPart) -> None:
        self._client = client
        self._patience = patience
        self._names = (*part.place, part.name)
        self._sent: deque[_InFlightBlock] = deque()

    def send(self, number: int, block: bytes) -> None:
        self.settle(WINDOW - 1)
        pending = self._client.begin_stage(*self._names, number, block)
        self._sent.append(_InFlightBlock(number, block, pending))

    def settle(self, left: int) -> None:
        """Wait until no more than so many are under way."""
        while len(self._sent) > left:
            try:
                self._client.finish(self._sent[0].pending)
            except ClientError:
                self._send_again()
            else:
                self._sent.popleft()

    def _send_again(self) -> None:
        """Start over with the first that failed; those behind it may have been out of order.

        If it was refused for good, it is refused again, and that is raised.
        """
        for sent in list(self._sent)[1:]:
            with suppress(ClientError):
                self._client.finish(sent.pending)
        while self._sent:
            number, block, _ = self._sent[0]
            with_retries(
                self._patience,
                lambda: self._client.stage(*self._names, number, block),  # noqa: B023
            )
            self._sent.popleft()
