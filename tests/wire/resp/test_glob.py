"""Patterns: a table of what redis-server 7.0.15 answers, and a matcher as plain as can be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.resp import glob

# The pattern, what it matches, what it does not. From KEYS, and PSUBSCRIBE for the empty subject.
CASES = [
    (b"", [b""], [b"a"]),
    (b"*", [b"a", b"\n"], [b""]),
    (b"**", [b"a"], [b""]),
    (b"a*", [b"a", b"ab"], [b"", b"ba"]),
    (b"*a", [b"a", b"ba", b"aba"], [b"", b"ab"]),
    (b"a**b", [b"ab", b"axb"], [b"a", b"b"]),
    (b"*b", [b"ab\nb"], [b"ba"]),
    (b"*a*b*", [b"ab", b"xaxbx"], [b"ba", b"a"]),
    (b"ab*ba", [b"abba", b"abxba"], [b"aba"]),
    (b"h?llo", [b"hello", b"h\nllo"], [b"hllo"]),
    (b"[a-c]", [b"a", b"b", b"c"], [b"d", b"", b"-"]),
    (b"[c-a]", [b"b"], [b"d"]),
    (b"[^a]", [b"b", b"^"], [b"a", b""]),
    (b"[!a]", [b"!", b"a"], [b"b"]),
    (b"[abc", [b"b"], [b"d"]),
    (b"[^a", [b"b"], [b"a"]),
    (b"[a-b", [b"a", b"b"], [b"c", b"-"]),
    (b"[a-", [b"a", b"-"], [b"b"]),
    (b"[a-]", [b"^", b"a", b"]"], [b"b", b"-"]),
    (b"[a-]x]", [b"^", b"x"], [b"bx]"]),
    (b"[a-c-e]", [b"-", b"b", b"e"], [b"d"]),
    (b"[--a]", [b"0"], [b"b"]),
    (b"[a--]", [b"0"], [b"b"]),
    (b"[^-a]", [b"0"], [b"-", b"a"]),
    (b"[", [], [b"[", b"a", b""]),
    (b"a[", [], [b"a", b"a["]),
    (b"*[", [], [b"x", b""]),
    (b"[^", [b"a"], [b""]),
    (b"[]", [], [b"a", b"]"]),
    (b"[^]", [b"a", b"]"], [b""]),
    (b"[]a]", [], [b"a]", b"a"]),
    (b"[\\]]", [b"]"], [b"\\"]),
    (b"[a\\-c]", [b"-", b"a", b"c"], [b"b", b"\\"]),
    (b"[\\a-c]", [b"a", b"-", b"c"], [b"b"]),
    (b"[a-\\]", [b"^"], [b"b"]),
    (b"[a-\\]]", [b"^]"], [b"b", b"^"]),
    (b"[\\", [b"\\"], [b"a"]),
    (b"[^\\", [b"a"], [b"\\"]),
    (b"\\*", [b"*"], [b"a"]),
    (b"\\[a]", [b"[a]"], [b"a"]),
    (b"\\", [b"\\"], [b""]),
    (b"a\\", [b"a\\"], [b"a"]),
    (b"*\\", [b"x\\"], [b"x"]),
    (b"news.[a-z]*.?", [b"news.art.1"], [b"news.1.1", b"news.art."]),
]
PAIRS = [
    (pattern, subject, expected)
    for pattern, matching, others in CASES
    for expected, subjects in ((True, matching), (False, others))
    for subject in subjects
]


@pytest.mark.parametrize(("pattern", "subject", "expected"), PAIRS)
def test_a_pattern_matches_what_it_matches_in_redis(pattern, subject, expected):
    assert glob.compile(pattern)(subject) is expected


def test_bytes_are_compared_without_sign():
    matches = glob.compile(b"[a-\xff]")
    assert matches(b"\x80")
    assert not matches(b"A")


def naive(pattern: bytes, subject: bytes) -> bool:
    """Stars, question marks and literal bytes, by trying everything."""
    if not pattern:
        return not subject
    if pattern[:1] == b"*":
        return any(naive(pattern[1:], subject[at:]) for at in range(len(subject) + 1))
    return (
        subject[:1] != b""
        and pattern[:1] in (b"?", subject[:1])
        and naive(pattern[1:], subject[1:])
    )


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"b", b"?", b"*"]), max_size=9).map(b"".join),
    st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=9).map(b"".join),
)
def test_taking_the_leftmost_place_finds_every_match(pattern, subject):
    assert glob.compile(pattern)(subject) == naive(pattern, subject)


@settings(deadline=None)
@given(st.binary(max_size=12) | st.text("[]^-\\*?ab", max_size=12).map(str.encode), st.binary())
def test_every_pattern_can_be_compiled_and_asked(pattern, subject):
    assert glob.compile(pattern)(subject) in (True, False)


@pytest.mark.parametrize(
    "pattern",
    [b"a*" * 500 + b"b", b"*a" * 500 + b"b", b"*[ab]?" * 200 + b"*b", b"*" * 1_024 + b"b"],
)
def test_a_pattern_made_to_be_slow_is_not(pattern):
    """Checked by the time-out of the suite: backtracking over every star would take forever."""
    assert not glob.compile(pattern)(b"a" * 1_024)


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [(b"", 1), (b"abc*", 1), (b"a?[bc]*?", 1), (b"*" + b"a" * 500 + b"*", 1), (b"*a?[bc]*d*", 10)],
)
def test_what_must_be_tried_in_many_places_is_what_costs(pattern, cost):
    assert glob.cost(pattern) == cost
