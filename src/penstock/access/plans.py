"""What a change of users and roles would do: who loses what, and who gains it.

For every user the filters of all its rules, before and after, are compared: how much of what a
filter matches may it publish, subscribe to, and so on? Two sets of rules that differ in nothing but
their wording therefore show no difference. Where a deny leaves some of a filter before and after,
it still counts whether the rest was allowed as a whole: there is "less" or "more" of it then.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from penstock.trust.book import AccessBook, Change
from penstock.trust.rights import NO_RIGHTS, Coverage, Rights
from penstock.trust.rules import TOPICLESS, Action

EVERY_TOPIC = "every topic"
ANY_CLIENT = "%c"  # the client id for which rights are compared: shown as it is in rules
DIFFERENCES_MAX = 1_000  # that are shown
LESS, MORE = "less", "more"  # of what is allowed of a filter, although it was some and is some
ORDER = (Coverage.NONE.value, LESS, Coverage.SOME.value, MORE, Coverage.ALL.value)
_TOPIC_ACTIONS = [action for action in Action if not action & TOPICLESS]
_TOPICLESS_ACTIONS = [action for action in Action if action & TOPICLESS]


class Difference(NamedTuple):
    """A right that a user loses or gains."""

    user: str
    action: str
    topic_filter: str  # empty for actions that have no topic
    before: str  # "all", "some" or "none" of what the filter matches
    after: str  # or "less" or "more" of it, if both are "some"

    @property
    def is_loss(self) -> bool:
        return is_less(self.before, self.after)


class RowChange(NamedTuple):
    """A row that would be stored or removed."""

    kind: str
    name: str
    what: str  # "add", "change" or "remove"
    fields: list[str]  # of a changed row, those that differ


class Plan(NamedTuple):
    """What a change would do."""

    rows: list[RowChange]
    losses: list[Difference]
    gains: list[Difference]
    locked_out: list[str]  # users that could no longer log in


def make_plan(before: AccessBook, after: AccessBook, changes: Iterable[Change]) -> Plan:
    losses: list[Difference] = []
    gains: list[Difference] = []
    comparison = _Comparison(before, after)
    for user in sorted(before.users.keys() | after.users.keys()):
        if user not in before.users and len(gains) > DIFFERENCES_MAX:
            continue  # it can only gain, and nobody reads more of that
        for difference in comparison.of(user):
            (losses if difference.is_loss else gains).append(difference)
    rows = row_changes(before, after, changes)
    return Plan(rows, losses, gains, sorted(_able(before) - _able(after)))


def row_changes(
    before: AccessBook, after: AccessBook, changes: Iterable[Change]
) -> list[RowChange]:
    return [_row_change(before, after, change) for change in changes]


def _row_change(before: AccessBook, after: AccessBook, change: Change) -> RowChange:
    rows = {"user": "users", "role": "roles", "token": "tokens", "ban": "bans"}
    old = getattr(before, rows[change.kind]).get(change.name)
    new = getattr(after, rows[change.kind]).get(change.name)
    if old is None or new is None:
        return RowChange(change.kind, change.name, "add" if old is None else "remove", [])
    fields = [name for name in new.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    return RowChange(change.kind, change.name, "change", fields)


def _able(book: AccessBook) -> set[str]:
    return {
        user.name
        for user in book.users.values()
        if (user.password or user.secrets) and not user.is_disabled
    }


class _Comparison:
    """Users with the same roles share their rights, so these are compared once."""

    def __init__(self, before: AccessBook, after: AccessBook) -> None:
        self._before = before
        self._after = after
        self._known: dict[tuple[Rights, Rights], list[Difference]] = {}

    def of(self, user: str) -> list[Difference]:
        old, new = (book.rights_of(user, ANY_CLIENT) for book in (self._before, self._after))
        found = self._known.get((old, new))
        if found is None:
            is_same = [*map(str, old.rules())] == [*map(str, new.rules())]
            found = self._known[old, new] = [] if is_same else list(_compared(user, old, new))
        return [difference._replace(user=user) for difference in found]


def _compared(user: str, old: Rights, new: Rights) -> Iterator[Difference]:
    for action in _TOPICLESS_ACTIONS:
        had, has = (_whole(rights.may(action, b"")) for rights in (old, new))
        if had is not has:
            yield Difference(user, action.word, "", had.value, has.value)
    filters = _filters(user, old, new)
    for action in _TOPIC_ACTIONS:
        for topic_filter in filters:
            before, after = shares(old, new, action, topic_filter or b"#")
            if before != after:
                name = topic_filter.decode() or EVERY_TOPIC
                yield Difference(user, action.word, name, before, after)


def shares(old: Rights, new: Rights, action: Action, topic_filter: bytes) -> tuple[str, str]:
    """How much of a filter was and would be allowed; the same if nothing changes."""
    had, has = (_coverage(rights, action, topic_filter) for rights in (old, new))
    if had is has is Coverage.SOME:
        was_whole, is_whole = (rights.allows_whole(action, topic_filter) for rights in (old, new))
        if was_whole is not is_whole:
            return had.value, LESS if was_whole else MORE
    return had.value, has.value


def is_less(before: str, after: str) -> bool:
    return ORDER.index(after) < ORDER.index(before)


def _whole(allowed: bool) -> Coverage:
    return Coverage.ALL if allowed else Coverage.NONE


def _coverage(rights: Rights, action: Action, topic_filter: bytes) -> Coverage:
    if rights is NO_RIGHTS:
        return Coverage.NONE
    return rights.coverage(action, topic_filter)


def _filters(user: str, old: Rights, new: Rights) -> list[bytes]:
    """The filters of all rules."""
    rules = chain(old.rules(), new.rules())
    filled = {named.rule._replace(allows=False).filled(user, ANY_CLIENT) for named in rules}
    return sorted(topic_filter for topic_filter in filled if topic_filter is not None)
