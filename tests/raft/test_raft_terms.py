"""What is said too late: of an earlier term, of replaced entries, of a state long passed."""

from penstock.raft.progress import ProgressState
from penstock.raft.types import ConfState, MessageKind, RaftEntry, RaftMessage, SnapshotMeta
from tests.raft.driving import append, follower, leader

MEMBERS = ConfState(voters=(1, 2, 3))


def answers(driven):
    """All that goes out when everything is carried out."""
    return [m for ready in driven.settle() for m in (*ready.messages, *ready.after_persist)]


def in_term(term):
    """Number 1 follows number 2 in a term."""
    driven = follower(*MEMBERS.voters)
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, term))
    driven.settle()
    driven.raw.forget_leader()  # so that nothing but the term speaks against a vote
    return driven


def test_a_pre_vote_of_an_earlier_term_is_refused_with_the_term_of_now():
    driven = in_term(5)
    driven.raw.step(RaftMessage(MessageKind.PRE_VOTE, 1, 3, 3, log_term=2, index=9))
    (answer,) = answers(driven)
    assert (answer.kind, answer.to) == (MessageKind.PRE_VOTE_RESPONSE, 3)
    assert (answer.reject, answer.term) == (True, 5)


def test_a_leader_of_an_earlier_term_is_told_of_the_term_of_now():
    driven = in_term(5)
    for kind in (MessageKind.HEARTBEAT, MessageKind.APPEND):
        driven.raw.step(RaftMessage(kind, 1, 3, 4))
        (answer,) = answers(driven)
        assert (answer.kind, answer.to, answer.term) == (MessageKind.APPEND_RESPONSE, 3, 5)
        assert answer.index == 0, "nothing is acknowledged by that"


def test_an_entry_that_was_replaced_in_the_same_term_does_not_count_as_written():
    driven = follower(*MEMBERS.voters)
    driven.raw.step(append(1, 0, 1))
    driven.raw.ready()  # to be written: entry 1 of term 1
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    slow = driven.raw.ready()  # and that the term is 2
    driven.raw.step(append(2, 0, 2, sender=3))
    driven.raw.persisted(slow.mark)
    later = driven.raw.ready()
    assert later.entries == (RaftEntry(2, 1),)
    # Only the batch that has the entry is followed by its acknowledgement.
    assert [m.index for m in later.after_persist if m.to == 3] == [1]
    assert later.mark.index == 1, "it is still to be told that it was written"


def test_a_snapshot_of_what_is_committed_here_changes_nothing():
    driven = follower(*MEMBERS.voters)
    driven.raw.step(append(1, 0, 1, 1, 1, commit=3))
    driven.settle()
    driven.log.compact(3)  # so that it cannot be seen any more that it is the same
    late = SnapshotMeta(2, 1, MEMBERS)
    driven.raw.step(RaftMessage(MessageKind.SNAPSHOT, 1, 2, 1, snapshot=late))
    (ready,) = driven.settle()
    assert ready.snapshot is None
    assert [m.index for m in ready.after_persist] == [3]
    assert (driven.raw.commit, driven.raw.last_index) == (3, 3)


def test_after_a_snapshot_that_did_not_arrive_a_follower_is_asked_where_it_stands():
    driven = leader(*MEMBERS.voters)
    progress = driven.raw.node.tracker.progress[2]
    progress.become_snapshot(9)
    driven.raw.report_snapshot(2, is_ok=False)
    assert (progress.state, progress.next) == (ProgressState.PROBE, progress.match + 1)
