"""What the broker wants done after a command was applied: data, carried out by ``delivery``.

Effects are collected per client, because that is how they leave: in one joined write. They are
carried out in this order: controls, deliveries, acknowledgements. So a CONNACK precedes the
messages queued for the session, and a SUBACK the retained messages of the subscription.

On replay after a restart there are no waiters, and nothing is collected.

In a cluster most commands come from other nodes, and have no waiter here. Some concern
this node all the same: a client id connected at another node, or messages became available to
workers here. Such effects have no waiter.
"""

from collections.abc import Callable

import msgspec

from penstock.core.commands import Erased, Offered, Trimmed
from penstock.core.completion import Completion
from penstock.core.delivery import Delivery
from penstock.core.live import LiveClient
from penstock.core.session import Publisher, Session, SessionClient
from penstock.obs.reasons import DropReason


class Accepted(msgspec.Struct, frozen=True):
    """The client has its session: answer CONNACK."""

    waiter: SessionClient
    session: Session
    session_present: bool


class SessionDenied(msgspec.Struct, frozen=True):
    """The session belongs to another user: refuse the CONNECT; nothing has changed."""

    waiter: SessionClient
    text: str


class TakenOver(msgspec.Struct, frozen=True):
    """Another connection presented the same client id: close this one [MQTT-3.1.4-2]."""

    waiter: SessionClient


class Ended(msgspec.Struct, frozen=True):
    """The session ended with its connection still open: the cluster considered this node dead."""

    waiter: SessionClient


class SubscribeAnswer(msgspec.Struct, frozen=True):
    """Answer SUBACK, one code per filter, in order [MQTT-3.9.3-1]."""

    waiter: SessionClient
    packet_id: int
    return_codes: list[int]


class UnsubscribeAnswer(msgspec.Struct, frozen=True):
    """Answer UNSUBACK; 5.0 has a code per filter, in order [MQTT5-3.11.3-1]."""

    waiter: SessionClient
    packet_id: int
    existed: list[bool]  # whether there was such a subscription


class FollowUp(msgspec.Struct, frozen=True):
    """Put this command in the next batch; its waiter is answered when it is applied."""

    waiter: SessionClient | None
    command: Offered


class PageTurned(msgspec.Struct, frozen=True):
    """There may be room for a page of retained messages; ``is_done``: the last one was applied."""

    waiter: SessionClient
    is_done: bool = False


class ReplayTurned(msgspec.Struct, frozen=True):
    """There may be room for a page of history; ``is_done``: the last one was applied."""

    waiter: SessionClient
    is_done: bool = False


class PortionSent(msgspec.Struct, frozen=True):
    """A portion of the client's queue was sent, and more is queued."""

    waiter: SessionClient


class Unkept(msgspec.Struct, frozen=True):
    """The disk refused what the client believes to be in progress: it must send again."""

    waiter: SessionClient


class Outcome(msgspec.Struct, frozen=True):
    """Tell the waiter the result of its command."""

    waiter: Completion[object]
    value: object


class OpenedForNobody(msgspec.Struct, frozen=True):
    """A session was opened, and no connection of this node waits for it."""

    client_id: bytes
    connection: int
    waiter: None = None


class WillLeft(msgspec.Struct, frozen=True):
    """A client left a will, which is due now or later; the leader publishes it."""

    client_id: bytes
    waiter: None = None


class IdentityTaken(msgspec.Struct, frozen=True):
    """A connection has a client id of the binary protocol: close any other that has it."""

    client_id: bytes
    connection: int
    waiter: None = None


class GroupChanged(msgspec.Struct, frozen=True):
    """A group changed at another node: there may be messages for workers of this node.

    ``workers`` were given messages. ``group`` is None if the topic changed.
    """

    topic: bytes
    group: bytes | None
    workers: tuple[bytes, ...] = ()
    waiter: None = None


class ScheduleChanged(msgspec.Struct, frozen=True):
    """A schedule was created, has fired or was cancelled: it may be due at another time."""

    name: bytes
    waiter: None = None


class TopicEnded(msgspec.Struct, frozen=True):
    """Another node deleted a topic: what connections remember by its offsets is void."""

    topic: bytes
    waiter: None = None


class Erasing(msgspec.Struct, frozen=True):
    """Have the store delete messages; the waiter, if any, gets their number."""

    command: Trimmed | Erased
    waiter: Completion[int] | None = None


class AccessApplied(msgspec.Struct, frozen=True):
    """Users or rules changed: judge again whoever is connected. The names are those of users."""

    changed: tuple[str, ...]  # users whose own row changed or was removed
    by: str = ""  # who made the change
    is_wide: bool = True  # whether others are concerned, too: roles, tokens, bans or keys changed
    waiter: None = None


class Dropped(msgspec.Struct):
    """Messages were given up for one receiver: to be recorded; they are counted already."""

    reason: DropReason
    client_id: bytes = b""  # of a session
    topic: bytes = b""
    group: bytes = b""
    count: int = 0
    first: int = 0  # the lowest and the highest sequence, as far as they are known
    last: int = 0
    offset: int = -1  # of the first message, for a group
    detail: str = ""


Control = (
    Accepted | SessionDenied | TakenOver | Ended | SubscribeAnswer | UnsubscribeAnswer | FollowUp
    | PageTurned | ReplayTurned | PortionSent | Unkept | Outcome | OpenedForNobody | WillLeft
    | IdentityTaken | GroupChanged | TopicEnded | Erasing | AccessApplied
    | ScheduleChanged
)  # fmt: skip


class Effects:
    """What a batch of commands has caused."""

    __slots__ = ("acks", "controls", "deliveries", "drops", "seams")

    def __init__(self) -> None:
        self.controls: list[Control] = []
        self.deliveries: dict[LiveClient, list[Delivery]] = {}
        # ``(client, kind)`` → packet ids, in the order of the packets they answer
        self.acks: dict[tuple[Publisher, int], list[int]] = {}
        # clients whose replay has ended, and what hands on their live messages: before all else,
        # because anything else may bring further live messages
        # by reason and receiver, however many messages: bounded by the receivers of a batch
        self.drops: dict[tuple[DropReason, bytes, bytes, bytes], Dropped] = {}
        self.seams: list[tuple[SessionClient, Callable[[], None]]] = []

    def deliver(self, client: LiveClient, delivery: Delivery) -> None:
        """Send a message (or a PUBREL) to a client."""
        waiting = self.deliveries.get(client)
        if waiting is None:
            self.deliveries[client] = [delivery]
        else:
            waiting.append(delivery)

    def deliver_run(self, client: LiveClient, deliveries: list[Delivery]) -> None:
        """Send several messages to a client; takes over the list."""
        waiting = self.deliveries.get(client)
        if waiting is None:
            self.deliveries[client] = deliveries
        else:
            waiting += deliveries

    def ack(self, client: Publisher, kind: int, packet_ids: list[int]) -> None:
        key = (client, kind)
        waiting = self.acks.get(key)
        if waiting is None:
            self.acks[key] = list(packet_ids)
        else:
            waiting += packet_ids

    def drop(
        self,
        reason: DropReason,
        client_id: bytes,
        count: int = 1,
        *,
        topic: bytes = b"",
        group: bytes = b"",
        sequence: int = 0,
        offset: int = -1,
        detail: str = "",
    ) -> None:
        """Note that messages were dropped, for whoever asks why."""
        key = (reason, client_id, topic if group else b"", group)
        dropped = self.drops.get(key)
        if dropped is None:
            dropped = Dropped(reason, client_id, topic, group, offset=offset, detail=detail)
            self.drops[key] = dropped
        dropped.count += count
        dropped.topic = topic if dropped.topic == topic else b""
        if sequence:
            dropped.first = min(dropped.first or sequence, sequence)
            dropped.last = max(dropped.last, sequence)

    def ask_for_pages(self, session: Session, *, is_page_done: bool = False) -> None:
        """Let the client of a session have retained messages and history, if some are due.

        ``is_page_done``: the last page of retained messages was applied.
        """
        if session.client is not None and session.offers:
            self.controls.append(PageTurned(session.client, is_page_done))
        if session.client is not None and session.replays:
            self.controls.append(ReplayTurned(session.client))
