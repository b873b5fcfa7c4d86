"""MQTT filters where no broker is asked: as a regular expression over names of topics.

One that Python and Java understand alike, so that a driver may choose topics by it and a job rows.
"""

import re
from collections.abc import Iterable

from penstock.errors import ConfigError
from penstock.model.topic import filter_fault


def filters_of(subscribe: str) -> tuple[str, ...]:
    """Read an option ``subscribe``: names and filters, separated by commas."""
    filters = tuple(part.strip() for part in subscribe.split(",") if part.strip())
    for each in filters:
        if fault := filter_fault(each.encode()):
            raise ConfigError(f"{each!r} is no name and no filter: {fault}")
    return filters


def topic_regex(filters: Iterable[str]) -> str:
    r"""Return what the names that match any of these filters look like.

    >>> topic_regex(["plant/+/level", "mill/#"])
    '^(?:plant/[^/]*/level|mill(?:/(?s:.*))?)(?![\\s\\S])'

    A filter that begins with a wildcard leaves out names that begin with ``$``, as MQTT has it. (At
    the end stands not ``$``: that would pass over a last line break.)
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
    """Return the names that match any of these filters."""
    matches = re.compile(topic_regex(filters)).match
    return [name for name in names if matches(name)]
