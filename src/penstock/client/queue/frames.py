"""Decode responses of a broker with ``QueueClientMachine``; raise on a protocol violation."""

from penstock.client.errors import BrokerProtocolError
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.violation import Violation


class ResponseReader:
    """Cuts what one connection brings into responses."""

    def __init__(self) -> None:
        self._machine = QueueClientMachine()

    def receive(self, data: bytes) -> list[Response]:
        """Take bytes; return the responses that are complete."""
        return [_sound(event) for event in self._machine.receive(data)]


def _sound(event: Response | Violation) -> Response:
    if isinstance(event, Violation):
        raise BrokerProtocolError(
            f"the answer is not in the queue protocol ({event.detail})",
            "is this the address of a broker?",
        )
    return event
