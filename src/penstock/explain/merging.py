"""One explanation from those of several nodes.

Each node knows its own connections and what it has recorded; the journal, durable sessions and
groups are known to all. So records and receivers are united; whoever knows most says the sentence
and what follows from the present state.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from penstock.explain.explanation import FACTS_MAX, RECEIVERS_MAX, Explanation, Fact, Receiver
from penstock.explain.fates import Certainty, Fate
from penstock.explain.message import GRAVITY, main_fate, receiver_lines, summary_of
from penstock.explain.topic import with_subscribers

ALIKE_S = 2.0  # nodes record what follows from the journal when they come to it

NOTHING_RECORDED = "events"  # the code of the line that says so
_UNKNOWN = {"unknown", "away", Fate.NO_MATCH.value}


def merged(own: Explanation, others: Sequence[Explanation]) -> Explanation:
    if not others:
        return own
    every = [own, *others]
    match own.subject.kind:
        case "message":
            return _message(every)
        case "topic":
            return _topic(every)
        case _:
            first = max(every, key=_knows)
            return msgspec.structs.replace(first, facts=_facts(first, every, []))


def _message(every: list[Explanation]) -> Explanation:
    receivers = _receivers(every)
    if not receivers:
        first = max(every, key=_knows)
        return msgspec.structs.replace(first, facts=_facts(first, every, []))
    fate = main_fate(receivers)
    first = max(every, key=lambda one: (one.fate == fate.value, _newest(one)))
    return msgspec.structs.replace(
        first,
        fate=fate.value,
        summary=summary_of(first.subject.topic or "", fate, receivers, first.near),
        receivers=receivers[:RECEIVERS_MAX],
        receivers_total=max(len(receivers), *(one.receivers_total for one in every)),
        facts=_facts(first, every, receivers),
    )


def _topic(every: list[Explanation]) -> Explanation:
    """Each node counts the sessions that all know, and its own clients."""
    first = max(every, key=lambda one: (one.subscribers_total, one.fate not in _UNKNOWN))
    names = list(dict.fromkeys(name for one in every for name in one.subscribers))
    if first.subscribers:
        total = max(len(names), first.subscribers_total)
        first = with_subscribers(first, names[:RECEIVERS_MAX], total)
    return msgspec.structs.replace(first, facts=_facts(first, every, []))


def _knows(one: Explanation) -> tuple[bool, bool, str]:
    """How much a node knows: anything, a connection, the newest record."""
    is_connected = one.fate in {"connected", "session_taken_over"} and one.rank > 0
    return one.fate not in _UNKNOWN, is_connected, _newest(one)


def _newest(one: Explanation) -> str:
    """When the newest record was made that it knows."""
    times = (fact.at or "" for fact in one.facts if fact.certainty is Certainty.RECORDED)
    return max(times, default="")


def _receivers(every: list[Explanation]) -> list[Receiver]:
    found: dict[tuple[str, str], Receiver] = {}
    for one in every:
        for receiver in one.receivers:
            key = receiver.kind, receiver.name
            known = found.get(key)
            if known is None or _says(receiver) > _says(known):
                found[key] = receiver
    return sorted(found.values(), key=lambda one: (GRAVITY.index(one.fate), one.name))


def _says(receiver: Receiver) -> tuple[bool, bool, int]:
    is_recorded = receiver.certainty is Certainty.RECORDED
    return receiver.holder is not None, is_recorded, -GRAVITY.index(receiver.fate)


def _facts(first: Explanation, every: list[Explanation], receivers: list[Receiver]) -> list[Fact]:
    timed = _timed(every)
    own = receiver_lines(first.receivers)
    known = [fact for fact in first.facts if not fact.at and fact not in own]
    if any(fact.certainty is Certainty.RECORDED for fact in timed):
        known = [fact for fact in known if fact.code != NOTHING_RECORDED]
    return [*timed, *receiver_lines(receivers), *known][-FACTS_MAX:]


def _timed(every: list[Explanation]) -> list[Fact]:
    """What has a moment, oldest first. What all nodes recorded alike is one line."""
    found: list[Fact] = []
    for one in every:
        known = list(found)
        found += [fact for fact in one.facts if fact.at and not _is_told(fact, known)]
    return sorted(found, key=lambda fact: fact.at or "")


def _is_told(fact: Fact, known: list[Fact]) -> bool:
    """Whether another node said the same."""
    return any(
        (fact.code, fact.text) == (one.code, one.text) and _apart_s(fact, one) <= ALIKE_S
        for one in known
    )


def _apart_s(one: Fact, other: Fact) -> float:
    apart = datetime.fromisoformat(one.at or "") - datetime.fromisoformat(other.at or "")
    return abs(apart.total_seconds())
