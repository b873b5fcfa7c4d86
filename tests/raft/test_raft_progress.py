"""What a leader knows of a follower: states, flow, acknowledgements and rejections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.inflights import Inflights
from penstock.raft.progress import PeerProgress, ProgressState


def progress(match, following, state=ProgressState.PROBE, *, window=256, **more):
    more.setdefault("recent_active", True)
    return PeerProgress(
        next=following, match=match, state=state, inflights=Inflights(window), **more
    )


def replicating(match, following, **more):
    return progress(match, following, ProgressState.REPLICATE, **more)


# ── Acknowledgements


def test_an_acknowledgement_raises_match_and_lets_more_be_sent():
    pr = progress(3, 5, msg_app_flow_paused=True)
    assert pr.maybe_update(6)
    assert (pr.match, pr.next, pr.is_paused()) == (6, 7, False)


@pytest.mark.parametrize("index", [2, 3])
def test_an_acknowledgement_of_what_was_known_changes_nothing(index):
    pr = progress(3, 5, msg_app_flow_paused=True)
    assert not pr.maybe_update(index)
    assert (pr.match, pr.next, pr.is_paused()) == (3, 5, True)


def test_an_acknowledgement_never_takes_next_back():
    pr = replicating(3, 20)
    assert pr.maybe_update(7)
    assert (pr.match, pr.next) == (7, 20)


# ── Rejections


@pytest.mark.parametrize("rejected", [4, 5])
def test_a_rejection_of_what_was_acknowledged_is_stale(rejected):
    pr = replicating(5, 10)
    assert not pr.maybe_decr_to(rejected, rejected)
    assert (pr.match, pr.next) == (5, 10)


def test_a_rejection_while_replicating_goes_back_to_what_is_shared():
    pr = replicating(5, 10, commit_sent=9)
    assert pr.maybe_decr_to(9, 2)
    assert (pr.match, pr.next, pr.commit_sent) == (5, 6, 5)


def test_a_rejection_that_is_not_the_answer_to_the_probe_is_stale():
    pr = progress(0, 10, msg_app_flow_paused=True)
    assert not pr.maybe_decr_to(5, 5)
    assert (pr.next, pr.is_paused()) == (10, True)


@pytest.mark.parametrize(
    ("match", "following", "hint", "expected"),
    [
        (0, 10, 9, 9),  # one back, if the hint is of no help
        (0, 10, 2, 3),  # right behind what the hint says is shared
        (0, 10, 0, 1),
        (4, 10, 2, 5),  # never before what was acknowledged
        (0, 1, 0, 1),  # there is nothing before the first entry
    ],
)
def test_a_rejected_probe_goes_back_as_far_as_the_hint_says(match, following, hint, expected):
    pr = progress(match, following, msg_app_flow_paused=True, commit_sent=following - 1)
    assert pr.maybe_decr_to(following - 1, hint)
    assert (pr.match, pr.next, pr.is_paused()) == (match, expected, False)
    assert pr.commit_sent == expected - 1


# ── States


@pytest.mark.parametrize("state", list(ProgressState))
def test_probing_begins_behind_what_is_shared_with_an_empty_window(state):
    pr = progress(1, 5, state, msg_app_flow_paused=True, commit_sent=4)
    pr.inflights.add(4, 1)
    pr.become_probe()
    assert (pr.state, pr.match, pr.next) == (ProgressState.PROBE, 1, 2)
    assert (pr.is_paused(), pr.inflights.count, pr.commit_sent) == (False, 0, 1)


@pytest.mark.parametrize(("match", "snapshot", "following"), [(1, 10, 11), (1, 0, 2), (12, 10, 13)])
def test_probing_after_a_snapshot_begins_behind_it(match, snapshot, following):
    pr = progress(match, 20, ProgressState.SNAPSHOT, pending_snapshot=snapshot)
    pr.become_probe()
    assert (pr.match, pr.next, pr.pending_snapshot) == (match, following, 0)


def test_replicating_begins_behind_what_is_shared():
    pr = progress(1, 5, msg_app_flow_paused=True)
    pr.become_replicate()
    assert (pr.state, pr.next, pr.is_paused()) == (ProgressState.REPLICATE, 2, False)


def test_while_a_snapshot_is_on_its_way_nothing_is_sent():
    pr = replicating(1, 5)
    pr.inflights.add(4, 1)
    pr.become_snapshot(10)
    assert (pr.state, pr.pending_snapshot, pr.next) == (ProgressState.SNAPSHOT, 10, 11)
    assert (pr.is_paused(), pr.inflights.count, pr.commit_sent) == (True, 0, 10)
    with pytest.raises(AssertionError, match="snapshot"):
        pr.sent_entries(1, 1)


# ── Sending


def test_a_probe_waits_for_its_answer():
    pr = progress(0, 5)
    pr.sent_entries(0, 0)
    assert not pr.is_paused()
    pr.sent_entries(1, 10)
    assert (pr.is_paused(), pr.next, pr.inflights.count) == (True, 5, 0)


def test_entries_are_sent_ahead_until_the_window_is_full():
    pr = replicating(4, 5, window=2)
    pr.sent_entries(3, 30)
    assert (pr.next, pr.is_paused(), pr.inflights.bytes) == (8, False, 30)
    pr.sent_entries(1, 10)
    assert (pr.next, pr.is_paused()) == (9, True)
    pr.inflights.free_le(7)
    assert pr.inflights.count == 1


def test_a_full_window_lets_an_empty_message_pass_and_closes_again():
    pr = replicating(4, 5, window=1)
    pr.sent_entries(1, 10)
    pr.msg_app_flow_paused = False  # as the answer to a heartbeat does
    pr.sent_entries(0, 0)
    assert (pr.is_paused(), pr.next, pr.inflights.count) == (True, 6, 1)


@pytest.mark.parametrize(
    ("sent", "following", "commit", "is_of_use"),
    [
        (3, 10, 4, True),
        (3, 10, 3, False),  # it was told
        (9, 10, 12, False),  # it was told of all it was sent
        (8, 10, 12, True),
    ],
)
def test_a_commit_index_is_told_only_if_it_moves_the_follower_on(
    sent, following, commit, is_of_use
):
    assert progress(0, following, commit_sent=sent).can_bump_commit(commit) is is_of_use


def test_what_was_told_is_noted():
    pr = progress(0, 10)
    pr.sent_commit(7)
    assert not pr.can_bump_commit(7)


# ── As etcd prints it


def test_everything_of_note_is_printed():
    pr = progress(1, 2, ProgressState.SNAPSHOT, pending_snapshot=123, window=1)
    pr.is_learner, pr.recent_active = True, False
    pr.inflights.add(123, 1)
    assert str(pr) == (
        "StateSnapshot match=1 next=2 learner paused pendingSnap=123 inactive inflight=1[full]"
    )


def test_what_is_not_of_note_is_not_printed():
    assert str(replicating(1, 2)) == "StateReplicate match=1 next=2"


# ── Whatever happens

INDEX = st.integers(0, 12)
OPERATIONS = st.one_of(
    st.tuples(st.just("become_probe")),
    st.tuples(st.just("become_replicate")),
    st.tuples(st.just("become_snapshot"), INDEX),
    st.tuples(st.just("maybe_update"), INDEX),
    st.tuples(st.just("maybe_decr_to"), INDEX, INDEX),
    st.tuples(st.just("sent_entries"), st.integers(0, 3), INDEX),
)


@given(st.lists(OPERATIONS, max_size=30))
def test_match_never_falls_and_stays_before_next(operations):
    pr = progress(0, 1, window=3)
    for name, *arguments in operations:
        if (name == "sent_entries" and pr.is_paused()) or (
            name == "become_snapshot" and arguments[0] <= pr.match
        ):
            continue  # this does not happen
        before = pr.match
        getattr(pr, name)(*arguments)
        assert before <= pr.match < pr.next
