"""Read the messages of topics, and those that follow, in journal order.

The broker tells which topics match and have changed (``changes``); each is read from the last
position. So nothing is missed or repeated. After a restart the broker answers ``again``: all topics
are listed again, and the positions remain valid.
"""

from heapq import merge
from time import time
from typing import TYPE_CHECKING, Final

import click

from penstock.cli.inputs import option_set, time_option
from penstock.errors import PenstockError

if TYPE_CHECKING:  # loads protobuf
    from collections.abc import Iterator

    from penstock.client import QueueClient, Record
    from penstock.wire.queue._generated.queue_pb2 import Changed, Topic


MERGED_MAX: Final = 256  # topics read side by side; each holds one response


class StartPosition:
    """Where to start in each topic: at an offset, at a time, or with the last messages."""

    def __init__(
        self, offset: int = 0, since_s: float | None = None, last: int | None = None
    ) -> None:
        self._offset = offset
        self._since_ms = None if since_s is None else max(0, int((time() - since_s) * 1000))
        self._last = last

    def of(self, client: "QueueClient", topic: "Topic") -> int:
        if self._since_ms is not None:
            return client.locate(topic.name, [self._since_ms]).offsets[0]
        if self._last is not None:
            return max(topic.first_offset, topic.end_offset - self._last)
        return self._offset


def _offset(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None or text == "earliest":
        return None if text is None else 0
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{text!r} is neither `earliest` nor an offset")
    return int(text)


start_options = option_set(
    click.option(
        "--from",
        "begin",
        callback=_offset,
        metavar="earliest|OFFSET",
        help="Start with the oldest message of each topic, or with the one at OFFSET.",
    ),
    time_option(
        "--since", "Start with messages published within the last TIME, as in 5m, 12h or 7d."
    ),
)


class JournalReader:
    """Reads all topics that match some filters."""

    def __init__(
        self, client: "QueueClient", filters: tuple[str, ...], start: StartPosition
    ) -> None:
        self._client = client
        self._filters = filters
        self._start = start
        self._sequence = 0
        self._positions: dict[str, int] = {}  # by topic: the next offset
        self._incarnations: dict[str, int] = {}

    def stored(self) -> "Iterator[Record]":
        page = self._client.changes(self._filters)
        self._sequence = page.sequence
        while True:
            yield from self._records(page)
            if not page.more:
                return
            page = self._client.changes(self._filters, after=page.topics[-1].name)

    def new(self, wait_s: float) -> "Iterator[Record]":
        """Yield the messages since; wait up to ``wait_s`` for the first."""
        page = self._client.changes(self._filters, self._sequence, wait_s)
        sequence = page.sequence
        while not page.again:
            for name in page.deleted:
                self._positions.pop(name, None)
            yield from self._records(page)
            if not page.more:
                self._sequence = sequence
                return
            last = max([topic.name for topic in page.topics] + list(page.deleted))
            page = self._client.changes(self._filters, self._sequence, after=last)
        yield from self.stored()

    def _records(self, page: "Changed") -> "Iterator[Record]":
        topics = list(page.topics)
        for first in range(0, len(topics), MERGED_MAX):
            streams = [self._stream(topic) for topic in topics[first : first + MERGED_MAX]]
            for record in merge(*streams, key=lambda record: record.sequence):
                self._positions[record.topic] = record.offset + 1  # here: merging reads ahead
                yield record

    def _stream(self, topic: "Topic") -> "Iterator[Record]":
        position = self._position(topic)
        if position >= topic.end_offset:
            return
        try:
            yield from self._client.messages(topic.name, position, topic.end_offset)
        except PenstockError:
            if self._client.topic(topic.name) is not None:
                raise
            self._positions.pop(topic.name, None)  # deleted in the meantime

    def _position(self, topic: "Topic") -> int:
        known = self._incarnations.get(topic.name)
        self._incarnations[topic.name] = topic.incarnation
        if known not in {None, topic.incarnation}:
            self._positions[topic.name] = 0  # deleted and created again
        elif topic.name not in self._positions:
            self._positions[topic.name] = self._start.of(self._client, topic)
        return self._positions[topic.name]
