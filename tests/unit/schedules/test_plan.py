"""What is published for a schedule that is due, in time or late."""

from penstock.model.schedule import EVERY, ONCE, Timing
from penstock.schedules.plan import GRACE_MS, MISSED_MAX, plan

EACH_SECOND = Timing(EVERY, interval_ms=1_000)
EACH_MINUTE = Timing(EVERY, interval_ms=60_000)
MINUTE = 60_000


def planned(timing: Timing, policy: str, due_ms: int, now_ms: int) -> tuple[object, ...]:
    made = plan(timing, policy, due_ms, now_ms)
    return made.firings, made.skipped, made.next_ms


def test_a_firing_in_time_is_one_message():
    assert planned(EACH_SECOND, "once", 1_000, 1_003) == ((1_000,), 0, 2_000)


def test_what_is_late_by_less_than_the_grace_is_made_one_by_one_whatever_the_policy():
    for policy in ("skip", "once", "all"):
        assert planned(EACH_SECOND, policy, 1_000, 3_999) == ((1_000, 2_000, 3_000), 0, 4_000)


def test_missed_firings_are_skipped_one_or_all():
    now = 4 * MINUTE + GRACE_MS
    assert plan(EACH_MINUTE, "skip", MINUTE, now).last_ms == 4 * MINUTE
    assert planned(EACH_MINUTE, "skip", MINUTE, now) == ((), 4, 5 * MINUTE)
    assert planned(EACH_MINUTE, "once", MINUTE, now) == ((4 * MINUTE,), 3, 5 * MINUTE)
    each = (MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE)
    assert planned(EACH_MINUTE, "all", MINUTE, now) == (each, 0, 5 * MINUTE)


def test_what_is_missed_and_what_is_late_are_told_apart():
    missed_then_late = planned(EACH_SECOND, "skip", 1_000, 8_000)
    assert missed_then_late == ((4_000, 5_000, 6_000, 7_000, 8_000), 3, 9_000)


def test_no_more_than_a_bound_is_made_up_for_after_a_long_time():
    made_up = plan(EACH_MINUTE, "all", MINUTE, 1_000_000 * MINUTE + 1)
    assert len(made_up.firings) == MISSED_MAX + 1  # and the one that is due now
    assert made_up.firings[-1] == 1_000_000 * MINUTE
    assert made_up.next_ms == 1_000_001 * MINUTE


def test_a_firing_that_is_missed_once_and_for_all_is_over():
    assert planned(Timing(ONCE, at_ms=1_000), "skip", 1_000, 1_000 + GRACE_MS) == ((), 1, 0)
    assert planned(Timing(ONCE, at_ms=1_000), "once", 1_000, 10**9) == ((1_000,), 0, 0)
