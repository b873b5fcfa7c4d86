"""ListTopics, ListGroups, ListKeys and Stats.

A reader thread finds the names of a page in the journal, which may know a million topics.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice

from penstock.core.groups import Group
from penstock.core.topics import TopicSettings
from penstock.doors.queue.access import is_seen
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.parts import QueueParts
from penstock.doors.queue.replies import Slot
from penstock.store.store import Store
from penstock.trust.keys import Key
from penstock.trust.rules import Action
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import (
    ListGroups,
    ListKeys,
    ListTopics,
    Response,
    Stats,
    StatsResult,
)

PAGE_MAX = 500  # topics or groups of one response: some milliseconds of work on the loop
COUNTED_AT_ONCE = 500  # topics, and groups, that are counted in one turn of the loop


def list_topics(client: Requester, message: ListTopics, slot: Slot) -> None:
    door = client.door
    if message.name:
        name = message.name.encode()
        is_known = door.store.topic(name) is not None or door.broker.topics.get(name) is not None
        is_known = is_known and is_seen(door, client.principal, name)
        slot.answer(_topics(door, [name] if is_known else [], PAGE_MAX, slot.request_id))
        return
    prefix, after = message.prefix.encode(), message.after.encode()
    count = min(message.max, PAGE_MAX) or PAGE_MAX
    made, sees = list(door.broker.topics.by_name), _seen_by(client)
    client.disk_reads.run(
        slot,
        lambda: list(islice(filter(sees, _names(door.store, made, prefix, after)), count + 1)),
        lambda names: _topics(door, names, count, slot.request_id),
        is_search=True,
    )


def _seen_by(client: Requester) -> Callable[[bytes], bool]:
    """Which topics are listed, by the rights of when the list is made: that may have to wait."""
    return lambda topic: is_seen(client.door, client.principal, topic)


def _names(store: Store, made: list[bytes], prefix: bytes, after: bytes) -> Iterator[bytes]:
    stored = (info.name for info in store.topics(prefix))
    empty = sorted(name for name in made if name.startswith(prefix))
    return (name for name, _ in groupby(merge(stored, empty)) if name > after)


def _topics(door: QueueParts, names: list[bytes], count: int, request_id: int) -> bytes:
    topics = [_topic(door, name) for name in names[:count]]
    page = queue_pb2.Topics(topics=topics, more=len(names) > count)
    return encode.response(Response(topics=page, request_id=request_id))


def _topic(door: QueueParts, name: bytes) -> queue_pb2.Topic:
    settings = door.broker.topics.get(name) or TopicSettings(name, keep=True)
    topic = queue_pb2.Topic(
        name=name.decode(errors="replace"),
        rate_per_sec=settings.rate_milli / 1000,
        burst=settings.burst,
        max_messages=settings.max_messages,
        max_age_ms=settings.max_age_ms,
        max_bytes=settings.max_bytes,
        keep=settings.keep,
        groups=len(door.broker.groups.by_topic.get(name, ())),
    )
    info = door.store.topic(name)
    if info is not None:
        topic.incarnation = info.id
        topic.first_offset = info.first_offset
        topic.end_offset = info.next_offset
        topic.messages = door.dispatchers.topics.messages(name)
        topic.bytes = info.bytes
        topic.created_ms = info.created_ms
    return topic


def list_groups(client: Requester, message: ListGroups, slot: Slot) -> None:
    door, request_id = client.door, slot.request_id
    count = min(message.max, PAGE_MAX) or PAGE_MAX
    after = message.after_topic.encode(), message.after_group.encode()
    sees = _seen_by(client)
    if message.topic:
        named = [message.topic.encode()] if sees(message.topic.encode()) else []
        slot.answer(_groups(door, named, after, count, request_id))
        return
    topics = list(door.broker.groups.by_topic)
    client.disk_reads.run(
        slot,
        lambda: _topics_from(filter(sees, topics), after[0], count + 1),
        lambda names: _groups(door, names, after, count, request_id),
    )


def _topics_from(topics: Iterable[bytes], first: bytes, count: int) -> list[bytes]:
    """As many topics as a page can need: each has a group, and the first may be listed already."""
    return sorted(topic for topic in topics if topic >= first)[: count + 1]


def _groups(
    door: QueueParts, topics: list[bytes], after: tuple[bytes, bytes], count: int, request_id: int
) -> bytes:
    found: list[Group] = []
    for topic in topics:
        names = sorted(door.broker.groups.by_topic.get(topic, {}))
        first = bisect_right(names, after[1]) if topic == after[0] else 0
        found += [door.broker.groups.by_topic[topic][name] for name in names[first:]]
        if len(found) > count:
            break
    groups = [_group(door, group) for group in found[:count]]
    page = queue_pb2.Groups(groups=groups, more=len(found) > count)
    return encode.response(Response(groups=page, request_id=request_id))


def _group(door: QueueParts, group: Group) -> queue_pb2.Group:
    return queue_pb2.Group(
        topic=group.topic.decode(errors="replace"),
        name=group.name.decode(errors="replace"),
        position=group.oldest_unsettled,
        lag=door.dispatchers.groups.lag(group),
        in_flight=group.in_flight,
        returned=len(group.returned),
        delayed=len(group.delayed),
        dead_letters=group.dead_letters,
        redeliveries=group.redeliveries,
        consumers=door.dispatchers.workers(group.topic, group.name),
        max_deliveries=group.max_deliveries,
        backoff_ms=group.backoff_ms,
        backoff_max_ms=group.backoff_max_ms,
        reader=group.reader,
        start=group.start,
    )


def list_keys(client: Requester, message: ListKeys, slot: Slot) -> None:
    """Public keys by id: everybody may verify signatures. ``/keys`` shows administrators more."""
    ring, request_id = client.door.broker.keys, slot.request_id
    count = min(message.max, PAGE_MAX) or PAGE_MAX
    ids = ring.ids()

    def frames(page: list[int]) -> bytes:
        keys = [_key(key) for key in map(ring.get, page[:count]) if key is not None]
        answer = queue_pb2.Keys(keys=keys, more=len(page) > count)
        return encode.response(Response(keys=answer, request_id=request_id))

    def job() -> list[int]:
        return sorted(key_id for key_id in ids if key_id > message.after)[: count + 1]

    client.disk_reads.run(slot, job, frames)


def _key(key: Key) -> queue_pb2.Key:
    return queue_pb2.Key(
        id=key.id,
        public_key=key.public_key,
        created_ms=key.created_ms,
        expires_ms=key.expires_ms,
        revoked_ms=key.revoked_ms,
    )


def stats(client: Requester, _message: Stats, slot: Slot) -> None:
    _Count(client, slot).go_on()


class _Count:
    """Counts messages and leases, some topics and groups in each turn of the loop.

    Without ``monitor`` only what the user sees in lists is counted.
    """

    def __init__(self, client: Requester, slot: Slot) -> None:
        self._door = door = client.door
        self._principal = client.principal
        self._sees_all = door.admission.allows(client.principal, Action.MONITOR)
        self._slot = slot
        self._topics = iter(list(door.broker.topics.by_name))
        self._groups = iter(list(door.broker.groups))
        self._seen = self._messages = self._in_flight = 0

    def go_on(self) -> None:
        topics = list(islice(self._topics, COUNTED_AT_ONCE))
        groups = list(islice(self._groups, COUNTED_AT_ONCE))
        seen = list(filter(self._sees, topics))
        self._seen += len(seen)
        self._messages += sum(map(self._door.dispatchers.topics.messages, seen))
        self._in_flight += sum([group.in_flight for group in groups if self._sees(group.topic)])
        if len(topics) == COUNTED_AT_ONCE or len(groups) == COUNTED_AT_ONCE:
            self._door.loop.call_soon(self.go_on)
        else:
            self._respond()

    def _sees(self, topic: bytes) -> bool:
        return self._sees_all or is_seen(self._door, self._principal, topic)

    def _respond(self) -> None:
        consensus = self._door.cluster
        result = StatsResult(
            last_applied=self._door.broker.index,
            current_leader=consensus.leader,
            current_term=consensus.term,
            last_log_index=consensus.status().last_index,
            is_leader=consensus.is_leader,
            topics=self._seen,
            messages=self._messages,
            in_flight=self._in_flight,
        )
        self._slot.respond(Response(stats=result))
