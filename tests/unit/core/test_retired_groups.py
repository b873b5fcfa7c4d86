"""What is done stays done when the group that did it is gone; what is not waits for the next."""

import pytest

from penstock.core.commands import (
    GroupCommitted,
    GroupGone,
    GroupMade,
    GroupMoved,
    Leased,
    LeasesReturned,
    LeasesSettled,
)
from penstock.core.groups import Groups, row_key
from penstock.core.retired_groups import RETIRED_NAME

T = b"jobs"


class Clerk:
    """Applies commands, and writes rows down as a checkpoint does."""

    def __init__(self):
        self.groups = Groups()
        self.index = 0
        self.entries = []
        self.rows = {}

    def do(self, command):
        self.index += 1
        self.entries.append((self.index, command))
        return self.groups.apply(command, self.index, recovering=False)

    def group(self, name):
        return self.groups.get(T, name)

    def work(self, name, offsets, done, priority=0):
        """Hand out offsets, and have some of them done; all before have a lower priority."""
        group, first = self.group(name), self.groups.next_lease
        runs = [(priority, offset, offset + 1) for offset in offsets]
        heads = [max(offsets) + 1 if lane >= priority else 0 for lane in range(8)]
        leased = Leased(T, name, group.version, 0, heads, 0, first, 0, [(b"", 99, runs)])
        self.do(leased)
        for place, offset in enumerate(offsets):
            if offset in done:
                self.do(LeasesSettled(T, name, [(first + place, first + place + 1)]))

    def undone(self, name, end, priority=0):
        group = self.group(name)
        ahead = set(range(group.heads[priority], end))
        return sorted({o for o in group.pending if o < end} | ahead)

    def write(self, *names):
        for name in names:
            for table, key, row in self.groups.rows(row_key(T, name), self.index):
                self.rows[table, key] = row

    def recovered(self):
        groups = Groups()
        for table, load in (("groups", groups.load), ("pending", groups.load_chunk)):
            for (of, key), row in self.rows.items():
                if of == table and row is not None:
                    load(key, row)
        groups.end_loading()
        for index, command in self.entries:
            groups.apply(command, index, recovering=True)
        return groups


@pytest.fixture
def clerk():
    return Clerk()


def test_the_next_group_gets_what_the_last_has_not_done(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.work(b"g", range(6), done={0, 1, 3, 5})
    clerk.do(GroupGone(T, b"g", 0))
    assert clerk.groups.floor(T) == 2
    clerk.do(GroupMade(T, b"h", 2, rest=True))
    assert clerk.undone(b"h", 8) == [2, 4, 6, 7]
    assert clerk.group(b"h").returned.offsets() == [2, 4]
    assert clerk.group(b"h").pending[2].deliveries == 0, "it is new to this group"


def test_priorities_are_remembered(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.work(b"g", [5, 6], done={5}, priority=7)
    clerk.do(GroupGone(T, b"g", 0))
    clerk.do(GroupMade(T, b"h", 0, rest=True))
    assert clerk.undone(b"h", 9, priority=7) == [6, 7, 8]
    assert clerk.undone(b"h", 3) == [0, 1, 2]
    assert clerk.groups.floor(T) == 0


def test_messages_that_wait_for_their_time_wait_on(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.work(b"g", [0, 1], done=())
    clerk.do(LeasesReturned(T, b"g", [(0, 1)], 50, delay_ms=20))
    clerk.do(GroupGone(T, b"g", 0))
    clerk.do(GroupMade(T, b"h", 0, rest=True))
    assert clerk.group(b"h").delayed == {0: 70}
    assert clerk.group(b"h") in clerk.groups.timed


def test_a_group_made_at_an_offset_gets_everything_from_there(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.do(GroupCommitted(T, b"g", 9, 0))
    clerk.do(GroupGone(T, b"g", 0))
    clerk.do(GroupMade(T, b"h", 3, since=3))
    assert clerk.undone(b"h", 10) == [3, 4, 5, 6, 7, 8, 9]
    assert clerk.groups.floor(T) == 3
    clerk.do(GroupGone(T, b"h", 9))
    assert clerk.groups.floor(T) == 9, "what was done once is done"


def test_two_groups_that_are_gone_have_done_what_either_did(clerk):
    for name in (b"g", b"h"):
        clerk.do(GroupMade(T, name, 0, rest=True))
    clerk.work(b"g", range(6), done={0, 1, 4})
    clerk.work(b"h", range(4), done={0, 2})
    clerk.do(GroupGone(T, b"g", clerk.groups.reach(T)))
    clerk.do(GroupGone(T, b"h", clerk.groups.reach(T)))
    clerk.do(GroupMade(T, b"i", 0, rest=True))
    assert clerk.undone(b"i", 7) == [3, 5, 6]


def test_a_group_that_started_behind_what_waits_leaves_it_waiting(clerk):
    clerk.do(GroupMade(T, b"audit", 3, since=3))
    clerk.do(GroupCommitted(T, b"audit", 9, 0))
    clerk.do(GroupGone(T, b"audit", clerk.groups.reach(T)))
    assert clerk.groups.floor(T) == 0
    clerk.do(GroupMade(T, b"work", 0, rest=True))
    assert clerk.undone(b"work", 9) == [*range(9)]


def test_what_a_later_group_has_done_counts_where_others_did_all_before(clerk):
    clerk.do(GroupMade(T, b"work", 0, rest=True))
    clerk.do(GroupMade(T, b"audit", 3, since=3))
    clerk.do(GroupCommitted(T, b"work", 4, 0))
    clerk.do(GroupCommitted(T, b"audit", 9, 0))
    clerk.do(GroupGone(T, b"audit", clerk.groups.reach(T)))
    clerk.do(GroupGone(T, b"work", clerk.groups.reach(T)))
    assert clerk.groups.floor(T) == 9


def test_a_group_that_is_moved_back_and_deleted_revives_nothing(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.do(GroupCommitted(T, b"g", 9, 0))
    clerk.do(GroupMoved(T, b"g", 2, 0))
    assert clerk.groups.floor(T) == 2, "it does them over again"
    clerk.do(GroupGone(T, b"g", clerk.groups.reach(T)))
    assert clerk.groups.floor(T) == 9


def test_a_log_remembers_nothing(clerk):
    clerk.do(GroupMade(T, b"g", 0))
    clerk.do(GroupCommitted(T, b"g", 9, 0))
    clerk.do(GroupGone(T, b"g"))
    assert clerk.groups.floor(T) == 0
    assert not clerk.groups.retired.by_topic


def test_a_deleted_topic_has_no_remainder(clerk):
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.work(b"g", range(6), done={0, 3})
    clerk.do(GroupGone(T, b"g", 0))
    clerk.write(b"g", RETIRED_NAME)
    clerk.groups.forget_topic(T, clerk.index, recovering=False)
    clerk.write(*[key[4 + len(T) :] for key in clerk.groups.dirty if key])
    assert clerk.groups.floor(T) == 0
    assert not any(row for (_, key), row in clerk.rows.items() if key)


@pytest.mark.parametrize("written", ["nothing", "gone", "heir", "remainder", "all", "before"])
def test_a_crash_between_two_rows_changes_nothing(clerk, written):
    """Whichever rows were written last: a start gives the same groups."""
    clerk.do(GroupMade(T, b"g", 0, rest=True))
    clerk.work(b"g", range(6), done={0, 1, 3, 5})
    if written != "nothing":
        clerk.write(b"g")
    clerk.do(GroupGone(T, b"g", 0))
    if written in {"gone", "all", "before"}:
        clerk.write(b"g")
    clerk.do(GroupMade(T, b"h", 2, rest=True))
    if written in {"heir", "all"}:
        clerk.write(b"h")
    if written in {"remainder", "all"}:
        clerk.write(RETIRED_NAME)
    clerk.work(b"h", [2], done={2})
    groups = clerk.recovered()
    assert sorted(groups.get(T, b"h").pending) == sorted(clerk.group(b"h").pending) == [4]
    assert groups.get(T, b"h").heads == clerk.group(b"h").heads
    assert groups.get(T, b"g") is None
    assert groups.floor(T) == clerk.groups.floor(T) == 4
    assert groups.retired.low(T) == clerk.groups.retired.low(T)
    assert groups.retired.by_topic[T].pending == {}
