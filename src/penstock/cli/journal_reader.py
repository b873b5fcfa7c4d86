"""Reading what topics hold, and what comes after, in the order in which it was journaled.

For ``penstock read`` and ``penstock sub --from``. The broker is asked which topics match and which
of them have changed (``changes``), and each is read from where we are. So nothing is missed and
nothing comes twice, whatever the timing, and also when the broker was restarted meanwhile: it says
``again``, all topics are listed anew, and our places in them still hold.
"""

from collections.abc import Callable, Iterator
from heapq import merge
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli.admin_client import duration
from penstock.errors import PenstockError

if TYPE_CHECKING:  # a plain `penstock sub` does not load protobuf
    from penstock.client import QueueClient, Record
    from penstock.wire.queue._generated.queue_pb2 import Changed, Topic


_Command = TypeVar("_Command", bound=Callable[..., Any])

MERGED_MAX: Final = 256
"""Topics that are read side by side, in the order of their messages: one answer each is in hand."""


class StartPosition:
    """Where to begin in each topic: at an offset, at a time, or with the last messages."""

    def __init__(
        self, offset: int = 0, since_s: float | None = None, last: int | None = None
    ) -> None:
        self._offset = offset
        self._since_ms = None if since_s is None else max(0, int((time() - since_s) * 1000))
        self._last = last

    def of(self, client: "QueueClient", topic: "Topic") -> int:
        """The first offset to read of a topic."""
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


def start_options(command: _Command) -> _Command:
    """Give a command ``--from`` and ``--since``."""
    since = click.option(
        "--since",
        callback=duration,
        metavar="TIME",
        help="Begin with messages published within the last TIME, as in 5m, 12h or 7d.",
    )
    begin = click.option(
        "--from",
        "begin",
        callback=_offset,
        metavar="earliest|OFFSET",
        help="Begin with the oldest message that each topic holds, or with the one at OFFSET.",
    )
    return begin(since(command))


class JournalReader:
    """The messages of all topics that match some filters, from a place on."""

    def __init__(
        self, client: "QueueClient", filters: tuple[str, ...], place: StartPosition
    ) -> None:
        self._client = client
        self._filters = filters
        self._place = place
        self._sequence = 0
        self._reached: dict[str, int] = {}
        """By topic: the offset to go on with."""
        self._incarnations: dict[str, int] = {}

    def held(self) -> "Iterator[Record]":
        """Yield what there is, up to where each topic ends now."""
        page = self._client.changes(self._filters)
        self._sequence = page.sequence
        while True:
            yield from self._records(page)
            if not page.more:
                return
            page = self._client.changes(self._filters, after=page.topics[-1].name)

    def news(self, wait_s: float) -> "Iterator[Record]":
        """Yield what has come since; wait so long for the first."""
        page = self._client.changes(self._filters, self._sequence, wait_s)
        sequence = page.sequence
        while not page.again:
            for name in page.deleted:
                self._reached.pop(name, None)
            yield from self._records(page)
            if not page.more:
                self._sequence = sequence
                return
            last = max([topic.name for topic in page.topics] + list(page.deleted))
            page = self._client.changes(self._filters, self._sequence, after=last)
        yield from self.held()

    def _records(self, page: "Changed") -> "Iterator[Record]":
        topics = list(page.topics)
        for first in range(0, len(topics), MERGED_MAX):
            some = topics[first : first + MERGED_MAX]
            streams = [self._stream(topic) for topic in some]
            for record in merge(*streams, key=lambda record: record.sequence):
                self._reached[record.topic] = record.offset + 1  # here: merging reads ahead
                yield record

    def _stream(self, topic: "Topic") -> "Iterator[Record]":
        """The messages of one topic, from where we are to where it ends."""
        begin = self._begin(topic)
        if begin >= topic.end_offset:
            return
        try:
            yield from self._client.messages(topic.name, begin, topic.end_offset)
        except PenstockError:
            if self._client.topic(topic.name) is not None:
                raise
            self._reached.pop(topic.name, None)  # deleted meanwhile

    def _begin(self, topic: "Topic") -> int:
        known = self._incarnations.get(topic.name)
        self._incarnations[topic.name] = topic.incarnation
        if known not in {None, topic.incarnation}:
            self._reached[topic.name] = 0  # deleted, and made anew
        elif topic.name not in self._reached:
            self._reached[topic.name] = self._place.of(self._client, topic)
        return self._reached[topic.name]
