"""The source ``events`` of the stream: what was recorded on this node, as it happens.

A record is told when its second is over, as until then what is alike is counted with it.
"""

from collections.abc import Sequence

import msgspec

from penstock.api.call import Call
from penstock.api.explainer import Explainer
from penstock.api.problems import Problem
from penstock.api.recorded import document
from penstock.api.stream import Feed, Source, StreamEvent, StreamQuery

AT_ONCE_MAX = 500  # told in one second; some 256 KiB


class EventsSource(Source):
    """The records of the ring."""

    name = "events"

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:  # noqa: ARG002
        if self.parts.explainer is None:
            raise Problem(404, "not_found", "this broker records nothing", "ask a real one")
        return _EventsFeed(self.parts.explainer, position)


class _EventsFeed:
    def __init__(self, explainer: Explainer, position: str | None) -> None:
        self._events, self._node = explainer.events, explainer.node
        self.resumed = position is None
        self._next = self._events.next
        if position is not None and position.isascii() and position.isdecimal():
            oldest = self._events.next - len(self._events)
            self.resumed = oldest <= int(position) <= self._events.next
            self._next = int(position) if self.resumed else self._events.next

    @property
    def position(self) -> str:
        return str(self._next)

    async def read(self) -> Sequence[StreamEvent]:
        told = []
        for event in self._events.since(self._next, AT_ONCE_MAX):
            if not self._events.is_settled(event):
                break
            told.append(StreamEvent("events", msgspec.json.encode(document(event, self._node))))
            self._next = event.number + 1
        return told

    def close(self) -> None:
        pass
