"""MQTT topic filters as regular expressions, which Python and Java read alike."""

import re
from collections.abc import Iterable

from penstock.errors import ConfigError
from penstock.model.topic import filter_fault


def filters_of(subscribe: str) -> tuple[str, ...]:
    filters = tuple(part.strip() for part in subscribe.split(",") if part.strip())
    for each in filters:
        if fault := filter_fault(each.encode()):
            raise ConfigError(f"{each!r} is not a topic name or filter: {fault}")
    return filters


def topic_regex(filters: Iterable[str]) -> str:
    r"""Return an expression for the names that match any of these filters.

    >>> topic_regex(["plant/+/level", "mill/#"])
    '^(?:plant/[^/]*/level|mill(?:/(?s:.*))?)(?![\\s\\S])'

    As in MQTT, a filter that begins with a wildcard does not match names that begin with ``$``. (A
    final ``$`` would also accept a trailing line break.)
    """
    return f"^(?:{'|'.join(map(_one, filters))})(?![\\s\\S])"


def _one(topic_filter: str) -> str:
    levels = topic_filter.split("/")
    text = "/".join("[^/]*" if level == "+" else re.escape(level) for level in levels)
    if levels[-1] == "#":
        above = text.removesuffix(re.escape("#")).removesuffix("/")
        text = "(?s:.*)" if len(levels) == 1 else f"{above}(?:/(?s:.*))?"
    return f"(?!\\$){text}" if levels[0] in {"+", "#"} else text


def names_matching(names: Iterable[str], filters: Iterable[str]) -> list[str]:
    matches = re.compile(topic_regex(filters)).match
    return [name for name in names if matches(name)]
