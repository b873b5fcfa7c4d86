"""Groups: what each verb does, and what it says."""

import msgspec
import pytest
from tests.group_rows import RowsOnDisk, state_of

from penstock.core.commands import (
    Claimed,
    ConsumerGone,
    ConsumerMade,
    GroupConfigured,
    GroupGone,
    GroupMade,
    GroupMoved,
    Leased,
    LeasesExtended,
    LeasesReturned,
    LeasesSettled,
    Returned,
    Settled,
    Taken,
)
from penstock.core.groups import GroupDelivery, Groups, Pending, row_key

T, G = b"t", b"g"


@pytest.fixture
def groups():
    groups = Groups()
    groups.apply(GroupMade(T, G, 0), 1, recovering=False)
    return groups


def do(groups, command):
    return groups.apply(command, 2, recovering=False)


def take(groups, *shares, end=10, first=0, now_ms=100, settle=False, gone=()):
    return do(groups, Taken(T, G, list(shares), first, end, now_ms, settle, list(gone)))


def claim(groups, consumer, offsets, **changes):
    wanted = {
        "min_idle_ms": 0,
        "now_ms": 200,
        "taken_ms": 200,
        "deliveries": None,
        "counts": True,
        "forces": False,
        **changes,
    }
    return do(groups, Claimed(T, G, consumer, offsets, **wanted))


def pending(groups):
    return {offset: tuple_of(found) for offset, found in groups.get(T, G).pending.items()}


def tuple_of(found: Pending):
    return found.consumer, found.taken_ms, found.deliveries


# ── handing out ───────────────────────────────────────────────────────────────────────────────


def test_messages_are_handed_out_once_one_share_after_the_other(groups):
    shares = take(groups, (b"a", 2), (b"b", 3), (b"a", 1))
    assert shares == [
        GroupDelivery(b"a", [0, 1], [1, 1]),
        GroupDelivery(b"b", [2, 3, 4], [1, 1, 1]),
        GroupDelivery(b"a", [5], [1]),
    ]
    assert take(groups, (b"b", 9)) == [GroupDelivery(b"b", [6, 7, 8, 9], [1] * 4)]
    assert take(groups, (b"b", 9)) == []
    assert groups.get(T, G).consumers[b"a"].pending == {0, 1, 5}


def test_nothing_is_handed_out_beyond_the_end(groups):
    assert take(groups, (b"a", 5), (b"b", 5), end=3) == [GroupDelivery(b"a", [0, 1, 2], [1, 1, 1])]


def test_what_is_known_to_be_deleted_is_passed_over_and_not_counted(groups):
    shares = take(groups, (b"a", 2), (b"b", 2), gone=[(0, 1), (2, 5), (6, 7)])
    assert shares == [GroupDelivery(b"a", [1, 5], [1, 1]), GroupDelivery(b"b", [7, 8], [1, 1])]
    assert groups.get(T, G).next == 9


def test_stretches_that_are_gone_behind_the_group_change_nothing(groups):
    take(groups, (b"a", 4))
    assert take(groups, (b"a", 2), gone=[(1, 3)]) == [GroupDelivery(b"a", [4, 5], [1, 1])]


def test_what_retention_removed_is_skipped(groups):
    assert take(groups, (b"a", 2), first=7) == [GroupDelivery(b"a", [7, 8], [1, 1])]


def test_messages_taken_for_good_are_not_pending(groups):
    assert take(groups, (b"a", 2), settle=True) == [GroupDelivery(b"a", [0, 1], [1, 1])]
    assert pending(groups) == {}
    assert b"a" in groups.get(T, G).consumers


def test_a_group_that_was_moved_back_hands_out_again_and_counts_anew(groups):
    take(groups, (b"a", 2))
    claim(groups, b"a", [0])
    do(groups, GroupMoved(T, G, 0))
    assert take(groups, (b"b", 1), now_ms=300) == [GroupDelivery(b"b", [0], [1])]
    assert pending(groups) == {0: (b"b", 300, 1), 1: (b"a", 100, 1)}
    assert groups.get(T, G).consumers[b"a"].pending == {1}


def test_taking_for_good_leaves_what_others_have_pending_alone(groups):
    take(groups, (b"a", 1))
    do(groups, GroupMoved(T, G, 0))
    take(groups, (b"b", 1), settle=True)
    assert pending(groups) == {0: (b"a", 100, 1)}


# ── settling, leaving ─────────────────────────────────────────────────────────────────────────


def test_settling_tells_how_much_was_pending(groups):
    take(groups, (b"a", 4))
    assert do(groups, Settled(T, G, [(0, 2), (1, 3), (9, 99)])) == 3
    assert do(groups, Settled(T, G, [(0, 10**12)])) == 1
    assert pending(groups) == {}
    assert groups.get(T, G).consumers[b"a"].pending == set()


def test_what_a_worker_gives_back_goes_out_before_anything_new(groups):
    take(groups, (b"a", 2), (b"b", 2))
    assert do(groups, Returned(T, G, b"b")) == 2
    assert do(groups, Returned(T, G, b"a")) == 2
    assert do(groups, Returned(T, G, b"a")) == 0
    assert groups.get(T, G).available(5) == 5
    assert take(groups, (b"c", 5)) == [GroupDelivery(b"c", [0, 1, 2, 3, 4], [2, 2, 2, 2, 1])]


def test_returned_messages_that_retention_removed_are_forgotten(groups):
    take(groups, (b"a", 4))
    do(groups, Returned(T, G, b"a"))
    assert take(groups, (b"b", 9), first=3, end=5) == [GroupDelivery(b"b", [3, 4], [2, 1])]
    assert set(pending(groups)) == {3, 4}


def test_returned_messages_taken_for_good_are_done(groups):
    take(groups, (b"a", 2))
    do(groups, Returned(T, G, b"a"))
    take(groups, (b"b", 1), settle=True)
    assert set(pending(groups)) == {1}


def test_a_consumer_that_is_removed_takes_its_messages_along(groups):
    take(groups, (b"a", 2), (b"b", 1))
    assert do(groups, ConsumerGone(T, G, b"a")) == 2
    assert do(groups, ConsumerGone(T, G, b"a")) == 0
    assert set(pending(groups)) == {2}
    assert take(groups, (b"b", 1)) == [GroupDelivery(b"b", [3], [1])]


def test_making_a_consumer_tells_whether_it_is_new(groups):
    assert do(groups, ConsumerMade(T, G, b"a", 5)) is True
    assert do(groups, ConsumerMade(T, G, b"a", 6)) is False
    assert groups.get(T, G).consumers[b"a"].seen_ms == 5


# ── claiming ──────────────────────────────────────────────────────────────────────────────────


def test_a_claim_changes_hands_and_counts_as_a_delivery(groups):
    take(groups, (b"a", 2))
    assert claim(groups, b"b", [1, 0, 7]) == [1, 0]
    assert pending(groups) == {0: (b"b", 200, 2), 1: (b"b", 200, 2)}
    assert groups.get(T, G).consumers[b"a"].pending == set()


def test_only_what_is_idle_for_long_enough_is_claimed(groups):
    take(groups, (b"a", 1), now_ms=100)
    take(groups, (b"a", 1), now_ms=151)
    assert claim(groups, b"b", [0, 1], min_idle_ms=50, now_ms=200) == [0]


def test_a_claim_says_when_and_how_often_if_it_wants(groups):
    take(groups, (b"a", 3))
    claim(groups, b"b", [0], taken_ms=7, deliveries=9)
    claim(groups, b"b", [1], counts=False)
    assert pending(groups) == {0: (b"b", 7, 9), 1: (b"b", 200, 1), 2: (b"a", 100, 1)}


def test_by_force_what_nobody_has_is_claimed(groups):
    assert claim(groups, b"b", [4], forces=True, min_idle_ms=50) == [4]
    assert claim(groups, b"b", [5], forces=True, counts=False) == [5]
    assert pending(groups) == {4: (b"b", 200, 2), 5: (b"b", 200, 1)}


def test_who_claims_nothing_is_not_made_a_consumer(groups):
    assert claim(groups, b"b", [4]) == []
    assert b"b" not in groups.get(T, G).consumers


def test_a_consumer_gets_its_own_again_though_the_clock_was_set_back(groups):
    take(groups, (b"a", 1), now_ms=1_000)
    assert claim(groups, b"a", [0], min_idle_ms=0, renews=True, now_ms=10) == [0]


def test_returned_messages_can_be_claimed_however_fresh(groups):
    take(groups, (b"a", 2))
    do(groups, Returned(T, G, b"a"))
    assert claim(groups, b"b", [0], min_idle_ms=10**9) == [0]
    assert groups.get(T, G).returned.offsets() == [1]


def test_a_renewal_takes_nothing_from_others(groups):
    take(groups, (b"a", 1), (b"b", 1))
    assert claim(groups, b"a", [0, 1, 2], renews=True) == [0]
    assert pending(groups) == {0: (b"a", 200, 2), 1: (b"b", 100, 1)}


# ── groups come and go ────────────────────────────────────────────────────────────────────────


def test_a_group_is_made_once_and_gone_once(groups):
    assert groups.count == 1
    assert do(groups, GroupMade(T, G, 5)) is False
    assert do(groups, GroupGone(T, G)) is True
    assert do(groups, GroupGone(T, G)) is None
    assert T not in groups.by_topic
    assert groups.count == 0
    assert list(groups.rows(row_key(T, G), 2)) == [("groups", row_key(T, G), None)]


def test_a_verb_for_no_group_says_so(groups):
    for command in (
        Taken(T, b"no", [(b"a", 1)], 0, 1, 0, settle=False),
        Settled(T, b"no", [(0, 1)]),
        GroupMoved(b"no", G, 0),
    ):
        assert do(groups, command) is None


def test_replay_skips_what_the_row_contains(groups):
    take(groups, (b"a", 2))
    disk = RowsOnDisk()
    disk.write(groups, row_key(T, G), 7)
    loaded = disk.load()
    taken = Taken(T, G, [(b"a", 1)], 0, 10, 100, settle=False)
    assert loaded.apply(taken, 7, recovering=True) is None
    assert loaded.get(T, G).next == 2
    assert loaded.apply(taken, 8, recovering=True) == [GroupDelivery(b"a", [2], [1])]


def test_what_was_chosen_before_others_took_it_for_good_is_not_handed_out(groups):
    version = groups.get(T, G).version
    take(groups, (b"a", 2), settle=True)
    chosen = Leased(T, G, version, 0, [2], 0, 0, 100, [(b"", 200, [(0, 0, 2)])])
    assert do(groups, chosen) is None
    assert groups.get(T, G).pending == {}


def test_rows_keep_everything(groups):
    group = groups.get(T, G)
    group.consumer(b"idle", 5)
    take(groups, (b"a", 2), (b"b", 2))
    do(groups, Returned(T, G, b"b"))
    disk = RowsOnDisk()
    disk.write(groups, row_key(T, G), 4)
    again = disk.load().get(T, G)
    assert state_of(again) == state_of(group)
    assert (again.next, again.returned.offsets(), again.applied) == (4, [2, 3], 4)
    assert again.consumers == group.consumers


def test_only_chunks_of_pending_messages_that_changed_are_written_again(groups):
    take(groups, (b"a", 3_000), end=3_000)
    key = row_key(T, G)
    disk = RowsOnDisk()
    disk.write(groups, key, 1)
    do(groups, Settled(T, G, [(1_500, 1_501)]))
    written = [(table, row_key_) for table, row_key_, _ in groups.rows(key, 2)]
    assert written == [("groups", key), ("pending", key + (1).to_bytes(8, "big"))]


def test_a_group_that_is_gone_leaves_no_chunk_to_the_next_of_its_name(groups):
    take(groups, (b"a", 3_000), end=3_000)
    key = row_key(T, G)
    disk = RowsOnDisk()
    disk.write(groups, key, 1)
    do(groups, GroupGone(T, G))
    do(groups, GroupMade(T, G, 0))
    take(groups, (b"b", 1))
    disk.write(groups, key, 2)
    assert state_of(disk.load().get(T, G)) == state_of(groups.get(T, G))
    do(groups, GroupGone(T, G))
    disk.write(groups, key, 3)
    assert disk.rows == {}


def test_rows_that_could_not_be_written_are_written_with_the_next_checkpoint(groups):
    take(groups, (b"a", 3_000), end=3_000)
    key = row_key(T, G)
    groups.dirty.clear()
    for table, failed, _ in list(groups.rows(key, 1)):
        groups.failed(table, failed)
    assert list(groups.dirty) == [key]
    disk = RowsOnDisk()
    disk.write(groups, key, 2)
    assert state_of(disk.load().get(T, G)) == state_of(groups.get(T, G))


def test_a_row_of_the_former_version_is_read_and_its_messages_get_chunks():
    old = ["t", "g", 7, 3, [[5, [None, 100, 1]], [6, ["a", 100, 1]]], [["a", 1, 1]]]
    row = msgspec.msgpack.encode([p.encode() if isinstance(p, str) else p for p in old])
    groups = Groups()
    groups.load(row_key(T, G), row.replace(b"\xa1a", b"\xc4\x01a"))
    groups.end_loading()
    assert groups.get(T, G).returned.offsets() == [5]
    assert [table for table, _, _ in groups.rows(row_key(T, G), 4)] == ["groups", "pending"]


# ── what is not done yet ──────────────────────────────────────────────────────────────────────


def test_all_before_the_oldest_unsettled_is_done(groups):
    group = groups.get(T, G)
    assert group.oldest_unsettled == 0
    take(groups, (b"a", 6))
    do(groups, Settled(T, G, [(0, 2), (3, 6)]))
    assert group.oldest_unsettled == 2
    do(groups, Returned(T, G, b"a"))
    assert group.oldest_unsettled == 2
    do(groups, Settled(T, G, [(2, 3)]))
    assert group.oldest_unsettled == 6
    take(groups, (b"b", 1))
    do(groups, GroupMoved(T, G, 1))
    assert group.oldest_unsettled == 1


def test_what_is_removed_is_missed_if_it_was_pending_or_not_handed_out(groups):
    take(groups, (b"a", 6))
    do(groups, Settled(T, G, [(0, 2), (3, 5)]))  # leaves 2 and 5
    assert groups.missed(T, [(0, 2), (3, 5)]) == 0
    assert groups.missed(T, [(0, 6)]) == 2
    assert groups.missed(T, [(0, 3), (4, 5), (7, 9)]) == 3
    assert groups.missed(T, [(0, 9)]) == 5
    do(groups, Returned(T, G, b"a"))
    assert groups.missed(T, [(0, 9)]) == 5
    do(groups, GroupMoved(T, G, 1))  # once more from there on: nothing is missed twice
    assert groups.missed(T, [(0, 9)]) == 8


def test_every_group_of_a_topic_misses_what_it_has_not_done(groups):
    do(groups, GroupMade(T, b"other", 8))
    assert groups.missed(T, [(5, 10)]) == 5 + 2
    assert groups.missed(b"topic without groups", [(5, 10)]) == 0


# ── bounds ────────────────────────────────────────────────────────────────────────────────────


def lease(groups, offset, name=b"", until_ms=0):
    """Hand out one message; its lease has the number of its offset."""
    group = groups.get(T, G)
    share = (name, until_ms, [(0, offset, offset + 1)])
    do(groups, Leased(T, G, group.version, 0, [offset + 1], 0, offset, 100, [share]))


def test_a_worker_is_known_as_long_as_it_has_something(groups):
    """One that died with nothing in flight would be remembered forever."""
    lease(groups, 0, b"w")
    lease(groups, 1, b"w")
    do(groups, LeasesSettled(T, G, [(0, 1)]))
    assert list(groups.get(T, G).consumers) == [b"w"]
    do(groups, LeasesSettled(T, G, [(1, 2)]))
    assert list(groups.get(T, G).consumers) == []


def test_a_consumer_of_a_stream_is_known_until_it_is_removed(groups):
    take(groups, (b"c", 2))
    do(groups, Settled(T, G, [(0, 2)]))
    assert list(groups.get(T, G).consumers) == [b"c"]


def test_ends_of_leases_that_are_settled_are_forgotten_although_an_older_one_goes_on(groups):
    group = groups.get(T, G)
    lease(groups, 0, until_ms=200)
    for offset in range(1, 5_000):
        lease(groups, offset, until_ms=1_000 + offset)
        do(groups, LeasesSettled(T, G, [(offset, offset + 1)]))
    assert len(group._deadlines) < 2_000
    assert group.wakes_ms() == 200


def test_a_lease_that_is_extended_often_ends_when_it_was_last_said(groups):
    group = groups.get(T, G)
    lease(groups, 0, until_ms=200)
    lease(groups, 1, until_ms=150)
    for number in range(5_000):
        do(groups, LeasesExtended(T, G, [(0, 1)], 1_000 + number))
    assert len(group._deadlines) < 2_000
    assert group.wakes_ms() == 150
    do(groups, LeasesSettled(T, G, [(1, 2)]))
    assert group.wakes_ms() == 5_999


# ── giving back ───────────────────────────────────────────────────────────────────────────────


def lease_one(groups, lease):
    group = groups.get(T, G)
    runs = [(0, 0, 1)]
    return do(groups, Leased(T, G, group.version, 0, [1], 0, lease, 100, [(b"", 900, runs)]))


def test_who_failed_makes_its_message_wait_and_who_vanished_does_not(groups):
    do(groups, GroupConfigured(T, G, None, 50, None))
    group = groups.get(T, G)
    lease_one(groups, 0)
    do(groups, LeasesReturned(T, G, [(0, 1)], 200, reason=b"vanished", is_failure=False))
    assert group.returned.offsets() == [0]
    lease_one(groups, 1)
    do(groups, LeasesReturned(T, G, [(1, 2)], 300, reason=b"failed"))
    assert group.delayed == {0: 300 + 2 * 50}


def test_what_is_given_up_stays_so_over_a_restart_and_a_new_limit(groups):
    lease_one(groups, 0)
    do(groups, LeasesReturned(T, G, [(0, 1)], 200, reason=b"never", is_final=True))
    loaded = Groups()
    for table, key, row in groups.rows(row_key(T, G), 2):
        (loaded.load if table == "groups" else loaded.load_chunk)(key, row)
    loaded.end_loading()
    do(loaded, GroupConfigured(T, G, 7, None, None))
    group = loaded.get(T, G)
    assert (list(group.exhausted), group.available(1)) == ([0], 0)
    assert (group.pending[0].deliveries, group.pending[0].reason) == (1, b"never")


def test_what_never_reached_a_client_counts_for_nothing(groups):
    group = groups.get(T, G)
    lease_one(groups, 0)
    do(groups, LeasesReturned(T, G, [(0, 1)], 200, reason=b"failed"))
    lease_one(groups, 1)
    do(groups, LeasesReturned(T, G, [(1, 2)], 300, counts=False))
    assert (group.pending[0].deliveries, group.pending[0].reason) == (1, b"failed")
