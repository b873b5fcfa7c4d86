"""What clients requested, what they were answered, and when: the input of the checker.

Times are those of one monotonic clock. A request that was never answered has ``returned`` infinity:
its outcome is unknown.
"""

import time
from math import inf

import msgspec

__all__ = ["Delivery", "Grant", "History", "Op", "now"]

now = time.monotonic


class Op(msgspec.Struct):
    """A request of one client."""

    kind: str
    """``numbered`` (a producer with an id), ``qos1``, ``qos2``, ``once`` (sent once, whatever the
    outcome), ``again`` (repeated until confirmed); ``end``: read where the topic ends."""
    topic: str
    who: str
    number: int
    payload: bytes = b""
    invoked: float = 0.0
    returned: float = inf
    value: int = -1
    """The offset in the answer, or the end of the topic; -1: none."""

    @property
    def is_ok(self) -> bool:
        """Whether it was acknowledged."""
        return self.returned < inf

    def done(self, value: int = -1) -> None:
        """Record that it was acknowledged now."""
        self.returned = now()
        self.value = value


class Grant(msgspec.Struct):
    """A message in flight to one worker of a group."""

    topic: str
    group: str
    worker: str
    offset: int | str
    """Or the payload, where the worker does not get the offset."""
    asked: float
    """When the request was sent that returned it: the lease began after that."""
    got: float
    lease_s: float
    """inf: it goes to no other worker unless it is given back."""
    returned: float = inf
    """When the worker began to give it back."""
    acked: float = inf
    """When the worker's acknowledgement was confirmed."""


class Delivery(msgspec.Struct):
    """A message that a subscriber received."""

    subscriber: str
    topic: str
    payload: bytes
    at: float
    qos: int = 0
    sequence: int = 0
    """The broker's sequence, where available: two copies of a message have two."""
    settled: float = inf
    """When the subscriber's acknowledgement was confirmed."""


class History:
    """Of one round."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.grants: list[Grant] = []
        self.complaints: list[str] = []
        """Violations that a client observed directly."""

    def begin(self, kind: str, topic: str, who: str, number: int = 0, payload: bytes = b"") -> Op:
        """Record a request, sent now."""
        op = Op(kind, topic, who, number, payload, now())
        self.ops.append(op)
        return op
