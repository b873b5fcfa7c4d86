"""The broker's end of a connection: bytes of a client in, requests out.

The library can parse every kind of request. For the three that come in runs the machine keeps a
fast path each, which takes what resembles the last one of its kind. A priority above 7 becomes 7,
and an unknown content type becomes 0, raw bytes.

A client that has yet to log in is a stranger: little is kept for it, and a larger request is
reported as ``Oversized``.
"""

from typing import Final

from google.protobuf.message import DecodeError

from penstock.limits import KIB, QUEUE_REQUEST_BYTES_MAX
from penstock.model.message import CONTENT_TYPE_MAX, PRIORITY_MAX
from penstock.wire.queue._generated.queue_pb2 import Ack, Nack, Produce, Request
from penstock.wire.queue.events import AckRun, Bad, Event, NackRun, Oversized, QueueRequest
from penstock.wire.queue.fast_paths import (
    NAMES_BYTES_MAX,
    PRODUCE,
    FastPath,
    ProduceFastPath,
    SettleFastPath,
    produce_fast_path,
    settle_fast_path,
)
from penstock.wire.queue.machine import BODY_BYTES_MAX, LENGTH, QueueMachine
from penstock.wire.queue.weight import is_too_heavy

STRANGER_BYTES_MAX: Final = 16 * KIB  # of one request, before a login


class QueueServerMachine(QueueMachine[Event]):
    """Bytes from a client in, events out."""

    __slots__ = ("_fast_paths", "_trusted_bytes_max")

    def __init__(
        self,
        frame_bytes_max: int = BODY_BYTES_MAX,
        request_bytes_max: int = QUEUE_REQUEST_BYTES_MAX,
    ) -> None:
        super().__init__(frame_bytes_max, request_bytes_max)
        self._fast_paths: dict[int, FastPath] = {}  # by the first byte of a request
        self._trusted_bytes_max = self._kept_bytes_max

    def trust(self, *, is_trusted: bool) -> None:
        """Set the bound of requests to come; at first a client is trusted."""
        bound = self._trusted_bytes_max
        self._kept_bytes_max = bound if is_trusted else min(bound, STRANGER_BYTES_MAX)

    def _take(self, data: bytes, position: int, end: int, events: list[Event]) -> int:
        start = position + LENGTH.size
        fast_path = self._fast_paths.get(data[start]) if start < end else None
        if fast_path is not None:
            following = fast_path.read(data, position, self._kept_bytes_max, events)
            if following > position:
                return following
        self._parse(data[start:end], events)
        return end

    def _pass_over(self, first_byte: int, events: list[Event]) -> None:
        events.append(Oversized(is_produce=first_byte == PRODUCE))

    def _parse(self, body: bytes, events: list[Event]) -> None:
        if is_too_heavy(body):
            events.append(Bad("request has too many fields", 0))
            return
        try:
            request = Request.FromString(body)
        except DecodeError:
            events.append(Bad("malformed request", 0))
            return
        request_id = request.request_id
        match request.WhichOneof("kind"):
            case None:
                events.append(Bad("unknown kind of request", request_id))
            case "produce" if _is_plain(request.produce):
                self._produce(request.produce, request_id, events)
            case "ack":
                self._settle(AckRun, request.ack, request_id, events)
            case "nack" if _is_plain_nack(request.nack):
                self._settle(NackRun, request.nack, request_id, events)
            case kind:
                events.append(QueueRequest(kind, getattr(request, kind), request_id, request.stale))

    def _produce(self, produce: Produce, request_id: int, events: list[Event]) -> None:
        topic, producer = produce.topic.encode(), produce.producer_id.encode()
        content_type = produce.content_type
        key = (
            topic,
            min(produce.priority, PRIORITY_MAX),
            content_type if content_type <= CONTENT_TYPE_MAX else 0,
            producer,
            request_id > 0,
        )
        if len(topic) + len(producer) > NAMES_BYTES_MAX:
            fast_path = ProduceFastPath(*key)
        else:
            fast_path = self._fast_paths[PRODUCE] = produce_fast_path(*key)
        fast_path.add(([produce.payload], [produce.seq] if producer else [], [request_id]), events)

    def _settle(
        self, run: type[AckRun | NackRun], settled: Ack | Nack, request_id: int, events: list[Event]
    ) -> None:
        topic, group = settled.topic.encode(), settled.group.encode()
        if len(topic) + len(group) > NAMES_BYTES_MAX:
            fast_path = SettleFastPath(run, topic, group, request_id > 0)
        else:
            fast_path = settle_fast_path(run, topic, group, request_id > 0)
            self._fast_paths[fast_path.tag] = fast_path
        fast_path.add([settled.lease_id], [request_id], events)


def _is_plain(produce: Produce) -> bool:
    return not (produce.delay_ms or produce.ttl_ms or produce.headers)


def _is_plain_nack(nack: Nack) -> bool:
    return not (nack.delay_ms or nack.reason or nack.dead_letter)
