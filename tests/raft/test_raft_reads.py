"""Reads are never older than what was acknowledged before they were asked for."""

import pytest

from penstock.raft.types import (
    ConfChange,
    ConfChangeKind,
    HardState,
    MessageKind,
    RaftMessage,
    ReadState,
    Role,
)
from tests.raft.driving import follower, fresh_leader, leader, restarted


def heartbeats(driven, to=2):
    """The contexts of heartbeats that leave for one, while all there is to do is done."""
    sent = [m for ready in driven.settle() for m in ready.messages]
    return [m.context for m in sent if m.kind is MessageKind.HEARTBEAT and m.to == to]


def ask(driven, context):
    """Ask for a read; returns the context of the heartbeat that it makes."""
    driven.raw.read_index(context)
    (sent,) = heartbeats(driven)
    assert sent
    return sent


def states(driven):
    return [state for ready in driven.settle() for state in ready.read_states]


def confirm(driven, sender, context):
    driven.answer(MessageKind.HEARTBEAT_RESPONSE, sender, context=context)


def test_a_read_is_answered_when_a_quorum_follows():
    driven = leader(1, 2, 3, 4, 5)
    sent = ask(driven, b"a")
    confirm(driven, 2, sent)
    assert states(driven) == []
    confirm(driven, 3, sent)
    assert states(driven) == [ReadState(1, b"a")]


def test_a_read_is_of_the_moment_when_it_was_asked():
    driven = leader(1, 2, 3)
    sent = ask(driven, b"a")
    driven.raw.propose(b"x")
    driven.settle()
    driven.acknowledge(2)
    assert driven.raw.commit == 2
    confirm(driven, 2, sent)
    assert states(driven) == [ReadState(1, b"a")]


def test_a_read_waits_for_the_first_commit_of_the_term():
    driven = fresh_leader(1, 2, 3)
    driven.raw.read_index(b"a")
    assert heartbeats(driven) == []
    driven.acknowledge(2)
    (sent,) = heartbeats(driven)
    confirm(driven, 2, sent)
    assert states(driven) == [ReadState(1, b"a")]


def test_a_lone_voter_reads_at_once():
    driven = leader(1)
    driven.raw.read_index(b"a")
    assert driven.raw.ready().read_states == (ReadState(1, b"a"),)


def test_a_lone_voter_whose_commit_index_was_lost_waits_until_it_has_committed_again():
    driven = leader(1)
    driven.raw.propose(b"acknowledged")
    driven.settle()
    again = restarted(driven, HardState(1, 1, 1))
    again.raw.campaign()
    again.write(again.raw.ready())
    assert again.raw.role is Role.LEADER
    assert again.raw.commit == 1
    again.raw.read_index(b"a")
    assert states(again) == [ReadState(3, b"a")]


def test_a_leader_of_one_other_voter_does_not_answer_alone():
    driven = leader(1, 2, steps_down_on_removal=False)
    driven.raw.apply_conf_change(ConfChange(steps=((ConfChangeKind.REMOVE_NODE, 1),)))
    driven.raw.read_index(b"a")
    ready = driven.raw.ready()
    assert ready.read_states == ()
    confirm(driven, 2, ready.messages[-1].context)
    assert states(driven) == [ReadState(1, b"a")]


def test_learners_confirm_nothing():
    driven = leader(1, 2, 3)
    driven.raw.apply_conf_change(ConfChange(steps=((ConfChangeKind.ADD_LEARNER, 4),)))
    confirm(driven, 4, ask(driven, b"a"))
    assert states(driven) == []


def test_an_answer_to_an_earlier_heartbeat_does_not_confirm_a_later_read():
    driven = leader(1, 2, 3)
    earlier = ask(driven, b"a")
    ask(driven, b"b")
    confirm(driven, 2, earlier)
    assert [state.context for state in states(driven)] == [b"a"]


def test_an_answer_to_a_later_heartbeat_confirms_earlier_reads():
    driven = leader(1, 2, 3)
    ask(driven, b"a")
    later = ask(driven, b"b")
    ask(driven, b"c")
    confirm(driven, 2, later)
    assert [state.context for state in states(driven)] == [b"a", b"b"]


@pytest.mark.parametrize("context", [b"", b"a", bytes(8), b"\xff" * 8, bytes(99)])
def test_an_answer_with_a_context_that_was_not_sent_confirms_nothing(context):
    driven = leader(1, 2, 3)
    ask(driven, b"a")
    confirm(driven, 2, context)
    confirm(driven, 3, context)
    assert states(driven) == []


def test_a_read_whose_heartbeats_were_lost_goes_with_the_next_ones():
    driven = leader(1, 2, 3)
    sent = ask(driven, b"a")
    driven.raw.tick()
    assert heartbeats(driven) == [sent]


def test_who_is_no_longer_leader_answers_no_read():
    driven = leader(1, 2, 3)
    sent = ask(driven, b"a")
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT_RESPONSE, 1, 2, 1, context=sent))
    assert states(driven) == []


def test_an_answer_of_an_earlier_term_confirms_no_read_of_this_one():
    driven = leader(1, 2, 3)
    earlier = ask(driven, b"a")
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    driven.raw.campaign()
    driven.settle()
    driven.answer(MessageKind.VOTE_RESPONSE, 2)
    driven.settle()
    driven.acknowledge(2)
    driven.settle()
    assert ask(driven, b"b") == earlier, "numbers begin anew with a term"
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT_RESPONSE, 1, 2, 1, context=earlier))
    assert states(driven) == []


def test_a_follower_asks_the_leader():
    driven = follower(1, 2, 3)
    driven.raw.read_index(b"a")
    (sent,) = driven.raw.ready().messages
    assert (sent.kind, sent.to, sent.sender, sent.context) == (MessageKind.READ_INDEX, 2, 1, b"a")
    driven.answer(MessageKind.READ_INDEX_RESPONSE, 2, 7, context=b"a")
    assert states(driven) == [ReadState(7, b"a")]


def test_a_leader_answers_whoever_asked():
    driven = leader(1, 2, 3)
    driven.raw.step(RaftMessage(MessageKind.READ_INDEX, 1, 3, context=b"a"))
    (sent,) = heartbeats(driven)
    confirm(driven, 2, sent)
    answers = [m for ready in driven.settle() for m in ready.messages]
    assert [(m.kind, m.to, m.index, m.context) for m in answers] == [
        (MessageKind.READ_INDEX_RESPONSE, 3, 1, b"a")
    ]


def test_a_leader_that_trusts_its_lease_answers_at_once():
    driven = leader(1, 2, 3, read_only_lease=True)
    driven.raw.read_index(b"a")
    assert states(driven) == [ReadState(1, b"a")]


def test_a_read_needs_a_context():
    driven = leader(1, 2, 3)
    with pytest.raises(ValueError, match="context"):
        driven.raw.read_index(b"")
    driven.raw.step(RaftMessage(MessageKind.READ_INDEX, 1, 3))
    assert not driven.raw.has_ready()


def test_reads_that_wait_are_bounded():
    driven = leader(1, 2, 3, pending_reads_max=2)
    for context in (b"a", b"b", b"c"):
        driven.raw.read_index(context)
    assert len(heartbeats(driven)) == 2
    fresh = fresh_leader(1, 2, 3, pending_reads_max=2)
    for context in (b"a", b"b", b"c"):
        fresh.raw.read_index(context)
    fresh.settle()
    fresh.acknowledge(2)
    assert len(heartbeats(fresh)) == 2
