"""Bridges: messages copied from and to another broker, over restarts, cuts and loops.

The other broker is Penstock, and where it is installed Mosquitto, from which people migrate.
"""

import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from penstock.client.mqtt.client import connect
from penstock.client.mqtt.properties import PublishProperties
from tests.e2e.cluster_processes import nodes
from tests.e2e.process import TIMEOUT_S, BrokerProcess


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def brokers(tmp_path, stack):
    """Start brokers by name: ``brokers("old")``, ``brokers("new", bridge(port=…))``."""

    def start(name, config="", *arguments):
        file = tmp_path / f"{name}.toml"
        file.write_text(config)
        options = {"listen": not arguments, "log_name": f"{name}.log"}
        arguments = ("--config", str(file), *arguments)
        return stack.enter_context(BrokerProcess(tmp_path / name, *arguments, **options))

    return start


def bridge(port, name="old", **options):
    values = {"name": name, "url": f"mqtt://127.0.0.1:{port}"} | options
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["[[bridges]]", *lines, ""])


def client(broker, client_id="", **options):
    return connect(broker.host, broker.port, client_id, timeout_s=TIMEOUT_S, **options)


def run_penstock(*arguments):
    command = [str(Path(sys.executable).with_name("penstock")), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def states(broker):
    status, found = broker.json("/api/v1/bridges")
    while status == HTTPStatus.TOO_MANY_REQUESTS:
        time.sleep(0.05)
        status, found = broker.json("/api/v1/bridges")
    return {one["name"]: one for one in found["items"]}


def until(broker, state, name="old"):
    """Ask until the bridge is in a state; the request itself gives the broker time."""
    for _ in range(20_000):
        found = states(broker)[name]
        if found["state"] == state:
            return found
    raise AssertionError(found)


def received(subscriber, count):
    found = []
    for message in subscriber.messages(TIMEOUT_S):
        found.append(message)
        if len(found) == count:
            break
    return [(m.topic, m.payload) for m in found]


def test_messages_come_in_and_go_out_under_their_prefixes(brokers):
    old = brokers("old")
    new = brokers(
        "new", bridge(old.port, topics_in=["plant/#"], topics_out=["cmd/+"], local_prefix="old/")
    )
    until(new, "connected")
    with client(new) as here, client(old) as there:
        here.subscribe([("old/plant/#", 1)])
        there.subscribe([("cmd/#", 1)])
        there.publish("plant/1", b"a", 1)
        there.publish("other", b"no", 1)
        here.publish("old/cmd/x", b"go", 1)
        here.publish("cmd/x", b"no", 1)
        assert received(here, 1) == [("old/plant/1", b"a")]
        assert received(there, 1) == [("cmd/x", b"go")]


def test_what_goes_both_ways_arrives_once_at_each_side(brokers):
    old = brokers("old")
    new = brokers("new", bridge(old.port, topics_both=["plant/#"]))
    until(new, "connected")
    with client(new) as here, client(old) as there:
        here.subscribe([("#", 1)])
        there.subscribe([("#", 1)])
        here.publish("plant/1", b"from here", 1)
        there.publish("plant/1", b"from there", 1)
        here.publish("end", b"", 1)
        there.publish("end", b"", 1)
        for side in (here, there):
            found = received(side, 3)
            assert sorted(payload for _, payload in found) == [b"", b"from here", b"from there"]
    found = states(new)["old"]
    assert (found["incoming"]["copied"], found["outgoing"]["copied"]) == (1, 1)
    assert not found["incoming"]["dropped"]


def test_two_brokers_that_bridge_to_each_other_do_not_send_a_message_round(brokers):
    """Neither bridge knows of the other; the path in the message ends the loop."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one = brokers("one", bridge(port, "two", topics_out=["#"]))
    listen = ("--listen", f"127.0.0.1:{port}", "--http-listen", "127.0.0.1:0")
    two = brokers("two", bridge(one.port, "one", topics_out=["#"]), *listen)
    until(one, "connected", "two")
    until(two, "connected", "one")
    with client(one) as here:
        here.subscribe([("a", 1)])
        here.publish("a", b"round", 1)
        assert received(here, 2) == [("a", b"round")] * 2  # its own, and once round
        while not states(one)["two"]["outgoing"]["dropped"].get("loop"):
            here.ping()
    assert states(two)["one"]["outgoing"]["copied"] == 1


def test_retained_messages_and_properties_are_copied(brokers):
    old = brokers("old")
    with client(old) as there:
        own = PublishProperties(content_type="text/plain", user_properties=[("unit", "bar")])
        there.publish("plant/1", b"4.2", 1, retain=True, properties=own)
    new = brokers("new", bridge(old.port, topics_in=["plant/#"]))
    until(new, "connected")
    while states(new)["old"]["incoming"]["copied"] < 1:
        pass
    with client(new) as here:
        here.subscribe([("#", 1)])
        message = next(iter(here.messages(TIMEOUT_S)))
    assert (message.topic, message.payload, message.retain) == ("plant/1", b"4.2", True)
    assert message.properties.content_type == "text/plain"
    names = [name for name, _ in message.properties.user_properties]
    assert names == ["unit", "penstock-path"]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_either_broker_is_killed(brokers, tmp_path):
    """What one broker acknowledged reaches the other, however often both die."""
    with ExitStack() as early:
        old = early.enter_context(BrokerProcess(tmp_path / "old"))
        listen_old = ("--listen", f"127.0.0.1:{old.port}", "--http-listen", "127.0.0.1:0")
        config = bridge(old.port, topics_in=["in/#"], topics_out=["out/#"])
        (tmp_path / "new.toml").write_text(config)
        listen_new = ("--config", str(tmp_path / "new.toml"))
        new = early.enter_context(BrokerProcess(tmp_path / "new", *listen_new))
        until(new, "connected")
        for broker, wanted in ((old, "out/#"), (new, "in/#")):
            with client(broker, "collector", clean_session=False) as collector:
                collector.subscribe([(wanted, 1)])
        for number in range(6):
            with client(new) as here:
                here.publish_many([(f"out/{number}", b"%d" % n) for n in range(50)], 1)
            if number % 2:
                old.kill()
                old.wait_killed()
                with client(new) as here:
                    here.publish_many([(f"out/{number}/late", b"%d" % n) for n in range(50)], 1)
                old = early.enter_context(
                    BrokerProcess(tmp_path / "old", *listen_old, listen=False)
                )
            with client(old) as there:
                there.publish_many([(f"in/{number}", b"%d" % n) for n in range(50)], 1)
            if number % 3 == 2:
                new.kill()
                new.wait_killed()
                new = early.enter_context(BrokerProcess(tmp_path / "new", *listen_new))
        late = {f"out/{n}/late" for n in (1, 3, 5)}
        assert collected(old, {f"out/{n}" for n in range(6)} | late, 50)
        assert collected(new, {f"in/{n}" for n in range(6)}, 50)


def collected(broker, topics, each):
    missing = {(topic, b"%d" % n) for topic in topics for n in range(each)}
    with client(broker, "collector", clean_session=False) as collector:
        for message in collector.messages(TIMEOUT_S):
            missing.discard((message.topic, message.payload))
            if not missing:
                return True
    raise AssertionError((sorted({t for t, _ in missing}), len(missing)))


def test_a_bridge_says_what_is_in_the_way(brokers):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    new = brokers("new", bridge(port, topics_in=["#"]))
    found = until(new, "waiting")
    assert f"127.0.0.1:{port}" in found["error"]
    assert found["retry_at"]
    listed = run_penstock("bridges", "-p", str(new.port))
    assert "waiting" in listed
    assert found["error"] in listed


@pytest.mark.skipif(not shutil.which("mosquitto"), reason="mosquitto is not installed")
def test_people_can_migrate_from_mosquitto(brokers, tmp_path, stack):
    """Old clients stay where they are, new ones are here; both see everything once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    command = [shutil.which("mosquitto"), "-c", str(tmp_path / "mosquitto.conf")]
    old = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    stack.callback(old.wait)
    stack.callback(old.kill)
    new = brokers("new", bridge(port, topics_both=["#"]))
    until(new, "connected")
    with client(new) as here, connect("127.0.0.1", port) as there:
        here.subscribe([("#", 1)])
        there.subscribe([("#", 1)])
        there.publish("plant/1", b"old device", 1)
        here.publish("plant/2", b"new device", 1)
        expected = [("plant/1", b"old device"), ("plant/2", b"new device")]
        assert sorted(received(here, 2)) == sorted(received(there, 2)) == expected
        here.publish("end", b"", 1)
        assert received(there, 1) == received(here, 1) == [("end", b"")]


def test_a_bridge_logs_in_and_has_the_rights_of_its_users(brokers, tmp_path):
    secret = tmp_path / "secret"
    old_data, new_data = tmp_path / "old", tmp_path / "new"
    created = json.loads(
        run_penstock(
            "users", "add", "ann", "--admin", "--secret", "--json", "--data", str(old_data)
        )
    )
    secret.touch(0o600)
    secret.write_text(created["secret"])
    old = brokers("old")
    config = bridge(
        old.port, topics_in=["a/#"], user="ann", password_file=str(secret), local_user="bridge"
    )
    run_penstock("users", "add", "bridge", "--admin", "--secret", "--data", str(new_data))
    new = brokers("new", config)
    for _ in range(20_000):
        if "bridge_connected" in (tmp_path / "new.log").read_text():
            break
    else:
        raise AssertionError((tmp_path / "new.log").read_text())
    assert new.port


@pytest.mark.slow
def test_the_next_leader_goes_on_with_the_bridge_and_nothing_is_lost(brokers, tmp_path):
    old = brokers("old")
    with client(old, "collector", clean_session=False) as collector:
        collector.subscribe([("out/#", 1)])
    (tmp_path / "node.toml").write_text(bridge(old.port, topics_out=["out/#"]))
    with nodes(tmp_path, 3, "--config", str(tmp_path / "node.toml")) as cluster:
        members = [word for number in (1, 2, 3) for word in ("--node", cluster.as_option(number))]
        code, said = cluster.command(1, "init", *members)
        assert code == 0, said
        first = cluster.leader()
        until(cluster.running[first], "connected")
        others = [node for number, node in cluster.running.items() if number != first]
        assert {states(node)["old"]["state"] for node in others} == {"standby"}
        with client(others[0]) as here:
            here.publish_many([("out/1", b"%d" % n) for n in range(200)], 1)
        cluster.kill(first)
        with client(others[1]) as here:
            here.publish_many([("out/2", b"%d" % n) for n in range(200)], 1)
        until(cluster.running[cluster.leader()], "connected")
        assert collected(old, {"out/1", "out/2"}, 200)
