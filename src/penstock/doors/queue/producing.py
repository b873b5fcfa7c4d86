"""Produce and ProduceMany: messages of a client on their way to the journal.

A run of requests is checked once, journaled together and answered with one piece of bytes. It is
taken apart only if a payload is too large, for that one must be refused alone.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby

from penstock.commit.completion import ProducedCallback
from penstock.commit.produce import ProducedMessages
from penstock.doors.queue.faults import TOO_LARGE, produce_fault, too_many
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.parts import QueueParts
from penstock.doors.queue.replies import Slot
from penstock.limits import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    PRODUCER_ID_BYTES_MAX,
    QUEUE_PAYLOAD_BYTES_MAX,
)
from penstock.model.message import (
    CONTENT_TYPE_MAX,
    CONTENT_TYPE_SHIFT,
    OWN_PRODUCERS,
    PRIORITY_MAX,
    PRIORITY_SHIFT,
    Extras,
)
from penstock.wire.queue._generated.queue_pb2 import (
    Error,
    Header,
    Produce,
    ProducedMany,
    ProduceMany,
    Refusal,
    Response,
    Stretch,
)
from penstock.wire.queue.events import ProduceRun
from penstock.wire.queue.faults import BAD_REQUEST, FORBIDDEN, LIMIT, Fault

PAYLOADS_MAX = 65_536  # messages in one ProduceMany: however small, each takes memory
SEQ_END = 1 << 64
TIME_MS_MAX = 1 << 48  # latest time of a schedule: some eight thousand years from now


def produce_run(client: Requester, run: ProduceRun, now_ms: int) -> None:
    if max(map(len, run.payloads)) <= QUEUE_PAYLOAD_BYTES_MAX:
        _take(client, run, now_ms)
        return
    sizes = map(len, run.payloads)
    first = 0
    for is_too_large, sized in groupby(sizes, lambda size: size > QUEUE_PAYLOAD_BYTES_MAX):
        end = first + len(list(sized))
        part = _part(run, first, end)
        first = end
        if is_too_large:
            client.replies.open(len(part.payloads), part.request_ids).fail(TOO_LARGE)
        else:
            _take(client, part, now_ms)


def _part(run: ProduceRun, first: int, end: int) -> ProduceRun:
    return ProduceRun(
        run.topic,
        run.priority,
        run.content_type,
        run.producer,
        run.payloads[first:end],
        run.seqs[first:end],
        run.request_ids[first:end] if run.request_ids is not None else None,
    )


def _take(client: Requester, run: ProduceRun, now_ms: int) -> None:
    slot = client.replies.open(len(run.payloads), run.request_ids)
    fault = _fault(client, run.topic, run.producer, len(run.payloads))
    if fault is not None:
        slot.fail(fault)
        return
    marks = run.priority << PRIORITY_SHIFT | run.content_type << CONTENT_TYPE_SHIFT
    lot = ProducedMessages(run.topic, run.payloads, marks, None, run.producer, run.seqs)
    _journal(client, lot, now_ms, slot)


def _fault(client: Requester, topic: bytes, producer: bytes, count: int) -> Fault | None:
    if len(producer) > PRODUCER_ID_BYTES_MAX:
        return Fault(LIMIT, f"a producer id may have {PRODUCER_ID_BYTES_MAX} bytes at most")
    if producer.startswith(OWN_PRODUCERS):
        own = OWN_PRODUCERS.decode()
        return Fault(FORBIDDEN, f"producer ids that begin with {own} are the broker's own")
    return produce_fault(client.door.admission, client.principal, topic, count)


def _journal(
    client: Requester,
    lot: ProducedMessages,
    now_ms: int,
    slot: Slot,
    produced: Callable[[list[tuple[int, int]]], None] | None = None,
) -> None:
    slot.is_stored_later()
    client.door.dispatchers.topics.ensure(lot.topic)
    completion = ProducedCallback(produced or slot.produced, slot.refused)
    client.door.producing.produce(lot, now_ms, completion)


def produce(client: Requester, message: Produce, slot: Slot) -> None:
    fault = TOO_LARGE if len(message.payload) > QUEUE_PAYLOAD_BYTES_MAX else None
    fault = fault or _common_fault(client, message, 1)
    if slot.is_refused(fault):
        return
    now_ms = client.door.wall_ms()
    seqs = [message.seq] if message.producer_id else []
    _journal(client, _lot(client.door, message, [message.payload], seqs), now_ms, slot)


def _common_fault(client: Requester, message: Produce | ProduceMany, count: int) -> Fault | None:
    fault = _fault(client, message.topic.encode(), message.producer_id.encode(), count)
    return fault or _headers_fault(message.headers)


def _headers_fault(headers: Iterable[Header]) -> Fault | None:
    sizes = [len(header.name.encode()) + len(header.value) for header in headers]
    if len(sizes) > HEADERS_MAX or sum(sizes) > HEADERS_BYTES_MAX:
        bounds = f"{HEADERS_MAX} headers of {HEADERS_BYTES_MAX} bytes together"
        return Fault(LIMIT, f"a message may have {bounds}; put the rest into the payload")
    return None


def _lot(
    door: QueueParts, message: Produce | ProduceMany, payloads: list[bytes], seqs: list[int]
) -> ProducedMessages:
    content_type = message.content_type if message.content_type <= CONTENT_TYPE_MAX else 0
    priority = min(message.priority, PRIORITY_MAX)
    return ProducedMessages(
        message.topic.encode(),
        payloads,
        priority << PRIORITY_SHIFT | content_type << CONTENT_TYPE_SHIFT,
        _extras(message, door.steady_ms()),
        message.producer_id.encode(),
        seqs,
    )


def _extras(message: Produce | ProduceMany, now_ms: int) -> Extras | None:
    if not (message.headers or message.delay_ms or message.ttl_ms):
        return None
    return Extras(
        headers=tuple((header.name.encode(), header.value) for header in message.headers),
        due_ms=min(now_ms + message.delay_ms, TIME_MS_MAX) if message.delay_ms else 0,
        expires_ms=min(now_ms + message.ttl_ms, TIME_MS_MAX) if message.ttl_ms else 0,
    )


def produce_many(client: Requester, message: ProduceMany, slot: Slot) -> None:
    """Each payload is accepted or refused by itself."""
    fault = _many_fault(message) or _common_fault(client, message, len(message.payloads))
    if slot.is_refused(fault):
        return
    payloads = list(message.payloads)
    seqs = list(range(message.seq, message.seq + len(payloads))) if message.producer_id else []
    refused: list[int] = []
    if payloads and max(map(len, payloads)) > QUEUE_PAYLOAD_BYTES_MAX:
        sizes = enumerate(map(len, payloads))
        refused = [number for number, size in sizes if size > QUEUE_PAYLOAD_BYTES_MAX]
        for number in reversed(refused):
            del payloads[number], seqs[number : number + 1]
    answer = partial(_answer_many, slot, refused)
    if payloads:
        now_ms = client.door.wall_ms()
        _journal(client, _lot(client.door, message, payloads, seqs), now_ms, slot, answer)
    else:
        answer([])


def _many_fault(message: ProduceMany) -> Fault | None:
    if message.seq + len(message.payloads) > SEQ_END:
        return Fault(BAD_REQUEST, f"there is no seq beyond {SEQ_END - 1}")
    return too_many(message.payloads, PAYLOADS_MAX, "payloads")


def _answer_many(slot: Slot, refused: list[int], stretches: list[tuple[int, int]]) -> None:
    error = Error(code=TOO_LARGE.code, message=TOO_LARGE.text)
    many = ProducedMany(
        stretches=[Stretch(offset=offset, count=count) for offset, count in stretches],
        refusals=[Refusal(index=number, error=error) for number in refused],
    )
    slot.respond(Response(produced_many=many))
