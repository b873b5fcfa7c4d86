"""What metrics tell of a node: as leader, as follower, and alone."""

import msgspec
from tests.cluster.fixed_node import Node

from penstock.admin.metrics import render
from penstock.cluster.status import ClusterCounts


def series(view, name):
    lines = render(view).decode().splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(name)
    }


def test_leader_tells_how_far_each_other_node_is(view):
    view.node = Node(leader=1)
    found = series(view, "penstock_raft_")
    assert found['penstock_raft_follower_lag{node="2"}'] == 1
    assert found['penstock_raft_follower_lag{node="3"}'] == 0
    assert 'penstock_raft_follower_lag{node="1"}' not in found
    assert found['penstock_raft_follower_active{node="2"}'] == 1
    assert found["penstock_raft_term"] == 7
    assert found["penstock_raft_leader"] == found["penstock_raft_is_leader"] == 1
    assert found["penstock_raft_commit_index"] == 42
    assert found["penstock_raft_applied_index"] == 41
    assert found["penstock_raft_last_index"] == 43
    assert found['penstock_raft_members{kind="voter"}'] == 3


def test_follower_knows_nothing_of_others_and_says_nothing(view):
    view.node = Node(leader=2)
    found = series(view, "penstock_raft_")
    assert not [name for name in found if "follower" in name]
    assert (found["penstock_raft_leader"], found["penstock_raft_is_leader"]) == (2, 0)


def test_progress_of_copies_kept_log_and_clock_are_told(view):
    node = view.node = Node(leader=1)
    status = node.status()
    members = [msgspec.structs.replace(m, snapshot_bytes=100 * m.id) for m in status.members]
    status = msgspec.structs.replace(
        status, members=tuple(members), log_bytes=4_096, snapshot_bytes=77
    )
    node.status = lambda: status
    found = series(view, "penstock_")
    assert found['penstock_raft_snapshot_sending_bytes{node="2"}'] == 200
    assert found["penstock_raft_snapshot_receiving_bytes"] == 77
    assert found["penstock_raft_log_kept_bytes"] == 4_096
    assert found["penstock_clock_skew_seconds"] == 0.25


def test_lone_broker_leads_itself(view):
    found = series(view, "penstock_raft_")
    assert found["penstock_raft_is_leader"] == found["penstock_raft_leader"] == 1
    assert found["penstock_raft_elections_total"] == 0


def test_everything_that_is_counted_is_shown(view):
    names = [field for field in msgspec.structs.fields(ClusterCounts) if field.type is int]
    counts = ClusterCounts(**{field.name: 10 + place for place, field in enumerate(names)})
    node = view.node = Node(leader=1)
    status = msgspec.structs.replace(node.status(), counts=counts)
    node.status = lambda: status
    found = series(view, "penstock_raft_")
    for place, field in enumerate(names):
        assert found[f"penstock_raft_{field.name}_total"] == 10 + place


def test_what_went_between_nodes_is_told_by_node(view):
    node = view.node = Node(leader=2)
    status = node.status()
    busy = msgspec.structs.replace(status.members[1], bytes_in=5, bytes_out=6, drops=7)
    status = msgspec.structs.replace(status, members=(status.members[0], busy))
    node.status = lambda: status
    assert series(view, "penstock_peer_") == {
        'penstock_peer_sent_bytes_total{node="2"}': 6,
        'penstock_peer_received_bytes_total{node="2"}': 5,
        'penstock_peer_dropped_frames_total{node="2"}': 7,
    }


def test_why_connections_between_nodes_ended_is_told_by_reason(view):
    node = view.node = Node(leader=1)
    counts = ClusterCounts(peer_ends={"wrong_secret": 3})
    status = msgspec.structs.replace(node.status(), counts=counts)
    node.status = lambda: status
    found = series(view, "penstock_peer_disconnects")
    assert found == {'penstock_peer_disconnects_total{reason="wrong_secret"}': 3}


def test_dashboards_of_hermesmq_are_told_the_same(view):
    node = view.node = Node(leader=1)
    silent = {1: None, 2: 0.25, 3: 9.0}
    status = node.status()
    members = tuple(msgspec.structs.replace(m, contact_s=silent[m.id]) for m in status.members)
    status = msgspec.structs.replace(status, members=members)
    node.status = lambda: status
    found = series(view, "hermesmq_raft")
    assert found['hermesmq_raft_term{node="1"}'] == 7
    assert found['hermesmq_raft_last_applied{node="1"}'] == 41
    assert found['hermesmq_raft_millis_since_quorum_ack{node="1"}'] == 250
