"""A filter counts once, whether it is granted, in the session, or both."""

from penstock.doors.mqtt.subscribing import PendingFilters


def test_a_granted_filter_counts_until_the_session_has_it():
    pending = PendingFilters()
    pending.add(1, [b"a", b"b"])
    assert pending.beside({}) == 2
    assert pending.beside({b"a": 1}) == 1
    assert pending.beside({b"a": 1, b"b": 1}) == 0


def test_a_filter_that_was_answered_counts_no_more_though_it_was_unsubscribed_at_once():
    pending = PendingFilters()
    pending.add(1, [b"a"])
    pending.add(2, [b"b"])
    pending.answered(1)
    assert pending.beside({}) == 1


def test_an_answer_to_what_the_session_had_already_changes_nothing():
    pending = PendingFilters()
    pending.add(1, [b"a"])
    pending.add(2, [b"b"])
    assert pending.beside({b"a": 1}) == 1
    pending.answered(1)
    assert pending.beside({b"a": 1}) == 1
