"""When a binary client pings, gives up and tries again; no clock is looked at."""

from math import inf

import pytest

from penstock.client import Backoff
from penstock.client.binary.timing import PingTimer, Retry


def test_pauses_double_up_to_the_longest_and_are_at_most_half_shorter():
    backoff = Backoff(first_s=1, longest_s=10)
    assert [backoff.pause_s(attempt, 0) for attempt in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.pause_s(1, 0.5) == 1.5
    assert backoff.pause_s(10_000, 1) == 5


def test_attempts_go_on_until_it_is_time_to_give_up_and_start_anew_after_a_success():
    retry = Retry(Backoff(first_s=1, longest_s=100, give_up_s=10))
    assert [retry.next_at(now, 0) for now in (100, 101, 103)] == [101, 103, 107]
    assert retry.next_at(107, 0) is None
    retry.succeeded()
    assert retry.next_at(200, 0) == 201


def test_a_ping_is_due_when_nothing_was_sent_or_nothing_was_heard_for_an_interval():
    watch = PingTimer(60, now=0)
    watch.heard(50)
    assert (watch.next_at, watch.ping_due(59), watch.ping_due(60)) == (60, False, True)
    assert not watch.ping_due(60)
    watch.heard(61)
    watch.sent(100)
    assert (watch.ping_due(120), watch.ping_due(121)) == (False, True)


def test_a_connection_is_lost_after_three_intervals_without_any_byte():
    watch = PingTimer(60, now=0)
    assert watch.ping_due(60)
    watch.sent(100)
    assert watch.ping_due(120)
    assert (watch.is_lost(179), watch.is_lost(180)) == (False, True)
    watch.heard(179)
    assert not watch.is_lost(1_000)


def test_whoever_did_not_listen_cannot_say_that_the_broker_was_silent():
    watch = PingTimer(60, now=0)
    assert not watch.is_lost(100_000)
    assert watch.ping_due(100_000)
    assert (watch.is_lost(100_119), watch.is_lost(100_120)) == (False, True)


@pytest.mark.parametrize("now", [0, 1e9])
def test_without_an_interval_there_are_no_pings(now):
    watch = PingTimer(0, now=0)
    assert (watch.next_at, watch.ping_due(now), watch.is_lost(now)) == (inf, False, False)
