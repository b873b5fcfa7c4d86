"""What a machine of the queue protocol reports; nouns from the protocol.

Three requests make up nearly all traffic, and of these many are reported at once: ``ProduceRun``,
``AckRun``, ``NackRun``. Requests of one kind that follow one another are taken together only within
a chunk, so the same stream cut elsewhere gives other runs with the same requests in the same order.
Within a run either no request has an id (``request_ids`` is None) or all have one: a client numbers
its requests or it does not.

``Violation`` is always the last event: the machine is closed and looks at nothing that follows.
"""

from typing import TypeAlias

import msgspec
from google.protobuf.message import Message

from penstock.wire.violation import Violation


class ProduceRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive Produce requests that differ in payload, seq and request id only.

    The priority is in 0 to 7 and the content type is a known one, whatever the client said.
    ``seqs`` is empty if the producer is: then it says nothing.
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
    """Consecutive Nack requests of one group, without a delay and without a reason."""

    topic: bytes
    group: bytes
    leases: list[int]
    request_ids: list[int] | None


class QueueRequest(msgspec.Struct, frozen=True, gc=False):
    """Any other request: the name of its kind in ``queue.proto``, and the message of that kind."""

    kind: str
    message: Message
    request_id: int
    is_stale_fine: bool = False
    """Whether a read may be answered from what this node has, however old."""


class Bad(msgspec.Struct, frozen=True, gc=False):
    """A frame that is no request. It is answered like one, and the connection goes on."""

    text: str
    request_id: int


class Oversized(msgspec.Struct, frozen=True, gc=False):
    """A frame within the protocol's bound that is larger than any request need be.

    It was not kept, so nothing is known of it but whether it began as a Produce.
    """

    is_produce: bool


Event: TypeAlias = ProduceRun | AckRun | NackRun | QueueRequest | Bad | Oversized | Violation
"""Whatever ``receive`` of a server's machine may return."""
