"""Changes: which topics a client's filters match, and which of them were written to since.

The first request lists all, a page at a time, read off the loop. It is answered with the number of
the last change *before* the list was read, so that whatever happens meanwhile comes with the next
request. From then on a request costs what has changed since its number, and waits for the first
change if there is none (``reading/changes.py``).

A topic is there for as long as the journal has something of that name. One that was made, and has
never had a message, has nothing to be read, and no incarnation to remember a place by.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from penstock.core.subscriptions import SubscriptionTrie
from penstock.doors.queue.faults import BAD_REQUEST, LIMIT, Fault, read_fault, too_many
from penstock.doors.queue.poll import WAIT_MS_MAX
from penstock.doors.queue.replies import Slot
from penstock.model.topic import filter_fault, has_wildcard
from penstock.node.hub import Hub
from penstock.store.store import Store, TopicInfo
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import Changed, Response

if TYPE_CHECKING:
    import asyncio

    from penstock.doors.queue.connection import QueueConnection


FILTERS_MAX = 1_024
PAGE_MAX = 1_000
"""Topics of one response."""

WATCHES_MAX = 16
"""Requests of one connection that may wait for changes: each has filters of its own."""

JUDGED_MAX = 8_192
"""Topics whose match is remembered, for the filters of one client."""

EVERYTHING = b"#"


class Filters:
    """What one client asks about: each topic is judged once."""

    def __init__(self, hub: Hub, filters: tuple[bytes, ...]) -> None:
        self.filters = filters
        self._hub = hub
        self._trie: SubscriptionTrie[None] = SubscriptionTrie()
        self._judged: dict[bytes, bool] = {}
        for topic_filter in filters:
            self._trie.subscribe(topic_filter, None, 0)

    def match(self, topic: bytes) -> bool:
        """Whether the client is told of a topic."""
        known = self._judged.get(topic)
        if known is None:
            if len(self._judged) >= JUDGED_MAX:
                self._judged.clear()
            known = self._judged[topic] = bool(self._trie.match(topic)) and self._is_open(topic)
        return known

    def _is_open(self, topic: bytes) -> bool:
        if not topic.startswith(b"$"):
            return True
        return read_fault(self._hub, topic) is None

    def infos(self, store: Store, after: bytes) -> Iterator[TopicInfo]:
        """All topics that match, behind one by name. For a thread that reads."""
        if any(map(has_wildcard, self.filters)):
            found = store.topics(_shared([*map(_beginning, self.filters)]), after)
            return (info for info in found if self.match(info.name))
        names = sorted(name for name in set(self.filters) if name > after and self.match(name))
        return (info for name in names if (info := store.topic(name)) is not None)


def _beginning(topic_filter: bytes) -> bytes:
    """What all names begin with that a filter matches; ``a/#`` matches ``a``, too."""
    plain = topic_filter.partition(b"+")[0].partition(b"#")[0]
    return plain.removesuffix(b"/") if plain + b"#" == topic_filter else plain


def _shared(names: list[bytes]) -> bytes:
    """What all names begin with."""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    end = next((place for place, (one, other) in pairs if one != other), len(first))
    return first[:end]


def changes(door: "QueueConnection", message: queue_pb2.Changes, slot: Slot) -> None:
    """List topics, or tell which of them have changed."""
    filters = tuple([text.encode() for text in message.filters]) or (EVERYTHING,)
    fault = too_many(filters, FILTERS_MAX, "filters") or _filters_fault(door.hub, filters)
    if fault is not None:
        slot.fail(fault)
        return
    door.hub.changes.join(door)
    if door.filters is None or door.filters.filters != filters:
        door.filters = Filters(door.hub, filters)
    if message.after_sequence:
        _watch(door, message, slot, door.filters)
    else:
        _list(door, message, slot, door.filters)


def _watch(
    door: "QueueConnection", message: queue_pb2.Changes, slot: Slot, filters: Filters
) -> None:
    if sum(isinstance(poll, Watch) for poll in door.polls) >= WATCHES_MAX:
        what = f"{WATCHES_MAX} requests of this connection wait for changes"
        slot.fail(Fault(LIMIT, f"{what}: wait for one of them, or open another connection"))
    else:
        Watch(door, message, slot, filters).start()


def _filters_fault(hub: Hub, filters: tuple[bytes, ...]) -> Fault | None:
    limits = hub.limits
    for topic_filter in filters:
        fault = filter_fault(topic_filter, limits.topic_bytes_max, limits.topic_levels_max)
        if fault:
            return Fault(BAD_REQUEST, f"filter {topic_filter.decode()!r}: {fault}")
    return None


def _page(message: queue_pb2.Changes) -> int:
    return min(message.max, PAGE_MAX) or PAGE_MAX


def _list(
    door: "QueueConnection", message: queue_pb2.Changes, slot: Slot, filters: Filters
) -> None:
    store, count, after = door.hub.store, _page(message), message.after.encode()
    request_id, number = slot.request_id, door.hub.changes.number

    def job() -> bytes:
        found = list(islice(filters.infos(store, after), count + 1))
        topics = [_topic(info) for info in found[:count]]
        answer = Changed(sequence=number, topics=topics, more=len(found) > count)
        return encode.response(Response(changed=answer, request_id=request_id))

    door.disk_reads.run(slot, job, lambda frames: frames, is_search=True)


def _topic(info: TopicInfo) -> queue_pb2.Topic:
    return queue_pb2.Topic(
        name=info.name.decode(errors="replace"),
        incarnation=info.id,
        first_offset=info.first_offset,
        end_offset=info.next_offset,
        messages=info.count,
        bytes=info.bytes,
        created_ms=info.created_ms,
    )


class Watch:
    """One request for what has changed; among the polls of its connection until it is answered.

    What changed since the client's number is looked through off the loop, for it can be much. Only
    if there is nothing for the client in it does the request wait.
    """

    __slots__ = ("_door", "_filters", "_is_over", "_is_watching", "_message", "_slot", "_timer")

    def __init__(
        self, door: "QueueConnection", message: queue_pb2.Changes, slot: Slot, filters: Filters
    ) -> None:
        self._door = door
        self._message = message
        self._slot = slot
        self._filters = filters
        self._is_over = door.is_ending or not message.wait_ms
        """Whether it is answered with whatever there is."""
        self._is_watching = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Answer, or wait for something to answer with."""
        self._door.polls.add(self)
        if not self._is_over:
            wait_ms = min(self._message.wait_ms, WAIT_MS_MAX)
            self._timer = self._door.hub.loop.call_later(wait_ms / 1000, self.stop_waiting)
        self._look()

    def _look(self) -> None:
        """See what has changed; answer if that is something for the client, or the time is up."""
        changes = self._door.hub.changes
        topics, number = changes.since(self._message.after_sequence), changes.number
        if topics is None:
            self.leave()
            self._slot.respond(Response(changed=Changed(sequence=number, again=True)))
        elif not topics and not self._is_over:
            self._watch(number)
        else:
            job, is_search = self._job(topics, number), len(topics) > PAGE_MAX
            self._door.disk_reads.run(
                self._slot, job, lambda found: self._found(found, number), is_search=is_search
            )

    def _job(self, topics: list[bytes], number: int) -> Callable[[], bytes | None]:
        """Find those that the client is told of, and make the answer; None: there are none."""
        store, filters, request_id = self._door.hub.store, self._filters, self._slot.request_id
        after, count = self._message.after.encode(), _page(self._message)

        def job() -> bytes | None:
            matching = list(filter(filters.match, topics))
            if not matching and not self._is_over:
                return None
            names = sorted(name for name in matching if name > after)
            answer = _changed(store, names[:count])
            answer.sequence, answer.more = number, len(names) > count
            return encode.response(Response(changed=answer, request_id=request_id))

        return job

    def _found(self, frames: bytes | None, number: int) -> bytes | None:
        if frames is not None or self._door.reason is not None:
            self.leave()
        elif self._is_over:
            self._look()  # the time was up meanwhile
        else:
            self._watch(number)
        return frames

    # ── waiting ───────────────────────────────────────────────────────────────────────────────

    def _watch(self, number: int) -> None:
        self._is_watching = True
        self._door.hub.changes.watch(self, number)

    def _unwatch(self) -> None:
        self._is_watching = False
        self._door.hub.changes.unwatch(self)

    def wants(self, topic: bytes) -> bool:
        """Whether the client is told of a topic."""
        return self._filters.match(topic)

    def grown(self) -> None:
        """Something has changed for the client."""
        self._unwatch()
        self._look()

    def ask(self) -> None:
        """There may be room again: answers are small, and wait for it by themselves."""

    def leadership_lost(self) -> None:
        """Another node is to be asked from now on: have the client ask."""
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """Answer with what there is."""
        self._is_over = True
        if self._is_watching:
            self.grown()

    def leave(self) -> None:
        """Wait no longer."""
        self._door.polls.discard(self)
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()


def _changed(store: Store, names: list[bytes]) -> Changed:
    answer = Changed()
    for name in names:
        info = store.topic(name)
        if info is None:
            answer.deleted.append(name.decode(errors="replace"))
        else:
            answer.topics.append(_topic(info))
    return answer
