"""What the broker wants done after a command was applied: data, executed by ``net``.

Effects are gathered per outlet (the handle of a connection), because that is how they leave: one
joined write. The order in which they are carried out is controls, then deliveries, then
acknowledgements; so a CONNACK goes before what the session had waiting, and a SUBACK before the
retained messages that the subscription asked for.

On replay after a restart there are no outlets, and nothing is gathered.

In a cluster most commands are other nodes', and nobody here waits for an answer. Some of them are
of consequence here all the same: a client id is presented elsewhere, messages are free again that
workers of ours wait for. Such effects have no outlet.
"""

from typing import Any

import msgspec

from penstock.core.commands import Erased, Offered, Trimmed
from penstock.core.session import Session

DELIVER_QOS = 0b0_0011
DELIVER_RETAIN = 0b0_0100
DELIVER_DUP = 0b0_1000
DELIVER_PUBREL = 0b1_0000
"""The delivery is past its PUBREC: what is sent is a PUBREL, not the message."""

Delivery = tuple[bytes, bytes | None, int, int, int]
"""``(topic, payload, flags, packet_id, sequence)``; payload None: read it from the journal."""


class Accepted(msgspec.Struct, frozen=True):
    """The client has its session: answer CONNACK."""

    outlet: Any
    session: Session
    session_present: bool


class TakenOver(msgspec.Struct, frozen=True):
    """Another connection presented the same client id: close this one [MQTT-3.1.4-2]."""

    outlet: Any
    is_will_due: bool = True
    """Whether its will is still to be published: not if the one who took over has seen to it."""


class Ended(msgspec.Struct, frozen=True):
    """The session ended with its connection still open: the cluster took this node for dead."""

    outlet: Any


class SubscribeAnswer(msgspec.Struct, frozen=True):
    """Answer SUBACK, one code per filter, in order [MQTT-3.9.3-1]."""

    outlet: Any
    packet_id: int
    return_codes: list[int]


class UnsubscribeAnswer(msgspec.Struct, frozen=True):
    """Answer UNSUBACK."""

    outlet: Any
    packet_id: int


class FollowUp(msgspec.Struct, frozen=True):
    """Put this command in the next batch; its outlet's answer comes when it is applied."""

    outlet: Any
    command: Offered


class PageTurned(msgspec.Struct, frozen=True):
    """There may be room for a page of retained messages; ``is_done``: the last one was applied."""

    outlet: Any
    is_done: bool = False


class PortionSent(msgspec.Struct, frozen=True):
    """A portion of what waited for the client was sent, and more waits."""

    outlet: Any


class Unkept(msgspec.Struct, frozen=True):
    """What the client takes to be on its way was refused by the disk: it must send again."""

    outlet: Any


class Outcome(msgspec.Struct, frozen=True):
    """Tell the one who asked what became of its command; what that is, the command's verb says."""

    outlet: Any
    value: object


class OpenedForNobody(msgspec.Struct, frozen=True):
    """A session was opened, and nobody of this node waits for it: be it another's, or too late."""

    client_id: bytes
    connection: int
    outlet: None = None


class IdentityTaken(msgspec.Struct, frozen=True):
    """A connection goes by a client id of the binary protocol: whoever else does must go."""

    client_id: bytes
    connection: int
    outlet: None = None


class GroupChanged(msgspec.Struct, frozen=True):
    """Something of a group changed, at another node: there may be messages for workers of ours.

    ``workers`` were given messages. ``group`` None: something of the topic changed.
    """

    topic: bytes
    group: bytes | None
    workers: tuple[bytes, ...] = ()
    outlet: None = None


class TopicEnded(msgspec.Struct, frozen=True):
    """Another node deleted a topic: what connections remember by its offsets is void."""

    topic: bytes
    outlet: None = None


class Erasing(msgspec.Struct, frozen=True):
    """Have the store forget messages; the outlet, if there is one, wants to know how many."""

    command: Trimmed | Erased
    outlet: Any = None


Control = (
    Accepted
    | TakenOver
    | Ended
    | SubscribeAnswer
    | UnsubscribeAnswer
    | FollowUp
    | PageTurned
    | PortionSent
    | Unkept
    | Outcome
    | OpenedForNobody
    | IdentityTaken
    | GroupChanged
    | TopicEnded
    | Erasing
)


class Effects:
    """What a batch of commands brought about."""

    __slots__ = ("acks", "controls", "deliveries")

    def __init__(self) -> None:
        self.controls: list[Control] = []
        self.deliveries: dict[Any, list[Delivery]] = {}
        self.acks: dict[tuple[Any, int], list[int]] = {}
        """``(outlet, kind)`` → packet ids, in the order of the packets they answer."""

    def deliver(self, outlet: Any, delivery: Delivery) -> None:
        """Send a message (or a PUBREL) to the client behind ``outlet``."""
        waiting = self.deliveries.get(outlet)
        if waiting is None:
            self.deliveries[outlet] = [delivery]
        else:
            waiting.append(delivery)

    def deliver_run(self, outlet: Any, deliveries: list[Delivery]) -> None:
        """Send several messages to the client behind ``outlet``; the list is ours from now on."""
        waiting = self.deliveries.get(outlet)
        if waiting is None:
            self.deliveries[outlet] = deliveries
        else:
            waiting += deliveries

    def ack(self, outlet: Any, kind: int, packet_ids: list[int]) -> None:
        """Acknowledge packets of the client behind ``outlet``."""
        key = (outlet, kind)
        waiting = self.acks.get(key)
        if waiting is None:
            self.acks[key] = list(packet_ids)
        else:
            waiting += packet_ids
