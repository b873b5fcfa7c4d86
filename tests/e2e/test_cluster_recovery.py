"""A majority is lost for good: the remaining node starts a new cluster with everything it has."""

import json

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.client import connect
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SURE = "--i-understand-that-acknowledged-messages-may-be-lost"


def recover(directory, *arguments):
    result = CliRunner().invoke(penstock, ["cluster", "recover", str(directory), *arguments])
    return result.exit_code, result.output


def payloads(address):
    with connect([address]) as client:
        return [record.payload for record in client.messages("t")]


def test_survivor_keeps_its_data_new_nodes_join_and_old_ones_cannot_come_back(tmp_path):
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        assert made.command(1, "init", *options)[0] == 0
        leader = made.leader()
        with connect(made.addresses) as client:
            for number in range(20):
                client.produce("t", b"%d" % number)
        until(lambda: all(m["lag"] == 0 for m in made.status(leader)["members"]))
        survivor, *lost = *sorted(set(made.running) - {leader}), leader
        directory = made.running[survivor].data
        code, said = recover(directory, SURE)
        assert code == 1
        assert "in use by another broker" in said

        for number in (1, 2, 3):
            made.kill(number)
        code, said = recover(directory)
        assert code == 1
        assert "nothing was changed" in said
        assert "of nodes 1, 2, 3" in said
        code, said = recover(directory, SURE, "--json")
        assert code == 0, said
        told = json.loads(said)
        assert (told["node_id"], told["members"]) == (survivor, [1, 2, 3])

        node = made.start(survivor)
        assert until(lambda: node.json("/ready")[0] == 200)
        kept = [b"%d" % number for number in range(20)]
        assert payloads(made.address(survivor)) == kept
        with connect([made.address(survivor)]) as client:
            client.produce("t", b"after")
        for number in (4, 5):
            made.start(number)
            code, said = made.command(number, "join", "--to", made.address(survivor))
            assert code == 0, said

        for number in lost:  # they are a majority of the old cluster
            made.start(number)
        old = until(lambda: made.status(lost[0])["leader"])
        assert old in lost
        refused = 'penstock_peer_disconnects_total{reason="wrong_cluster"}'
        assert until(lambda: node.metric(refused))
        status = made.status(survivor)
        assert status["cluster_id"] == told["new_cluster_id"]
        assert [member["id"] for member in status["members"]] == sorted([survivor, 4, 5])
        assert "healthy: survives the loss of 1 node" in status["diagnosis"]
        assert payloads(made.address(survivor)) == [*kept, b"after"]
        for number in lost:
            code, said = made.command(number, "join", "--to", made.address(survivor))
            assert code == 1
            assert "a member of another cluster" in said
