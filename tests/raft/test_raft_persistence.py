"""Nothing is said before it is written, and nothing is taken for written that is not."""

from penstock.raft.types import HardState, MessageKind, RaftEntry, RaftMessage, Role, SnapshotMeta
from tests.raft.driving import Driven, append, candidate, follower, fresh_leader, leader


def test_a_lone_voter_leads_when_its_vote_is_on_the_disk():
    driven = Driven(1)
    driven.raw.campaign()
    ready = driven.raw.ready()
    assert ready.hard_state == HardState(1, 1, 0)
    assert ready.must_sync
    assert driven.raw.role is Role.CANDIDATE
    driven.write(ready)
    assert driven.raw.role is Role.LEADER


def test_the_cycle_of_a_lone_voter_takes_one_write_per_proposal():
    driven = leader(1)
    driven.raw.propose(b"x")
    first = driven.raw.ready()
    assert [entry.data for entry in first.entries] == [b"x"]
    assert first.must_sync
    assert not first.committed
    assert not driven.raw.has_ready()
    driven.write(first)
    second = driven.raw.ready()
    assert second.committed == first.entries
    assert second.hard_state == HardState(1, 1, 2)
    assert not second.must_sync
    assert not second.messages
    driven.write(second)
    driven.raw.applied(2)
    assert not driven.raw.has_ready()
    assert driven.raw.status().applied == 2


def test_a_leader_counts_its_own_copy_only_when_it_is_written():
    driven = leader(1, 2, 3)
    before = driven.raw.commit
    driven.raw.propose(b"x")
    ready = driven.raw.ready()
    assert driven.raw.commit == before
    driven.write(ready)
    assert driven.raw.commit == before, "one of three"
    driven.acknowledge(2)
    assert driven.raw.commit == before + 1


def test_others_may_commit_what_is_not_on_this_disk_and_it_is_not_applied_here():
    driven = leader(1, 2, 3)
    driven.raw.propose(b"x")
    ready = driven.raw.ready()
    driven.acknowledge(2)
    driven.acknowledge(3)
    assert driven.raw.commit == driven.raw.last_index
    assert not driven.raw.ready().committed
    driven.write(ready)
    assert [entry.data for entry in driven.raw.ready().committed] == [b"x"]


def test_a_vote_waits_for_the_disk():
    driven = Driven(1, 2, 3)
    driven.raw.step(RaftMessage(MessageKind.VOTE, 1, 2, 1))
    ready = driven.raw.ready()
    assert ready.hard_state == HardState(1, 2, 0)
    assert not ready.messages
    assert [(m.kind, m.to, m.reject) for m in ready.after_persist] == [
        (MessageKind.VOTE_RESPONSE, 2, False)
    ]


def test_an_acknowledgement_waits_for_the_disk():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1))
    ready = driven.raw.ready()
    assert not ready.messages
    assert [(m.kind, m.to, m.index) for m in ready.after_persist] == [
        (MessageKind.APPEND_RESPONSE, 2, 2)
    ]
    assert not ready.mark.own


def test_batches_may_be_taken_before_earlier_ones_are_written_and_hold_nothing_twice():
    driven = leader(1)
    driven.raw.propose(b"a")
    first = driven.raw.ready()
    driven.raw.propose(b"b")
    second = driven.raw.ready()
    assert [entry.data for entry in first.entries] == [b"a"]
    assert [entry.data for entry in second.entries] == [b"b"]
    driven.write(first)
    assert driven.raw.commit == 2
    driven.write(second)
    assert driven.raw.commit == 3


def test_a_later_mark_covers_what_earlier_batches_hold():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1))
    first = driven.raw.ready()
    driven.raw.step(append(1, 1, 1, log_term=1, commit=2))
    second = driven.raw.ready()
    for ready in (first, second):
        driven.log.write(ready.hard_state, ready.entries, None)
    driven.raw.persisted(second.mark)
    assert [entry.index for entry in driven.raw.ready().committed] == [1, 2]


def test_entries_that_were_replaced_while_they_were_written_do_not_count_as_written():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1))
    first = driven.raw.ready()
    driven.raw.step(append(2, 0, 2, sender=3))
    second = driven.raw.ready()
    assert second.entries == (RaftEntry(2, 1),)
    driven.write(first)
    driven.raw.step(append(2, 1, log_term=2, commit=1, sender=3))
    assert not driven.raw.ready().committed
    driven.write(second)
    assert driven.raw.ready().committed == (RaftEntry(2, 1),)


def test_a_mark_of_an_earlier_term_counts_for_nothing_though_its_entry_is_here_again():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1))
    old = driven.raw.ready()  # 1/1 begins to be written ...
    driven.raw.step(append(2, 0, 2, sender=3))
    driven.raw.ready()  # ... then 2/1 in its place ...
    driven.raw.step(append(3, 0, 1, commit=1, sender=2))
    again = driven.raw.ready()  # ... then 1/1 again, of a leader that had it
    assert again.entries == (RaftEntry(1, 1),)
    driven.raw.persisted(old.mark)
    assert not driven.raw.ready().committed
    driven.write(again)
    assert driven.raw.ready().committed == (RaftEntry(1, 1),)


def test_an_own_acknowledgement_of_an_earlier_term_is_not_counted():
    driven = fresh_leader(1, 2, 3)
    ready = driven.raw.ready()
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, 2))
    driven.write(ready)
    assert driven.raw.role is Role.FOLLOWER
    assert driven.raw.commit == 0


def test_an_acknowledgement_of_an_earlier_term_is_not_counted():
    driven = leader(1, 2, 3)
    driven.raw.propose(b"x")
    driven.settle()
    index = driven.raw.last_index
    driven.raw.step(
        RaftMessage(MessageKind.APPEND_RESPONSE, 1, 2, driven.raw.term - 1, index=index)
    )
    assert driven.raw.commit == index - 1


def test_entries_of_an_earlier_term_are_not_committed_by_counting():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1))
    driven.settle()
    driven.raw.campaign()
    driven.settle()
    driven.answer(MessageKind.VOTE_RESPONSE, 3)
    driven.settle()
    assert driven.raw.role is Role.LEADER
    driven.acknowledge(3, 1)
    assert driven.raw.commit == 0
    driven.acknowledge(3, 2)
    assert driven.raw.commit == 2


def test_an_old_append_cuts_nothing_off():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, 1))
    driven.settle()
    driven.raw.step(append(1, 0, 1))
    ready = driven.raw.ready()
    assert driven.raw.last_index == 3
    assert not ready.entries
    assert [m.index for m in ready.after_persist] == [1]


def test_what_is_committed_is_told_no_further_than_a_follower_has():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, commit=9))
    assert driven.raw.commit == 2


def test_one_who_voted_does_not_vote_for_another_in_the_same_term_after_a_restart():
    driven = Driven(1, 2, 3)
    driven.raw.step(RaftMessage(MessageKind.VOTE, 1, 2, 1))
    driven.settle()
    again = Driven(log=driven.log)
    again.raw.step(RaftMessage(MessageKind.VOTE, 1, 3, 1))
    (answer,) = again.raw.ready().after_persist
    assert answer.reject
    again.raw.step(RaftMessage(MessageKind.VOTE, 1, 2, 1))
    (answer,) = again.raw.ready().after_persist
    assert not answer.reject


def test_a_snapshot_takes_the_place_of_the_whole_log_and_nothing_is_applied_before_it_is_there():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, 1))
    driven.settle()
    snapshot = SnapshotMeta(2, 2, driven.log.initial_state()[1])
    driven.raw.step(RaftMessage(MessageKind.SNAPSHOT, 1, 3, 2, snapshot=snapshot))
    driven.raw.step(append(2, 2, 2, log_term=2, commit=3, sender=3))
    ready = driven.raw.ready()
    assert ready.snapshot == snapshot
    assert ready.entries == (RaftEntry(2, 3),)
    assert not ready.committed
    assert driven.raw.last_index == 3
    driven.raw.campaign()
    assert driven.raw.role is Role.FOLLOWER, "has no state yet"
    driven.write(ready)
    assert driven.raw.ready().committed == (RaftEntry(2, 3),)
    assert driven.raw.status().applied == 2


def test_a_snapshot_of_what_is_here_only_commits():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, 1))
    driven.settle()
    snapshot = SnapshotMeta(2, 1, driven.log.initial_state()[1])
    driven.raw.step(RaftMessage(MessageKind.SNAPSHOT, 1, 2, 1, snapshot=snapshot))
    ready = driven.raw.ready()
    assert ready.snapshot is None
    assert [entry.index for entry in ready.committed] == [1, 2]
    assert driven.raw.last_index == 3


def test_a_candidate_asks_at_once_and_counts_its_own_vote_later():
    driven = Driven(1, 2, 3)
    driven.raw.campaign()
    ready = driven.raw.ready()
    assert [(m.kind, m.to) for m in ready.messages] == [
        (MessageKind.VOTE, 2),
        (MessageKind.VOTE, 3),
    ]
    driven.answer(MessageKind.VOTE_RESPONSE, 2)
    assert driven.raw.role is Role.CANDIDATE
    driven.write(ready)
    assert driven.raw.role is Role.LEADER


def test_votes_of_those_who_have_none_do_not_count():
    driven = candidate(1, 2, 3)
    assert not driven.answer(MessageKind.VOTE_RESPONSE, 4)
    assert driven.raw.role is Role.CANDIDATE
