"""The client's end of a connection: bytes of a broker in, responses out.

Responses come in the order of requests, or carry the id of theirs. A body that is not a response is
a violation: a client would not know which of its requests stays without an answer.
"""

from google.protobuf.message import DecodeError

from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.machine import LENGTH, QueueMachine
from penstock.wire.violation import Violation


class QueueClientMachine(QueueMachine[Response]):
    """Bytes from a broker in, responses out."""

    __slots__ = ()

    def _take(
        self, data: bytes, position: int, end: int, events: list[Response | Violation]
    ) -> int:
        try:
            events.append(Response.FromString(data[position + LENGTH.size : end]))
        except DecodeError:
            detail = "malformed response"
            self._end(events, DisconnectReason.MALFORMED_PACKET, detail)
        return end
