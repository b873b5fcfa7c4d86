"""Rates follow from looking twice."""

from penstock.api import rates
from penstock.api.rates import Rates


def test_the_first_look_has_no_rate():
    assert Rates().look("g", 10, 0.0) is None


def test_the_second_look_tells_what_was_done_meanwhile():
    found = Rates()
    found.look("g", 10, 0.0)
    assert found.look("g", 30, 4.0) == 5.0


def test_a_look_right_after_another_compares_with_an_older_one():
    """Two people look in turn."""
    found = Rates()
    found.look("g", 0, 0.0)
    assert found.look("g", 0, 0.1) is None
    assert found.look("g", 20, 2.0) == 10.0
    assert found.look("g", 25, 2.5) == 10.0, "since the look at 0 s"


def test_what_was_seen_long_ago_says_nothing():
    found = Rates()
    found.look("g", 0, 0.0)
    assert found.look("g", 99, rates.SINCE_S_MAX + 1) is None


def test_a_group_that_was_moved_back_begins_anew():
    found = Rates()
    found.look("g", 100, 0.0)
    assert found.look("g", 5, 2.0) is None
    assert found.look("g", 7, 4.0) == 1.0


def test_what_is_not_looked_at_any_more_is_forgotten(monkeypatch):
    monkeypatch.setattr(rates, "KEPT_MAX", 2)
    found = Rates()
    for name in "abc":
        found.look(name, 0, 0.0)
    assert found.look("a", 9, 2.0) is None
    assert found.look("c", 8, 2.0) == 4.0
