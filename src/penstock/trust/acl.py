"""Which topics a key may publish to, or a rule applies to: patterns, compiled once.

A pattern is the first of these that it fits:

=================  ========================================================================
``*`` or ``#``     every topic, including those that begin with ``$``
``plant/*``        ends in ``*``: every topic that begins with the bytes before it
``plant/+/temp``   contains ``+`` or ``#``: an MQTT filter
``plant/pump``     otherwise: exactly this topic
=================  ========================================================================

``plant/*`` does not match ``plant``, but ``plant/#`` does [MQTT-4.7.1-2]. A key has its patterns in
one text, separated by commas; without any, it may publish to every topic. A list becomes one
regular expression, whose time is bounded by the length of the topic times the number of patterns. A
malformed filter only matches its own spelling, which no topic has: mistakes lock out rather than
let in.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.model.topic import filter_fault, has_wildcard

PATTERNS_BYTES_MAX = 4_096  # longest list: about a hundred topics

Matcher: TypeAlias = Callable[[bytes], bool]  # tells whether a topic is matched

_EVERYTHING = ("*", "#")
_NOTHING = rb"(?!)"


def compile_acl(topics: str) -> Matcher:
    return compile_patterns(_split(topics) or _EVERYTHING)


def compile_patterns(patterns: Iterable[str]) -> Matcher:
    """A matcher of all these patterns; without any it matches nothing."""
    expression = b"|".join(map(_expression, patterns)) or _NOTHING
    fullmatch = re.compile(expression, re.DOTALL).fullmatch
    return lambda topic: fullmatch(topic) is not None


def patterns_fault(topics: str) -> str:
    """What is wrong with a key's patterns; empty if nothing."""
    if len(topics.encode("utf-8", "surrogatepass")) > PATTERNS_BYTES_MAX:
        return f"longer than {PATTERNS_BYTES_MAX} bytes"
    for pattern in _split(topics):
        if fault := _pattern_fault(pattern):
            return f"{pattern!r}: {fault}"
    return ""


def _split(topics: str) -> list[str]:
    """A stray comma leaves an empty pattern, which is a fault."""
    return [pattern.strip() for pattern in topics.split(",")] if topics.strip() else []


def _pattern_fault(pattern: str) -> str:
    if pattern in _EVERYTHING:
        return ""
    spelled = pattern.removesuffix("*")
    if spelled != pattern and has_wildcard(_bytes(spelled)):
        return "'*' at the end does not go together with '+' or '#'"
    return filter_fault(_bytes(spelled))


def _expression(pattern: str) -> bytes:
    if pattern in _EVERYTHING:
        return rb".*"
    spelled = _bytes(pattern)
    if spelled.endswith(b"*"):
        return re.escape(spelled[:-1]) + rb".*"
    if has_wildcard(spelled) and not filter_fault(spelled):
        return _filter_expression(spelled)
    return re.escape(spelled)


def _filter_expression(topic_filter: bytes) -> bytes:
    # A wildcard in front does not find topics of the broker's own [MQTT-4.7.2-1].
    guard = rb"(?!\$)" if topic_filter[:1] in b"+#" else b""
    above, has_rest = topic_filter.removesuffix(b"/#"), topic_filter.endswith(b"/#")
    levels = [rb"[^/]*" if level == b"+" else re.escape(level) for level in above.split(b"/")]
    return guard + b"/".join(levels) + (rb"(?:/.*)?" if has_rest else b"")


def _bytes(pattern: str) -> bytes:
    return pattern.encode("utf-8", "surrogatepass")
