"""Changes: which topics match a client's filters, and which of them were written to since.

The first request lists all, a page at a time, read off the loop. The response has the number of the
last change *before* the list was read, so that concurrent changes come with the next request. From
then on a request costs what has changed since its number, and waits for the first change if there
is none (``reading/changes.py``). A topic that never had a message is not listed.
"""

import asyncio
from collections.abc import Callable
from itertools import islice

from penstock.doors.queue.faults import refusal_fault, too_many
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.poll import WAIT_MS_MAX
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.topic_filters import TopicFilters
from penstock.model.topic import filter_fault
from penstock.store.store import Store, TopicInfo
from penstock.trust.rules import Action
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import Changed, Response
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, Fault

FILTERS_MAX = 1_024
PAGE_MAX = 1_000
ASKED_MAX = 10_000  # topics of a page for a client that wants so many: half a megabyte
WATCHES_MAX = 16  # requests of a connection that may wait for changes, each with filters
EVERYTHING = b"#"


def changes(client: Requester, message: queue_pb2.Changes, slot: Slot) -> None:
    door = client.door
    filters = tuple([text.encode() for text in message.filters]) or (EVERYTHING,)
    fault = too_many(filters, FILTERS_MAX, "filters") or _filters_fault(client, filters)
    if slot.is_refused(fault):
        return
    door.changes.join(client)
    if client.filters is None or client.filters.filters != filters:
        client.filters = _readable(client, filters)
    if message.after_sequence:
        _watch(client, message, slot, client.filters)
    else:
        _list(client, message, slot, client.filters)


def _watch(
    client: Requester, message: queue_pb2.Changes, slot: Slot, filters: TopicFilters
) -> None:
    if sum(isinstance(poll, ChangesRequest) for poll in client.polls) >= WATCHES_MAX:
        what = f"{WATCHES_MAX} requests of this connection wait for changes"
        slot.fail(Fault(LIMIT, f"{what}: wait for one of them, or open another connection"))
    else:
        ChangesRequest(client, message, slot, filters).start()


def _readable(client: Requester, filters: tuple[bytes, ...]) -> TopicFilters:
    """The topics that match and that the user may read, as long as its rights stay the same."""
    door, principal = client.door, client.principal

    def is_readable(name: bytes) -> bool:
        is_open = not name.startswith(b"$") or door.read_fault(name) is None
        return is_open and door.admission.allows(principal, Action.READ, name)

    return TopicFilters(filters, is_readable)


def _filters_fault(client: Requester, filters: tuple[bytes, ...]) -> Fault | None:
    limits, admission = client.door.limits, client.door.admission
    for topic_filter in filters:
        fault = filter_fault(topic_filter, limits.topic_bytes_max, limits.topic_levels_max)
        if fault:
            return Fault(BAD_REQUEST, f"filter {topic_filter.decode()!r}: {fault}")
        refusal = admission.judge_filter(client.principal, Action.READ, topic_filter)
        if refusal is not None:
            return refusal_fault(refusal)
    return None


def _page(message: queue_pb2.Changes) -> int:
    return min(message.max, ASKED_MAX) or PAGE_MAX


def _list(client: Requester, message: queue_pb2.Changes, slot: Slot, filters: TopicFilters) -> None:
    store, count, after = client.door.store, _page(message), message.after.encode()
    request_id, number = slot.request_id, client.door.changes.number

    def job() -> bytes:
        found = list(islice(filters.infos(store, after), count + 1))
        topics = [_topic(info) for info in found[:count]]
        answer = Changed(sequence=number, topics=topics, more=len(found) > count)
        return encode.response(Response(changed=answer, request_id=request_id))

    client.disk_reads.run(slot, job, lambda frames: frames, is_search=True)


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


class ChangesRequest:
    """A request for what changed, filtered off the loop; waits if nothing is left."""

    __slots__ = ("_client", "_filters", "_is_over", "_is_watching", "_message", "_slot", "_timer")

    def __init__(
        self, client: Requester, message: queue_pb2.Changes, slot: Slot, filters: TopicFilters
    ) -> None:
        self._client = client
        self._message = message
        self._slot = slot
        self._filters = filters
        self._is_over = client.is_ending or not message.wait_ms  # answer, even with nothing
        self._is_watching = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._client.polls.add(self)
        if not self._is_over:
            wait_ms = min(self._message.wait_ms, WAIT_MS_MAX)
            self._timer = self._client.door.loop.call_later(wait_ms / 1000, self.stop_waiting)
        self._look()

    def _look(self) -> None:
        changes = self._client.door.changes
        topics, number = changes.since(self._message.after_sequence), changes.number
        if topics is None:
            self.leave()
            self._slot.respond(Response(changed=Changed(sequence=number, again=True)))
        elif not topics and not self._is_over:
            self._watch(number)
        else:
            job, is_search = self._job(topics, number), len(topics) > PAGE_MAX
            self._client.disk_reads.run(
                self._slot, job, lambda found: self._found(found, number), is_search=is_search
            )

    def _job(self, topics: list[bytes], number: int) -> Callable[[], bytes | None]:
        """A job for a reader thread that makes the answer; None: nothing is for the client."""
        store, filters, request_id = self._client.door.store, self._filters, self._slot.request_id
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
        if frames is not None or self._client.reason is not None:
            self.leave()
        elif self._is_over:
            self._look()  # the time was up meanwhile
        else:
            self._watch(number)
        return frames

    def _watch(self, number: int) -> None:
        self._is_watching = True
        self._client.door.changes.watch(self, number)

    def _unwatch(self) -> None:
        self._is_watching = False
        self._client.door.changes.unwatch(self)

    def wants(self, topic: bytes) -> bool:
        return self._filters.match(topic)

    def grown(self) -> None:
        self._unwatch()
        self._look()

    def ask(self) -> None:
        """Answers are small, and need no room."""

    def rights_changed(self) -> None:
        """Nothing is refused, but topics that may not be read any more are left out."""
        self._filters = _readable(self._client, self._filters.filters)

    def leadership_lost(self) -> None:
        self.stop_waiting()

    def stop_waiting(self) -> None:
        self._is_over = True
        if self._is_watching:
            self.grown()

    def leave(self) -> None:
        self._client.polls.discard(self)
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
