"""A storm does not reach the disk: the first records of a second, then sums."""

from penstock.node.client_events import PER_SECOND_MAX, _bounded
from penstock.obs.events import DROPPED, ENDED, Event


def event(number, ms=0, kind=ENDED, reason="connection_lost", count=1):
    return Event(number, ms, kind, reason, b"client-%d" % number, count=count)


def test_a_few_records_are_written_as_they_are():
    few = [event(number) for number in range(PER_SECOND_MAX)]
    assert list(_bounded(few)) == few


def test_of_a_storm_the_rest_is_summed_up_by_reason():
    many = [event(number) for number in range(PER_SECOND_MAX + 500)]
    many += [event(9_000, kind=DROPPED, reason="expired", count=7)]
    written = list(_bounded(many))
    assert len(written) == PER_SECOND_MAX + 2
    assert [(one.reason, one.count, one.client) for one in written[-2:]] == [
        ("connection_lost", 500, b""),
        ("expired", 7, b""),
    ]


def test_each_second_has_its_own_bound():
    many = [event(number, ms=number // PER_SECOND_MAX * 1_000) for number in range(600)]
    assert len(list(_bounded(many))) == 600
