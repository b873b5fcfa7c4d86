"""Configuration changes: what holds whatever is asked, and what is refused."""

from copy import deepcopy
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.confchange import Changer, ConfChangeError, restore
from penstock.raft.tracker import Tracker
from penstock.raft.types import ConfChangeKind, ConfState

STEP = st.tuples(st.sampled_from(list(ConfChangeKind)), st.integers(0, 5))
STEPS = st.lists(STEP, max_size=5)
WAYS = st.sampled_from(["simple", "simple", "enter", "leave"])


def attempt(tracker, way, steps):
    """Make a change if it is allowed; return whether it was."""
    changer = Changer(tracker, 7)
    try:
        match way:
            case "simple":
                changed = changer.simple(steps)
            case "enter":
                changed = changer.enter_joint(True, steps)
            case _:
                changed = changer.leave_joint()
    except ConfChangeError:
        return False
    tracker.config, tracker.progress = changed
    return True


def told(tracker):
    """All of it, to be compared."""
    return str(tracker.config), {node: str(progress) for node, progress in tracker.visit()}


def started(*voters):
    tracker = Tracker(10)
    tracker.config, tracker.progress = restore(Changer(tracker, 3), ConfState(voters=voters))
    return tracker


def majorities(config):
    return [
        set(some)
        for size in range(len(config) // 2 + 1, len(config) + 1)
        for some in combinations(sorted(config), size)
    ]


def all_majorities(tracker):
    """All sets of nodes that can decide, in either half: what decides contains one of each."""
    voters = tracker.config.voters
    return [majorities(half) for half in (voters.incoming, voters.outgoing) if half]


@given(st.lists(STEPS, max_size=8))
def test_simple_changes_never_change_more_than_one_voter(changes):
    tracker = started(1, 2, 3)
    for steps in changes:
        before = tracker.config.voters.incoming
        attempt(tracker, "simple", steps)
        after = tracker.config.voters.incoming
        assert len(before ^ after) <= 1
        assert after, "somebody must vote"
        assert not tracker.config.is_joint


@given(st.lists(st.tuples(WAYS, STEPS), max_size=8))
def test_whoever_decides_before_a_change_shares_somebody_with_whoever_decides_after(changes):
    tracker = started(1, 2, 3)
    for way, steps in changes:
        before = all_majorities(tracker)
        attempt(tracker, way, steps)
        after = all_majorities(tracker)
        # One half of each is enough: who decides needs a majority of every half.
        assert any(
            all(one & other for one in half for other in later)
            for half in before
            for later in after
        )


@given(st.lists(st.tuples(WAYS, STEPS), max_size=8))
def test_everybody_has_one_part_and_progress_is_kept_of_nobody_else(changes):
    tracker = started(1)
    for way, steps in changes:
        attempt(tracker, way, steps)
        config = tracker.config
        voters = config.voters.ids()
        assert not config.learners & voters
        assert config.learners_next <= config.voters.outgoing - config.voters.incoming
        assert voters | config.learners == tracker.progress.keys()
        assert config.learners == {n for n, pr in tracker.progress.items() if pr.is_learner}


@given(st.lists(st.tuples(WAYS, STEPS), max_size=8))
def test_a_change_that_is_refused_leaves_no_trace(changes):
    tracker = started(1, 2)
    for way, steps in changes:
        before = told(tracker)
        kept = deepcopy(before)
        progress = tracker.progress
        if not attempt(tracker, way, steps):
            assert told(tracker) == kept
            assert tracker.progress is progress


@given(st.lists(st.tuples(WAYS, STEPS), max_size=8))
def test_what_was_written_down_is_restored(changes):
    tracker = started(1, 2, 3)
    for way, steps in changes:
        attempt(tracker, way, steps)
    config, progress = restore(Changer(Tracker(10), 7), tracker.conf_state())
    assert config == tracker.config
    assert progress.keys() == tracker.progress.keys()


@given(STEPS)
def test_a_joint_change_ends_where_its_steps_lead(steps):
    tracker = started(1, 2, 3)
    if attempt(tracker, "enter", steps):
        asked = tracker.config
        assert asked.voters.outgoing == {1, 2, 3}
        assert attempt(tracker, "leave", [])
        assert tracker.config.voters.incoming == asked.voters.incoming
        assert tracker.config.learners == asked.learners | asked.learners_next
        assert not tracker.config.auto_leave


def test_a_voter_demoted_and_promoted_again_by_one_joint_change_is_a_voter():
    steps = [(ConfChangeKind.ADD_LEARNER, 2), (ConfChangeKind.ADD_NODE, 2)]
    config, _ = Changer(started(1, 2), 7).enter_joint(False, steps)
    assert str(config) == "voters=(1 2)&&(1 2)"


def test_progress_of_whoever_stays_is_kept_and_the_old_one_is_not_touched():
    tracker = started(1, 2)
    tracker.progress[2].match = 2
    _, progress = Changer(tracker, 7).simple([(ConfChangeKind.ADD_LEARNER, 2)])
    assert (progress[2].match, progress[2].is_learner) == (2, True)
    assert not tracker.progress[2].is_learner


def test_whoever_is_new_is_probed_from_the_end_of_the_log_and_counts_as_heard_of():
    _, progress = Changer(started(1), 7).simple([(ConfChangeKind.ADD_NODE, 2)])
    assert str(progress[2]) == "StateProbe match=0 next=7"
    assert progress[2].recent_active


def test_restoring_begins_from_an_empty_configuration_whatever_was_there():
    tracker = started(1, 2, 3)
    config, progress = restore(Changer(tracker, 7), ConfState(voters=(4,), learners=(5,)))
    assert str(config) == "voters=(4) learners=(5)"
    assert sorted(progress) == [4, 5]
    assert tracker.voter_nodes() == [1, 2, 3]


@pytest.mark.parametrize(
    "written",
    [
        ConfState(voters=(1, 1)),
        ConfState(voters=(1, 2), learners=(2,)),
        ConfState(voters=(1,), learners_next=(2,)),
        ConfState(voters=(1, 0)),
        ConfState(learners=(1,)),
        ConfState(voters=(1,), auto_leave=True),
        ConfState(voters=(1,), voters_outgoing=(2,), learners_next=(3,)),
    ],
)
def test_what_contradicts_itself_is_not_restored(written):
    with pytest.raises(ConfChangeError):
        restore(Changer(Tracker(10), 7), written)


@pytest.mark.parametrize("written", [ConfState(), ConfState(voters=(3, 1, 2))])
def test_what_is_out_of_order_or_empty_is_restored_all_the_same(written):
    config, _ = restore(Changer(Tracker(10), 7), written)
    assert config.conf_state().voters == tuple(sorted(written.voters))


@pytest.mark.parametrize("spoil", ["progress", "learner", "stranger"])
def test_a_tracker_that_contradicts_itself_is_not_changed(spoil):
    tracker = started(1, 2)
    match spoil:
        case "progress":
            del tracker.progress[2]
        case "learner":
            tracker.progress[2].is_learner = True
        case _:
            tracker.progress[3] = tracker.progress[2]
    with pytest.raises(ConfChangeError, match="contradicts itself"):
        Changer(tracker, 7).simple([])
