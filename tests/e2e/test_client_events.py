"""``$events/clients``: what happened to clients outlives a crash, and is told by every node."""

import contextlib
import json

import pytest

from penstock.client import connect
from penstock.client.errors import ClientError
from penstock.testing import Broker
from tests.api_kit import ApiClient
from tests.e2e.cluster_processes import nodes, until
from tests.e2e.process import BrokerProcess


def stored(port, *login):
    """The records in the journal, oldest first."""
    asked = {"topic": "$events/clients", "offset": 0, "limit": 1000, "order": "oldest"}
    answer = ApiClient(port, *login).get("messages", **asked)
    if answer.status == 404:
        return []
    assert answer.status == 200, answer.document
    return [json.loads(one["payload"]["text"]) for one in answer.document["items"]]


def kinds(port, client_id):
    return [one["kind"] for one in stored(port) if one.get("client_id") == client_id]


def test_what_happened_to_clients_survives_kill_9(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        with connect(broker.host, broker.port, "pump-7", keep_alive=0):
            pass
        assert until(lambda: kinds(broker.port, "pump-7") == ["connected", "ended"])
        broker.kill()
        broker.wait_killed()
    with BrokerProcess(tmp_path / "data") as broker:
        found = ApiClient(broker.port).get("why/client", client_id="pump-7").document
        codes = [fact["code"] for fact in found["facts"]]
        assert codes == ["connected", "client_disconnect"]
        assert {fact["certainty"] for fact in found["facts"]} == {"recorded"}
        with connect(broker.host, broker.port, "pump-7", keep_alive=0):
            pass
        assert until(lambda: len(kinds(broker.port, "pump-7")) == 4), "it goes on behind"


def test_a_session_that_a_crash_ended_says_so(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        client = connect(broker.host, broker.port, "lost", clean_session=False, version=4)
        assert until(lambda: kinds(broker.port, "lost") == ["connected"])
        broker.kill()
        broker.wait_killed()
        with contextlib.suppress(ClientError):
            client.close()
    with BrokerProcess(tmp_path / "data") as broker:
        asked = ApiClient(broker.port)
        assert until(
            lambda: asked.get("why/client", client_id="lost").document["fate"] == "session_ended"
        )
        found = asked.get("why/client", client_id="lost").document
        assert "the broker was restarted" in found["summary"]


@pytest.fixture
def broker():
    with Broker(journal={"client_events": True}) as own:
        own.add_user("root", "root-secret", rules=["allow all"])
        own.add_user("eye", "eye-secret", rules=["allow monitor"])
        own.add_user("reader", "reader-secret", rules=["allow all #"])
        yield own


def come_and_go(broker, name="pump-7"):
    login = {"username": "root", "password": b"root-secret"}
    with connect(broker.host, broker.port, name, keep_alive=0, **login):
        pass
    broker.clock.advance(1.5)


def test_those_who_may_monitor_read_it_and_nobody_writes(broker):
    come_and_go(broker)
    kept = [one["kind"] for one in stored(broker.port, "eye", "eye-secret")]
    assert kept == ["connected", "ended"]
    refused = ApiClient(broker.port, "reader", "reader-secret").get(
        "messages", topic="$events/clients", offset=0
    )
    assert refused.status in {403, 404}
    login = {"username": "root", "password": b"root-secret"}
    with (
        pytest.raises(ClientError),
        connect(broker.host, broker.port, "forger", keep_alive=0, **login) as client,
    ):
        client.publish("$events/clients", b"{}", qos=1)


def test_wildcards_do_not_match_it_and_a_subscription_by_name_gets_it(broker):
    login = {"keep_alive": 0, "username": "eye", "password": b"eye-secret"}
    with connect(broker.host, broker.port, "watch", **login) as client:
        client.subscribe([("$events/#", 1)])
        come_and_go(broker)
        told = json.loads(client.receive(timeout_s=30)[0].payload)
        assert told["kind"] == "connected"
    everything = {"keep_alive": 0, "username": "root", "password": b"root-secret"}
    with connect(broker.host, broker.port, "all", **everything) as client:
        client.subscribe([("#", 1)])
        come_and_go(broker)
        client.publish("after/it", b"1", qos=1)
        assert client.receive(timeout_s=30)[0].topic == "after/it"


def test_an_idle_broker_writes_nothing(broker):
    come_and_go(broker)
    for _ in range(5):
        broker.clock.advance(2)  # a checkpoint may still be written
    before = broker.metrics()["penstock_journal_entries"]
    for _ in range(5):
        broker.clock.advance(2)
    assert broker.metrics()["penstock_journal_entries"] == before


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_another_node_says_why_and_a_lost_node_is_named(tmp_path):
    with nodes(tmp_path, 3, "--set", "cluster.node_grace_s=2s") as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        assert made.command(1, "init", *options)[0] == 0
        until(lambda: "healthy" in made.status(1)["diagnosis"])
        leader = made.leader()
        lost, other = (number for number in made.running if number != leader)
        port = int(made.address(lost).rpartition(":")[2])
        with connect("127.0.0.1", port, "early", keep_alive=0, clean_session=False, version=4):
            pass
        asked = ApiClient(int(made.address(other).rpartition(":")[2]))
        assert until(
            lambda: (
                asked.get("why/client", client_id="early").document["fate"] == "client_disconnect"
            )
        )
        client = connect("127.0.0.1", port, "pump", keep_alive=0, clean_session=False, version=4)
        made.kill(lost)
        with contextlib.suppress(ClientError):
            client.close()
        assert until(
            lambda: asked.get("why/client", client_id="pump").document["fate"] == "session_ended"
        )
        found = asked.get("why/client", client_id="pump").document
        assert f"node {lost} was out of contact" in found["summary"]
        assert any("cluster.node_grace_s" in advice["text"] for advice in found["advice"])
