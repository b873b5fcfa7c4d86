"""What clients of a cluster see when nodes die: three processes, clients of more than one node."""

import signal
import time

import pytest

from penstock.client import Will, connect
from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GRACE_S = 2.0


@pytest.fixture
def trio(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CLUSTER_NODE_GRACE_S", f"{GRACE_S:g}s")
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        code, said = made.command(1, "init", *options)
        assert code == 0, said
        made.leader()
        yield made


def mqtt(made, number, client_id, **keywords):
    return connect("127.0.0.1", made.running[number].port, client_id, **keywords)


def others(made, number):
    return [other for other in made.running if other != number]


def test_will_of_a_client_whose_node_died_is_published_once_also_when_the_node_is_back(trio):
    leader = trio.leader()
    home = others(trio, leader)[0]
    with mqtt(trio, leader, "watch") as watch:
        watch.subscribe([("gone/#", 1)])
        will = Will(b"gone/pump", b"dead", 1, retain=False)
        client = mqtt(trio, home, "pump", will=will)
        trio.kill(home)
        died = time.monotonic()
        first = next(watch.messages(timeout_s=30))
        assert (first.topic, first.payload) == ("gone/pump", b"dead")
        assert time.monotonic() - died > GRACE_S / 2, "it might have come back"
        trio.start(home)
        until(lambda: trio.running[home].page("/ready")[0] == 200)
        with mqtt(
            trio, home, "back"
        ) as back:  # everything the node does at its start comes before this
            back.publish("gone/end", b"", qos=1)
        assert next(watch.messages(timeout_s=30)).topic == "gone/end", "the will came again"
        client.abandon()


def test_node_whose_disk_is_full_ends_and_says_so_while_the_others_go_on(trio):
    leader = trio.leader()
    full, other = others(trio, leader)
    node = trio.running[full]
    node.limit_file_bytes((node.data / "data.mdb").stat().st_size)
    with mqtt(trio, other, "filler") as filler:
        for _ in range(20):
            filler.publish("fill", bytes(200_000), qos=1)
    status, _, _ = node.wait_stopped()
    assert status == 74
    log = node.log_path.read_text()
    assert "node_ends" in log
    assert "Make room on the disk of the data directory, then start the node again" in log
    assert "by itself" not in log.partition("node_ends")[2]
    del trio.running[full]
    with mqtt(trio, leader, "after") as after:
        after.publish("fill", b"two of three are enough", qos=1)


def test_clients_of_a_node_that_stops_are_told_where_else_to_go(trio):
    home = others(trio, trio.leader())[0]
    with Client5("127.0.0.1", trio.running[home].port) as client:
        client.send(v5.connect("wanderer"))
        client.expect_connack()
        elsewhere = {trio.address(one) for one in others(trio, home)}
        trio.running[home].signal(signal.SIGTERM)
        ended = client.expect_disconnect(0x9C)
        assert ended is not None
        assert set(str(ended.value("server_reference")).split()) == elsewhere
