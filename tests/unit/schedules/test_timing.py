"""When schedules fire: days with 23 and 25 hours, intervals, and what is refused."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from penstock.model.schedule import CRON, EVERY, ONCE, Timing
from penstock.schedules.timing import TIME_MS_MAX, check, in_words, local_ms, next_firings, next_ms


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def firings(timing: Timing, after: str, count: int = 4) -> list[str]:
    found = next_firings(timing, ms(after), count)
    return [datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d %H:%M:%S") for at in found]


def cron(text: str, timezone: str = "Europe/Paris") -> Timing:
    return Timing(CRON, cron=text, timezone=timezone)


# Paris: on 29 March 2026 02:00 becomes 03:00 (01:00 UTC), on 25 October 03:00 becomes 02:00
# (01:00 UTC).


def test_a_daily_job_keeps_its_local_time_over_a_change():
    assert firings(cron("0 8 * * *"), "2026-03-28 00:00", 2) == ["03-28 07:00:00", "03-29 06:00:00"]


def test_a_daily_job_in_the_skipped_hour_fires_when_the_clock_changes():
    found = firings(cron("30 2 * * *"), "2026-03-28 00:00", 3)
    assert found == ["03-28 01:30:00", "03-29 01:00:00", "03-30 00:30:00"]


def test_several_firings_in_the_skipped_hour_are_one():
    found = firings(cron("0,20,40 2,3 * * *"), "2026-03-29 00:00", 3)
    assert found == ["03-29 01:00:00", "03-29 01:20:00", "03-29 01:40:00"]


def test_a_daily_job_in_the_hour_that_comes_twice_fires_the_first_time():
    found = firings(cron("30 2 * * *"), "2026-10-24 22:00", 2)
    assert found == ["10-25 00:30:00", "10-26 01:30:00"]


def test_asked_between_the_two_passes_a_daily_job_fires_on_the_next_day():
    assert firings(cron("30 2 * * *"), "2026-10-25 01:10", 1) == ["10-26 01:30:00"]


def test_every_ten_minutes_is_every_ten_minutes_over_both_changes():
    timing = cron("*/10 * * * *")
    for day in ("2026-03-29", "2026-10-25"):
        found = next_firings(timing, ms(f"{day} 00:00"), 18)
        assert {later - earlier for earlier, later in pairwise(found)} == {600_000}


def test_a_change_of_half_an_hour_is_followed():
    # Lord Howe: on 4 October 2026 02:00 becomes 02:30, at 15:30 UTC of the day before
    found = firings(cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-02 16:00", 2)
    assert found == ["10-03 15:30:00", "10-04 15:15:00"]


def test_a_day_that_a_zone_left_out_is_made_up_for_at_its_end():
    # Samoa went from 29 to 31 December 2011 at 10:00 UTC
    found = firings(cron("0 12 * * *", "Pacific/Apia"), "2011-12-29 00:00", 3)
    assert found == ["12-29 22:00:00", "12-30 10:00:00", "12-30 22:00:00"]


def test_an_interval_counts_from_its_anchor():
    timing = Timing(EVERY, interval_ms=90_000, anchor_ms=ms("2026-01-01 00:00"))
    assert firings(timing, "2025-12-31 00:00", 2) == ["01-01 00:00:00", "01-01 00:01:30"]
    assert firings(timing, "2026-01-01 00:01:30", 1) == ["01-01 00:03:00"]


def test_once_is_once():
    timing = Timing(ONCE, at_ms=5_000)
    assert next_firings(timing, 0, 5) == [5_000]
    assert next_ms(timing, 5_000) == 0


def test_a_local_time_is_of_its_zone_and_one_with_an_offset_of_that():
    local = datetime.fromisoformat("2026-07-01 08:00")
    assert local_ms(local, "Europe/Paris") == ms("2026-07-01 06:00")
    assert local_ms(datetime.fromisoformat("2026-07-01 08:00+05:00"), "Europe/Paris") == ms(
        "2026-07-01 03:00"
    )


@pytest.mark.parametrize(
    ("timing", "fault"),
    [
        (Timing(EVERY, interval_ms=999, anchor_ms=0), "1 second to 366 days"),
        (Timing(EVERY, interval_ms=10**12, anchor_ms=0), "1 second to 366 days"),
        (Timing(EVERY, interval_ms=1_000, anchor_ms=TIME_MS_MAX + 1), "1970 and 3000"),
        (Timing(ONCE, at_ms=-1), "1970 and 3000"),
        (Timing(CRON, cron="* * * * *", timezone="Europe/Pariss"), "no time zone 'Europe/Pariss'"),
        (Timing(CRON, cron="* * * * *", timezone="../../etc/passwd"), "no time zone"),
        (Timing(CRON, cron="* * * * *", timezone="Europe"), "no time zone"),
        (Timing(CRON, cron="* * * * *", timezone=""), "no time zone"),
        (Timing(CRON, cron="* * * * *", timezone="x" * 100_000), "no time zone"),
        (Timing(CRON, cron="* * * *"), "five fields"),
        (Timing("daily"), "at a time, every so often, or by a cron expression"),
    ],
)
def test_a_timing_that_cannot_be_is_refused(timing, fault):
    with pytest.raises(ValueError, match=fault.replace("(", "\\(")):
        check(timing)


def test_a_timing_is_told_in_words():
    assert in_words(Timing(EVERY, interval_ms=1_500)) == "every 1.5 s"
    assert in_words(cron("@daily")) == "cron @daily, Europe/Paris"
