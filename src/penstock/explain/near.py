"""Filters that almost match a topic: a level more or less, another word, a slip of the finger."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice

LOOKED_AT_MAX = 5_000  # filters; each costs about 20 microseconds
NEAR_MAX = 5
LIKENESS = 0.75  # of the best match that is told


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches a topic; a shared subscription counts as its filter."""
    if topic_filter.startswith("$share/"):
        topic_filter = topic_filter.split("/", 2)[-1]
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in {"+", "#"}:
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels) or level not in {"+", levels[place]}:
            return False
    return len(wanted) == len(levels)


def near(topic: str, filters: Iterable[str]) -> list[str]:
    """The filters that are most like a topic, the best first; those that match are none of them."""
    found = []
    for topic_filter in islice(filters, LOOKED_AT_MAX):
        if matches(topic_filter, topic):
            continue
        likeness = _likeness(topic_filter, topic)
        if likeness >= LIKENESS:
            found.append((-likeness, topic_filter))
    return [topic_filter for _, topic_filter in sorted(found)[:NEAR_MAX]]


def _likeness(topic_filter: str, topic: str) -> float:
    """How alike they are, from 0 to 1; a wildcard is as good as what it stands for."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if "#" in wanted:
        levels = [*levels[: len(wanted) - 1], "#"]
    if abs(len(wanted) - len(levels)) > 1:
        return 0.0
    total = 0.0
    for one, other in zip(wanted, levels, strict=False):
        total += 1.0 if one in {"+", other} else _word(one, other)
    return total / max(len(wanted), len(levels))


def _word(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()
