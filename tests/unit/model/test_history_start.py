"""The words of a replay: what is understood, and that they mean the same later."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.history_start import (
    HistoryRequest,
    HistoryStart,
    parse_request,
    parse_start,
    split_request,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("last=100", HistoryStart(last=100)),
        ("offset=0", HistoryStart()),
        ("offset=42", HistoryStart(offset=42)),
        ("since=-5m", HistoryStart(since_ms=NOW_MS - 300_000)),
        ("since=-90s", HistoryStart(since_ms=NOW_MS - 90_000)),
        ("since=-2h", HistoryStart(since_ms=NOW_MS - 7_200_000)),
        ("since=-1d", HistoryStart(since_ms=NOW_MS - 86_400_000)),
        ("since=2026-11-15T12:00:00Z", HistoryStart(since_ms=1_794_744_000_000)),
        ("since=2026-11-15T13:00:00.250+01:00", HistoryStart(since_ms=1_794_744_000_250)),
        ("since=1794744000000", HistoryStart(since_ms=1_794_744_000_000)),
    ],
)
def test_words_are_understood(words, start):
    assert parse_start(words, NOW_MS) == start


@pytest.mark.parametrize(
    "words",
    [
        "", "last", "last=", "last=0", "last=-3", "last=1e3", "last=" + "9" * 16, "offset=-1",
        "offset=", "since=", "since=-", "since=-m", "since=-5", "since=-5y", "since=now",
        "since=2026-11-15T12:00:00", "since=2026-13-15T12:00:00Z", "first=5", "LAST=5", "last=5 ",
        "last=\u0665",
    ],
)  # fmt: skip
def test_other_words_are_not(words):
    assert parse_start(words, NOW_MS) is None


def test_a_time_before_1970_is_everything():
    start = parse_start("since=-99999d", NOW_MS)
    assert start is not None
    assert start.since_ms == 1


@given(
    st.one_of(
        st.integers(1, 10**15 - 1).map(lambda number: HistoryStart(last=number)),
        st.integers(1, 10**15 - 1).map(lambda number: HistoryStart(since_ms=number)),
        st.integers(0, 10**15 - 1).map(lambda number: HistoryStart(offset=number)),
    )
)
def test_what_is_journaled_means_the_same_at_any_time(start):
    request = HistoryRequest(start, b"a/+/last=3/#")
    assert parse_request(request.text(), 0) == request
    assert parse_request(request.text(), NOW_MS) == request


@given(st.binary(max_size=30))
def test_any_bytes_are_a_request_or_an_ordinary_filter(name):
    found = split_request(b"$replay/" + name)
    assert found is not None
    parse_request(b"$replay/" + name, NOW_MS)
    if not name.startswith(b"$replay/"):
        assert split_request(name) is None
