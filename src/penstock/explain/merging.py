"""One explanation from those of several nodes.

Each node knows its own connections and what it has recorded; the journal, durable sessions and
groups are known to all. So lines and receivers are united, and whoever knows most says the
sentence.
"""

import msgspec

from penstock.explain.explanation import FACTS_MAX, RECEIVERS_MAX, Explanation, Fact, Receiver
from penstock.explain.fates import Certainty, Fate
from penstock.explain.message import GRAVITY

_FATES = {fate.value: place for place, fate in enumerate(GRAVITY)}
_UNKNOWN = {"unknown", "away", Fate.NO_MATCH.value}


def merged(own: Explanation, others: list[Explanation]) -> Explanation:
    if not others:
        return own
    every = [own, *others]
    first = max(every, key=_knows)
    receivers = _receivers(every)
    return msgspec.structs.replace(
        first,
        receivers=receivers[:RECEIVERS_MAX],
        receivers_total=max(len(receivers), *(one.receivers_total for one in every)),
        facts=_facts(every),
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


def _facts(every: list[Explanation]) -> list[Fact]:
    found = {(fact.at, fact.code, fact.text): fact for one in every for fact in one.facts}
    timed = sorted((fact for fact in found.values() if fact.at), key=lambda fact: fact.at or "")
    return [*timed, *(fact for fact in found.values() if not fact.at)][-FACTS_MAX:]
