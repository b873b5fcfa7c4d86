"""``penstock cluster`` against real pages: of a broker alone, and of nodes that play their part."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pytest
from click.testing import CliRunner
from tests.cluster.fixed_node import Node

from penstock.cli import cluster as module
from penstock.cli import penstock
from penstock.cluster.frames import Member
from penstock.cluster.status import MemberStatus, NodeState
from penstock.errors import ClusterError
from penstock.node.cluster_admin import NodeClusterAdmin
from penstock.testing import Broker


class Actor(Node):
    """A node of a cluster of two whose pages are real; it does what it is asked at once."""

    def __init__(self, node_id, addresses, leader=1):
        super().__init__(leader)
        self.node_id = node_id
        self.addresses = addresses
        self.members = dict.fromkeys(addresses, False)
        """Whether each is a learner."""
        self.heard = set()
        """Which nodes it hears from while there is no leader."""
        self.looks_left = 0
        """How often a new node is seen to learn before it has a vote."""

    @property
    def leader_addr(self):
        return self.addresses.get(self.leader, "")

    def own(self):
        return Member(self.node_id, f"127.0.0.1:770{self.node_id}", self.addresses[self.node_id])

    def status(self):
        if self.looks_left:
            self.looks_left -= 1
        members = tuple(
            MemberStatus(
                id=n,
                client_addr=self.addresses.get(n, ""),
                is_learner=is_learner and bool(self.looks_left),
                lag=self.looks_left if self.is_leader else None,
                is_active=True if self.is_leader else n in self.heard if self.heard else None,
                contact_s=0.1 if n in self.heard else 120.0,
            )
            for n, is_learner in self.members.items()
        )
        return msgspec.structs.replace(super().status(), node_id=self.node_id, members=members)

    def bootstrap(self, members, then):
        super().bootstrap(members, then)
        self.state, self.leader = NodeState.MEMBER, self.node_id

    def add(self, member, then):
        super().add(member, then)
        self.members[member.id] = True
        self.addresses[member.id] = member.client_addr
        self.looks_left = 4

    def transfer(self, node_id, then):
        super().transfer(node_id, then)
        if self.error is None:
            self.leader = node_id


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.001)
    monkeypatch.setattr(module, "PROBE_S", 1.0)
    monkeypatch.setattr(module, "ELECTION_S", 0.2)


@contextmanager
def nodes(*ids, leader=1):
    """Brokers, each of which has an actor for its part in the cluster."""
    brokers = {n: Broker() for n in ids}
    admins = []

    class RememberedAdmin(NodeClusterAdmin):
        def __init__(self, *parts):
            super().__init__(*parts)
            admins.append(self)

    patch = pytest.MonkeyPatch()
    patch.setattr("penstock.server.NodeClusterAdmin", RememberedAdmin)
    try:
        addresses = {}
        for n, broker in brokers.items():
            broker.start()
            addresses[n] = f"127.0.0.1:{broker.port}"
        actors = {n: Actor(n, dict(addresses), leader) for n in ids}
        for n, admin in zip(ids, admins, strict=True):
            admin._cluster = actors[n]
        yield actors
    finally:
        patch.undo()
        for broker in brokers.values():
            broker.stop()


def run(at, *arguments):
    result = CliRunner().invoke(penstock, ["cluster", *arguments, "--server", at])
    said = result.output if result.exit_code == 0 else result.stderr
    return result.exit_code, said


@pytest.fixture
def lone():
    with Broker() as broker:
        yield f"127.0.0.1:{broker.port}"


# ── a broker that stands alone


def test_status_of_a_lone_broker_says_what_it_survives(lone):
    code, said = run(lone, "status")
    assert code == 0
    assert "leader     node 1, in term 1" in said
    assert "a single node: no fault tolerance" in said


def test_status_as_json_is_for_programs(lone):
    code, said = run(lone, "status", "--json")
    found = json.loads(said)
    assert (code, found["state"], found["members"][0]["id"]) == (0, "lone", 1)
    assert "diagnosis" in found


def test_init_of_what_has_begun_changes_nothing(lone):
    for _ in range(2):
        assert run(lone, "init")[0] == 0


@pytest.mark.parametrize(
    "arguments", [("transfer", "2"), ("remove", "2", "-y"), ("remove", "1", "-y")]
)
def test_lone_broker_refuses_with_a_reason_and_what_to_do(lone, arguments):
    code, said = run(lone, *arguments)
    assert code == 1
    assert len(said.strip().splitlines()) == 2, said


def test_lone_broker_can_neither_join_nor_be_joined(lone):
    with nodes(1, 2) as actors:
        code, said = run(lone, "join", "--to", actors[1].addresses[1])
        assert code == 1
        assert "empty data directory" in said
        code, said = run(actors[1].addresses[1], "join", "--to", lone)
        assert code == 1
        assert "peer_listen" in said


def test_nobody_there_is_said_with_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        code, said = run(f"127.0.0.1:{taken.getsockname()[1]}", "status")
    assert code == 1
    assert "penstock serve" in said


# ── nodes


def test_follower_is_asked_and_the_leader_answers():
    with nodes(1, 2) as actors:
        code, said = run(actors[2].addresses[2], "status")
    assert code == 0
    assert "leader     node 1, in term 7" in said
    assert "losing either node stops it" in said, "as only the leader knows"
    lines = [line.split() for line in said.splitlines()]
    assert ["1", "leader"] in [line[:2] for line in lines]
    assert ["2", "follower"] in [line[:2] for line in lines]


def test_change_at_a_follower_is_made_at_the_leader():
    with nodes(1, 2) as actors:
        code, said = run(actors[2].addresses[2], "remove", "2", "--yes")
        assert (code, said) == (0, "removed node 2: stop it now\n")
        assert [request[:2] for request in actors[1].asked] == [("remove", 2)]
        assert actors[2].asked == []


def test_nothing_can_be_removed_from_a_node_that_waits():
    with nodes(1) as actors:
        actors[1].state, actors[1].members = NodeState.WAITING, {}
        code, said = run(actors[1].addresses[1], "remove", "2", "--yes")
    assert code == 1
    assert "run penstock cluster init" in said


def test_port_that_speaks_something_else_is_told_without_showing_what_came():
    with socket.create_server(("127.0.0.1", 0)) as door, ThreadPoolExecutor() as threads:

        def answer():
            with door.accept()[0] as caller:
                caller.recv(100)
                caller.sendall(b"\x1b[31m for nodes")

        threads.submit(answer)
        code, said = run(f"127.0.0.1:{door.getsockname()[1]}", "status")
    assert code == 1
    assert "for clients (listen)" in said
    assert "\x1b" not in said


def test_nothing_is_removed_unless_the_user_says_so():
    with nodes(1, 2) as actors:
        code, said = run(actors[1].addresses[1], "remove", "2")
        assert code == 1
        assert "1 voter left: no fault tolerance" in said
        assert actors[1].asked == []


def test_without_a_leader_nodes_are_probed_and_those_that_are_down_named():
    with nodes(1, 2, leader=0) as actors:
        actors[1].heard = {1, 2}
        actors[1].members |= {3: False, 4: False, 5: False}
        actors[1].addresses |= dict.fromkeys((3, 4, 5), "127.0.0.1:1")
        code, said = run(actors[1].addresses[1], "status")
    assert code == 0
    assert "no quorum: 2 of 5 nodes reachable; start the others (3, 4, 5)" in said


def test_nodes_that_answer_us_and_do_not_hear_of_each_other_are_not_told_to_wait():
    with nodes(1, 2, 3, leader=0) as actors:
        actors[1].heard = {1}
        code, said = run(actors[1].addresses[1], "status")
    assert code == 0
    assert "election is under way" not in said
    assert "no quorum: 1 of 3 nodes reachable; nodes 2, 3 are up, but not reachable" in said
    assert "check the network between nodes" in said
    assert said.count("120.0 s ago (unreachable)") == 2, (
        "whoever answers us was not heard of by the node"
    )
    assert said.count("(answers)") == 2


def test_node_that_is_cut_off_is_told_and_the_leader_on_the_other_side_is_asked():
    with nodes(1, 2, 3, leader=2) as actors:
        actors[1].leader, actors[1].heard = 0, {1}
        code, said = run(actors[1].addresses[1], "status")
        as_json = json.loads(run(actors[1].addresses[1], "status", "--json")[1])
    assert code == 0
    assert "leader     node 2" in said
    assert "node 1, which you contacted, sees no leader: it is cut off" in said
    assert (as_json["asked"], as_json["is_cut_off"], as_json["leader"]) == (1, True, 2)


def test_leader_that_does_not_answer_leaves_what_the_follower_knows():
    with nodes(1, 2) as actors:
        actors[2].addresses[1] = "127.0.0.1:1"
        code, said = run(actors[2].addresses[2], "status")
    assert code == 0
    assert "node 1 leads; ask it about the others" in said


def test_nodes_that_send_each_other_on_are_not_followed_for_ever():
    with nodes(1, 2) as actors:
        actors[1].leader, actors[2].leader = 2, 1
        code, said = run(actors[1].addresses[1], "transfer", "1")
    assert code == 1
    assert "a leader is being elected" in said


def test_new_node_joins_at_the_leader_and_is_followed_until_it_has_a_vote():
    with nodes(1, 2, 3) as actors:
        del actors[1].members[3], actors[2].members[3], actors[1].addresses[3]
        actors[3].state, actors[3].leader = NodeState.WAITING, 0
        code, said = run(actors[3].addresses[3], "join", "--to", actors[2].addresses[2])
        assert code == 0
        assert "node 3 has caught up and is a voter" in said
        own = Member(3, "127.0.0.1:7703", actors[3].addresses[3])
        assert [request[:2] for request in actors[1].asked] == [("add", own)]


def test_node_that_is_part_of_it_has_joined_already():
    with nodes(1, 2) as actors:
        assert run(actors[2].addresses[2], "join", "--to", actors[1].addresses[1])[0] == 0
        assert actors[1].asked == []


def test_node_that_lost_its_disk_is_told_to_come_back_under_another_number():
    with nodes(1, 2) as actors:
        actors[2].state, actors[2].leader = NodeState.WAITING, 0
        code, said = run(actors[2].addresses[2], "join", "--to", actors[1].addresses[1])
        assert actors[1].asked == []
    assert code == 1
    assert "start it with a number that was never used" in said
    assert "penstock cluster remove 2" in said


def test_join_that_takes_too_long_says_that_it_goes_on():
    with nodes(1, 2) as actors:
        actors[1].members[2], actors[1].looks_left = True, 10**9
        there = actors[1].addresses[1]
        code, said = run(actors[2].addresses[2], "join", "--to", there, "--timeout", "50ms")
    assert code == 1
    assert "it continues" in said


@pytest.mark.parametrize("state", [NodeState.REMOVED, NodeState.MEMBER])
def test_node_of_another_cluster_or_none_any_more_cannot_join(state):
    with nodes(1, 2) as actors:
        actors[2].state = state
        other = msgspec.structs.replace(actors[2].status(), cluster_id="00")
        actors[2].status = lambda: other
        code, said = run(actors[2].addresses[2], "join", "--to", actors[1].addresses[1])
    assert code == 1
    assert "empty data directory" in said


def test_init_names_nodes_and_waits_for_a_leader():
    with nodes(1, 2, leader=0) as actors:
        actors[1].state = NodeState.WAITING
        given = ["--node", "1=127.0.0.1:7701@127.0.0.1:1", "--node", "2=127.0.0.1:7702"]
        code, said = run(actors[1].addresses[1], "init", *given)
        members = [Member(1, "127.0.0.1:7701", "127.0.0.1:1"), Member(2, "127.0.0.1:7702")]
        assert actors[1].asked[0][:2] == ("bootstrap", members)
        assert "nothing was changed" not in said
        _, again = run(actors[1].addresses[1], "init", *given)
        assert "is already in cluster" in again
    assert code == 0
    assert "leader     node 1" in said


@pytest.mark.parametrize("text", ["1", "x=a:1", "1=nowhere", "1=a:1@b", "=a:1"])
def test_node_that_is_none_is_refused_before_anybody_is_asked(text):
    code, said = run("127.0.0.1:1", "init", "--node", text)
    assert code == 2
    assert "--node" in said


def test_transfer_waits_until_the_other_leads():
    with nodes(1, 2) as actors:
        assert run(actors[2].addresses[2], "transfer", "2") == (0, "node 2 is the leader\n")


def test_change_waits_through_an_election():
    with nodes(1, 2) as actors:
        looks, actors[1].leader = iter((0, 0, 0)), 0
        own_status = actors[1].status

        def status():
            actors[1].leader = next(looks, actors[1].leader or 1)
            return own_status()

        actors[1].status = status
        assert run(actors[1].addresses[1], "transfer", "2")[0] == 0
        assert [request[0] for request in actors[1].asked] == ["transfer"]


def test_transfer_that_is_refused_or_in_vain_is_told():
    with nodes(1, 2) as actors:
        actors[1].error = ClusterError("node 2 is behind", "wait until it has caught up")
        code, said = run(actors[1].addresses[1], "transfer", "2")
        assert code == 1
        assert "wait until it has caught up" in said
        actors[1].error = None
        actors[1].transfer = lambda _node, then: then(None)
        code, said = run(actors[1].addresses[1], "transfer", "2")
        assert code == 1
        assert "is not the leader after" in said
