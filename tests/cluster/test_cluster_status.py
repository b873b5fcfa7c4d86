"""What is said of a cluster: whether it is well, what it survives, and what to do if not."""

import msgspec
import pytest

from penstock.cluster.status import (
    ClusterStatus,
    MemberStatus,
    NodeState,
    diagnosis,
    tolerance,
    unreadiness,
)


def members(voters, learners=0, silent=()):
    return tuple(
        MemberStatus(id=n, is_learner=n > voters, is_active=n not in silent)
        for n in range(1, voters + learners + 1)
    )


def led(voters, learners=0, silent=()):
    found = members(voters, learners, silent)
    return ClusterStatus(node_id=1, leader=1, state=NodeState.MEMBER, members=found)


@pytest.mark.parametrize(("voters", "lost"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_fewer_than_half_of_the_voters_may_be_lost(voters, lost):
    assert tolerance(voters) == lost


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (led(3), "healthy: survives the loss of 1 node"),
        (led(5), "healthy: survives the loss of 2 nodes"),
        (led(2), "working, but losing either node stops it; join a third"),
        (led(3, learners=1), "healthy: survives the loss of 1 node; node 4 is catching up"),
        (led(1, learners=2), "join two more nodes; nodes 2, 3 are catching up"),
        (led(1), "a cluster of one: no fault tolerance"),
        (led(3, silent={2}), "degraded: node 2 is not reachable"),
        (led(3, silent={2}), "the cluster cannot lose another node now"),
        (led(5, silent={2}), "survives the loss of 1 node now"),
        (led(3, silent={2, 3}), "no quorum: 1 of 3 nodes reachable; start the others (2, 3)"),
        (led(3, learners=1, silent={4}), "; node 4 is joining but not reachable"),
        (led(3, learners=2, silent={4}), "; node 5 is catching up; node 4 is joining but not"),
        (ClusterStatus(node_id=1, leader=1), "a single node"),
        (ClusterStatus(node_id=1, state=NodeState.WAITING), "penstock cluster init"),
        (ClusterStatus(node_id=1, state=NodeState.REMOVED), "under a new node_id, with an empty"),
    ],
)
def test_diagnosis_says_how_it_is_and_what_to_do(status, said):
    assert said in diagnosis(status)


def test_nodes_with_other_settings_are_named_with_the_settings():
    found = members(3, silent={3})
    odd = msgspec.structs.replace(found[2], differs=("limits.inflight_max", "retention"))
    status = msgspec.structs.replace(led(3), members=(*found[:2], odd))
    said = "node 1 and node 3 differ in limits.inflight_max, retention"
    assert f"degraded: {said}" in diagnosis(status)
    assert "restart those that had others" in diagnosis(status)
    assert unreadiness(status) == ""
    leaderless = msgspec.structs.replace(status, leader=0)
    assert unreadiness(leaderless).startswith(f"no leader: {said}")


def test_node_without_a_leader_counts_itself_among_the_reachable():
    alone = msgspec.structs.replace(led(3, silent={1, 2, 3}), leader=0)
    assert "no quorum: 1 of 3 nodes reachable; start the others (2, 3)" in diagnosis(alone)
    with_another = msgspec.structs.replace(led(3, silent={2}), leader=0)
    assert "an election is under way" in diagnosis(with_another)


def test_nodes_that_are_up_and_out_of_reach_need_no_start():
    found = msgspec.structs.replace(led(3, silent={2, 3}), leader=0)
    up, down = found.members[1:]
    half = (found.members[0], msgspec.structs.replace(up, answers=True), down)
    said = diagnosis(msgspec.structs.replace(found, members=half))
    assert "1 of 3 nodes reachable; node 2 is up, but not reachable from here" in said
    assert "start the others (3)" in said


def test_emptied_node_that_was_removed_is_not_to_be_removed_again():
    lost = ClusterStatus(node_id=2, state=NodeState.WAITING, emptied_of="ab")
    assert "then remove node 2" in unreadiness(lost)
    gone = msgspec.structs.replace(lost, was_removed=True)
    assert "then remove" not in unreadiness(gone)
    assert "was removed from cluster ab: stop it" in diagnosis(gone)


def test_follower_refers_to_the_leader_for_how_others_are():
    assert diagnosis(msgspec.structs.replace(led(3), leader=2)).startswith("node 2 leads")


def test_only_the_node_that_is_led_by_itself_is_the_leader():
    assert led(3).is_leader
    assert not msgspec.structs.replace(led(3), leader=2).is_leader
    assert not ClusterStatus(node_id=0, leader=0).is_leader


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (ClusterStatus(node_id=1, leader=1), ""),
        (led(3), ""),
        (led(3, silent={2}), ""),
        (msgspec.structs.replace(led(3), leader=2, role="follower"), ""),
        (msgspec.structs.replace(led(3), leader=2, role="learner"), "catching up"),
        (msgspec.structs.replace(led(3), leader=0), "no leader"),
        (msgspec.structs.replace(led(3, silent={2, 3}), leader=0), "no quorum: 1 of 3"),
        (ClusterStatus(node_id=1, state=NodeState.WAITING), "penstock cluster init"),
        (ClusterStatus(node_id=1, state=NodeState.REMOVED), "removed"),
    ],
)
def test_node_is_ready_only_as_a_member_that_sees_a_leader(status, why):
    assert why in unreadiness(status)
    assert bool(why) == bool(unreadiness(status))
