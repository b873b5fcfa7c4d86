"""W3C trace context: which headers name a span, and which do not."""

import pytest

from penstock.model.trace_context import (
    context_of,
    is_tracestate,
    parse_traceparent,
    valid_headers,
    with_parent,
)

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_traceparent_names_trace_span_and_flags():
    context = parse_traceparent(PARENT)
    assert context == (b"0af7651916cd43dd8448eb211c80319c", b"b7ad6b7169203331", 1)
    assert context.is_sampled
    assert not parse_traceparent(PARENT[:-2] + b"00").is_sampled
    assert context.with_span(b"1" * 16) == PARENT[:36] + b"1" * 16 + b"-01"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        PARENT[:-1],
        PARENT.upper(),
        b"ff" + PARENT[2:],
        PARENT + b"-more",  # version 00 has no more
        PARENT + b"\n",
        PARENT[:3] + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + PARENT[52:],
        PARENT.replace(b"-", b"_"),
        b"x" * 100_000,
    ],
)
def test_what_does_not_follow_the_standard_names_no_span(value):
    assert parse_traceparent(value) is None
    assert valid_headers(value, b"a=b") == ()


def test_a_later_version_may_say_more():
    assert parse_traceparent(b"01" + PARENT[2:] + b"-more") is not None


def test_a_header_that_comes_twice_names_no_span():
    assert context_of(((b"traceparent", PARENT), (b"traceparent", PARENT))) is None
    assert context_of(((b"a", b"b"),)) is None


@pytest.mark.parametrize("value", [b"a=b", b"rojo=00f067aa0ba902b7, t61@sys=x", b"a=b,,c=d"])
def test_a_tracestate_is_a_list_of_members(value):
    assert is_tracestate(value)
    assert valid_headers(PARENT, value)[1] == (b"tracestate", value)


@pytest.mark.parametrize(
    "value",
    [b"", b"a", b"=b", b"A=b", b"a=b=c", b"a=\n", b",".join([b"a=b"] * 33), b"a=" + b"b" * 600],
)
def test_what_is_no_tracestate_is_left_out(value):
    assert not is_tracestate(value)
    assert valid_headers(PARENT, value) == ((b"traceparent", PARENT),)


def test_another_parent_takes_the_place_of_the_one_before():
    headers = ((b"a", b"b"), (b"traceparent", PARENT), (b"c", b"d"))
    assert with_parent(headers, b"new") == ((b"a", b"b"), (b"traceparent", b"new"), (b"c", b"d"))
