"""What a machine of the queue protocol reports.

Three kinds of requests are nearly all traffic, so one event holds many of them, merged within a
chunk. In a run either no request has an id (``request_ids`` is None) or all have one. ``Violation``
is always the last event.
"""

from typing import TypeAlias

import msgspec
from google.protobuf.message import Message

from penstock.wire.violation import Violation


class ProduceRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive Produce requests that only differ in payload, seq and request id.

    The priority is clamped to 0 to 7 and the content type is a known one. ``seqs`` is empty without
    a producer.
    """

    topic: bytes
    priority: int
    content_type: int
    producer: bytes
    payloads: list[bytes]
    seqs: list[int]
    request_ids: list[int] | None


class AckRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive Ack requests of one group."""

    topic: bytes
    group: bytes
    leases: list[int]
    request_ids: list[int] | None


class NackRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive Nack requests of one group, with nothing but a lease."""

    topic: bytes
    group: bytes
    leases: list[int]
    request_ids: list[int] | None


class QueueRequest(msgspec.Struct, frozen=True, gc=False):
    """Any other request: the name of its kind in ``queue.proto``, and its message."""

    kind: str
    message: Message
    request_id: int
    # whether a read may be answered from this node's state, however old
    is_stale_fine: bool = False


class Bad(msgspec.Struct, frozen=True, gc=False):
    """A frame that is not a request. It gets a response, and the connection stays open."""

    text: str
    request_id: int


class Oversized(msgspec.Struct, frozen=True, gc=False):
    """A frame larger than any request need be. It was not buffered."""

    is_produce: bool


# what ``receive`` of a server's machine returns
Event: TypeAlias = ProduceRun | AckRun | NackRun | QueueRequest | Bad | Oversized | Violation
