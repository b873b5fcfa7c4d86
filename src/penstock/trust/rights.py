"""What a set of roles may do: verdicts by action and topic, cached.

Connections with the same roles share one ``Rights`` object; those whose rules name the user or the
client id share it per user or client. A door asks ``may``. The hot path asks ``publishable``
directly: None means that every topic may be published to, otherwise it is the set of topics that
were found allowed. A topic that is not in the set has to be judged.

A changed role makes new objects (``AccessBook``), so a verdict never outlives its rules.

Clients choose the topics that are judged, so the caches are bounded: per object, and through
``spend`` for all objects of a book together. Long topics are judged each time.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from penstock.trust.rules import ALL_ACTIONS, TOPICLESS, Action, FilterSet, Rule

VERDICTS_MAX = 65_536  # cached per action; then the cache is emptied
CACHED_TOPIC_BYTES_MAX = 256


class Coverage(Enum):
    """How much of a topic filter is allowed."""

    ALL = "all"
    SOME = "some"  # the subscription is narrowed: each topic is judged when it is routed
    NONE = "none"


class NamedRule(NamedTuple):
    """A rule, and where it stands."""

    role: str
    number: int  # in its role, from 1
    rule: Rule

    def __str__(self) -> str:
        return f"role {self.role}, rule {self.number}: {self.rule.text}"


class Verdict(NamedTuple):
    """The answer to ``acl check``: whether, and the rule that decides."""

    is_allowed: bool
    decided_by: NamedRule | None  # None: no rule allows it

    @property
    def text(self) -> str:
        answer = "allowed" if self.is_allowed else "denied"
        return f"{answer}: {self.decided_by or 'no rule allows it'}"


class Rights:
    """The verdicts of some rules for one user and client."""

    __slots__ = (
        "__weakref__",
        "_allowed",
        "_coverages",
        "_denied",
        "_rules",
        "_spend",
        "_verdicts",
        "global_actions",
        "publishable",
    )

    def __init__(
        self,
        rules: Iterable[NamedRule],
        user: str = "",
        client_id: str = "",
        spend: Callable[[], None] = lambda: None,
    ) -> None:
        """``spend`` is called before a verdict is cached; it may call ``forget``."""
        self._spend = spend
        self._rules = [(named, named.rule.filled(user, client_id)) for named in rules]
        self._allowed = self._filter_sets(allows=True)
        self._denied = self._filter_sets(allows=False)
        self.global_actions = self._global_actions()
        self._verdicts: dict[Action, dict[bytes, bool]] = {action: {} for action in Action}
        self._coverages: dict[tuple[Action, bytes], Coverage] = {}
        self.publishable: set[bytes] | None = None if self._publishes_everything() else set()

    def _filter_sets(self, *, allows: bool) -> dict[Action, FilterSet]:
        return {
            action: FilterSet(self._filters(action, allows=allows))
            for action in Action
            if not action & TOPICLESS
        }

    def _filters(self, action: Action, *, allows: bool) -> list[bytes]:
        return [
            filled
            for named, filled in self._rules
            if filled is not None and named.rule.allows is allows and named.rule.actions & action
        ]

    def _global_actions(self) -> Action:
        allowed = denied = Action(0)
        for named, _filled in self._rules:  # these rules have no filter
            if named.rule.allows:
                allowed |= named.rule.actions & TOPICLESS
            else:
                denied |= named.rule.actions & TOPICLESS
        return allowed & ~denied

    def _publishes_everything(self) -> bool:
        is_denied = bool(self._denied[Action.PUBLISH].filters)
        return self._allowed[Action.PUBLISH].is_everything and not is_denied

    def may(self, action: Action, topic: bytes) -> bool:
        """Whether the action is allowed on this topic. ``monitor`` and ``admin`` have none."""
        verdicts = self._verdicts[action]
        verdict = verdicts.get(topic)
        if verdict is None:
            verdict = self._judge(action, topic)
            if len(topic) <= CACHED_TOPIC_BYTES_MAX:
                self._spend()
                if len(verdicts) >= VERDICTS_MAX:
                    verdicts.clear()
                verdicts[topic] = verdict
        return verdict

    def forget(self) -> None:
        """Empty the caches."""
        for verdicts in self._verdicts.values():
            verdicts.clear()
        if self.publishable is not None:
            self.publishable.clear()
        self._coverages.clear()

    def _judge(self, action: Action, topic: bytes) -> bool:
        if action & TOPICLESS:
            return bool(self.global_actions & action)
        return self._allowed[action].matches(topic) and not self._denied[action].matches(topic)

    def may_publish(self, topic: bytes) -> bool:
        """``may``, and remembers an allowed topic in ``publishable``."""
        if self.publishable is None:
            return True
        if not self.may(Action.PUBLISH, topic):
            return False
        if len(topic) <= CACHED_TOPIC_BYTES_MAX:
            if len(self.publishable) >= VERDICTS_MAX:
                self.publishable.clear()
            self.publishable.add(topic)
        return True

    def coverage(self, action: Action, topic_filter: bytes) -> Coverage:
        """How much of what a filter matches is allowed."""
        found = self._coverages.get((action, topic_filter))
        if found is None:
            found = self._cover(action, topic_filter)
            if len(topic_filter) <= CACHED_TOPIC_BYTES_MAX:
                self._spend()
                if len(self._coverages) >= VERDICTS_MAX:
                    self._coverages.clear()
                self._coverages[action, topic_filter] = found
        return found

    def _cover(self, action: Action, topic_filter: bytes) -> Coverage:
        if action & TOPICLESS:
            return Coverage.ALL if self._judge(action, b"") else Coverage.NONE
        allowed, denied = self._allowed[action], self._denied[action]
        if denied.covers(topic_filter) or not allowed.overlaps(topic_filter):
            return Coverage.NONE
        if denied.overlaps(topic_filter) or not allowed.covers(topic_filter):
            return Coverage.SOME
        return Coverage.ALL

    def allows_whole(self, action: Action, topic_filter: bytes) -> bool:
        """Whether one rule allows all that a filter matches, denies aside."""
        return self._allowed[action].covers(topic_filter)

    def explain(self, action: Action, topic: bytes) -> Verdict:
        """The verdict and the rule that decides it; reads all rules, for people."""
        for allows in (False, True):
            for named, filled in self._rules:
                rule = named.rule
                if rule.allows is not allows or not rule.actions & action:
                    continue
                if action & TOPICLESS or (
                    filled is not None and FilterSet([filled]).matches(topic)
                ):
                    return Verdict(allows, named)
        return Verdict(False, None)

    def rules(self) -> list[NamedRule]:
        return [named for named, _filled in self._rules]


def rights_of(*texts: Rule, role: str = "built in") -> Rights:
    return Rights(NamedRule(role, number, rule) for number, rule in enumerate(texts, 1))


NO_RIGHTS = Rights(())

ALL_RIGHTS = rights_of(Rule(True, ALL_ACTIONS, ""))
