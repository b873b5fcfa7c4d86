"""All participants together: the configuration, how far they are, the votes."""

import pytest

from penstock.raft.confchange import Changer, restore
from penstock.raft.quorum import VoteResult
from penstock.raft.tracker import Tracker
from penstock.raft.types import ConfState

JOINT = ConfState(
    voters=(2, 3), learners=(5,), voters_outgoing=(1, 2, 4), learners_next=(4,), auto_leave=True
)


def tracker_of(conf_state):
    tracker = Tracker(4, 1000)
    tracker.config, tracker.progress = restore(Changer(tracker, 10), conf_state)
    return tracker


@pytest.fixture
def three():
    return tracker_of(ConfState(voters=(1, 2, 3), learners=(4,)))


def test_a_configuration_is_written_down_as_it_was_read():
    assert tracker_of(JOINT).conf_state() == JOINT


def test_a_configuration_is_printed_as_etcd_does():
    tracker = tracker_of(JOINT)
    assert str(tracker.config) == "voters=(2 3)&&(1 2 4) learners=(5) learners_next=(4) autoleave"
    assert tracker.config.is_joint
    assert str(Tracker(1).config) == "voters=()"
    assert not Tracker(1).config.is_joint


def test_voters_and_learners_are_told_in_order():
    tracker = tracker_of(JOINT)
    assert tracker.voter_nodes() == [1, 2, 3, 4]
    assert tracker.learner_nodes() == [5]


def test_participants_are_visited_in_order_whatever_order_they_came_in():
    tracker = tracker_of(ConfState(voters=(9, 3, 7), learners=(1,)))
    assert [node for node, _ in tracker.visit()] == [1, 3, 7, 9]


@pytest.mark.parametrize(
    ("conf_state", "is_singleton"),
    [
        (ConfState(voters=(1,), learners=(2,)), True),
        (ConfState(voters=(1, 2)), False),
        (ConfState(voters=(1,), voters_outgoing=(1,)), False),
        (ConfState(), False),
    ],
)
def test_one_voter_decides_alone_unless_another_majority_has_a_say(conf_state, is_singleton):
    assert tracker_of(conf_state).is_singleton() is is_singleton


def test_learners_do_not_commit(three):
    three.progress[4].match = 9
    three.progress[1].match = 7
    assert three.committed() == 0
    three.progress[2].match = 5
    assert three.committed() == 5


def test_new_participants_get_the_window_of_the_configuration(three):
    inflights = three.progress[1].inflights
    assert (inflights.count_max, inflights.bytes_max) == (4, 1000)
    assert inflights is not three.progress[2].inflights


def test_the_quorum_is_active_if_a_majority_of_voters_is(three):
    for node in (1, 2, 3):
        three.progress[node].recent_active = node == 1
    assert not three.quorum_active()  # 1 and the learner 4 are no majority
    three.progress[3].recent_active = True
    assert three.quorum_active()


def test_the_first_vote_counts(three):
    three.record_vote(1, granted=True)
    three.record_vote(2, granted=False)
    three.record_vote(2, granted=True)
    assert three.tally_votes() == (1, 1, VoteResult.PENDING)


def test_only_voters_are_counted(three):
    three.record_vote(1, granted=True)
    three.record_vote(4, granted=True)  # a learner
    three.record_vote(9, granted=True)  # a stranger
    assert three.tally_votes() == (1, 0, VoteResult.PENDING)
    three.record_vote(3, granted=True)
    assert three.tally_votes() == (2, 0, VoteResult.WON)


def test_an_election_begins_without_votes(three):
    three.record_vote(1, granted=False)
    three.reset_votes()
    assert three.tally_votes() == (0, 0, VoteResult.PENDING)
