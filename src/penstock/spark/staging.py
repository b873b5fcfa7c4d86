"""Sends the blocks of a staged part: several in flight, stored in order.

The broker ignores a block it already has, so after an error every unacknowledged block is resent.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.client.queue.blocking import QueueClient
from penstock.client.queue.session import QueueCall
from penstock.spark.broker import with_retries
from penstock.spark.options import RetryPolicy

WINDOW: Final = 8  # blocks in flight; the broker commits blocks that arrive together in one batch


class SinkEpoch(NamedTuple):
    """One epoch of one sink."""

    sink: str
    epoch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} of sink {self.sink}"


class StagedPart(NamedTuple):
    """The rows that one task attempt writes."""

    target: SinkEpoch
    name: str


class _InFlightBlock(NamedTuple):
    number: int
    block: bytes
    pending: QueueCall[None]


def stage(
    client: QueueClient, retries: RetryPolicy, part: StagedPart, blocks: Iterable[bytes]
) -> int:
    """Send blocks; return their number once all are on the broker's disk."""
    window = _BlockWindow(client, retries, part)
    count = 0
    for count, block in enumerate(blocks, 1):
        window.send(count - 1, block)
    window.settle(0)
    return count


class _BlockWindow:
    """The unacknowledged blocks, in order."""

    def __init__(self, client: QueueClient, retries: RetryPolicy, part: StagedPart) -> None:
        self._client = client
        self._retries = retries
        self._names = (*part.target, part.name)
        self._sent: deque[_InFlightBlock] = deque()

    def send(self, number: int, block: bytes) -> None:
        self.settle(WINDOW - 1)
        pending = self._client.begin_stage(*self._names, number, block)
        self._sent.append(_InFlightBlock(number, block, pending))

    def settle(self, left: int) -> None:
        while len(self._sent) > left:
            try:
                self._client.finish(self._sent[0].pending)
            except ClientError:
                self._send_again()
            else:
                self._sent.popleft()

    def _send_again(self) -> None:
        """Resend from the first failed block; a final refusal is raised now."""
        for sent in list(self._sent)[1:]:
            with suppress(ClientError):
                self._client.finish(sent.pending)
        while self._sent:
            number, block, _ = self._sent[0]
            with_retries(
                self._retries,
                lambda: self._client.stage(*self._names, number, block),  # noqa: B023
            )
            self._sent.popleft()
