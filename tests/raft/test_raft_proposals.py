"""What a leader takes, what it refuses, and what it says then."""

import pytest

from penstock.raft.conf_entries import change_entry, decode_change
from penstock.raft.errors import ProposalDropped, ProposalDropReason
from penstock.raft.types import (
    ConfChange,
    ConfChangeKind,
    ConfChangeTransition,
    EntryKind,
    MessageKind,
    RaftEntry,
    RaftMessage,
    Role,
)
from tests.raft.driving import candidate, follower, fresh_leader, leader

ADD_4 = ConfChange(steps=((ConfChangeKind.ADD_LEARNER, 4),))


def refused(driven, data=b"x") -> ProposalDropReason:
    before = driven.raw.last_index
    with pytest.raises(ProposalDropped) as dropped:
        driven.raw.propose(data)
    assert driven.raw.last_index == before
    return dropped.value.reason


def test_several_pieces_are_entries_that_follow_each_other():
    driven = leader(1)
    driven.raw.propose([b"a", b"b", b"c"])
    ready = driven.raw.ready()
    assert ready.entries == (RaftEntry(1, 2, b"a"), RaftEntry(1, 3, b"b"), RaftEntry(1, 4, b"c"))
    assert len(ready.after_persist) == 1


def test_proposing_nothing_changes_nothing():
    driven = leader(1)
    driven.raw.propose([])
    assert not driven.raw.has_ready()


def test_a_candidate_knows_no_leader():
    assert refused(candidate(1, 2, 3)) is ProposalDropReason.NO_LEADER


def test_a_follower_names_another_leader():
    driven = follower(1, 2, 3)
    assert refused(driven) is ProposalDropReason.NOT_LEADER
    assert driven.raw.lead == 2


def test_a_follower_without_a_leader_says_so():
    driven = follower(1, 2, 3)
    driven.raw.forget_leader()
    assert refused(driven) is ProposalDropReason.NO_LEADER


def test_a_follower_that_may_sends_proposals_on():
    driven = follower(1, 2, 3, forwards_proposals=True)
    driven.raw.propose(b"x")
    (sent,) = driven.raw.ready().messages
    assert (sent.kind, sent.to, sent.term) == (MessageKind.PROPOSE, 2, 0)
    assert sent.entries[0].data == b"x"


def test_nothing_is_taken_while_leadership_is_handed_over():
    driven = leader(1, 2, 3)
    driven.raw.transfer_leader(2)
    assert refused(driven) is ProposalDropReason.TRANSFER


def test_proposals_are_taken_again_when_the_other_did_not_take_over():
    driven = leader(1, 2, 3)
    driven.raw.transfer_leader(2)
    for tick in range(10):
        assert refused(driven) is ProposalDropReason.TRANSFER, tick
        driven.acknowledge(2)
        driven.raw.tick()
    driven.raw.propose(b"x")


def test_a_leader_that_was_removed_and_leads_on_takes_nothing():
    driven = leader(1, 2, 3, steps_down_on_removal=False)
    driven.raw.apply_conf_change(ConfChange(steps=((ConfChangeKind.REMOVE_NODE, 1),)))
    assert driven.raw.role is Role.LEADER
    assert refused(driven) is ProposalDropReason.REMOVED


def test_a_leader_that_was_removed_steps_down():
    driven = leader(1, 2, 3)
    driven.raw.apply_conf_change(ConfChange(steps=((ConfChangeKind.REMOVE_NODE, 1),)))
    assert driven.raw.role is Role.FOLLOWER
    assert driven.raw.lead == 0


# ── Bytes


def test_uncommitted_bytes_are_bounded():
    driven = leader(1, 2, 3, uncommitted_bytes_max=100)
    driven.raw.propose(b"x" * 60)
    driven.raw.propose(b"x" * 40)
    assert refused(driven) is ProposalDropReason.UNCOMMITTED


def test_a_lone_proposal_is_taken_whatever_its_size():
    driven = leader(1, 2, 3, uncommitted_bytes_max=100)
    driven.raw.propose(b"x" * 1000)
    assert refused(driven) is ProposalDropReason.UNCOMMITTED


def test_empty_proposals_pass_the_bound():
    driven = leader(1, 2, 3, uncommitted_bytes_max=1)
    driven.raw.propose(b"xx")
    driven.raw.propose(b"")


def test_what_is_applied_makes_room():
    driven = leader(1, 2, 3, uncommitted_bytes_max=100)
    driven.raw.propose(b"x" * 60)
    driven.raw.propose(b"x" * 40)
    driven.settle()
    driven.acknowledge(2, driven.raw.last_index - 1)
    ready = driven.raw.ready()
    assert refused(driven) is ProposalDropReason.UNCOMMITTED, "committed is not applied"
    driven.raw.applied(ready.committed[-1].index)
    driven.raw.propose(b"x" * 60)
    assert refused(driven) is ProposalDropReason.UNCOMMITTED


def test_a_message_has_no_more_bytes_than_it_may():
    driven = leader(1, 2, 3, bytes_per_message_max=100)
    driven.raw.propose([b"x" * 40] * 5)
    sent = [m for m in driven.raw.ready().messages if m.to == 2]
    assert [len(m.entries) for m in sent] == [2]
    driven.acknowledge(2, sent[0].entries[-1].index)
    more = [m for m in driven.raw.ready().messages if m.to == 2 and m.entries]
    assert [len(m.entries) for m in more] == [2, 1]


def test_bytes_on_their_way_to_a_follower_are_bounded():
    driven = leader(1, 2, 3, bytes_per_message_max=1, inflight_bytes_max=100)
    for _ in range(5):
        driven.raw.propose(b"x" * 50)
    sent = [m for m in driven.raw.ready().messages if m.to == 2 and m.entries]
    assert len(sent) == 2


def test_entries_to_be_applied_are_handed_out_by_bytes():
    driven = leader(1, committed_bytes_per_ready_max=100)
    driven.raw.propose([b"x" * 60, b"x" * 60, b"x" * 200])
    driven.write(driven.raw.ready())
    for index in (2, 3, 4):
        ready = driven.raw.ready()
        assert [entry.index for entry in ready.committed] == [index]
        assert not driven.raw.ready().committed
        driven.raw.applied(index)


def test_what_was_handed_out_and_is_not_applied_takes_room():
    driven = leader(1, committed_bytes_per_ready_max=100)
    for index in (2, 3, 4):
        driven.raw.propose(b"x" * 60)
        driven.write(driven.raw.ready())
        assert [e.index for e in driven.raw.ready().committed] == ([index] if index < 4 else [])
    driven.raw.applied(2)
    assert [e.index for e in driven.raw.ready().committed] == [4]


# ── Changes of the members


def test_a_change_comes_back_as_it_was_proposed():
    driven = leader(1)
    change = ConfChange(ADD_4.steps, ConfChangeTransition.JOINT_EXPLICIT, b"whose")
    driven.raw.propose_conf_change(change)
    (entry,) = driven.raw.ready().entries
    assert entry.kind is EntryKind.CONF_CHANGE_V2
    assert decode_change(entry) == change


def test_a_change_of_one_node_in_the_older_form_is_known_by_its_kind():
    change = ConfChange(ADD_4.steps, is_single=True)
    assert change_entry(change).kind is EntryKind.CONF_CHANGE
    assert decode_change(change_entry(change)) == change


def test_leaving_a_joint_configuration_takes_no_bytes():
    assert change_entry(ConfChange()).data == b""
    assert decode_change(change_entry(ConfChange())) == ConfChange()


def test_no_change_is_taken_before_something_of_the_term_is_committed():
    driven = fresh_leader(1, 2, 3)
    driven.raw.propose_conf_change(ADD_4)
    first, second = driven.raw.ready().entries
    assert (first.kind, second.kind) == (EntryKind.NORMAL, EntryKind.NORMAL)
    assert "this term" in driven.raw.conf_change_fault(ADD_4)


def test_a_change_is_taken_after_the_first_commit_of_the_term():
    driven = leader(1, 2, 3)
    assert driven.raw.conf_change_fault(ADD_4) == ""
    driven.raw.propose_conf_change(ADD_4)
    assert driven.raw.ready().entries[0].kind is EntryKind.CONF_CHANGE_V2


def test_a_second_change_is_not_taken_before_the_first_is_applied():
    driven = leader(1, 2, 3)
    driven.raw.propose_conf_change(ADD_4)
    driven.raw.propose_conf_change(ADD_4)
    first, second = driven.raw.ready().entries
    assert (first.kind, second.kind) == (EntryKind.CONF_CHANGE_V2, EntryKind.NORMAL)
    driven.acknowledge(2)
    driven.acknowledge(3)
    driven.raw.ready()
    assert "unapplied" in driven.raw.conf_change_fault(ADD_4), "committed is not applied"


def test_a_change_that_did_not_fit_does_not_keep_others_out():
    driven = leader(1, 2, 3, uncommitted_bytes_max=10)
    driven.raw.propose(b"x" * 10)
    with pytest.raises(ProposalDropped):
        driven.raw.propose_conf_change(ADD_4)
    assert driven.raw.conf_change_fault(ADD_4) == ""


def test_a_change_that_cannot_be_read_is_not_taken():
    driven = leader(1, 2, 3)
    last = driven.raw.last_index
    garbage = RaftEntry(0, 0, b"\xc1", EntryKind.CONF_CHANGE_V2)
    assert driven.raw.step(RaftMessage(MessageKind.PROPOSE, 1, 2, entries=(garbage,)))
    assert driven.raw.last_index == last


def test_a_leader_with_a_change_to_apply_in_its_log_does_not_run_for_election_meanwhile():
    driven = leader(1, 2, 3)
    driven.raw.propose_conf_change(ADD_4)
    driven.write(driven.raw.ready())
    driven.acknowledge(2)
    driven.write(driven.raw.ready())
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    driven.raw.campaign()
    assert driven.raw.role is Role.FOLLOWER
