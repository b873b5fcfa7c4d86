"""When leases end: every lease once, at its time, and no more entries than there may be."""

import pytest

from penstock.core.lease_deadlines import VOID_MAX, LeaseDeadlines
from penstock.core.pending import Pending


@pytest.fixture
def leases():
    return {}


@pytest.fixture
def pending():
    return {}


@pytest.fixture
def expiries(leases, pending):
    return LeaseDeadlines(leases, pending)


def lease(expiries, first, count, until_ms):
    for number in range(first, first + count):
        expiries._leases[number] = number
        expiries._pending[number] = Pending(b"", 0, 1, number, until_ms)
    expiries.add(until_ms, first, first + count)


def extend(expiries, number, until_ms):
    expiries._pending[number].until_ms = until_ms
    expiries.add(until_ms, number, number + 1)


def test_leases_that_were_settled_do_not_end(expiries, leases, pending):
    lease(expiries, 0, 3, 100)
    del leases[0], pending[0]
    assert expiries.next_ms() == 100
    assert expiries.take(100, 10) == [1, 2]
    assert expiries.next_ms() is None


def test_a_lease_that_was_extended_twice_to_one_time_ends_once(expiries):
    lease(expiries, 0, 1, 100)
    extend(expiries, 0, 200)
    extend(expiries, 0, 200)
    assert expiries.take(150, 10) == []
    assert expiries.take(200, 10) == [0]


def test_leases_extended_for_ever_leave_no_more_than_some_void_entries(expiries):
    lease(expiries, 0, 100, 100)
    for turn in range(10_000):
        extend(expiries, turn % 100, 1 << 48)
    assert len(expiries) <= 2 * 100 + VOID_MAX
    assert sorted(expiries.take(1 << 48, 1_000)) == list(range(100))


def test_no_more_end_at_once_than_is_enough(expiries):
    for first in range(0, 100, 10):
        lease(expiries, first, 10, 100)
    assert expiries.take(100, 25) == list(range(25))
    assert expiries.take(100, 1_000) == list(range(25, 100))


def test_the_same_leases_end_first_after_a_restart(expiries):
    """Then each has its own entry; nodes of a cluster must agree either way."""
    for first in range(0, 100, 10):
        lease(expiries, first, 10, 100 + first % 3)
    extend(expiries, 95, 101)
    again = LeaseDeadlines(expiries._leases, expiries._pending)
    again.renew()
    for enough in (1, 7, 25, 100):
        assert expiries.take(102, enough) == again.take(102, enough)


def test_leases_settled_in_bulk_are_not_passed_one_by_one(expiries, leases, pending):
    for number in range(5_000):
        lease(expiries, number, 1, 100)
    lease(expiries, 9_000, 1, 50)
    for number in range(5_000):
        del leases[number], pending[number]
    assert expiries.next_ms() == 50
    assert len(expiries) == 1
    extend(expiries, 9_000, 9_999)
    assert expiries.next_ms() == 9_999
