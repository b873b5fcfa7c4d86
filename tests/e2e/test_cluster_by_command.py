"""A cluster as users create it: three processes, ``penstock cluster``, clients of every node."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.client import (
    BootstrapFailedError,
    NoQuorumError,
    NotLeaderError,
    connect,
    connect_async,
)
from tests.conformance_queue.wire_client import QueueClient
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def begin(made):
    options = [f"--node={made.as_option(number)}" for number in made.running]
    code, said = made.command(1, "init", *options)
    assert code == 0, said
    made.leader()


def hand_over(made, to):
    """Transfer leadership. On a busy machine it may be refused because the node was not heard from."""

    def handed_over():
        code, said = made.command(to, "transfer", str(to))
        assert code or said == f"node {to} is the leader\n"
        return code == 0

    until(handed_over)


def remove(made, gone, leader):
    """Remove a node. A late answer is treated as none: check the outcome instead."""

    def removed():
        code, _said = made.command(gone, "remove", str(gone), "--yes")
        left = {member["id"] for member in made.status(leader)["members"]}
        assert code or left == {1, 2, 3} - {gone}
        return gone not in left

    until(removed)


def test_three_nodes_wait_are_begun_with_one_and_joined_by_the_others(tmp_path):
    with nodes(tmp_path, 3) as made:
        status, answer = made.running[1].json("/ready")
        assert (status, "penstock cluster init" in answer["reason"]) == (503, True)
        assert made.command(2, "join", "--to", made.address(1))[0] == 1, "there is no cluster yet"
        assert made.command(1, "init")[0] == 0
        assert "a cluster of one" in made.status(1)["diagnosis"]
        for number in (2, 3):
            code, said = made.command(number, "join", "--to", made.address(1), "--timeout", "60s")
            assert code == 0, said
            assert "is a voter" in said
        assert until(lambda: "survives the loss of 1 node" in made.status(3)["diagnosis"])
        assert made.command(3, "join", "--to", made.address(2))[0] == 0, "it has joined already"
        assert made.command(1, "init")[0] == 0, "it has begun already"
        for number in made.running:
            assert until(lambda number=number: is_ready(made, number))


def is_ready(made, number):
    """A node that gets a copy of the store closes its ports, and chooses those left to it anew."""
    port = int(made.address(number).rpartition(":")[2])
    try:
        return made.running[number].page("/ready", port=port)[0] == 200
    except OSError:
        return False


def test_lead_is_handed_over_and_a_node_removed_at_any_node(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        other = next(number for number in (1, 2, 3) if number != made.leader())
        hand_over(made, other)
        leader = made.leader()
        gone = next(number for number in (1, 2, 3) if number != leader)
        remove(made, gone, leader)
        assert until(lambda: made.running[gone].json("/ready")[0] == 503)
        assert made.command(leader, "remove", "9", "-y")[0] == 1
        assert made.command(leader, "transfer", "9")[0] == 1


def test_bootstrap_by_the_queue_protocol_is_init(tmp_path):
    with nodes(tmp_path, 3) as made:
        peers = {number: made.peer_address(number) for number in (1, 2, 3)}
        with connect([made.address(2)]) as client:
            with pytest.raises(BootstrapFailedError):
                client.bootstrap({1: peers[1], 3: peers[3]})
            for _ in range(2):
                client.bootstrap(peers)
            assert until(lambda: client.stats().current_leader) in {1, 2, 3}
        leader = made.leader()
        for number in {1, 2, 3} - {leader}:  # client addresses were not given: nodes announce them
            until(lambda n=number: made.status(n)["leader_addr"] == made.address(leader))
        assert made.command(3, "init", f"--node={made.as_option(3)}")[0] == 0


def test_calls_around_bootstrap_are_told_to_ask_again_not_that_it_is_over(tmp_path):
    """Clients of other brokers treat every code except ``not_leader`` as final."""
    with nodes(tmp_path, 3, "--set", "cluster.no_leader_timeout_s=1s") as made:
        for node in made.running.values():  # there was no leader for longer than a write waits
            until(lambda n=node: n.json("/status")[1]["uptime_s"] > 1.2)
        peers = [{"id": n, "peer_addr": made.peer_address(n)} for n in (1, 2, 3)]
        with ExitStack() as stack:
            one, *others = [
                stack.enter_context(QueueClient("127.0.0.1", made.running[n].port))
                for n in (1, 2, 3)
            ]
            assert one.ask(produce={"topic": "t"}).error.code == "not_leader"
            assert one.ask(bootstrap={"nodes": peers}).HasField("ok")
            answers = [client.ask(produce={"topic": "t"}) for client in (one, *others)]
            assert {a.error.code for a in answers if a.HasField("error")} <= {"not_leader"}


def test_most_nodes_down_is_told_and_mended_by_starting_them(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        with connect(made.addresses, timeout_s=30) as client:
            client.produce("t", b"before")
        for number in (2, 3):
            made.kill(number)
        assert until(lambda: made.running[1].page("/ready")[0] == 503)
        assert (
            "no quorum: 1 of 3 nodes reachable; start the others (2, 3)"
            in made.status(1)["diagnosis"]
        )
        with connect([made.address(1)], timeout_s=8, stale_reads=True) as client:
            assert [record.payload for record in client.messages("t")] == [b"before"], (
                "it can be read"
            )
            with pytest.raises((NoQuorumError, NotLeaderError)):
                client.produce("t", b"refused")
        for number in (2, 3):
            made.start(number)
        made.leader()
        with connect(made.addresses, timeout_s=30) as client:
            assert client.produce("t", b"after") >= 1


def test_node_that_refused_something_is_ready_again_without_being_written_to(tmp_path):
    with nodes(tmp_path, 3, "--set", "cluster.no_leader_timeout_s=0.5") as made:
        begin(made)
        for number in (2, 3):
            made.kill(number)
        until(lambda: made.running[1].metric("penstock_raft_leader") == 0)
        host, port = made.address(1).split(":")
        command = ["pub", "--host", host, "--port", port, "-q", "1", "t", "refused"]
        until(lambda: "acknowledged" not in CliRunner().invoke(penstock, command).output)
        until(lambda: made.running[1].metric("penstock_commit_failures_total") > 0)
        made.start(2)
        made.leader()
        assert until(lambda: made.running[1].page("/ready")[0] == 200), (
            "no load balancer comes else"
        )


# ── Clients through changes of the leader


def produce_blocking(addresses, acknowledged, is_over):
    with connect(addresses, timeout_s=60) as client:
        while not is_over.is_set():
            payload = b"%d" % len(acknowledged)
            acknowledged.append((client.produce("t", payload), payload))


def produce_async(addresses, acknowledged, is_over):
    async def produce():
        async with connect_async(addresses, timeout_s=60) as client:
            while not is_over.is_set():
                payload = b"%d" % len(acknowledged)
                acknowledged.append((await client.produce("t", payload), payload))

    asyncio.run(produce())


@pytest.mark.parametrize("produce", [produce_blocking, produce_async])
def test_no_message_is_lost_or_doubled_while_leaders_change(tmp_path, produce):
    with nodes(tmp_path, 3) as made, ThreadPoolExecutor() as threads:
        begin(made)
        acknowledged, is_over = [], threading.Event()
        producing = threads.submit(produce, made.addresses, acknowledged, is_over)
        try:
            for change in ("transfer", "kill", "transfer", "kill"):
                count, leader = len(acknowledged), made.leader()
                other = leader % 3 + 1
                if change == "transfer":
                    hand_over(made, other)
                else:
                    made.kill(leader)
                    made.start(leader)
                until(lambda count=count: len(acknowledged) > count + 20 or producing.done())
        finally:
            is_over.set()
        producing.result(60)
        with connect(made.addresses, timeout_s=60) as client:
            found = [(record.offset, record.payload) for record in client.messages("t")]
    assert found == acknowledged
