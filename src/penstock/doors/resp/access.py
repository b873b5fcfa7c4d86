"""What a command demands of the user who sends it.

Every command declares it (``Spec.access``). It is asked with the arguments that the handler will
get, topics in place of names, and by the handler's own parser where options shift them: just before
the command runs, when it is queued in a transaction, and again when rights change while it blocks.

Commands that publish admit their topic themselves, once for a run (``is_admitted``): for them this
is asked only when they are queued. Commands that list leave out what the user may not see.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from penstock.access.admission import Admission
from penstock.trust.principal import Principal
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action

Keys = tuple[int, int, int]  # first and last argument that name a topic, step


class Used(Enum):
    """What an argument is, as the refusal calls it."""

    COMMAND = "command"  # none: the command itself is refused
    KEY = "key"
    CHANNEL = "channel"


class Demand(NamedTuple):
    """One of these actions must be allowed on the topic, or on some of what a filter matches."""

    actions: tuple[Action, ...]
    topic: bytes = b""
    used: Used = Used.COMMAND
    is_filter: bool = False
    is_whole: bool = False  # on all that the filter matches


class Access(NamedTuple):
    """The declaration of a command: its demands, and the actions they are about, for people."""

    actions: tuple[Action, ...] = ()
    demands: Callable[[list[bytes], Keys], Iterable[Demand]] = lambda _args, _keys: ()
    is_admitted: bool = False


OPEN = Access()  # whoever has logged in, or need not


def topicless(action: Action) -> Access:
    return Access((action,), lambda _args, _keys: (Demand((action,)),))


def on_keys(*actions: Action) -> Access:
    """On each topic that the command names (``Spec.keys``); one of the actions is enough."""

    def demands(args: list[bytes], keys: Keys) -> Iterable[Demand]:
        first, last, _step = keys
        if first == last:
            return (Demand(actions, args[first], Used.KEY),)
        return [Demand(actions, args[place], Used.KEY) for place in places(args, keys)]

    return Access(actions, demands)


def on_parsed(
    action: Action, topics: Callable[[list[bytes]], Iterable[bytes]], used: Used = Used.KEY
) -> Access:
    """On the topics that the handler's parser finds."""

    def demands(args: list[bytes], _keys: Keys) -> Iterable[Demand]:
        return [Demand((action,), topic, used) for topic in topics(args)]

    return Access((action,), demands)


def admitted(topics: Callable[[list[bytes]], Iterable[bytes]], used: Used) -> Access:
    return on_parsed(Action.PUBLISH, topics, used)._replace(is_admitted=True)


def places(args: list[bytes], keys: Keys) -> Iterable[int]:
    first, last, step = keys
    return range(first, last + 1 if last >= 0 else len(args) + 1 + last, step)


def is_met(admission: Admission, principal: Principal, demand: Demand, count: int = 1) -> bool:
    """Whether a user may do what is demanded; if not, that is noted."""
    if would_be_met(admission, principal, demand):
        return True
    actions, topic, *_ = demand
    if demand.is_whole:
        return admission.judge(principal, Action.ADMIN) is None
    if demand.is_filter:
        return admission.judge_filter(principal, actions[0], topic) is None
    return admission.judge(principal, actions[0], topic, count) is None


def would_be_met(admission: Admission, principal: Principal, demand: Demand) -> bool:
    actions, topic, *_ = demand
    if demand.is_whole or demand.is_filter:
        enough = {Coverage.ALL} if demand.is_whole else {Coverage.ALL, Coverage.SOME}
        return any(principal.rights.coverage(action, topic) in enough for action in actions)
    for action in actions:  # noqa: SIM110 - twice as fast
        if admission.allows(principal, action, topic):
            return True
    return False


SEEN = on_keys(Action.READ, Action.WORK, Action.MANAGE)
READ = on_keys(Action.READ)
WORK = on_keys(Action.WORK)
MAKE = on_keys(Action.WORK, Action.MANAGE)  # a group: working does it, too
MANAGE = on_keys(Action.MANAGE)
MONITOR = topicless(Action.MONITOR)
ADMIN = topicless(Action.ADMIN)
