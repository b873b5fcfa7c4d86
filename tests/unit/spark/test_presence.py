"""The report about a device follows from its messages and from time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.presence import (
    UNNUMBERED,
    DevicePresence,
    Event,
    PresenceTimeouts,
    due_ms,
    elapsed,
    seen,
)

LIMITS = PresenceTimeouts(silent_ms=100, forget_ms=1000)


def heard(*readings, known=None):
    return seen(known, [(r, UNNUMBERED) if isinstance(r, int) else r for r in readings], LIMITS)


def test_a_device_that_is_heard_in_time_is_no_news():
    assert heard(0, 99, 198) == (DevicePresence(198), [])


def test_a_device_that_is_not_heard_is_silent_once():
    presence, told = elapsed(DevicePresence(50), 150, LIMITS)
    assert told == [Event("silent", 150, 50)]
    assert elapsed(presence, 500, LIMITS) == (presence, [])


def test_a_device_is_not_silent_before_its_time():
    assert elapsed(DevicePresence(50), 149, LIMITS) == (DevicePresence(50), [])


def test_a_device_that_comes_back_is_told_with_how_long_it_was_away():
    known = DevicePresence(50, is_silent=True)
    assert heard(400, known=known) == (DevicePresence(400), [Event("back", 400, 50)])


def test_a_device_that_was_told_silent_is_back_with_whatever_comes_next():
    """Also with what the broker took before it was overdue, and was read after."""
    assert heard(120, known=DevicePresence(50, is_silent=True))[1] == [Event("back", 120, 50)]


def test_a_silence_that_nobody_noticed_is_told_with_the_return():
    """Input comes before timers: in a batch with both, the timer never fires."""
    told = heard(0, 250)[1]
    assert told == [Event("silent", 100, 0), Event("back", 250, 0)]


def test_a_silent_device_is_forgotten_in_the_end_and_then_new():
    assert elapsed(DevicePresence(50, is_silent=True), 1050, LIMITS) == (None, [])
    assert elapsed(DevicePresence(50), 5000, LIMITS) == (None, [Event("silent", 150, 50)])
    assert heard(9000) == (DevicePresence(9000), [])


def test_a_reading_that_is_older_than_what_is_known_changes_no_time():
    assert heard(70, known=DevicePresence(80)) == (DevicePresence(80), [])


def test_numbers_that_are_missing_are_a_gap():
    presence, told = heard((0, 5), (1, 6), (2, 9))
    assert told == [Event("gap", 2, 1, 7, 8)]
    assert presence == DevicePresence(2, 9)


def test_a_number_that_was_passed_is_a_repetition_and_no_news():
    assert heard((0, 5), (1, 6), (2, 5), (3, 7)) == (DevicePresence(3, 7), [])


@pytest.mark.parametrize("first", [0, 1])
def test_a_device_that_begins_anew_has_no_gap(first):
    assert heard((0, 500), (1, first), (2, first + 1)) == (DevicePresence(2, first + 1), [])


def test_the_first_number_of_a_device_is_no_gap():
    assert heard(0, (1, 5)) == (DevicePresence(1, 5), [])


def test_readings_without_a_number_do_not_forget_the_last():
    assert heard((0, 5), 1, (2, 7)) == (DevicePresence(2, 7), [Event("gap", 2, 1, 6, 6)])


@given(
    st.lists(st.integers(0, 3000), min_size=1).map(sorted),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_however_time_is_looked_at_the_same_is_told(times, looks):
    """Whether a silence is noticed by a timer or by the message after it makes no difference."""
    limits = PresenceTimeouts(100, 10_000)
    at_once = seen(None, [(at, UNNUMBERED) for at in times], limits)[1]
    presence, told = None, []
    for at in times:
        for look in sorted(look for look in looks if look < at):
            if presence is not None and look >= presence.last_ms:
                presence, more = elapsed(presence, look, limits)
                told += more
        presence, more = seen(presence, [(at, UNNUMBERED)], limits)
        told += more
    assert told == at_once


@given(st.integers(0, 100), st.booleans())
def test_nothing_happens_before_it_is_due(last_ms, is_silent):
    presence = DevicePresence(last_ms, is_silent=is_silent)
    due = due_ms(presence, LIMITS)
    assert elapsed(presence, due - 1, LIMITS) == (presence, [])
    assert elapsed(presence, due, LIMITS) != (presence, [])
