"""What an operation demands of the user who asks for it.

``operations`` names one of these for each operation, and it is asked with the very message that the
handler gets, just before the handler runs. Messages are admitted topic by topic where they are
produced or staged (``ADMITTED``); lists leave out what the user may not see (``FILTERED``).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.doors.queue.faults import refusal_fault
from penstock.doors.queue.parts import QueueParts
from penstock.trust.principal import Principal
from penstock.trust.rules import Action
from penstock.wire.queue._generated.queue_pb2 import Commit, CreateGroup
from penstock.wire.queue.faults import Fault


class Demand(NamedTuple):
    """One of these actions must be allowed on the topic."""

    actions: tuple[Action, ...]
    topic: bytes = b""


Access = Callable[[QueueParts, Any], Demand | None]  # None: every user may


def _nothing(_door: QueueParts, _message: object) -> None:
    return None


KNOWN: Final[Access] = _nothing  # whoever has logged in, or need not
ADMITTED: Final[Access] = _nothing  # the handler admits each topic: publish
JUDGED: Final[Access] = _nothing  # the handler judges each topic: read
OWNED: Final[Access] = _nothing  # the handler refuses sinks of other users
FILTERED: Final[Access] = _nothing  # the handler leaves out what the user may not see


def administering(_door: QueueParts, _message: object) -> Demand:
    return Demand((Action.ADMIN,))


def on_topic(*actions: Action) -> Access:
    return lambda _door, message: Demand(actions, message.topic.encode())


def creating_group(_door: QueueParts, message: CreateGroup) -> Demand:
    """A worker may make its group, a reader its own mark. Moving a group skips or repeats work."""
    if message.reader:
        return Demand((Action.READ,), message.topic.encode())
    is_move = message.seek
    actions = (Action.MANAGE,) if is_move else (Action.WORK, Action.MANAGE)
    return Demand(actions, message.topic.encode())


def committing(door: QueueParts, message: Commit) -> Demand:
    """Progress of a reader is no work."""
    topic = message.topic.encode()
    group = door.broker.groups.get(topic, message.group.encode())
    is_reader = group is not None and group.reader
    return Demand((Action.READ,) if is_reader else (Action.WORK,), topic)


def access_fault(door: QueueParts, principal: Principal, demand: Demand | None) -> Fault | None:
    """Why a user may not do what is demanded; None if it may."""
    if demand is None:
        return None
    actions, topic = demand
    admission = door.admission
    if any(admission.allows(principal, action, topic) for action in actions[1:]):
        return None
    refusal = admission.judge(principal, actions[0], topic)
    return refusal_fault(refusal) if refusal else None


SEEN_BY: Final = (Action.READ, Action.WORK, Action.MANAGE)


def is_seen(door: QueueParts, principal: Principal, topic: bytes) -> bool:
    """Whether a topic, with its groups, is listed for a user."""
    allows = door.admission.allows
    return any(allows(principal, action, topic) for action in SEEN_BY)
