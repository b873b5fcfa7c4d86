"""Who waits for a command: the contracts between a door, the commit pipeline and the broker.

A door submits a command and names its waiter. Then one of two things happens: the command is
applied, and the broker's effects name the waiter again; or it is refused with a reason (the disk
failed, there is no quorum, another node leads).

``Refusable``      the least a waiter can do: learn that its command was refused
``Completion``     one request: done with a result, or refused
``SessionClient``  the connection of an MQTT session, which gets acknowledgements and deliveries
"""

from typing import NamedTuple, Protocol, TypeVar

from penstock.obs.reasons import DisconnectReason

Result_contra = TypeVar("Result_contra", contravariant=True)


class Refusable(Protocol):
    """Waits for a command that may be refused."""

    def refused(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Completion(Refusable, Protocol[Result_contra]):
    """Waits for the result of one request. Either method is called, once."""

    def done(self, result: Result_contra) -> None: ...


class Journaled(NamedTuple):
    """The result of a publish whose caller asked for its place in the topic."""

    offset: int  # of the first message
    time_ms: int
