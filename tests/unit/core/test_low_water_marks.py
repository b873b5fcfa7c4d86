"""Up to where all groups of a topic are done: the heap says what asking each would say."""

from random import Random

import pytest

from penstock.core.commands import Claimed, GroupCommitted, GroupGone, GroupMade, GroupMoved, Leased
from penstock.core.group import Group
from penstock.core.groups import Groups

TOPIC = b"jobs"


def asked_of_all(groups):
    known = groups.by_topic.get(TOPIC, {}).values()
    return min((min(group.next, *group.pending, 1_000) for group in known), default=0)


def leased(groups, name, start, end):
    group = groups.get(TOPIC, name)
    shares = [(b"", 1_000, [(0, start, end)])]
    return Leased(TOPIC, name, group.version, 0, [end], 0, groups.next_lease, 0, shares, [], [])


def some_command(groups, random):
    name = b"g%d" % random.randrange(5)
    if groups.get(TOPIC, name) is None:
        return GroupMade(TOPIC, name, random.randrange(100))
    match random.randrange(5):
        case 0:
            return GroupMoved(TOPIC, name, random.randrange(100))
        case 1:
            return GroupCommitted(TOPIC, name, random.randrange(100), 0)
        case 2:
            return GroupGone(TOPIC, name)
        case 3:
            offsets = [random.randrange(100)]
            return Claimed(TOPIC, name, b"c", offsets, 0, 0, 0, None, counts=True, forces=True)
        case _:
            start = groups.get(TOPIC, name).next
            return leased(groups, name, start, start + random.randrange(1, 9))


@pytest.mark.parametrize("seed", range(20))
def test_the_floor_is_the_lowest_of_all_groups_whatever_happens_to_them(seed):
    random, groups = Random(seed), Groups()
    for index in range(300):
        groups.apply(some_command(groups, random), index, recovering=False)
        if random.randrange(3):
            assert groups.floor(TOPIC) == asked_of_all(groups)
        assert groups.count == len(groups.by_topic.get(TOPIC, {}))


def test_nothing_is_done_of_a_topic_without_groups():
    assert Groups().floor(TOPIC) == 0
    assert Groups().floor(TOPIC, first=7) == 7, "but what is gone"


def test_a_group_that_starts_later_releases_nothing_of_what_came_before():
    groups = Groups()
    made(groups, GroupMade(TOPIC, b"audit", 3, since=3))
    groups.apply(GroupCommitted(TOPIC, b"audit", 9, 0), 2, recovering=False)
    assert groups.floor(TOPIC) == 0
    assert groups.floor(TOPIC, first=2) == 2
    assert groups.floor(TOPIC, first=3) == 9, "retention took what it was not entitled to"


def test_what_came_before_a_later_group_is_done_when_a_group_from_the_beginning_did_it():
    groups = Groups()
    made(groups, GroupMade(TOPIC, b"audit", 3, since=3), GroupMade(TOPIC, b"work", 0))
    groups.apply(GroupCommitted(TOPIC, b"audit", 9, 0), 3, recovering=False)
    groups.apply(GroupCommitted(TOPIC, b"work", 2, 0), 4, recovering=False)
    assert (groups.floor(TOPIC), groups.reach(TOPIC)) == (2, 2)
    groups.apply(GroupCommitted(TOPIC, b"work", 4, 0), 5, recovering=False)
    assert (groups.floor(TOPIC), groups.reach(TOPIC)) == (4, 9)


def test_readers_hold_up_and_finish_nothing():
    groups = Groups()
    made(groups, GroupMade(TOPIC, b"spark", 5, reader=True))
    assert groups.floor(TOPIC) == 0
    made(groups, GroupMade(TOPIC, b"work", 8))
    assert groups.floor(TOPIC) == 5


def test_dead_letters_are_done_when_they_were_sent_back_or_dropped_whoever_else_looks():
    groups, letters = Groups(), b"$dlq/jobs/work"
    made(groups, GroupMade(letters, b"curious", 9))
    assert groups.floor(letters) == 0
    made(groups, GroupMade(letters, b"redrive", 4))
    assert groups.floor(letters) == 4


def made(groups, *commands):
    for command in commands:
        assert groups.apply(command, 1, recovering=False)


def test_making_a_group_beside_many_asks_few_of_them(monkeypatch):
    groups = Groups()
    for number in range(1_000):
        groups.apply(GroupMade(TOPIC, b"%d" % number, 7), number, recovering=False)
    assert groups.floor(TOPIC) == 7
    asked = []
    oldest = Group.oldest_unsettled.fget
    monkeypatch.setattr(
        Group, "oldest_unsettled", property(lambda group: asked.append(group) or oldest(group))
    )
    for number in range(1_000, 1_100):
        groups.apply(GroupMade(TOPIC, b"%d" % number, 7), number, recovering=False)
        assert groups.floor(TOPIC) == 7
    assert len(asked) < 500


def test_what_was_handed_out_again_after_a_move_back_is_not_done():
    groups = Groups()
    groups.apply(GroupMade(TOPIC, b"g", 50), 1, recovering=False)
    assert groups.get(TOPIC, b"g").oldest_unsettled == 50
    groups.apply(GroupMoved(TOPIC, b"g", 0), 2, recovering=False)
    groups.apply(leased(groups, b"g", 0, 60), 3, recovering=False)
    assert groups.get(TOPIC, b"g").oldest_unsettled == 0
