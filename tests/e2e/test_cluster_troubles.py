"""Mistakes in setting up a cluster: each is reported where the operator looks, and can be fixed."""

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from tests.e2e.cluster_processes import free_port, nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def secret_file(directory, name, mode=0o600):
    path = directory / name
    path.write_text(f"the secret of {name}, long enough".replace(" ", "-"))
    path.chmod(mode)
    return str(path)


def member(status, number):
    return next(found for found in status["members"] if found["id"] == number)


def heard_of(status, number):
    """Return the status if that node was heard from just now."""
    return status if member(status, number)["contact_s"] < 0.5 else None


def test_wrong_secret_is_told_to_who_joins_and_mended_by_a_restart(tmp_path):
    ours = ("--cluster-secret-file", secret_file(tmp_path, "ours"))
    with nodes(tmp_path, 1, *ours) as made:
        made.start(2, "--cluster-secret-file", secret_file(tmp_path, "another"))
        assert made.command(1, "init")[0] == 0
        code, said = made.command(2, "join", "--to", made.address(1), "--timeout", "8s")
        assert (code, said.count("(wrong_secret)")) == (1, 2), "while it waits, and at the end"
        assert "fix that and restart the node" in said
        code, said = made.command(1, "status")
        assert "node 2 is joining but not reachable" in said
        assert "(wrong_secret)" in said.splitlines()[-1]
        made.kill(2)
        made.start(2, *ours)
        assert until(lambda: not member(made.status(1), 2)["is_learner"])
        assert "wrong_secret" not in made.command(1, "status")[1]


def test_node_that_calls_and_cannot_be_called_is_not_taken_for_healthy(tmp_path):
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        assert made.command(1, "init", *options)[0] == 0
        until(lambda: "healthy" in made.status(1)["diagnosis"])
        leader = made.leader()
        moved = next(number for number in made.running if number != leader)
        made.kill(moved)
        made.start(moved, "--advertise-peer", f"127.0.0.1:{free_port()}")
        found = until(lambda: heard_of(made.status(leader), moved))
        assert f"node {moved} is not reachable" in found["diagnosis"], "though it asks for votes"
        assert "Connection refused (not_reached)" in member(found, moved)["trouble"]


def test_a_node_in_no_cluster_tells_publishers_why_it_refuses_them(tmp_path):
    with nodes(tmp_path, 1) as made:
        host, port = made.address(1).split(":")

        def run(*words):
            return CliRunner().invoke(penstock, [*words, "-h", host, "-p", port])

        refused = run("pub", "-q", "1", "t", "x")
        assert refused.exit_code == 1
        reason = "in no cluster yet: run penstock cluster init or join"
        assert f"the broker is not ready: {reason}" in refused.stderr
        assert f"not ready: {reason}" in run("status").stdout


def test_secret_that_everybody_may_read_is_refused_at_the_start(tmp_path):
    path = secret_file(tmp_path, "open", 0o644)
    with nodes(tmp_path, 0) as made, pytest.raises(AssertionError, match="chmod 600"):
        made.start(1, "--cluster-secret-file", path)
