"""Leases interleaved with other commands: cases found by the machine of ``test_queue_model``.

Between choosing messages and handing them out there is a commit. Whatever happens to the group in
that time, no worker may get what another has, and no message may be skipped forever.
"""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commands import (
    GroupConfigured,
    GroupGone,
    GroupMade,
    GroupMoved,
    Leased,
    LeasesReturned,
    LeasesSettled,
    Swept,
)
from penstock.core.groups import Group, Groups
from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority
from penstock.core.selection import Picker

T, G = b"t", b"g"
NOTHING_RETURNED: list[list[int]] = [[] for _ in range(PRIORITIES)]


class Clerk:
    """Applies commands to one group, and leases messages of priority 0."""

    def __init__(self) -> None:
        self.groups = Groups()
        self.index = 0
        self.do(GroupMade(T, G, 0))

    def do(self, command):
        self.index += 1
        return self.groups.apply(command, self.index, recovering=False)

    @property
    def group(self) -> Group:
        group = self.groups.get(T, G)
        assert group is not None
        return group

    def lease(self, start: int, end: int, *, version: int | None = None, until_ms: int = 100):
        """Hand out a range under a lease."""
        if version is None:
            version = self.group.version
        shares = [(b"", until_ms, [(0, start, end)])]
        first_lease = self.groups.next_lease
        return self.do(Leased(T, G, version, 0, [end], 0, first_lease, 10, shares))


@given(st.lists(st.integers(0, 9), unique=True, max_size=6), st.integers(1, 10))
def test_the_leases_that_a_share_names_are_those_of_its_messages(held, end):
    """Messages in flight are skipped, and use no lease id."""
    clerk = Clerk()
    for offset in held:
        clerk.lease(offset, offset + 1)
    clerk.do(GroupMoved(T, G, 0))
    [share] = clerk.lease(0, end)
    assert share.offsets == [offset for offset in range(end) if offset not in held]
    told = {share.lease + number: offset for number, offset in enumerate(share.offsets)}
    assert told.items() <= clerk.group.leases.items()


def test_a_message_that_waits_is_not_handed_out_by_a_group_that_was_moved_back():
    clerk = Clerk()
    clerk.lease(0, 1)
    clerk.do(LeasesReturned(T, G, [(0, 1)], 10, delay_ms=40))
    clerk.do(GroupMoved(T, G, 0))
    assert [share.offsets for share in clerk.lease(0, 2)] == [[1]]
    clerk.do(Swept(T, G, 50))
    assert clerk.group.returned.offsets() == [0]


def test_a_message_that_failed_too_often_since_it_was_chosen_is_not_handed_out():
    clerk = Clerk()
    clerk.lease(0, 1)
    clerk.do(LeasesReturned(T, G, [(0, 1)], 10))
    clerk.do(GroupConfigured(T, G, 1, None, None))
    assert [share.offsets for share in clerk.lease(0, 1)] == [[]]
    assert [*clerk.group.exhausted] == [0]


def test_what_expires_while_it_waits_is_found_when_it_is_due():
    clerk = Clerk()
    clerk.lease(0, 1)
    clerk.do(LeasesReturned(T, G, [(0, 1)], 10, delay_ms=40))
    version = clerk.group.version
    clerk.do(Leased(T, G, version, 0, [1], 0, 1, 10, [], [], expired=[0]))
    clerk.do(Swept(T, G, 50))
    assert clerk.group.returned.offsets() == [0]


def test_what_was_chosen_for_a_group_is_void_for_the_next_by_its_name():
    clerk = Clerk()
    version = clerk.group.version
    clerk.do(GroupGone(T, G))
    clerk.do(GroupMade(T, G, 0))
    assert clerk.lease(0, 5, version=version) is None
    assert clerk.group.next == 0


def test_a_late_acknowledgement_counts_until_somebody_else_has_the_message():
    clerk = Clerk()
    clerk.lease(0, 3, until_ms=20)
    assert clerk.do(LeasesSettled(T, G, [(0, 1)])) == 1
    clerk.do(Swept(T, G, 20))
    assert clerk.do(LeasesSettled(T, G, [(1, 2)])) == 1
    assert clerk.group.returned.offsets() == [2]
    clerk.lease(2, 3)
    assert clerk.do(LeasesSettled(T, G, [(0, 3)])) == 0
    assert list(clerk.group.pending) == [2]


def test_an_acknowledgement_of_what_was_given_back_does_not_count():
    clerk = Clerk()
    clerk.lease(0, 1)
    clerk.do(LeasesReturned(T, G, [(0, 1)], 0))
    assert clerk.do(LeasesSettled(T, G, [(0, 1)])) == 0
    assert clerk.group.returned.offsets() == [0]


def test_leases_are_given_more_time_when_the_broker_was_away():
    clerk = Clerk()
    clerk.lease(0, 1, until_ms=40)
    clerk.lease(1, 2, until_ms=10_000_000)
    clerk.groups.resume(5_000, 9, recovering=False)
    assert clerk.group.pending[0].until_ms == 5_030, "as long again"
    assert clerk.group.pending[1].until_ms == 10_000_000
    clerk.do(Swept(T, G, 5_029))
    assert clerk.group.leases == {0: 0, 1: 1}


@given(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9))
def test_messages_stored_after_the_choice_are_not_passed(old, new, wanted):
    offsets = OffsetsByPriority(0)
    offsets.extend(0, 10, old)
    chosen = Picker(offsets, [0] * PRIORITIES, NOTHING_RETURNED, 0, 0)
    chosen.pick(wanted, 0)
    offsets.extend(10, 1, new)
    assert chosen.heads[new] <= 10
