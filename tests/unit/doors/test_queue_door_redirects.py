"""The queue protocol at a node that does not lead, and at one that cannot be sure that it does."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.queue_door_bench import (
    TOPIC,
    Bench,
    ack,
    delete_topic,
    nack,
    poll,
    produce,
    stats,
    subscribe,
)
from tests.cluster.fixed_node import LEADER_ADDR, Node

from penstock.cluster.frames import Member
from penstock.cluster.status import NodeState
from penstock.doors.queue.faults import storage_fault
from penstock.doors.queue.operations import OPERATIONS
from penstock.errors import ClusterError, LeadershipLost, NoQuorum
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated import queue_pb2 as wire

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def request(kind, request_id=0):
    made = wire.Request(request_id=request_id)
    getattr(made, kind).SetInParent()
    return made


def error_of(response):
    error = response.error
    return error.code, error.leader_addr, error.retry_after_ms


READS = {kind for kind, operation in OPERATIONS.items() if operation.is_read}
AT_ANY_NODE = {kind for kind, operation in OPERATIONS.items() if operation.at_any_node}
CHANGES = [*sorted(OPERATIONS.keys() - READS - AT_ANY_NODE), "ack"]


@pytest.mark.parametrize("kind", [*CHANGES, *sorted(READS)])
async def test_follower_names_the_leader_whatever_is_asked(bench, kind):
    bench.cluster = Node(leader=2)
    peer = bench.peer()
    assert error_of(await peer.ask(request(kind))) == ("not_leader", LEADER_ADDR, 0)
    assert (await peer.ask(request(kind, 9))).request_id == 9


async def test_every_request_of_a_run_is_answered(bench):
    bench.cluster = Node(leader=2)
    peer = bench.peer()
    peer.send(produce(), produce(), ack(1), ack(2), nack(3), delete_topic(), poll())
    assert peer.codes() == ["not_leader"] * 7
    assert bench.parts.counters.refused_total == 7


@pytest.mark.parametrize("kind", CHANGES)
async def test_changes_are_refused_while_nobody_leads(bench, kind):
    bench.cluster = Node(leader=0)
    peer = bench.peer()
    assert error_of(await peer.ask(request(kind))) == ("not_leader", "", 100)
    bench.cluster.is_writable = False
    assert error_of(await peer.ask(request(kind))) == ("no_quorum", "", 1_000)


@pytest.mark.parametrize("kind", sorted(READS))
async def test_nothing_is_read_during_an_election_for_the_node_may_be_behind(bench, kind):
    bench.cluster = Node(leader=0)
    assert error_of(await bench.peer().ask(request(kind))) == ("not_leader", "", 100)


@pytest.mark.parametrize("kind", sorted(READS))
async def test_nothing_is_read_without_a_quorum_and_the_refusal_names_the_way_out(bench, kind):
    bench.cluster = Node(leader=0, is_writable=False)
    response = await bench.peer().ask(request(kind))
    assert error_of(response) == ("no_quorum", "", 1_000)
    assert "`stale`" in response.error.message


@pytest.mark.parametrize("kind", sorted(READS - {"changes", "list_sinks"}))
@pytest.mark.parametrize("leader", [0, 1, 2])
async def test_client_that_asks_for_less_reads_what_any_node_has(bench, kind, leader):
    peer = bench.peer()
    await peer.ask(produce(b"before"))
    bench.cluster = Node(leader=leader, is_writable=False)
    asked = request(kind)
    asked.stale = True
    if kind in {"fetch", "locate"}:
        getattr(asked, kind).topic = TOPIC
    if kind == "fetch_many":
        asked.fetch_many.topics.append(TOPIC)
    assert (await peer.ask(asked)).WhichOneof("kind") != "error"
    assert bench.cluster.asked == []


async def test_nobody_writes_by_saying_that_old_news_will_do(bench):
    bench.cluster = Node(leader=2)
    asked = request("delete_topic")
    asked.stale = True
    assert (await bench.peer().ask(asked)).error.code == "not_leader"


@pytest.mark.parametrize("leader", [0, 1, 2])
async def test_every_node_answers_a_ping(bench, leader):
    bench.cluster = Node(leader=leader, is_writable=False)
    answer = await bench.peer().ask(request("ping", 7))
    assert (answer.WhichOneof("kind"), answer.request_id) == ("ok", 7)


@pytest.mark.parametrize("kind", ["produce", "stats"])
@pytest.mark.parametrize(
    ("state", "text"), [(NodeState.WAITING, "cluster init"), (NodeState.REMOVED, "removed")]
)
async def test_node_of_no_cluster_says_so(bench, state, text, kind):
    bench.cluster = Node(leader=0, is_writable=False, state=state)
    response = await bench.peer().ask(request(kind))
    assert error_of(response) == ("not_leader", "", 1_000), "all clients ask the next node then"
    assert text in response.error.message


async def test_stats_tell_who_leads_in_which_term(bench):
    bench.cluster = Node(leader=1)
    told = (await bench.peer().ask(stats())).stats
    assert (told.current_leader, told.current_term, told.is_leader) == (1, 7, True)
    assert told.last_log_index == 43


async def test_node_without_a_quorum_tells_that_in_its_stats(bench):
    bench.cluster = Node(leader=0, is_writable=False)
    asked = stats()
    asked.stale = True
    told = (await bench.peer().ask(asked)).stats
    assert (told.current_leader, told.is_leader) == (0, False)


# ── the barrier


async def test_read_waits_until_it_is_sure_to_be_current(bench):
    node = bench.cluster = Node(leader=1)
    node.error = "wait"
    peer = bench.peer()
    peer.send(stats())
    await bench.rest()
    assert peer.heard() == []
    [(_read, then)] = node.asked
    then(None)
    await bench.rest()
    assert peer.kinds() == ["stats"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(LeadershipLost("another leads"), "not_leader"), (NoQuorum("few"), "no_quorum")],
)
async def test_read_that_cannot_be_confirmed_is_refused(bench, error, code):
    bench.cluster = Node(leader=1)
    bench.cluster.error = error
    assert (await bench.peer().ask(stats())).error.code == code


async def test_barrier_that_comes_too_late_harms_nobody(bench):
    node = bench.cluster = Node(leader=1)
    node.error = "wait"
    peer = bench.peer()
    peer.send(stats())
    peer.connection.connection_lost(None)
    node.asked[0][1](None)
    await bench.rest()
    assert peer.heard() == []


async def test_poll_finds_nothing_only_if_a_quorum_confirms_that_this_node_leads(bench):
    node = bench.cluster = Node(leader=1)
    node.error = "wait"
    peer = bench.peer()
    peer.send(poll())
    await bench.rest()
    assert peer.heard() == []
    [(_read, then)] = node.asked
    then(NoQuorum("cut off"))
    await bench.rest()
    assert peer.codes() == ["no_quorum"]


async def test_changes_pass_no_barrier(bench):
    node = bench.cluster = Node(leader=1)
    assert (await bench.peer().ask(produce())).HasField("produced")
    assert node.asked == []


# ── bootstrap


def bootstrap(*ids):
    nodes = [wire.Node(id=n, peer_addr=f"10.0.0.{n}:7700") for n in ids]
    return wire.Request(bootstrap=wire.Bootstrap(nodes=nodes))


async def test_bootstrap_is_taken_by_any_node(bench):
    node = bench.cluster = Node(leader=0, is_writable=False, state=NodeState.WAITING)
    assert (await bench.peer().ask(bootstrap(1, 2))).HasField("ok")
    members = [Member(1, "10.0.0.1:7700"), Member(2, "10.0.0.2:7700")]
    assert node.asked[0][:2] == ("bootstrap", members)


async def test_bootstrap_that_does_not_fit_is_refused_with_what_to_do(bench):
    node = bench.cluster = Node(leader=0)
    node.error = ClusterError("other nodes", "name the same ones")
    response = await bench.peer().ask(bootstrap(1))
    assert response.error.code == "bootstrap_failed"
    assert "name the same ones" in response.error.message


@pytest.mark.parametrize("ids", [[0], [1, 65_536], list(range(1, 40))])
async def test_lists_of_nodes_are_bounded(bench, ids):
    node = bench.cluster = Node(leader=0)
    assert (await bench.peer().ask(bootstrap(*ids))).error.code in {"bootstrap_failed", "limit"}
    assert node.asked == []


async def test_lone_broker_takes_any_bootstrap_for_done(bench):
    assert (await bench.peer().ask(bootstrap(3, 4))).HasField("ok")


# ── what is in flight when another node begins to lead


async def test_channel_for_messages_ends_with_the_leadership(bench):
    peer = bench.peer()
    peer.send(produce(), subscribe())
    await bench.rest()
    [item] = peer.pushed()
    bench.cluster = Node(leader=2)
    peer.send(ack(item.lease_id))
    assert peer.connection.reason is DisconnectReason.LEADERSHIP_LOST


@pytest.mark.parametrize(
    ("reason", "code", "retry_ms"),
    [
        (DisconnectReason.NO_QUORUM, "no_quorum", 1_000),
        (DisconnectReason.LEADERSHIP_LOST, "not_leader", 100),
    ],
)
async def test_what_the_cluster_refuses_is_told_in_its_own_codes(bench, reason, code, retry_ms):
    fault = storage_fault(reason, "why")
    assert (fault.code, fault.retry_ms) == (code, retry_ms)
    assert "(why)" in fault.text
