"""Topics, filters and moments of requests."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from penstock.api.documents.common import FieldFault, moment
from penstock.api.problems import Problem
from penstock.core.subscriptions import SubscriptionTrie
from penstock.model.topic import filter_fault, has_wildcard, topic_fault

TopicName = Annotated[str, Meta(description="A topic, whole.", min_length=1, max_length=65_535)]
TopicFilter = Annotated[
    str,
    Meta(description="An MQTT filter: `+` is one level, `#` all that follow.", max_length=65_535),
]
When = Annotated[
    str,
    Meta(
        description="A time, as in 2026-01-31T14:03:04Z.", extra_json_schema={"format": "date-time"}
    ),
]


def topic_of(name: str, field: str = "topic") -> bytes:
    """A topic that a request names. Raises Problem."""
    return _checked(name, field, topic_fault)


def filter_of(text: str, field: str = "filter") -> bytes:
    """A filter that a request has; without one it is that of all topics. Raises Problem."""
    return _checked(text, field, filter_fault) if text else b"#"


def _checked(text: str, field: str, fault_of: Callable[[bytes], str]) -> bytes:
    try:
        name = text.encode()
        fault = fault_of(name)
    except UnicodeEncodeError:
        name, fault = b"", "not UTF-8"
    if fault:
        raise invalid(field, fault)
    return name


def invalid(field: str, fault: str, advice: str = "") -> Problem:
    faults = [FieldFault(field, fault)]
    return Problem(400, "invalid_parameter", f"{field}: {fault}", advice, fields=faults)


def plain_prefix(topic_filter: bytes) -> bytes:
    """What all topics begin with that a filter matches; ``a/#`` matches ``a``, too."""
    plain = topic_filter.partition(b"+")[0].partition(b"#")[0]
    return plain.removesuffix(b"/") if plain + b"#" == topic_filter else plain


def matcher(topic_filter: bytes) -> Callable[[bytes], bool]:
    """Whether a filter matches a topic."""
    if topic_filter == b"#":
        return lambda topic: not topic.startswith(b"$")
    if not has_wildcard(topic_filter):
        return lambda topic: topic == topic_filter
    trie: SubscriptionTrie[str] = SubscriptionTrie()
    trie.subscribe(topic_filter, "", 0)
    return lambda topic: bool(trie.match(topic))


def ms_of(text: str, field: str) -> int:
    """A time of a request in milliseconds since 1970. Raises Problem."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(field, "not a time", "write it as 2026-01-31T14:03:04Z") from None
    time = time.replace(tzinfo=time.tzinfo or UTC)
    return max(0, round(time.timestamp() * 1000))


def moment_or_none(time_ms: int) -> str | None:
    """0 stands for no time."""
    return moment(time_ms) if time_ms else None
