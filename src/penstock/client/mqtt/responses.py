"""The answers to our requests: a topic of our own, and who waits for what.

An answer is recognised by its correlation data, 16 random bytes. The topic is subscribed to with
QoS 0: an answer has no use after the connection that asked has ended, and needs no acknowledgement,
which would have to wait for those of all messages before it.
"""

from os import urandom
from typing import Final

from penstock.client.mqtt.session import Delivery

PREFIX: Final = "responses"
_WILD: Final = str.maketrans("+#", "__")


class Responses:
    """Response topics that we have subscribed to, and the answers that came."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self._answers: dict[bytes, Delivery | None] = {}

    def expect(self) -> bytes:
        """Return correlation data for a new request."""
        correlation = urandom(16)
        self._answers[correlation] = None
        return correlation

    def has(self, correlation: bytes) -> bool:
        return self._answers.get(correlation) is not None

    def take(self, correlation: bytes) -> Delivery | None:
        """The answer, if it has come; nobody waits for it any more."""
        return self._answers.pop(correlation, None)

    def takes(self, delivery: Delivery) -> bool:
        """Whether a delivery is an answer, be it one that comes too late."""
        if delivery.topic not in self.topics:
            return False
        correlation = delivery.properties.correlation_data
        if correlation is not None and correlation in self._answers:
            self._answers[correlation] = delivery
        return True


def response_topic(client_id: str, prefix: str) -> str:
    """A topic that no other client uses: the broker has no two clients of one id."""
    return f"{prefix or PREFIX}/{client_id.translate(_WILD)}"
