"""Fetch and Locate: messages in bulk, offsets by time, and how far a number of bytes reaches.

The reader thread also encodes the response. Nothing is leased: the client keeps its own position,
and knows by the topic's incarnation whether that is still valid.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.doors.queue.faults import refusal_fault, too_many
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.replies import Slot
from penstock.limits import KIB, MEASURES_MAX, MIB
from penstock.store.raw_slice import RawSlice
from penstock.store.search import offset_at_time
from penstock.store.store import RawQuery, Store, TopicInfo, TopicSlice
from penstock.trust.rules import Action
from penstock.wire.queue import bulk, encode
from penstock.wire.queue._generated.queue_pb2 import Fetch, Fetched, Locate, Located, Response
from penstock.wire.queue.faults import Fault
from penstock.wire.queue.slices import slice_of

MESSAGES_MAX = 65_536
BYTES_MAX = 8 * MIB  # of one response; a single message may exceed it
RAW_BYTES_MAX = 256 * KIB
"""The same of a response with raw columns. Such come at full speed, one behind the other, and each
holds up everybody else for as long as it takes to write it. With four clients that read all they
can, a ping took 1.4 times as long as on an idle broker with these, 3 times with a mebibyte; rows
came at three quarters of the speed."""

NO_TOPIC = bulk.Bulk(0, 0, 0, 0)
TIMES_MAX = 1_024
TIMES_AT_ONCE = 32  # looked up before other requests: each costs some twenty reads
Result = TypeVar("Result")


def fetch(client: Requester, message: Fetch, slot: Slot) -> None:
    topic = message.topic.encode()
    fault = client.door.read_fault(topic)
    if slot.is_refused(fault):
        return
    if message.columns:
        _fetch_raw(client, topic, message, slot)
        return
    store, request_id = client.door.store, slot.request_id
    count_max = min(message.max_messages, MESSAGES_MAX) or MESSAGES_MAX
    bytes_max = client.door.connections.budget.read_bytes_max(
        min(message.max_bytes, BYTES_MAX) or BYTES_MAX
    )

    def job() -> bytes:
        start, end = message.offset, message.end_offset
        fetched = _consistent(
            store, topic, lambda info: _fetch(store, info, (start, end), count_max, bytes_max)
        )
        return encode.response(Response(fetched=fetched or Fetched(), request_id=request_id))

    client.disk_reads.run(
        slot, job, lambda frames: frames, refusal=lambda: _read_refusal(client, topic)
    )


def _fetch_raw(client: Requester, topic: bytes, message: Fetch, slot: Slot) -> None:
    store, request_id = client.door.store, slot.request_id
    query = RawQuery(
        topic,
        message.offset,
        message.end_offset,
        min(message.max_messages, MESSAGES_MAX) or MESSAGES_MAX,
        client.door.connections.budget.read_bytes_max(
            min(message.max_bytes, RAW_BYTES_MAX) or RAW_BYTES_MAX
        ),
        message.columns,
    )

    def make(info: TopicInfo, next_offset: int, slices: list[RawSlice]) -> tuple[int, bytes]:
        numbers = bulk.Bulk(info.id, info.first_offset, info.next_offset, next_offset)
        return info.id, bulk.fetched(numbers, slices, request_id)

    def job() -> bytes:
        found = store.read_raw(query, make)
        while found is not None and not _is_current(store, topic, found[0]):
            found = store.read_raw(query, make)
        return found[1] if found else bulk.fetched(NO_TOPIC, (), request_id)

    client.disk_reads.run(
        slot, job, lambda frames: frames, refusal=lambda: _read_refusal(client, topic)
    )


def _read_refusal(client: Requester, topic: bytes) -> Fault | None:
    """Why the user may not read any more, asked when a read that had to wait begins."""
    refusal = client.door.admission.judge(client.principal, Action.READ, topic)
    return refusal_fault(refusal) if refusal else None


def _is_current(store: Store, topic: bytes, incarnation: int) -> bool:
    info = store.topic(topic)
    return info is not None and info.id == incarnation


def _consistent(store: Store, topic: bytes, read: Callable[[TopicInfo], Result]) -> Result | None:
    """Read from one incarnation of a topic; None: the topic does not exist."""
    info = store.topic(topic)
    while info is not None:
        found = read(info)
        again = store.topic(topic)
        if again is not None and again.id == info.id:
            return found
        info = again  # deleted, perhaps created anew, meanwhile
    return None


def _fetch(
    store: Store, info: TopicInfo, offsets: tuple[int, int], count_max: int, bytes_max: int
) -> Fetched:
    start, end = offsets
    end = min(end or info.next_offset, info.next_offset)
    fetched = Fetched(
        incarnation=info.id,
        first_offset=info.first_offset,
        end_offset=info.next_offset,
        next_offset=max(start, info.first_offset),
    )
    if start < end:
        found = store.read_topic(info.name, start, min(count_max, end - start), bytes_max)
        slices = _before(store, info.name, found.slices, end)
        fetched.slices.extend(map(slice_of, slices))
        fetched.next_offset = min(found.next_offset, end)
    return fetched


def _before(store: Store, topic: bytes, slices: list[TopicSlice], end: int) -> list[TopicSlice]:
    """The slices up to an offset. A read may go beyond it where messages were deleted."""
    kept = [part for part in slices if part.first_offset < end]
    if kept and kept[-1].first_offset + kept[-1].count > end:
        first = kept.pop().first_offset
        kept += store.read_topic(topic, first, end - first, BYTES_MAX).slices
    return kept


def locate(client: Requester, message: Locate, slot: Slot) -> None:
    topic = message.topic.encode()
    fault = (
        client.door.read_fault(topic)
        or too_many(message.times_ms, TIMES_MAX, "times")
        or too_many(message.measures, MEASURES_MAX, "measures")
    )
    if slot.is_refused(fault):
        return
    _Locating(client, topic, message, slot).go_on()


class _Locating:
    """A Locate under way. It can take seconds, so it is done in steps: other reads come between."""

    def __init__(self, client: Requester, topic: bytes, message: Locate, slot: Slot) -> None:
        self._client = client
        self._topic = topic
        self._message = message
        self._slot = slot
        self._located = Located()

    def go_on(self) -> None:
        client, topic = self._client, self._topic
        client.disk_reads.run(
            self._slot,
            self._step,
            self._frames,
            is_search=True,
            refusal=lambda: _read_refusal(client, topic),
        )

    def _step(self) -> bytes | None:
        store = self._client.door.store
        info = store.topic(self._topic)
        if info is None:
            self._located = Located()
        else:
            self._begin(info)
            self._find(store)
            if not self._is_done or not _is_current(store, self._topic, info.id):
                return None
        response = Response(located=self._located, request_id=self._slot.request_id)
        return encode.response(response)

    def _begin(self, info: TopicInfo) -> None:
        if self._located.incarnation != info.id:
            self._located = Located(incarnation=info.id)
        self._located.first_offset = info.first_offset
        self._located.end_offset = info.next_offset

    def _find(self, store: Store) -> None:
        offsets, reaches = self._located.offsets, self._located.reaches
        times_ms = self._message.times_ms[len(offsets) : len(offsets) + TIMES_AT_ONCE]
        if times_ms:
            offsets.extend([offset_at_time(store, self._topic, time_ms) for time_ms in times_ms])
        elif not self._is_done:
            measure = self._message.measures[len(reaches)]
            reaches.append(store.measure(self._topic, measure.offset, measure.bytes))

    @property
    def _is_done(self) -> bool:
        located, message = self._located, self._message
        is_timed = len(located.offsets) == len(message.times_ms)
        return is_timed and len(located.reaches) == len(message.measures)

    def _frames(self, frames: bytes | None) -> bytes | None:
        if frames is None and self._client.reason is None:
            self.go_on()
        return frames
