"""A client's end of a connection: bytes of a broker in, responses out.

Every response is a message of ``queue.proto``, one each: reading one by the library costs less than
what a client does with it. Which request a response answers is the client's affair: they come in
the order of requests, or carry the id of theirs. What a client asks is made by ``encode``.

A body that is no response is the end. Unlike a broker, which can answer a bad request, a client
would not know which of its requests remains without an answer.
"""

from google.protobuf.message import DecodeError

from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.machine import LENGTH, QueueMachine
from penstock.wire.violation import Violation


class QueueClientMachine(QueueMachine[Response]):
    """Bytes from a broker in, responses out; see the module."""

    __slots__ = ()

    def _take(
        self, data: bytes, position: int, end: int, events: list[Response | Violation]
    ) -> int:
        try:
            events.append(Response.FromString(data[position + LENGTH.size : end]))
        except DecodeError:
            detail = "the bytes are not those of a response"
            self._end(events, DisconnectReason.MALFORMED_PACKET, detail)
        return end
