"""Nodes are compared while they work: same state at the same entry, or the part that differs."""

import json
import threading

import pytest

from penstock.client import connect
from penstock.core.retained import RetainedMessage
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import Write
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def begin(made):
    options = [f"--node={made.as_option(number)}" for number in made.running]
    assert made.command(1, "init", *options)[0] == 0
    return made.leader()


def compared(made, number=1):
    code, said = made.command(number, "compare", "--json")
    assert said.startswith("{"), said
    return code, json.loads(said)


def plant(directory):
    """Put something into a node's state that no entry of the log contains."""
    store = LmdbStore(directory)
    row = RetainedMessage(b"planted", b"by nobody", 1, 1, 1).encode()
    committed = store.committed
    store.write(Write((), None, committed, [("retained", b"planted", row)]))
    store.close()


def test_nodes_that_work_are_found_equal_and_one_with_another_state_is_found(tmp_path):
    with nodes(tmp_path, 3) as made:
        leader = begin(made)
        over, done = threading.Event(), []

        def work():
            with connect(made.addresses) as client:
                while not over.is_set():
                    client.produce("jobs", b"%d" % len(done))
                    client.ack(client.poll("jobs", "g"))
                    done.append(None)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            until(lambda: made.status(leader)["commit"] > 20)
            code, found = compared(made)
            enough = len(done) + 2  # the first may have begun before
            until(lambda: len(done) >= enough)
        finally:
            over.set()
            worker.join()
        assert (code, found["is_equal"], found["differences"]) == (0, True, [])
        assert [node["node_id"] for node in found["nodes"]] == [1, 2, 3]
        assert len({node["index"] for node in found["nodes"]}) == 1
        code, at_rest = compared(made)
        assert (code, at_rest["is_equal"]) == (0, True)
        assert at_rest["nodes"][0]["state"]["groups"] != found["nodes"][0]["state"]["groups"]

        leader = made.leader()  # a slow machine may have elected another
        odd = leader % 3 + 1
        directory = made.running[odd].data
        made.kill(odd)
        code, found = compared(made, leader)
        assert (code, found["not_reached"]) == (0, [odd])
        plant(directory)
        made.start(odd)
        until(lambda: not compared(made, leader)[1]["not_reached"])
        code, found = compared(made, leader)
        assert (code, found["differences"]) == (1, ["retained"])
        code, said = made.command(leader, "compare")
        assert code == 1
        assert "DIFFERENT: retained" in said
