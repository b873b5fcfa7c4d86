"""``$events/clients``: who came, left, was refused or lost messages, in the journal.

The ring (``obs.events``) forgets with the process. So what it says of clients goes to a reserved
topic as well, once a second, in the background: there it survives crashes, is replicated, and can
be read and subscribed to like any topic, by those who may monitor.

* **Storms** do not reach the disk: of one second ``PER_SECOND_MAX`` records are written, and what
  is more is summed up, one record per kind and reason. Nothing is written for what is delivered.
* **Each node writes its own.** What all nodes record alike, because it follows from the journal
  (drops of sessions), the leader writes.
* **A failed disk** gets nothing: writing goes on when commits do, with what the ring still has.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from penstock.commit.pipeline import Pipeline
from penstock.obs.events import CONNECTED, DROPPED, ENDED, REFUSED, Event, Events
from penstock.store.store import Store

TOPIC = b"$events/clients"

PER_SECOND_MAX = 200  # records written of one second
AT_ONCE_MAX = 4_096  # records taken from the ring in one turn
WRITTEN = frozenset({CONNECTED, ENDED, REFUSED, DROPPED})
BYTES_AT_ONCE = 1 << 20


class Leading(Protocol):
    """The node's part in its cluster."""

    @property
    def node_id(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def is_writable(self) -> bool: ...


class StoredEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record as it is written: JSON, for people and programs."""

    time_ms: int
    node: int
    kind: str
    reason: str = ""
    client_id: str = ""
    topic: str = ""
    user: str = ""
    peer: str = ""
    detail: str = ""
    sequence: int = 0
    last_sequence: int = 0
    count: int = 1


_decoder = msgspec.json.Decoder(StoredEvent)


class ClientEvents:
    """Writes what the ring of this node says of clients."""

    def __init__(
        self, events: Events, pipeline: Pipeline, cluster: Leading, *, is_on: bool
    ) -> None:
        self._events = events
        self._pipeline = pipeline
        self._cluster = cluster
        self._is_on = is_on
        self._next = events.next
        self.started_ms = events.now_ms()

    def turn(self) -> None:
        """Called periodically: write the seconds that are over."""
        self._events.turn()
        if self._is_on and self._events.next > self._next and self._can_write():
            self._write(with_unsettled=False)

    def finish(self) -> None:
        """The broker stops: write the second that has begun."""
        if self._is_on and self._can_write():
            self._write(with_unsettled=True)

    def _can_write(self) -> bool:
        return self._pipeline.failure is None and self._cluster.is_writable

    def _write(self, *, with_unsettled: bool) -> None:
        own = self._take(with_unsettled=with_unsettled)
        payloads = [msgspec.json.encode(self._stored(event)) for event in _bounded(own)]
        if payloads:
            now_ms = self._events.now_ms()
            self._pipeline.publish(TOPIC, payloads, now_ms, qos=1, retain=False)

    def _take(self, *, with_unsettled: bool) -> Iterator[Event]:
        """Each record once, one at a time: of a storm there are thousands, and few are written."""
        for event in self._events.since(self._next, AT_ONCE_MAX):
            if not with_unsettled and not self._events.is_settled(event):
                break
            self._next = event.number + 1
            if self._is_ours(event):
                yield event

    def _is_ours(self, event: Event) -> bool:
        if event.kind not in WRITTEN or event.topic == TOPIC:
            return False  # what is lost of this topic is not told in it
        return self._cluster.is_leader or not event.is_everywhere

    def _stored(self, event: Event) -> StoredEvent:
        return StoredEvent(
            event.ms,
            self._cluster.node_id,
            event.kind,
            event.reason,
            _text(event.client),
            _text(event.topic),
            event.user,
            event.peer,
            event.detail,
            event.sequence,
            event.last_sequence,
            event.count,
        )


def _bounded(events: Iterable[Event]) -> Iterator[Event]:
    """The first records of each second, then the sums of those beyond the bound."""
    counts: dict[int, int] = {}
    sums: dict[tuple[int, str, str], Event] = {}
    for event in events:
        second = event.ms // 1000
        counts[second] = counts.get(second, 0) + 1
        if counts[second] <= PER_SECOND_MAX:
            yield event
            continue
        key = second, event.kind, event.reason
        if key in sums:
            sums[key].count += event.count
        else:
            sums[key] = Event(
                event.number, event.ms, event.kind, event.reason, count=event.count, detail="others"
            )
    yield from sums.values()


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def stored_of(store: Store, client_id: bytes, looked_at: int, count_max: int) -> list[StoredEvent]:
    """The newest records of a client, newest first; reads the disk: for a thread."""
    info = store.topic(TOPIC)
    if info is None:
        return []
    wanted, found = _text(client_id[:256]), list[StoredEvent]()
    at = max(info.first_offset, info.next_offset - looked_at)
    while at < info.next_offset:
        part = store.read_topic(TOPIC, at, 1_000, BYTES_AT_ONCE)
        for message in part.messages():
            event = _decoder.decode(message.payload)
            if event.client_id == wanted:
                found.append(event)
        if part.next_offset <= at:
            break
        at = part.next_offset
    return found[::-1][:count_max]
