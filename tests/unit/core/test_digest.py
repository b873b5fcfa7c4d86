"""Digests of the state: the same for the same history, and the part that differs is named."""

from broker_bench import Bench

from penstock.core.commands import GroupMade, TopicConfigured
from penstock.core.digest import digests_of


def bench():
    made = Bench()
    made.open("ann")
    made.subscribe("ann", (b"a/#", 1))
    made.publish(b"a/b", b"1", retain=True)
    made.apply(TopicConfigured(b"jobs", keep=True))
    made.apply(GroupMade(b"jobs", b"g", 0, 5_000))
    return made


def differing(one, other):
    first, second = digests_of(one.broker), digests_of(other.broker)
    assert first.keys() == second.keys()
    return {part for part in first if first[part] != second[part]}


def test_same_history_gives_the_same_digests():
    assert differing(bench(), bench()) == set()


def test_the_entry_that_rows_are_of_does_not_matter():
    one, other = bench(), bench()
    other.broker.begin(other.broker.index + 7, other.sequence)
    assert differing(one, other) == set()


def test_the_order_in_which_names_came_does_not_matter():
    one, other = bench(), bench()
    for made, names in ((one, (b"x", b"y")), (other, (b"y", b"x"))):
        for name in names:
            made.apply(TopicConfigured(name, keep=True))
    assert differing(one, other) == set()


def test_what_differs_is_named():
    changes = {
        "sessions": lambda made: made.open("bob"),
        "retained": lambda made: made.publish(b"c", b"2", retain=True),
        "topics": lambda made: made.apply(TopicConfigured(b"jobs", keep=False)),
        "groups": lambda made: made.apply(GroupMade(b"jobs", b"h", 0, 5_000)),
    }
    for part, change in changes.items():
        other = bench()
        change(other)
        assert part in differing(bench(), other), part
