"""Who runs for election, when, and who gets votes."""

import pytest

from penstock.raft.types import (
    ConfChange,
    ConfChangeKind,
    ConfState,
    MessageKind,
    RaftMessage,
    Role,
    SnapshotMeta,
)
from tests.raft.driving import Driven, append, candidate, follower, leader
from tests.raft.scenario.storage import MemoryLog


def ticks_until_it_runs(driven) -> int:
    for tick in range(1, 100):
        driven.raw.tick()
        if driven.raw.role is not Role.FOLLOWER:
            return tick
    return 0


def asked(driven, kind, term, *, sender=3, index=0, log_term=0, context=b""):
    """Ask for a vote; returns the answers."""
    driven.raw.step(
        RaftMessage(kind, 1, sender, term, log_term, index, context=context),
    )
    return [(m.to, m.reject) for ready in driven.settle() for m in ready.after_persist]


# ── Running


@pytest.mark.parametrize("rolled", [0, 7])
def test_a_follower_runs_after_a_time_that_is_rolled(rolled):
    sides = []
    driven = Driven(1, 2, 3, roll=lambda n: sides.append(n) or rolled)
    assert ticks_until_it_runs(driven) == 10 + rolled
    assert set(sides) == {10}


def test_who_hears_of_a_leader_does_not_run():
    driven = follower(1, 2, 3)
    for _ in range(30):
        driven.raw.tick()
        driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, 1))
    assert driven.raw.role is Role.FOLLOWER
    for _ in range(30):
        driven.raw.tick()
        driven.raw.step(append(1, 0))
    assert driven.raw.role is Role.FOLLOWER


def test_who_has_voted_waits_for_the_one_to_lead():
    driven = Driven(1, 2, 3)
    for _ in range(9):
        driven.raw.tick()
    assert asked(driven, MessageKind.VOTE, 1) == [(3, False)]
    assert ticks_until_it_runs(driven) == 10


def test_a_pre_vote_does_not_put_off_an_election_nor_change_term_or_vote():
    driven = Driven(1, 2, 3)
    for _ in range(9):
        driven.raw.tick()
    assert asked(driven, MessageKind.PRE_VOTE, 1) == [(3, False)]
    assert (driven.raw.term, driven.raw.status().vote) == (0, 0)
    assert ticks_until_it_runs(driven) == 1


def test_learners_do_not_run():
    log = MemoryLog(SnapshotMeta(0, 0, ConfState(voters=(2,), learners=(1,))))
    driven = Driven(log=log)
    assert ticks_until_it_runs(driven) == 0
    driven.raw.campaign()
    assert driven.raw.role is Role.FOLLOWER


def test_a_change_to_apply_is_found_however_far_behind_it_lies():
    driven = leader(1, 2, 3, committed_bytes_per_ready_max=10)
    driven.raw.propose([b"x" * 10] * 5)
    driven.raw.propose_conf_change(ConfChange(steps=((ConfChangeKind.ADD_LEARNER, 4),)))
    driven.write(driven.raw.ready())
    driven.acknowledge(2)
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    driven.raw.campaign()
    assert driven.raw.role is Role.FOLLOWER


def test_entries_to_apply_that_change_no_members_do_not_keep_from_running():
    driven = leader(1, 2, 3, committed_bytes_per_ready_max=10)
    driven.raw.propose([b"x" * 10] * 5)
    driven.write(driven.raw.ready())
    driven.acknowledge(2)
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 2))
    driven.raw.campaign()
    assert driven.raw.role is Role.CANDIDATE


def test_a_candidate_that_most_refuse_goes_back():
    driven = candidate(1, 2, 3)
    driven.answer(MessageKind.VOTE_RESPONSE, 2, reject=True)
    assert driven.raw.role is Role.CANDIDATE
    driven.answer(MessageKind.VOTE_RESPONSE, 3, reject=True)
    assert driven.raw.role is Role.FOLLOWER
    assert driven.raw.term == 1


def test_a_vote_that_is_repeated_counts_once():
    driven = candidate(1, 2, 3, 4, 5)
    for _ in range(3):
        driven.answer(MessageKind.VOTE_RESPONSE, 2)
    assert driven.raw.role is Role.CANDIDATE


def test_a_granted_pre_vote_is_no_vote():
    driven = candidate(1, 2, 3)
    driven.answer(MessageKind.PRE_VOTE_RESPONSE, 2)
    assert driven.raw.role is Role.CANDIDATE


def test_a_pre_candidate_runs_when_most_would_vote_for_it():
    driven = candidate(1, 2, 3, pre_vote=True)
    assert (driven.raw.role, driven.raw.term) == (Role.PRE_CANDIDATE, 0)
    driven.raw.step(RaftMessage(MessageKind.PRE_VOTE_RESPONSE, 1, 2, 1))
    assert (driven.raw.role, driven.raw.term) == (Role.CANDIDATE, 1)


# ── Voting


def test_a_pre_vote_of_our_own_term_is_refused_to_another_than_we_voted_for():
    driven = Driven(1, 2, 3)
    assert asked(driven, MessageKind.VOTE, 5, sender=2) == [(2, False)]
    assert asked(driven, MessageKind.PRE_VOTE, 5, sender=3) == [(3, True)]
    assert asked(driven, MessageKind.PRE_VOTE, 6, sender=3) == [(3, False)]


def test_a_pre_vote_of_an_earlier_term_is_refused():
    driven = Driven(1, 2, 3)
    assert asked(driven, MessageKind.VOTE, 5, sender=2) == [(2, False)]
    assert asked(driven, MessageKind.PRE_VOTE, 4, sender=2) == [(2, True)]


def test_nobody_gets_a_vote_in_a_term_that_has_a_leader():
    driven = follower(1, 2, 3)
    assert asked(driven, MessageKind.VOTE, 1) == [(3, True)]


@pytest.mark.parametrize(("index", "log_term"), [(9, 1), (1, 2), (0, 0)])
def test_a_log_that_lacks_something_gets_no_vote(index, log_term):
    driven = follower(1, 2, 3, check_quorum=False)
    driven.raw.step(append(2, 0, 1, 2))
    driven.settle()
    got = asked(driven, MessageKind.VOTE, 3, index=index, log_term=log_term)
    assert got == [(3, True)]
    assert driven.raw.status().vote == 0


@pytest.mark.parametrize("kind", [MessageKind.VOTE, MessageKind.PRE_VOTE])
def test_while_a_leader_is_heard_of_votes_are_not_even_refused(kind):
    driven = follower(1, 2, 3)
    for _ in range(9):
        driven.raw.tick()
        assert asked(driven, kind, 2) == []
        assert driven.raw.term == 1
    by_transfer = asked(driven, kind, 2, context=b"CampaignTransfer")
    assert by_transfer == [(3, False)]


def test_after_an_election_timeout_without_the_leader_votes_are_given():
    driven = follower(1, 2, 3, roll=lambda _sides: 5)
    for _ in range(10):
        driven.raw.tick()
    assert driven.raw.role is Role.FOLLOWER
    assert asked(driven, MessageKind.VOTE, 2) == [(3, False)]


@pytest.mark.parametrize(
    ("settings", "answers"),
    [
        ({"check_quorum": True, "pre_vote": False}, 1),
        ({"check_quorum": False, "pre_vote": True}, 1),
        ({"check_quorum": False, "pre_vote": False}, 0),
    ],
)
def test_a_leader_of_an_earlier_term_is_told_of_ours_if_nothing_else_would(settings, answers):
    driven = Driven(1, 2, 3, **settings)
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, 5))
    driven.settle()
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 3, 4))
    driven.raw.step(RaftMessage(MessageKind.VOTE, 1, 3, 4))
    told = [m for ready in driven.settle() for m in ready.after_persist]
    assert [(m.kind, m.to, m.term, m.index) for m in told] == [
        (MessageKind.APPEND_RESPONSE, 3, 5, 0)
    ] * answers


# ── Leading


def test_a_leader_that_hears_of_no_quorum_steps_down():
    driven = leader(1, 2, 3)
    for _ in range(10):
        driven.raw.tick()
    assert driven.raw.role is Role.LEADER, "was heard of in the last round"
    for _ in range(10):
        driven.raw.tick()
    assert driven.raw.role is Role.FOLLOWER


def test_a_leader_that_hears_of_a_quorum_stays():
    driven = leader(1, 2, 3)
    for _ in range(50):
        driven.raw.tick()
        driven.answer(MessageKind.HEARTBEAT_RESPONSE, 3)
    assert driven.raw.role is Role.LEADER


def test_a_lone_voter_stays_leader():
    driven = leader(1)
    for _ in range(50):
        driven.raw.tick()
    assert driven.raw.role is Role.LEADER


def test_leadership_is_handed_to_one_who_has_all_entries_at_once():
    driven = leader(1, 2, 3)
    driven.raw.transfer_leader(2)
    assert [(m.kind, m.to) for m in driven.raw.ready().messages] == [(MessageKind.TIMEOUT_NOW, 2)]


def test_leadership_is_handed_to_one_who_lags_when_it_has_all_entries():
    driven = leader(1, 2, 3)
    driven.raw.propose(b"x")
    driven.settle()
    driven.raw.transfer_leader(2)
    assert MessageKind.TIMEOUT_NOW not in [m.kind for m in driven.raw.ready().messages]
    driven.acknowledge(2)
    assert MessageKind.TIMEOUT_NOW in [m.kind for m in driven.raw.ready().messages]


@pytest.mark.parametrize("to", [1, 4, 9])
def test_leadership_is_not_handed_to_oneself_to_learners_or_to_strangers(to):
    driven = leader(1, 2, 3)
    driven.raw.apply_conf_change(ConfChange(steps=((ConfChangeKind.ADD_LEARNER, 4),)))
    driven.settle()
    driven.raw.transfer_leader(to)
    driven.raw.propose(b"x")
