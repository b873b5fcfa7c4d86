"""What clients asked, what they were told, and when: the material of the checker.

Times are those of one monotonic clock. A request that was never answered has ``returned`` infinity:
it may have been done, or be done later, or never.
"""

import time
from math import inf

import msgspec

__all__ = ["Delivery", "Grant", "History", "Op", "now"]

now = time.monotonic


class Op(msgspec.Struct):
    """Something that one client asked for."""

    kind: str
    """``numbered`` (a producer with an id), ``qos1``, ``qos2``, ``once`` (asked once, whatever came
    of it), ``again`` (repeated until it was confirmed); ``end``: read where the topic ends."""
    topic: str
    who: str
    number: int
    payload: bytes = b""
    invoked: float = 0.0
    returned: float = inf
    value: int = -1
    """The offset that was told, or where the topic ends; -1: none was told."""

    @property
    def is_ok(self) -> bool:
        """Whether it was acknowledged."""
        return self.returned < inf

    def done(self, value: int = -1) -> None:
        """It was acknowledged, now."""
        self.returned = now()
        self.value = value


class Grant(msgspec.Struct):
    """A message in the hands of one worker of a group."""

    topic: str
    group: str
    worker: str
    offset: int | str
    """Or what the message says, where the worker is not told the offset."""
    asked: float
    """When the request was made that was answered with it: the lease began after that."""
    got: float
    lease_s: float
    """inf: it is given to nobody else, ever, unless it is given back."""
    returned: float = inf
    """When the worker began to give it back."""
    acked: float = inf
    """When the worker heard that its acknowledgement is noted."""


class Delivery(msgspec.Struct):
    """A message that a subscriber was sent, and took."""

    subscriber: str
    topic: str
    payload: bytes
    at: float
    qos: int = 0
    sequence: int = 0
    """The broker's number for it, where it tells that: two copies of a message have two."""
    settled: float = inf
    """When the subscriber heard that its acknowledgement is noted."""


class History:
    """Of one round."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.grants: list[Grant] = []
        self.complaints: list[str] = []
        """What a client saw that must not be, at once."""

    def begin(self, kind: str, topic: str, who: str, number: int = 0, payload: bytes = b"") -> Op:
        """Note that something is asked, now."""
        op = Op(kind, topic, who, number, payload, now())
        self.ops.append(op)
        return op
