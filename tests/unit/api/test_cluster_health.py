"""What the status of a cluster means: which node may be stopped, and what stays."""

import pytest

from penstock.api.cluster_health import BEHIND_ENTRIES, describe, may_stop, removal_text, tolerated
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState

OWN = Member(1, "a:1", "a:2")


def member(number, **fields):
    fields = {"is_active": True, "lag": 0} | fields
    return MemberStatus(id=number, **fields)


def status(*members, leader=1, **fields):
    return ClusterStatus(
        node_id=1, state=NodeState.MEMBER, leader=leader, members=members, **fields
    )


TRIO = status(member(1), member(2), member(3))


def test_of_three_any_one_may_be_stopped():
    assert may_stop(TRIO, 2).safe
    assert may_stop(TRIO, 2).text == "yes, 2 of 3 stay"
    assert may_stop(TRIO, 1).text == "yes, 2 of 3 stay; another one will lead"
    assert tolerated(TRIO) == 1


@pytest.mark.parametrize(
    "lost",
    [member(3, is_active=False), member(3, is_blank=True), member(3, is_active=False, lag=9)],
)
def test_with_one_lost_the_others_must_stay(lost):
    ill = status(member(1), member(2), lost)
    stop = may_stop(ill, 2)
    assert not stop.safe
    assert stop.text == "no: 1 of 3 stay, and 2 are needed"
    assert may_stop(ill, 3).safe, "it is no loss"
    assert tolerated(ill) == 0
    assert not describe(ill, OWN).healthy


def test_a_node_that_is_far_behind_is_no_help_yet():
    late = status(member(1), member(2), member(3, lag=BEHIND_ENTRIES + 1))
    assert may_stop(late, 2).text == "no: 2 of 3 stay, but node 3 has yet to catch up"
    assert may_stop(late, 3).safe


def test_a_learner_may_always_be_stopped():
    with_learner = status(member(1), member(2), member(3), member(4, is_learner=True))
    assert may_stop(with_learner, 4).safe
    assert may_stop(with_learner, 4).text == "yes: it has no vote, 3 of 3 stay"


def test_of_two_or_one_none_may_be_stopped():
    assert may_stop(status(member(1), member(2)), 2).text == "no: 1 of 2 stay, and 2 are needed"
    assert may_stop(ClusterStatus(node_id=1), 1).text == "no: it is the only one"


def test_without_a_leader_nothing_is_stopped():
    assert not may_stop(status(member(1), member(2), member(3), leader=0), 2).safe


def test_five_survive_two():
    five = status(*map(member, range(1, 6)))
    assert (tolerated(five), may_stop(five, 5).text) == (2, "yes, 4 of 5 stay")
    shown = describe(five, OWN)
    assert (shown.acknowledged_by, shown.voters, shown.healthy) == (3, 5, True)


def test_states_of_members_are_told_apart():
    members = (
        member(1),
        member(2, lag=BEHIND_ENTRIES + 1),
        member(3, is_active=False),
        member(4, differs=("limits.x",)),
        member(5, is_active=None, lag=None),
        member(6, is_blank=True),
    )
    shown = describe(status(*members), OWN).members
    assert [one.state for one in shown] == ["ok", "behind", "silent", "differs", "unknown", "blank"]
    assert [one.role for one in shown][:2] == ["leader", "follower"]


def test_a_lone_node_shows_itself():
    (shown,) = describe(ClusterStatus(node_id=1, leader=1), OWN).members
    assert (shown.node, shown.this, shown.state, shown.client_addr) == (1, True, "ok", "a:2")


def test_removing_tells_what_stays():
    assert removal_text(TRIO, 3) == "2 nodes stay, and none of them may fail then"
    assert removal_text(status(*map(member, range(1, 5))), 4) == "3 nodes stay, of which 1 may fail"
