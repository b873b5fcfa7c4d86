"""W3C trace context: the headers ``traceparent`` and ``tracestate`` of a message.

Whoever publishes puts its span into ``traceparent``: ``00-TRACE_ID-SPAN_ID-FLAGS`` in hexadecimal.
A value that does not follow the standard names no span, and counts as if it was not there.
"""

import re
from typing import Final, NamedTuple

from penstock.model.mqtt_headers import Headers

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"

TRACESTATE_BYTES_MAX: Final = 512  # that everybody has to pass on
TRACESTATE_MEMBERS_MAX: Final = 32

_SAMPLED: Final = 1
# a version after 00 may say more behind a further dash; ff is none
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_MEMBER: Final = re.compile(
    rb"[a-z0-9][a-z0-9_\-*/]{0,240}(@[a-z][a-z0-9_\-*/]{0,13})?"
    rb"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


class TraceContext(NamedTuple):
    """A span of somebody, and whether it is recorded."""

    trace_id: bytes  # hexadecimal
    span_id: bytes
    flags: int

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & _SAMPLED)

    def with_span(self, span_id: bytes) -> bytes:
        """``traceparent`` of another span of the same trace."""
        return b"00-%b-%b-%02x" % (self.trace_id, span_id, self.flags & _SAMPLED)


def parse_traceparent(value: bytes) -> TraceContext | None:
    found = _TRACEPARENT.fullmatch(value)
    if found is None or (found[1] == b"00" and found[5]):
        return None
    return TraceContext(found[2], found[3], int(found[4], 16))


def is_tracestate(value: bytes) -> bool:
    members = [member.strip(b" \t") for member in value.split(b",")]
    if len(value) > TRACESTATE_BYTES_MAX or len(members) > TRACESTATE_MEMBERS_MAX:
        return False
    return any(members) and all(_MEMBER.fullmatch(member) for member in members if member)


def context_of(headers: Headers) -> TraceContext | None:
    """The span that a message names; None: it names none, or several."""
    values = [value for name, value in headers if name == TRACEPARENT]
    return parse_traceparent(values[0]) if len(values) == 1 else None


def with_parent(headers: Headers, traceparent: bytes) -> Headers:
    """The headers with another ``traceparent``, in its place."""
    return tuple([(name, traceparent if name == TRACEPARENT else value) for name, value in headers])


def is_traced(headers: Headers) -> bool:
    return any(name == TRACEPARENT for name, _ in headers)


def valid_headers(traceparent: bytes, tracestate: bytes) -> Headers:
    """Headers of a message for those of a request, as far as they follow the standard."""
    if parse_traceparent(traceparent) is None:
        return ()
    parent = ((TRACEPARENT, traceparent),)
    return (*parent, (TRACESTATE, tracestate)) if is_tracestate(tracestate) else parent
