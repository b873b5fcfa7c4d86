"""The sources ``topics`` and ``tail`` of the stream: values in view, and what just came.

Both read the journal, once a second and in a thread, for as long as somebody looks. What the
journal does not keep comes from a subscription of its own (``Tap``).
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from penstock.api.call import Call
from penstock.api.documents.common import name_of
from penstock.api.documents.messages import MessageRow, TailEvent
from penstock.api.documents.topics import Peek, TopicValues
from penstock.api.names import filter_of, invalid, matcher, topic_of
from penstock.api.problems import not_found
from penstock.api.reading.newest import peek, tail
from penstock.api.reading.pace import paced
from penstock.api.reading.pages import row_of
from penstock.api.reading.scanning import Bounds
from penstock.api.stream import Feed, Source, StreamEvent, StreamQuery
from penstock.api.views import Tap, Tapped
from penstock.limits import KIB, MIB
from penstock.model.message import Message
from penstock.store.store import Store
from penstock.trust.rules import Action

TAIL_MAX: Final = 200  # messages in one event
TAIL_LOOKED_AT: Final = 5_000
TAIL_BYTES_LOOKED_AT: Final = 8 * MIB
TAIL_SECONDS: Final = 0.25
EVENT_BYTES_MAX: Final = 192 * KIB
SHOWN_BYTES: Final = 256  # of a payload


class TopicsSource(Source):
    """The newest message of each topic that is named, whenever there is a new one."""

    name = "topics"
    action = None

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
        topics = [topic_of(name) for name in query.topic]
        if not topics:
            raise invalid("topic", "is missing", "name the topics whose values are wanted")
        for topic in topics:
            call.require(Action.READ, topic)
        return _TopicsFeed(call, self.parts.view.store, topics, resumed=position is None)


class _TopicsFeed:
    position = ""  # values are sent anew

    def __init__(self, call: Call, store: Store, topics: list[bytes], *, resumed: bool) -> None:
        self.resumed = resumed
        self._call = call
        self._store = store
        self._topics = topics
        self._known: dict[bytes, int] = {}

    async def read(self) -> Sequence[StreamEvent]:
        readable = [topic for topic in self._topics if self._call.may(Action.READ, topic)]
        values = await self._call.read(self._moved, readable)
        if not values.items and not values.gone:
            return []
        return [StreamEvent("topics", msgspec.json.encode(values))]

    def _moved(self, topics: list[bytes]) -> TopicValues:
        """Values of the topics that have others than the last time."""
        items: list[Peek] = []
        gone: list[str] = []
        for topic in paced(topics):
            info = self._store.topic(topic)
            if info is None:
                if self._known.pop(topic, None) is not None:
                    gone.append(name_of(topic))
            elif self._known.get(topic) != info.next_offset:
                self._known[topic] = info.next_offset
                value = peek(self._store, info)
                if value is not None:
                    items.append(value)
        return TopicValues(items, gone)

    def close(self) -> None:
        pass


class TailSource(Source):
    """The newest messages under a filter."""

    name = "tail"
    action = None

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
        if self.parts.topics is None:
            raise not_found("this broker tells nothing about topics")
        topic_filter = filter_of(query.filter)
        matches, view = matcher(topic_filter), self.parts.topics

        def is_wanted(topic: bytes) -> bool:
            return matches(topic) and call.may(Action.READ, topic)

        def is_live(topic: bytes) -> bool:
            return view.capture(topic) != "captured" and is_wanted(topic)

        tap = view.tap(topic_filter, call.principal, is_live)
        return _TailFeed(call, self.parts.view.store, is_wanted, tap, position)


class _TailFeed:
    def __init__(
        self,
        call: Call,
        store: Store,
        is_wanted: Callable[[bytes], bool],
        tap: Tap,
        position: str | None,
    ) -> None:
        self._call = call
        self._store = store
        self._is_wanted = is_wanted
        self._tap = tap
        self._after = store.next_sequence - 1
        self.resumed = position is None
        if position is not None and position.isascii() and position.isdecimal():
            self.resumed = self._after - TAIL_LOOKED_AT <= int(position) <= self._after
            self._after = int(position) if self.resumed else self._after

    @property
    def position(self) -> str:
        return str(self._after)

    async def read(self) -> Sequence[StreamEvent]:
        found = await self._call.read(self._journaled)
        live = _live_event(self._tap.take(), self._tap.wall_ms(), self._after)
        shown = (event for event in (found, live) if event.items or event.skipped or event.unseen)
        return [StreamEvent("tail", msgspec.json.encode(event)) for event in shown]

    def _journaled(self) -> TailEvent:
        after, self._after = self._after, self._store.next_sequence - 1
        bounds = Bounds(TAIL_LOOKED_AT, TAIL_BYTES_LOOKED_AT, TAIL_SECONDS)
        messages, skipped, unseen = tail(
            self._store, after, self._after, self._is_wanted, TAIL_MAX, bounds
        )
        rows = _rows(messages)
        skipped += len(messages) - len(rows)
        return TailEvent(rows, skipped, unseen, "journal", self._after)

    def close(self) -> None:
        self._tap.leave()


def _rows(messages: Sequence[Message]) -> list[MessageRow]:
    """The newest messages that have room in an event, oldest first."""
    rows: list[MessageRow] = []
    size = 0
    for message in reversed(messages):
        row = row_of(message, "auto", SHOWN_BYTES)
        size += len(msgspec.json.encode(row))
        if rows and size > EVENT_BYTES_MAX:
            break
        rows.append(row)
    return rows[::-1]


def _live_event(tapped: Tapped, now_ms: int, sequence: int) -> TailEvent:
    messages = [Message(topic, payload, 0, 0, now_ms, 0) for topic, payload in tapped.messages]
    rows = [replace(row, offset=None, sequence=None) for row in _rows(messages)]
    skipped = tapped.skipped + len(messages) - len(rows)
    return TailEvent(rows, skipped, 0, "live", sequence)
