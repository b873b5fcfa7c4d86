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
from penstock.explain.message import GRAVITY, receiver_lines

ALIKE_S = 2.0  # nodes record what follows from the journal when they come to it

_FATES = {fate.value: place for place, fate in enumerate(GRAVITY)}
NOTHING_RECORDED = "events"  # the code of the line that says so
_UNKNOWN = {"unknown", "away", Fate.NO_MATCH.value}


def merged(own: Explanation, others: Sequence[Explanation]) -> Explanation:
    if not others:
        return own
    every = [own, *others]
    first = max(every, key=_knows)
    receivers = _receivers(every)
    return msgspec.structs.replace(
        first,
        receivers=receivers[:RECEIVERS_MAX],
        receivers_total=max(len(receivers), *(one.receivers_total for one in every)),
        facts=_facts(first, every, receivers),
    )


def _knows(one: Explanation) -> tuple[int, bool, str, int]:
    """How much a node knows: a connection, a trouble, the newest record."""
    is_connected = one.fate in {"connected", "session_taken_over"} and one.rank > 0
    times = [fact.at or "" for fact in one.facts if fact.certainty is Certainty.RECORDED]
    gravity = -_FATES.get(one.fate, len(_FATES))
    is_known = one.fate not in _UNKNOWN
    return (2 if is_connected else is_known, is_connected, max(times, default=""), gravity)


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
