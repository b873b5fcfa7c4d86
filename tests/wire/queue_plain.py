"""Requests in a plain form that no cut and no fast path can change, and the library as the oracle.

``plain`` takes runs apart; ``parsed`` says what the library alone makes of one frame. What a server
reports and what the library says must be equal.
"""

from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError

from penstock.wire.queue import QueueServerMachine
from penstock.wire.queue._generated.queue_pb2 import Request
from penstock.wire.queue.events import AckRun, Bad, Event, NackRun, ProduceRun, QueueRequest
from penstock.wire.violation import Violation


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(**fields) -> bytes:
    """The frame that the library makes of a request."""
    return framed(Request(**fields).SerializeToString())


def feed(machine: QueueServerMachine, pieces: Iterable[bytes]) -> list[tuple]:
    return [item for piece in pieces for item in plain(machine.receive(piece))]


def cuts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def plain(events: Iterable[Event]) -> list[tuple]:
    return [item for event in events for item in _plain(event)]


def _plain(event: Event) -> Iterator[tuple]:
    match event:
        case ProduceRun(topic, priority, content_type, producer, payloads, seqs, request_ids):
            assert payloads
            assert len(seqs) == (len(payloads) if producer else 0)
            numbers = seqs or [0] * len(payloads)
            rows = zip(payloads, numbers, _ids(request_ids, payloads), strict=True)
            for payload, seq, request_id in rows:
                common = (topic, priority, content_type, producer)
                yield ("produce", *common, payload, seq, request_id)
        case AckRun(topic, group, leases, request_ids) | NackRun(topic, group, leases, request_ids):
            assert leases
            kind = "ack" if isinstance(event, AckRun) else "nack"
            for lease, request_id in zip(leases, _ids(request_ids, leases), strict=True):
                yield (kind, topic, group, lease, request_id)
        case QueueRequest(kind, message, request_id):
            yield ("call", kind, message.SerializeToString(deterministic=True), request_id)
        case Bad(_, request_id):
            yield ("bad", request_id)
        case Violation(reason):
            yield ("violation", reason.value)


def _ids(request_ids: list[int] | None, rows: list) -> list[int]:
    """Check that a run has ids for all requests or for none."""
    assert request_ids is None or (len(request_ids) == len(rows) and all(request_ids))
    return request_ids or [0] * len(rows)


def parsed(body: bytes) -> tuple:
    """What the library makes of a body, in the same form."""
    try:
        request = Request.FromString(body)
    except DecodeError:
        return ("bad", 0)
    request_id, kind = request.request_id, request.WhichOneof("kind")
    if kind is None:
        return ("bad", request_id)
    message = getattr(request, kind)
    extras = {field.name for field, _ in message.ListFields()}
    if kind == "produce" and not extras & {"delay_ms", "ttl_ms", "headers"}:
        content_type = message.content_type if message.content_type in {1, 2, 3} else 0
        producer = message.producer_id.encode()
        marks = (min(message.priority, 7), content_type, producer)
        seq = message.seq if producer else 0
        return ("produce", message.topic.encode(), *marks, message.payload, seq, request_id)
    if kind == "ack" or (kind == "nack" and not extras & {"delay_ms", "reason", "dead_letter"}):
        return (kind, message.topic.encode(), message.group.encode(), message.lease_id, request_id)
    return ("call", kind, message.SerializeToString(deterministic=True), request_id)
