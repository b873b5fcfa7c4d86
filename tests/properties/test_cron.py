"""Cron expressions against an oracle that looks at every minute, and against croniter."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.schedule import CRON, EVERY, Timing
from penstock.schedules.timing import next_firings, next_ms

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
BEFORE_CHANGES = (
    datetime(2026, 3, 28, tzinfo=UTC),
    datetime(2026, 10, 24, tzinfo=UTC),
    datetime(2026, 3, 7, tzinfo=UTC),
    datetime(2026, 10, 31, tzinfo=UTC),
    datetime(2026, 4, 4, tzinfo=UTC),
    datetime(2026, 10, 3, tzinfo=UTC),
    datetime(2026, 2, 27, tzinfo=UTC),
)
DAYS_LOOKED_AT = 3


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    """A field as text, and what it stands for, by other code than the parser's."""
    kind = draw(st.sampled_from(("any", "step", "list", "range")))
    if kind == "any":
        return "*", set(range(low, high + 1))
    if kind == "step":
        step = draw(st.integers(1, high))
        return f"*/{step}", {n for n in range(low, high + 1) if (n - low) % step == 0}
    if kind == "list":
        values = draw(st.lists(st.integers(low, high), min_size=1, max_size=4))
        return ",".join(map(str, values)), set(values)
    first = draw(st.integers(low, high))
    last, step = draw(st.integers(first, high)), draw(st.integers(1, 7))
    values = [n for n in range(low, high + 1) if first <= n <= last and (n - first) % step == 0]
    return f"{first}-{last}/{step}", set(values)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, list[set[int]], list[bool]]:
    bounds = ((0, 59), (0, 23), (1, 31), (0, 6))
    minute, hour, day, weekday = (draw(fields(low, high)) for low, high in bounds)
    words = [minute[0], hour[0], day[0], "*", weekday[0]]
    is_free = [day[0].startswith("*"), weekday[0].startswith("*")]
    return " ".join(words), [minute[1], hour[1], day[1], weekday[1]], is_free


def matches(local: datetime, values: list[set[int]], is_free: list[bool]) -> bool:
    minutes, hours, days, weekdays = values
    in_days, in_weekdays = local.day in days, (local.weekday() + 1) % 7 in weekdays
    is_day = (in_days and in_weekdays) if any(is_free) else (in_days or in_weekdays)
    return is_day and local.hour in hours and local.minute in minutes


def every_firing(
    values: list[set[int]], is_free: list[bool], zone: ZoneInfo, start: datetime
) -> list[datetime]:
    """Minute by minute: what is on the clock, and what the clock has just skipped."""
    found = []
    for number in range(1, DAYS_LOOKED_AT * 24 * 60):
        moment = start + timedelta(minutes=number)
        local = moment.astimezone(zone)
        before = (moment - timedelta(minutes=1)).astimezone(zone)
        if len(values[1]) == 24:
            is_due = matches(local, values, is_free)
        else:
            is_due = not local.fold and matches(local, values, is_free)
            skipped = before.replace(tzinfo=None) + timedelta(minutes=1)
            while skipped < local.replace(tzinfo=None):
                is_due = is_due or matches(skipped, values, is_free)
                skipped += timedelta(minutes=1)
        if is_due:
            found.append(moment)
    return found


@given(expressions(), st.sampled_from(ZONES), st.sampled_from(BEFORE_CHANGES))
@example(
    ("30 2 * * *", [{30}, {2}, set(range(1, 32)), set(range(7))], [True, True]),
    *("Europe/Paris", BEFORE_CHANGES[0]),
)
@example(
    ("*/7 1 * * *", [set(range(0, 60, 7)), {1}, set(range(1, 32)), set(range(7))], [True, True]),
    *("Australia/Lord_Howe", BEFORE_CHANGES[4]),
)
def test_firings_are_those_that_looking_at_every_minute_finds(expression, zone, start):
    text, values, is_free = expression
    expected = every_firing(values, is_free, ZoneInfo(zone), start)
    timing = Timing(CRON, cron=text, timezone=zone)
    after, found = int(start.timestamp() * 1000), []
    end = after + DAYS_LOOKED_AT * 24 * 3600 * 1000
    while (after := next_ms(timing, after)) and after < end and len(found) < 200:
        found.append(after)
    assert found == [int(moment.timestamp() * 1000) for moment in expected[:200]]


@given(expressions(), st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)))  # noqa: DTZ001
def test_in_utc_firings_are_those_of_croniter(expression, start):
    croniter = pytest.importorskip("croniter").croniter
    _, values, is_free = expression
    # croniter takes a step for a restriction of the day, and a range of one value for all values
    lists = [",".join(map(str, sorted(one))) for one in values]
    day = "*" if is_free[0] else lists[2]
    weekday = "*" if is_free[1] else lists[3]
    start = start.replace(tzinfo=UTC, microsecond=0)
    timing = Timing(CRON, cron=f"{lists[0]} {lists[1]} {day} * {weekday}")
    theirs = croniter(timing.cron, start)
    expected = [int(theirs.get_next(float) * 1000) for _ in range(5)]
    assert next_firings(timing, int(start.timestamp() * 1000), 5) == expected


@given(
    st.integers(1_000, 10**9), st.integers(0, 10**12), st.integers(0, 2 * 10**12), st.integers(1, 9)
)
def test_an_interval_is_a_row_of_multiples(interval_ms, anchor_ms, after_ms, count):
    timing = Timing(EVERY, interval_ms=interval_ms, anchor_ms=anchor_ms)
    found = next_firings(timing, after_ms, count)
    assert found == list(range(found[0], found[0] + count * interval_ms, interval_ms))
    assert found[0] > after_ms
    assert found[0] >= anchor_ms
    assert (found[0] - anchor_ms) % interval_ms == 0
    assert found[0] == anchor_ms or found[0] - interval_ms <= after_ms
