"""``/cluster``: what it tells of every kind of node, what it changes, and whom it sends where."""

import asyncio

import pytest
from asking import Api
from tests.cluster.fixed_node import LEADER_ADDR, Node

from penstock.cluster.frames import Member
from penstock.cluster.status import NodeState
from penstock.errors import ClusterError, NoQuorum
from penstock.node.cluster_admin import NodeClusterAdmin

TOKEN = "correct-horse-battery"


class Asked:
    """Pages of a node, each request on a new event loop."""

    def __init__(self, view, node, token=""):
        self.view, self.node, self.token = view, node, token

    def __call__(self, method, path, body=None, **headers):
        async def ask():
            admin = NodeClusterAdmin(self.node, None, None)
            api = Api(self.view, token=self.token, cluster_admin=admin)
            return await api.ask_soon(method, path, body, **headers)

        return asyncio.run(ask())


def test_leader_shows_how_far_others_are(view):
    answer = Asked(view, Node(leader=1))("GET", "/cluster")
    assert answer.status == 200
    found = answer.document
    assert (found["role"], found["term"], found["leader"], found["is_leader"]) == (
        "leader",
        7,
        1,
        True,
    )
    assert [(m["id"], m["lag"]) for m in found["members"]] == [(1, 2), (2, 1), (3, 0)]
    assert found["diagnosis"] == "healthy: survives the loss of 1 node"
    assert (found["peer_addr"], found["client_addr"]) == ("10.0.0.1:7700", "10.0.0.1:1883")


def test_lone_broker_shows_itself(view):
    found = Asked(view, view.node)("GET", "/cluster").document
    assert (found["state"], found["leader"], found["commit"]) == ("lone", 1, 18)
    assert "peer_listen" in found["diagnosis"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/cluster", None),
        ("POST", "/cluster/init", {"nodes": []}),
        ("POST", "/cluster/members", {"id": 4, "peer_addr": "a:1"}),
        ("DELETE", "/cluster/members?id=3", None),
        ("POST", "/cluster/transfer", {"to": 2}),
    ],
)
def test_only_administrators_may_look_or_change(view, method, path, body):
    node = Node(leader=1)
    assert Asked(view, node)(method, path, body, client="10.0.0.9").status == 403
    assert Asked(view, node, TOKEN)(method, path, body).status == 401
    assert node.asked == []
    right = {"authorization": f"Bearer {TOKEN}"}
    assert Asked(view, node, TOKEN)(method, path, body, **right).status == 200


CHANGES = [
    ("POST", "/cluster/members", {"id": 4, "peer_addr": "a:1", "client_addr": "a:2"}, "add"),
    ("DELETE", "/cluster/members?id=3", None, "remove"),
    ("POST", "/cluster/transfer", {"to": 2}, "transfer"),
]


@pytest.mark.parametrize(("method", "path", "body", "asked"), CHANGES)
def test_leader_does_what_it_is_asked(view, method, path, body, asked):
    node = Node(leader=1)
    answer = Asked(view, node)(method, path, body)
    assert answer.status == 200
    assert answer.document["leader"] == 1
    whom = {"add": Member(4, "a:1", "a:2"), "remove": 3, "transfer": 2}[asked]
    assert [request[:2] for request in node.asked] == [(asked, whom)]


@pytest.mark.parametrize(("method", "path", "body", "_asked"), CHANGES)
def test_follower_says_where_the_leader_is(view, method, path, body, _asked):
    node = Node(leader=2)
    answer = Asked(view, node)(method, path, body)
    assert (answer.status, answer.document["leader_addr"]) == (421, LEADER_ADDR)
    assert node.asked == []


@pytest.mark.parametrize(("method", "path", "body", "_asked"), CHANGES)
def test_nobody_changes_anything_while_nobody_leads(view, method, path, body, _asked):
    answer = Asked(view, Node(leader=0))(method, path, body)
    assert answer.status == 503
    assert "penstock cluster status" in answer.document["advice"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ClusterError("node 3 is the last one", "add one first"), 409),
        (NoQuorum("few", "wait"), 503),
    ],
)
def test_refusal_is_told_with_what_to_do(view, error, status):
    node = Node(leader=1)
    node.error = error
    answer = Asked(view, node)("DELETE", "/cluster/members?id=3")
    assert answer.status == status
    assert answer.document == {"error": error.message, "advice": error.advice}


def test_init_without_nodes_is_a_cluster_of_the_one_that_is_asked(view):
    node = Node(leader=0, state=NodeState.WAITING)
    assert Asked(view, node)("POST", "/cluster/init", {"nodes": []}).status == 200
    assert node.asked[0][:2] == ("bootstrap", [Member(1, "10.0.0.1:7700", "10.0.0.1:1883")])


def test_init_names_the_nodes(view):
    node = Node(leader=0, state=NodeState.WAITING)
    nodes = [{"id": n, "peer_addr": f"h{n}:7700", "client_addr": f"h{n}:1883"} for n in (1, 2)]
    assert Asked(view, node)("POST", "/cluster/init", {"nodes": nodes}).status == 200
    members = [Member(1, "h1:7700", "h1:1883"), Member(2, "h2:7700", "h2:1883")]
    assert node.asked[0][:2] == ("bootstrap", members)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/cluster/init", {"nodes": [{"id": 0, "peer_addr": "a:1"}]}),
        ("POST", "/cluster/init", {"nodes": [{"id": 1, "peer_addr": "no port"}]}),
        ("POST", "/cluster/init", {"nodes": [{"id": 1, "peer_addr": "a:1"}] * 33}),
        ("POST", "/cluster/init", {"others": []}),
        ("POST", "/cluster/members", {"id": 4, "peer_addr": ""}),
        ("POST", "/cluster/members", {"id": 4, "peer_addr": "a:1", "client_addr": "x"}),
        ("POST", "/cluster/members", {"id": 4, "peer_addr": "a" * 400 + ":1"}),
        ("POST", "/cluster/transfer", {"to": 65_536}),
        ("DELETE", "/cluster/members", None),
        ("DELETE", "/cluster/members?id=x", None),
        ("DELETE", "/cluster/members?id=0", None),
    ],
)
def test_nonsense_is_refused_before_it_reaches_the_cluster(view, method, path, body):
    node = Node(leader=1)
    assert Asked(view, node)(method, path, body).status == 400
    assert node.asked == []


def test_transfer_is_refused_with_a_reason_by_a_lone_broker(view):
    asked = Asked(view, view.node)
    answer = asked("POST", "/cluster/transfer", {"to": 2})
    assert answer.status == 409
    assert "--peer-listen" in answer.document["advice"]
    assert asked("POST", "/cluster/transfer", {"to": 1}).status == 200
    assert asked("POST", "/cluster/init", {"nodes": []}).status == 200
    assert asked("DELETE", "/cluster/members?id=2").status == 409
    assert asked("POST", "/cluster/members", {"id": 2, "peer_addr": "a:1"}).status == 409
