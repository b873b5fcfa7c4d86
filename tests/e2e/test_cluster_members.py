"""Membership changes in a cluster of processes: kills in between, lost disks, odd settings."""

import shutil

import pytest

from penstock.client import connect
from penstock.client.errors import ClientError
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def begin(made):
    options = [f"--node={made.as_option(number)}" for number in made.running]
    code, said = made.command(1, "init", *options)
    assert code == 0, said
    return made.leader()


def produce(made, payload):
    """Retry a write until there is a quorum; before that it is refused."""

    def is_written():
        try:
            with connect([made.address(n) for n in made.running], timeout_s=10) as client:
                client.produce("t", payload)
        except ClientError:
            return False
        return True

    until(is_written)


def diagnosis(made, number):
    return made.status(number)["diagnosis"]


def test_three_become_one_and_three_again_with_kills_in_between(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        for gone in (3, 2):
            code, said = made.command(1, "remove", str(gone), "--yes")
            assert code == 0, said
            made.kill(1)  # nodes that confirmed their removal may be stopped immediately
            made.kill(gone)
            made.start(1)
            produce(made, b"without %d" % gone)
        assert until(lambda: "a cluster of one" in diagnosis(made, 1))
        for new in (4, 5):
            made.start(new)
            code, said = made.command(new, "join", "--to", made.address(1), "--timeout", "60s")
            assert code == 0, said
            made.kill(1)
            made.start(1)
            produce(made, b"with %d" % new)
        assert until(lambda: "healthy: survives the loss of 1 node" in diagnosis(made, 4))


def test_an_emptied_disk_is_told_and_replaced_as_the_docs_say(tmp_path):
    with nodes(tmp_path, 3) as made:
        leader = begin(made)
        lost = leader % 3 + 1
        made.kill(lost)
        shutil.rmtree(tmp_path / f"node{lost}")
        made.start(lost)
        node = made.running[lost]
        assert until(lambda: "has lost its data" in node.json("/ready")[1].get("reason", ""))
        assert node.json("/ready")[0] == 503
        assert "node_id that was never used" in diagnosis(made, lost)
        assert until(lambda: f"node {lost} lost its data" in diagnosis(made, leader))
        for command in (
            ["init", *(f"--node={made.as_option(number)}" for number in (1, 2, 3))],
            ["join", "--to", made.address(leader)],
        ):
            code, said = made.command(lost, *command)
            assert code == 1, said
            assert "never used" in said
        made.kill(lost)
        made.start(4)
        code, said = made.command(4, "join", "--to", made.address(leader), "--timeout", "60s")
        assert code == 0, said
        code, said = made.command(leader, "remove", str(lost), "--yes")
        assert code == 0, said
        assert until(lambda: "healthy: survives the loss of 1 node" in diagnosis(made, 4))


def test_a_node_with_other_settings_takes_no_part_and_says_why(tmp_path):
    config = tmp_path / "odd.toml"
    config.write_text("[limits]\ninflight_max = 7\n")
    with nodes(tmp_path, 3) as made:
        leader = begin(made)
        odd = leader % 3 + 1
        made.kill(odd)
        made.start(odd, "--config", str(config))
        assert until(lambda: "limits.inflight_max" in diagnosis(made, leader))
        node = made.running[odd]
        assert until(lambda: "limits.inflight_max" in node.json("/ready")[1].get("reason", ""))
        assert node.json("/ready")[0] == 503
        produce(made, b"goes on")
        made.kill(odd)
        made.start(odd)
        assert until(lambda: "healthy" in diagnosis(made, leader))
