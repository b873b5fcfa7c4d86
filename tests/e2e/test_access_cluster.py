"""Users and rules in a cluster: the same on all nodes, changed at the leader, kept when it dies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster_processes import nodes, until

SCRIPT = str(Path(sys.executable).with_name("penstock"))


def run(*words, check=True):
    command = [SCRIPT, *map(str, words)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def listed(data):
    """The users that a node knows, whoever leads."""
    found = json.loads(run("users", "list", "--data", data, "--stale", "--json").stdout)
    return {user["name"]: user["roles"] for user in found}


@pytest.fixture
def cluster(tmp_path):
    with nodes(tmp_path, 3) as found:
        members = [word for number in (1, 2, 3) for word in ("--node", found.as_option(number))]
        assert found.command(1, "init", *members)[0] == 0
        found.leader()
        yield found


def test_users_are_the_same_on_all_nodes_and_survive_the_leader(cluster, tmp_path):
    leader = cluster.leader()
    data = {number: tmp_path / f"node{number}" for number in (1, 2, 3)}
    run("users", "add", "ann", "--admin", "--data", data[leader])
    run("roles", "add", "sensors", "--allow", "publish plant/#", "--data", data[leader])
    run("users", "add", "pump", "--role", "sensors", "--data", data[leader])
    expected = {"ann": ["admin"], "pump": ["sensors"]}
    for directory in data.values():
        until(lambda directory=directory: listed(directory) == expected)

    follower = next(number for number in data if number != leader)
    refused = run("users", "disable", "pump", "--data", data[follower], check=False)
    assert refused.returncode == 1
    assert f"the node at {cluster.address(leader)} does" in refused.stderr

    cluster.kill(leader)
    successor = until(lambda: _leads(data, cluster))
    run("users", "roles", "pump", "+monitor", "--data", data[successor])
    assert listed(data[successor])["pump"] == ["sensors", "monitor"]
    cluster.start(leader)
    until(lambda: listed(data[leader]).get("pump") == ["sensors", "monitor"])


def _leads(data, cluster):
    """The node that takes a change: one that changes nothing."""
    for number in cluster.running:
        words = ("users", "enable", "pump", "--data", data[number])
        if run(*words, check=False).returncode == 0:
            return number
    return 0
