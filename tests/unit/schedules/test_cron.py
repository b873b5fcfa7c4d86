"""Cron expressions: what is accepted, what it means, what the errors say."""

import re
from datetime import datetime

import pytest

from penstock.schedules.cron import parse_cron


def first(text: str, start: str) -> str:
    found = parse_cron(text).first_from(datetime.fromisoformat(start))
    return "" if found is None else found.isoformat(" ", "minutes")


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("* * * * *", "2026-11-18 10:00:01", "2026-11-18 10:01"),
        ("*/15 * * * *", "2026-11-18 10:46", "2026-11-18 11:00"),
        ("5/20 * * * *", "2026-11-18 10:06", "2026-11-18 10:25"),
        ("0 8-18/5 * * *", "2026-11-18 14:00", "2026-11-18 18:00"),
        ("30 7 * * mon-fri", "2026-11-21 00:00", "2026-11-23 07:30"),  # from a Saturday
        ("0 0 * * sat-sun", "2026-11-22 00:01", "2026-11-28 00:00"),
        ("0 0 * * 7", "2026-11-18 00:00", "2026-11-22 00:00"),
        ("0 0 29 feb *", "2026-03-01 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2097-01-01 00:00", "2104-02-29 00:00"),  # 2100 has none
        ("0 0 13 * fri", "2026-11-18 00:00", "2026-11-20 00:00"),  # either of the two
        ("0 0 */2 * mon", "2026-11-18 00:00", "2026-11-23 00:00"),  # both, as * is no restriction
        ("59 23 31 12 *", "2026-12-31 23:59", "2026-12-31 23:59"),
        ("1,2 3,4 5 6 *", "2026-11-18 00:00", "2027-06-05 03:01"),
        ("@hourly", "2026-11-18 10:01", "2026-11-18 11:00"),
        ("@weekly", "2026-11-18 10:01", "2026-11-22 00:00"),
        ("@YEARLY", "2026-11-18 10:01", "2027-01-01 00:00"),
        ("0 0 1 JAN,Jul *", "2026-02-01 00:00", "2026-07-01 00:00"),
    ],
)
def test_the_first_match_is_found(text, start, expected):
    assert first(text, start) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "five fields, not 0"),
        ("* * * *", "five fields, not 4"),
        ("* * * * * *", "five fields, not 6"),
        ("60 * * * *", "minute 60: it is 0 to 59"),
        ("* 24 * * *", "hour 24"),
        ("* * 0 * *", "day of month 0"),
        ("* * * 13 *", "month 13"),
        ("* * * * 8", "day of week 8"),
        ("*/0 * * * *", "a step is at least 1"),
        ("5-1 * * * *", "ends before it begins"),
        ("1,,2 * * * *", "'' is no number"),
        ("-1 * * * *", "'' is no number"),
        ("٣ * * * *", "is no number"),  # a digit, but not one of ASCII
        ("* * * mon *", "'mon' is no number"),
        ("0 0 30 2 *", "never fires"),
        ("@reboot", "'@reboot' is none of @yearly"),
        ("1" * 600 + " * * * *", "at most 512 bytes"),
        ("99999999 * * * *", "is no number"),
    ],
)
def test_what_is_wrong_is_said(text, fault):
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse_cron(text)
